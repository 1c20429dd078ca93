"""The nested configuration that some options take: agents, servers, sandbox, system prompt, thinking, plugins.

Classes are spelled in snake_case. Where an option also takes a dict, the dict has the CLI's own (camelCase) names, and keys that
this version does not know are passed on. A snake_case key in such a dict is refused, because the CLI would ignore it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from bridle.errors import OptionsError
from bridle.option_fields import (
    Check,
    Checked,
    boolean,
    build,
    choice,
    constant,
    fail,
    integer,
    json_object,
    list_of,
    mapping_of,
    name_text,
    number,
    option,
    optional,
    path_text,
    strings,
    text,
)

__all__ = [
    "AgentDefinition",
    "EffortLevel",
    "McpHttpServerConfig",
    "McpSSEServerConfig",
    "McpServerConfig",
    "McpStdioServerConfig",
    "PermissionMode",
    "SandboxFilesystemConfig",
    "SandboxNetworkConfig",
    "SandboxSettings",
    "SdkPluginConfig",
    "SettingSource",
    "SystemPromptCustom",
    "SystemPromptFile",
    "SystemPromptPreset",
    "TaskBudget",
    "ThinkingConfig",
    "ThinkingConfigAdaptive",
    "ThinkingConfigDisabled",
    "ThinkingConfigEnabled",
    "is_external_server",
]

PermissionMode: TypeAlias = Literal["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto", "manual"]
EffortLevel: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
SettingSource: TypeAlias = Literal["user", "project", "local"]

permission_mode = choice("default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto", "manual")
effort_level = choice("low", "medium", "high", "xhigh", "max")
_optional_strings = optional(strings)
_optional_text = optional(text)
_optional_boolean = optional(boolean)


# -- agents ------------------------------------------------------------------------------------------------------------


def _effort(value: Any, path: str) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return str(effort_level(value, path))


def _agent_servers(value: Any, path: str) -> tuple[Any, ...]:
    def one(part: Any, where: str) -> Any:
        return name_text(part, where) if isinstance(part, str) else json_object(part, where)

    return tuple(list_of(one)(value, path))


class AgentDefinition(Checked):
    """A subagent: when to use it, its prompt, and what it may use.

    Attributes:
        description: when to use it.
        prompt: its system prompt.
        tools: the tools it has; None inherits all.
        disallowed_tools: tools that it must not use.
        model: alias or id of its model, or `inherit`.
        skills: skills that are loaded from the start.
        memory: where its memory lives.
        mcp_servers: names of servers, or dicts that define some.
        initial_prompt: its first user turn, if it runs the main thread.
        max_turns: how many turns it may take.
        background: True runs it in the background.
        effort: how much it thinks; a level or a number.
        permission_mode: its permission mode.
        omit_claude_md: True leaves out user, project and local CLAUDE.md.
        auto_compact_window: tokens after which its own conversation is compacted.
        observer: agent types that observe it in the background.
        observer_message: text after each of their digests.
        critical_system_reminder: experimental in the CLI.
    """

    description: str = option(check=name_text)
    prompt: str = option(check=text)
    tools: Sequence[str] | None = option(default=None, check=_optional_strings)
    disallowed_tools: Sequence[str] | None = option(default=None, check=_optional_strings)
    model: str | None = option(default=None, check=optional(name_text))
    skills: Sequence[str] | None = option(default=None, check=_optional_strings)
    memory: Literal["user", "project", "local"] | None = option(
        default=None, check=optional(choice("user", "project", "local"))
    )
    mcp_servers: Sequence[str | Mapping[str, Any]] | None = option(
        default=None, check=optional(_agent_servers), secret=True
    )
    initial_prompt: str | None = option(default=None, check=_optional_text)
    max_turns: int | None = option(default=None, check=optional(integer(0)))
    background: bool | None = option(default=None, check=_optional_boolean)
    effort: EffortLevel | int | None = option(default=None, check=optional(_effort))
    permission_mode: PermissionMode | None = option(default=None, check=optional(permission_mode))
    omit_claude_md: bool | None = option(default=None, check=_optional_boolean)
    auto_compact_window: int | None = option(default=None, check=optional(integer(1)))
    observer: str | None = option(default=None, check=_optional_text)
    observer_message: str | None = option(default=None, check=_optional_text)
    critical_system_reminder: str | None = option(
        default=None, check=_optional_text, wire="criticalSystemReminder_EXPERIMENTAL"
    )


# -- servers -----------------------------------------------------------------------------------------------------------


class McpStdioServerConfig(Checked):
    """An MCP server that the CLI starts as a child process."""

    command: str = option(check=name_text)
    args: Sequence[str] | None = option(default=None, check=optional(list_of(text)), secret=True)
    env: Mapping[str, str] | None = option(default=None, check=optional(mapping_of(text)), secret=True)
    timeout: float | None = option(default=None, check=optional(number(0)))
    always_load: bool | None = option(default=None, check=_optional_boolean)
    type: Literal["stdio"] = option(default="stdio", check=constant("stdio"))


class McpSSEServerConfig(Checked):
    """An MCP server that is reached by server-sent events."""

    url: str = option(check=name_text, secret=True)
    headers: Mapping[str, str] | None = option(default=None, check=optional(mapping_of(text)), secret=True)
    tools: Sequence[Mapping[str, Any]] | None = option(default=None, check=optional(list_of(json_object)))
    timeout: float | None = option(default=None, check=optional(number(0)))
    always_load: bool | None = option(default=None, check=_optional_boolean)
    type: Literal["sse"] = option(default="sse", check=constant("sse"))


class McpHttpServerConfig(Checked):
    """An MCP server that is reached by streamable HTTP."""

    url: str = option(check=name_text, secret=True)
    headers: Mapping[str, str] | None = option(default=None, check=optional(mapping_of(text)), secret=True)
    tools: Sequence[Mapping[str, Any]] | None = option(default=None, check=optional(list_of(json_object)))
    timeout: float | None = option(default=None, check=optional(number(0)))
    always_load: bool | None = option(default=None, check=_optional_boolean)
    type: Literal["http"] = option(default="http", check=constant("http"))


McpServerConfig: TypeAlias = McpStdioServerConfig | McpSSEServerConfig | McpHttpServerConfig

_SERVERS: dict[str, type[Checked]] = {
    "stdio": McpStdioServerConfig,
    "sse": McpSSEServerConfig,
    "http": McpHttpServerConfig,
}


def is_external_server(config: Any) -> bool:
    """Return True if the CLI itself connects to this server, False if it is served by this process."""
    return isinstance(config, (McpStdioServerConfig, McpSSEServerConfig, McpHttpServerConfig)) or (
        isinstance(config, Mapping) and config.get("type") != "sdk"
    )


def _server(value: Any, path: str) -> Any:
    if isinstance(value, Checked):
        return value
    if isinstance(value, Mapping):
        kind = value.get("type", "stdio")
        if kind == "sdk":
            if value.get("instance") is None:
                raise OptionsError(
                    f"`{path}` has type 'sdk' and needs `instance`, the server object.", field=f"{path}.instance"
                )
            return dict(value)
        known = _SERVERS.get(kind) if isinstance(kind, str) else None
        if known is None:
            raise OptionsError(f"`{path}.type` must be one of 'stdio', 'sse', 'http', 'sdk'.", field=f"{path}.type")
        return wire_dict(known)(value, path)
    if value is None or isinstance(value, (str, bytes, int, float, list, tuple, set)):
        raise fail(path, "a server config, a tool server or a function", value)
    return value


def mcp_servers(value: Any, path: str) -> Any:
    """Accept servers by name, the path of a config file, or its JSON text."""
    if isinstance(value, str):
        return name_text(value, path)
    if isinstance(value, os.PathLike):
        return path_text(value, path)
    if not isinstance(value, Mapping):
        raise fail(path, "a dict of servers by name, or the path of a config file", value)
    return mapping_of(_server)(value, path)


def wire_dict(kind: type[Checked]) -> Check:
    """Return the check for dicts with the wire names of `kind`; unknown keys are kept, required ones are required."""

    def check(value: Any, path: str) -> dict[str, Any]:
        copied = json_object(value, path)
        by_name = kind.__fields__
        by_wire = {field.wire: field for field in by_name.values()}
        for key in copied:
            if key not in by_wire and key in by_name:
                raise OptionsError(
                    f"`{path}` is a dict and takes the CLI's own names: write `{by_name[key].wire}` for `{key}`, or use "
                    f"`{kind.__name__}({key}=...)`.",
                    field=f"{path}.{key}",
                )
        # Building the class checks types and required keys; what is kept is the dict, with the keys that only the CLI knows.
        build(kind, {key: part for key, part in copied.items() if key in by_wire and part is not None}, path)
        return copied

    return check


def class_or_wire_dict(kind: type[Checked]) -> Check:
    """Return the check for `kind` objects, or dicts with its wire names."""
    as_dict = wire_dict(kind)

    def check(value: Any, path: str) -> Any:
        if isinstance(value, kind):
            return value
        if isinstance(value, Mapping):
            return as_dict(value, path)
        raise fail(path, f"a {kind.__name__} or a dict", value)

    return check


agents = mapping_of(class_or_wire_dict(AgentDefinition))


# -- sandbox -----------------------------------------------------------------------------------------------------------


class SandboxNetworkConfig(Checked):
    """What sandboxed commands may reach."""

    allowed_domains: Sequence[str] | None = option(default=None, check=_optional_strings)
    denied_domains: Sequence[str] | None = option(default=None, check=_optional_strings)
    allow_managed_domains_only: bool | None = option(default=None, check=_optional_boolean)
    strict_allowlist: bool | None = option(default=None, check=_optional_boolean)
    allow_unix_sockets: Sequence[str] | None = option(default=None, check=_optional_strings)
    allow_all_unix_sockets: bool | None = option(default=None, check=_optional_boolean)
    allow_local_binding: bool | None = option(default=None, check=_optional_boolean)
    allow_mach_lookup: Sequence[str] | None = option(default=None, check=_optional_strings)
    http_proxy_port: int | None = option(default=None, check=optional(integer(0)))
    socks_proxy_port: int | None = option(default=None, check=optional(integer(0)))
    tls_terminate: Mapping[str, Any] | None = option(default=None, check=optional(json_object))


class SandboxFilesystemConfig(Checked):
    """What sandboxed commands may read and write."""

    allow_write: Sequence[str] | None = option(default=None, check=_optional_strings)
    deny_write: Sequence[str] | None = option(default=None, check=_optional_strings)
    deny_read: Sequence[str] | None = option(default=None, check=_optional_strings)
    allow_read: Sequence[str] | None = option(default=None, check=_optional_strings)
    allow_managed_read_paths_only: bool | None = option(default=None, check=_optional_boolean)
    disabled: bool | None = option(default=None, check=_optional_boolean)


class SandboxSettings(Checked):
    """How shell commands are confined.

    `enabled=True` without `fail_if_unavailable` makes the CLI refuse to start where no sandbox can be had, as the TypeScript
    package does: running unconfined would be the opposite of what was asked for.
    """

    enabled: bool | None = option(default=None, check=_optional_boolean)
    fail_if_unavailable: bool | None = option(default=None, check=_optional_boolean)
    auto_allow_bash_if_sandboxed: bool | None = option(default=None, check=_optional_boolean)
    allow_unsandboxed_commands: bool | None = option(default=None, check=_optional_boolean)
    excluded_commands: Sequence[str] | None = option(default=None, check=_optional_strings)
    network: SandboxNetworkConfig | Mapping[str, Any] | None = option(
        default=None, check=optional(class_or_wire_dict(SandboxNetworkConfig))
    )
    filesystem: SandboxFilesystemConfig | Mapping[str, Any] | None = option(
        default=None, check=optional(class_or_wire_dict(SandboxFilesystemConfig))
    )
    credentials: Mapping[str, Any] | None = option(default=None, check=optional(json_object), secret=True)
    ignore_violations: Mapping[str, Sequence[str]] | None = option(default=None, check=optional(mapping_of(strings)))
    enable_weaker_nested_sandbox: bool | None = option(default=None, check=_optional_boolean)
    enable_weaker_network_isolation: bool | None = option(default=None, check=_optional_boolean)
    allow_nested_user_namespaces: bool | None = option(default=None, check=_optional_boolean)
    allow_apple_events: bool | None = option(default=None, check=_optional_boolean)
    ripgrep: Mapping[str, Any] | None = option(default=None, check=optional(json_object))
    bwrap_path: str | None = option(default=None, check=optional(path_text))
    socat_path: str | None = option(default=None, check=optional(path_text))


# -- system prompt, tools, thinking, budget, plugins -------------------------------------------------------------------


class SystemPromptPreset(Checked):
    """Claude Code's own system prompt, with `append` after it."""

    append: str | None = option(default=None, check=_optional_text)
    exclude_dynamic_sections: bool | None = option(default=None, check=_optional_boolean)
    snapshot: bool | None = option(default=None, check=_optional_boolean)
    preset: Literal["claude_code"] = option(default="claude_code", check=constant("claude_code"))
    type: Literal["preset"] = option(default="preset", check=constant("preset"))


def _prompt_blocks(value: Any, path: str) -> str | tuple[str, ...]:
    return text(value, path) if isinstance(value, str) else tuple(list_of(text)(value, path))


class SystemPromptCustom(Checked):
    """A system prompt of your own; a list makes blocks (over the bidirectional protocol)."""

    prompt: str | Sequence[str] = option(check=_prompt_blocks)
    snapshot: bool | None = option(default=None, check=_optional_boolean)
    type: Literal["custom"] = option(default="custom", check=constant("custom"))


class SystemPromptFile(Checked):
    """A system prompt of your own that the CLI reads from a file: for long ones, and for those that `ps` must not show."""

    path: str | os.PathLike[str] = option(check=path_text)
    type: Literal["file"] = option(default="file", check=constant("file"))


_PROMPTS: dict[str, type[Checked]] = {
    "preset": SystemPromptPreset,
    "custom": SystemPromptCustom,
    "file": SystemPromptFile,
}


def _tagged(kinds: Mapping[str, type[Checked]]) -> Check:
    """Return the check for objects of these classes, or dicts whose `type` names one."""

    def check(value: Any, path: str) -> Any:
        if isinstance(value, tuple(kinds.values())):
            return value
        if not isinstance(value, Mapping):
            raise fail(path, f"one of {', '.join(kind.__name__ for kind in kinds.values())} or a dict", value)
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in kinds:
            raise OptionsError(f"`{path}.type` must be one of {', '.join(map(repr, kinds))}.", field=f"{path}.type")
        return build(kinds[kind], value, path)

    return check


_prompt_object = _tagged(_PROMPTS)


def system_prompt(value: Any, path: str) -> Any:
    """Accept a text, a list of blocks, one of the three classes, or a dict with `type`."""
    if isinstance(value, str):
        return text(value, path)
    if isinstance(value, (list, tuple)):
        return list_of(text)(value, path)
    return _prompt_object(value, path)


def tools(value: Any, path: str) -> Any:
    """Accept a list of tool names, or the preset dict."""
    if isinstance(value, Mapping):
        if dict(value) != {"type": "preset", "preset": "claude_code"}:
            raise OptionsError(
                f"`{path}` as a dict must be {{'type': 'preset', 'preset': 'claude_code'}}: the default tools.",
                field=path,
            )
        return dict(value)
    return tool_names(value, path)


def _tool_name(value: Any, path: str) -> str:
    checked = str(name_text(value, path))
    depth = 0
    for position, character in enumerate(checked):
        if character in "()" and (position == 0 or checked[position - 1] != "\\"):
            depth += 1 if character == "(" else -1
            if depth < 0:
                break
    if depth:
        # The CLI gets one list: an open parenthesis would swallow the entries after it, and a deny rule with them.
        raise OptionsError(
            f"`{path}` has unbalanced parentheses; escape those that are meant literally as \\( and \\).", field=path
        )
    return checked


tool_names = list_of(_tool_name, example='["Bash"]')


class ThinkingConfigAdaptive(Checked):
    """The model decides how much to think."""

    display: Literal["summarized", "omitted"] | None = option(
        default=None, check=optional(choice("summarized", "omitted"))
    )
    type: Literal["adaptive"] = option(default="adaptive", check=constant("adaptive"))


class ThinkingConfigEnabled(Checked):
    """The model thinks, with at most `budget_tokens` tokens if that is given."""

    budget_tokens: int | None = option(default=None, check=optional(integer(1)))
    display: Literal["summarized", "omitted"] | None = option(
        default=None, check=optional(choice("summarized", "omitted"))
    )
    type: Literal["enabled"] = option(default="enabled", check=constant("enabled"))


class ThinkingConfigDisabled(Checked):
    """The model does not think."""

    type: Literal["disabled"] = option(default="disabled", check=constant("disabled"))


ThinkingConfig: TypeAlias = ThinkingConfigAdaptive | ThinkingConfigEnabled | ThinkingConfigDisabled

thinking = _tagged(
    {"adaptive": ThinkingConfigAdaptive, "enabled": ThinkingConfigEnabled, "disabled": ThinkingConfigDisabled}
)


class TaskBudget(Checked):
    """A token budget that the model is told about."""

    total: int = option(check=integer(1))


def task_budget(value: Any, path: str) -> TaskBudget:
    """Accept a `TaskBudget`, or a dict with `total`."""
    if isinstance(value, TaskBudget):
        return value
    if isinstance(value, Mapping):
        built: TaskBudget = build(TaskBudget, value, path)
        return built
    raise fail(path, "a TaskBudget or {'total': tokens}", value)


class SdkPluginConfig(Checked):
    """A plugin in a local folder."""

    path: str | os.PathLike[str] = option(check=path_text)
    skip_mcp_discovery: bool | None = option(default=None, check=_optional_boolean)
    type: Literal["local"] = option(default="local", check=constant("local"))


plugins = list_of(
    lambda value, path: (
        value if isinstance(value, SdkPluginConfig) else _tagged({"local": SdkPluginConfig})(value, path)
    ),
    example='[{"type": "local", "path": "..."}]',
)


def skills(value: Any, path: str) -> Any:
    """Accept 'all', or a list of skill names."""
    if isinstance(value, str):
        if value != "all":
            raise OptionsError(f"`{path}` must be 'all' or a list of names: write `{path}=[...]`.", field=path)
        return value
    return list_of(_skill_name)(value, path)


def _skill_name(value: Any, path: str) -> str:
    checked = str(name_text(value, path))
    # The name becomes part of a permission rule, `Skill(name)`: nothing in it may change what the rule means.
    refused = (
        checked != checked.strip()
        or any(character in "(),*\ufeff" or ord(character) < 32 or ord(character) == 127 for character in checked)
        or checked.startswith("/")
        or checked.endswith("\\")
        or "\\\\" in checked
    )
    if refused:
        raise OptionsError(
            f"`{path}` is no skill name: no slash in front, no outer spaces, no parentheses, commas, asterisks or controls.",
            field=path,
        )
    return checked


def output_format(value: Any, path: str) -> dict[str, Any]:
    """Accept `{"type": "json_schema", "schema": {...}}`."""
    copied = json_object(value, path)
    if copied.get("type") != "json_schema" or not isinstance(copied.get("schema"), dict) or len(copied) != 2:
        raise OptionsError(f"`{path}` must be {{'type': 'json_schema', 'schema': {{...}}}}.", field=path)
    return copied


def tool_config(value: Any, path: str) -> dict[str, Any]:
    """Accept `{"askUserQuestion": {"previewFormat": "markdown" or "html"}}`."""
    copied = json_object(value, path)
    question = copied.get("askUserQuestion", {})
    if set(copied) - {"askUserQuestion"} or not isinstance(question, dict) or set(question) - {"previewFormat"}:
        raise OptionsError(f"`{path}` knows only {{'askUserQuestion': {{'previewFormat': ...}}}}.", field=path)
    if "previewFormat" in question:
        choice("markdown", "html")(question["previewFormat"], f"{path}.askUserQuestion.previewFormat")
    return copied


def settings(value: Any, path: str) -> Any:
    """Accept a path, JSON text, or a dict."""
    if isinstance(value, Mapping):
        return json_object(value, path)
    if isinstance(value, (str, os.PathLike)):
        return name_text(path_text(value, path), path)
    raise fail(path, "a dict, JSON text or a path", value)


def debug(value: Any, path: str) -> bool | str:
    """Accept True, False, or a filter of debug categories."""
    return str(name_text(value, path)) if isinstance(value, str) else boolean(value, path)


def environment(value: Any, path: str) -> dict[str, str | None]:
    """Accept variables by name; None unsets one."""

    def one(part: Any, where: str) -> str | None:
        return None if part is None else path_text(text_or_number(part, where), where)

    return dict(mapping_of(one, key=_variable_name)(value, path))


def text_or_number(value: Any, path: str) -> str:
    """Accept a str, and say what to write for a number or a bool."""
    if not isinstance(value, str):
        raise fail(path, "a str (or None to unset it)", value, "Write its text, such as '1'.")
    return value


def _variable_name(value: Any, path: str) -> str:
    checked = str(name_text(value, path))
    if "=" in checked:
        raise OptionsError(f"`{path}` must not contain '='.", field=path)
    return checked


def inherit_env(value: Any, path: str) -> bool | tuple[str, ...]:
    """Accept True, False, or the names of the variables to pass on."""
    return value if isinstance(value, bool) else tuple(list_of(_variable_name, example='["PATH", "HOME"]')(value, path))


def _flag_name(value: Any, path: str) -> str:
    import re

    checked = str(name_text(value, path))
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", checked):
        raise OptionsError(f"`{path}` must be flag names without the dashes, such as 'chrome'.", field=path)
    if checked in _RESERVED:
        raise OptionsError(
            f"`{path}` must not contain {checked!r}: {_RESERVED[checked]}", field=f"extra_args.{checked}"
        )
    return checked


_OURS = "Bridle sets it and depends on it."
_RESERVED = {
    "print": _OURS,
    "p": _OURS,
    "output-format": _OURS,
    "input-format": _OURS,
    "verbose": _OURS,
    "await-initialize": _OURS,
    "session-mirror": "session stores are not there yet.",
    "version": "it would print a version and exit.",
    "v": "it would print a version and exit.",
    "help": "it would print a help text and exit.",
    "h": "it would print a help text and exit.",
    "bg": "a session in the background has no stream.",
    "background": "a session in the background has no stream.",
}

extra_args = mapping_of(optional(text), key=_flag_name)


def hooks(value: Any, path: str) -> dict[str, tuple[Any, ...]]:
    """Accept matchers by event; what a matcher is, is checked where hooks are run."""

    def matchers(part: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(part, (list, tuple)):
            raise fail(where, "a list of HookMatcher", part, f"Write `[{type(part).__name__}(...)]`.")
        return tuple(part)

    return dict(mapping_of(matchers)(value, path))


def trace(value: Any, path: str) -> Any:
    """Accept a function, or the path of a file."""
    return value if callable(value) else path_text(value, path)


def user(value: Any, path: str) -> str | int:
    """Accept the name or number of a user of the operating system."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return str(name_text(value, path))
