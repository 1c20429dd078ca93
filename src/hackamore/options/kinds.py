"""The nested configuration that some options take: agents, servers, sandbox, system prompt, thinking, plugins.

Classes are spelled in snake_case. Where an option also takes a dict, the dict has the CLI's own (camelCase) names,
and keys that this version does not know are passed on. A snake_case key in such a dict is refused: the CLI would
ignore it.

The functions are the checks of single options: what each accepts, and what it is kept as.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_origin

from hackamore.checked.fields import (
    Checked,
    boolean,
    choice,
    class_or_wire_dict,
    fail,
    instance,
    integer,
    json_object,
    list_of,
    mapping_of,
    name_text,
    named_path,
    number,
    option,
    optional,
    path_text,
    strings,
    tagged,
    text,
    whole,
    wire_dict,
    wrong,
)
from hackamore.errors import OptionsError

if TYPE_CHECKING:
    from hackamore.checked.fields import Check

PermissionMode: TypeAlias = Literal["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto", "manual"]
EffortLevel: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
SettingSource: TypeAlias = Literal["user", "project", "local"]

permission_mode_check: Check = choice(
    "default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto", "manual"
)
effort_level: Check = choice("low", "medium", "high", "xhigh", "max")


# -- agents ------------------------------------------------------------------------------------------------------------


def _effort(value: Any, path: str) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return whole(value, path)
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

    Example:
        ::

            reviewer = AgentDefinition(description="Reviews code.", prompt="You review code.", tools=["Read", "Grep"])
            options = Options(agents={"reviewer": reviewer})
    """

    description: str = option(name_text)
    prompt: str = option(text)
    tools: Sequence[str] | None = option(strings, default=None)
    disallowed_tools: Sequence[str] | None = option(strings, default=None)
    model: str | None = option(name_text, default=None)
    skills: Sequence[str] | None = option(strings, default=None)
    memory: Literal["user", "project", "local"] | None = option(choice("user", "project", "local"), default=None)
    mcp_servers: Sequence[str | Mapping[str, Any]] | None = option(_agent_servers, default=None, secret=True)
    initial_prompt: str | None = option(text, default=None)
    max_turns: int | None = option(integer(0), default=None)
    background: bool | None = option(boolean, default=None)
    effort: EffortLevel | int | None = option(_effort, default=None)
    permission_mode: PermissionMode | None = option(permission_mode_check, default=None)
    omit_claude_md: bool | None = option(boolean, default=None)
    auto_compact_window: int | None = option(integer(1), default=None)
    observer: str | None = option(text, default=None)
    observer_message: str | None = option(text, default=None)
    critical_system_reminder: str | None = option(text, default=None, wire="criticalSystemReminder_EXPERIMENTAL")


# -- servers -----------------------------------------------------------------------------------------------------------


class McpStdioServerConfig(Checked):
    """An MCP server that the CLI starts as a child process."""

    command: str = option(name_text)
    args: Sequence[str] | None = option(list_of(text), default=None, secret=True)
    env: Mapping[str, str] | None = option(mapping_of(text), default=None, secret=True)
    timeout: float | None = option(number(0), default=None)
    always_load: bool | None = option(boolean, default=None)
    type: Literal["stdio"] = option(choice("stdio"), default="stdio")


class _RemoteServer(Checked):
    url: str = option(name_text, secret=True)
    headers: Mapping[str, str] | None = option(mapping_of(text), default=None, secret=True)
    tools: Sequence[Mapping[str, Any]] | None = option(list_of(json_object), default=None)
    timeout: float | None = option(number(0), default=None)
    always_load: bool | None = option(boolean, default=None)


class McpSSEServerConfig(_RemoteServer):
    """An MCP server that is reached by server-sent events."""

    type: Literal["sse"] = option(choice("sse"), default="sse")


class McpHttpServerConfig(_RemoteServer):
    """An MCP server that is reached by streamable HTTP."""

    type: Literal["http"] = option(choice("http"), default="http")


McpServerConfig: TypeAlias = McpStdioServerConfig | McpSSEServerConfig | McpHttpServerConfig


def is_external_server(config: Any) -> bool:
    """Return True if the CLI itself connects to this server, False if this process answers for it."""
    return isinstance(config, (McpStdioServerConfig, McpSSEServerConfig, McpHttpServerConfig)) or (
        isinstance(config, Mapping) and config.get("type") != "sdk"
    )


# -- sandbox -----------------------------------------------------------------------------------------------------------


class SandboxNetworkConfig(Checked):
    """Network access of sandboxed commands."""

    allowed_domains: Sequence[str] | None = option(strings, default=None)
    denied_domains: Sequence[str] | None = option(strings, default=None)
    allow_managed_domains_only: bool | None = option(boolean, default=None)
    strict_allowlist: bool | None = option(boolean, default=None)
    allow_unix_sockets: Sequence[str] | None = option(strings, default=None)
    allow_all_unix_sockets: bool | None = option(boolean, default=None)
    allow_local_binding: bool | None = option(boolean, default=None)
    allow_mach_lookup: Sequence[str] | None = option(strings, default=None)
    http_proxy_port: int | None = option(integer(0), default=None)
    socks_proxy_port: int | None = option(integer(0), default=None)
    tls_terminate: Mapping[str, Any] | None = option(json_object, default=None)


class SandboxFilesystemConfig(Checked):
    """Files that sandboxed commands may read and write."""

    allow_write: Sequence[str] | None = option(strings, default=None)
    deny_write: Sequence[str] | None = option(strings, default=None)
    deny_read: Sequence[str] | None = option(strings, default=None)
    allow_read: Sequence[str] | None = option(strings, default=None)
    allow_managed_read_paths_only: bool | None = option(boolean, default=None)
    disabled: bool | None = option(boolean, default=None)


class SandboxSettings(Checked):
    """How shell commands are confined.

    `enabled=True` without `fail_if_unavailable` makes the CLI refuse to start where no sandbox can be had, as with the
    TypeScript package: running unconfined would be the opposite of the request.
    """

    enabled: bool | None = option(boolean, default=None)
    fail_if_unavailable: bool | None = option(boolean, default=None)
    auto_allow_bash_if_sandboxed: bool | None = option(boolean, default=None)
    allow_unsandboxed_commands: bool | None = option(boolean, default=None)
    excluded_commands: Sequence[str] | None = option(strings, default=None)
    network: SandboxNetworkConfig | Mapping[str, Any] | None = option(
        class_or_wire_dict(SandboxNetworkConfig), default=None
    )
    filesystem: SandboxFilesystemConfig | Mapping[str, Any] | None = option(
        class_or_wire_dict(SandboxFilesystemConfig), default=None
    )
    credentials: Mapping[str, Any] | None = option(json_object, default=None, secret=True)
    ignore_violations: Mapping[str, Sequence[str]] | None = option(mapping_of(strings), default=None)
    enable_weaker_nested_sandbox: bool | None = option(boolean, default=None)
    enable_weaker_network_isolation: bool | None = option(boolean, default=None)
    allow_nested_user_namespaces: bool | None = option(boolean, default=None)
    allow_apple_events: bool | None = option(boolean, default=None)
    ripgrep: Mapping[str, Any] | None = option(json_object, default=None)
    bwrap_path: str | None = option(path_text, default=None)
    socat_path: str | None = option(path_text, default=None)


# -- system prompt, tools, thinking, budget, plugins -------------------------------------------------------------------


class SystemPromptPreset(Checked):
    """Claude Code's own system prompt, with `append` after it."""

    append: str | None = option(text, default=None)
    exclude_dynamic_sections: bool | None = option(boolean, default=None)
    snapshot: bool | None = option(boolean, default=None)
    preset: Literal["claude_code"] = option(choice("claude_code"), default="claude_code")
    type: Literal["preset"] = option(choice("preset"), default="preset")


def _prompt_blocks(value: Any, path: str) -> str | tuple[str, ...]:
    return text(value, path) if isinstance(value, str) else tuple(list_of(text)(value, path))


class SystemPromptCustom(Checked):
    """A system prompt of your own; a list makes blocks (over the bidirectional protocol)."""

    prompt: str | Sequence[str] = option(_prompt_blocks)
    snapshot: bool | None = option(boolean, default=None)
    type: Literal["custom"] = option(choice("custom"), default="custom")


class SystemPromptFile(Checked):
    """A system prompt of your own that the CLI reads from a file: for long ones, and those that `ps` must not show."""

    path: str | os.PathLike[str] = option(named_path)
    type: Literal["file"] = option(choice("file"), default="file")


class ThinkingConfigAdaptive(Checked):
    """The model decides how much to think."""

    display: Literal["summarized", "omitted"] | None = option(choice("summarized", "omitted"), default=None)
    type: Literal["adaptive"] = option(choice("adaptive"), default="adaptive")


class ThinkingConfigEnabled(Checked):
    """The model thinks, with at most `budget_tokens` tokens if that is given."""

    budget_tokens: int | None = option(integer(1), default=None)
    display: Literal["summarized", "omitted"] | None = option(choice("summarized", "omitted"), default=None)
    type: Literal["enabled"] = option(choice("enabled"), default="enabled")


class ThinkingConfigDisabled(Checked):
    """The model does not think."""

    type: Literal["disabled"] = option(choice("disabled"), default="disabled")


ThinkingConfig: TypeAlias = ThinkingConfigAdaptive | ThinkingConfigEnabled | ThinkingConfigDisabled


class TaskBudget(Checked):
    """A token budget that the model sees."""

    total: int = option(integer(1))


class SdkPluginConfig(Checked):
    """A plugin in a local folder."""

    path: str | os.PathLike[str] = option(named_path)
    skip_mcp_discovery: bool | None = option(boolean, default=None)
    type: Literal["local"] = option(choice("local"), default="local")


agents: Check = mapping_of(class_or_wire_dict(AgentDefinition))
sandbox: Check = class_or_wire_dict(SandboxSettings)

SERVERS: dict[str, type[Checked]] = {
    "stdio": McpStdioServerConfig,
    "sse": McpSSEServerConfig,
    "http": McpHttpServerConfig,
}


def _server(value: Any, path: str) -> Any:
    if isinstance(value, Checked):
        return value
    if isinstance(value, Mapping):
        kind = value.get("type", "stdio")
        if "type" not in value and "command" not in value:
            _check_untyped(value, path)
        if kind == "sdk":
            if value.get("instance") is None:
                raise OptionsError(
                    f"`{path}` has type 'sdk' and needs `instance`, the server object.", field=f"{path}.instance"
                )
            return dict(value)
        known = SERVERS.get(kind) if isinstance(kind, str) else None
        if known is None:
            raise wrong(f"{path}.type", "must be one of 'stdio', 'sse', 'http', 'sdk'", kind)
        return wire_dict(known)(value, path)
    from hackamore.tools import Tool, tool_server

    if isinstance(value, Tool):
        value = (value,)
    if isinstance(value, (list, tuple)) and value:
        for index, part in enumerate(value):
            if not callable(part) or isinstance(part, type):
                raise fail(f"{path}[{index}]", "a tool or a function", part)
        return tool_server(path.partition(".")[2], value)
    _check_served(value, path)
    return value


def _check_untyped(value: Mapping[Any, Any], path: str) -> None:
    if "url" in value:
        raise OptionsError(
            f"`{path}` has a `url` and no `type`: write `'type': 'http'`, or 'sse', beside it.", field=f"{path}.type"
        )
    if path.endswith(".mcpServers"):
        raise wrong(path, "is what a file of servers begins with: give the dict that is in it, or the file's path.")


def _check_served(value: Any, path: str) -> None:
    """Refuse values that can never answer. Server objects of the package `mcp` are checked at the start."""
    if value is None or isinstance(value, (str, bytes, int, float, list, tuple, set)):
        raise fail(path, "a server config, a tool server or a list of tools", value)
    if callable(value):
        from hackamore.checked.functions import check_callback

        check_callback(value, path, ("message",))


def mcp_servers(value: Any, path: str) -> Any:
    """Accept servers by name, the path of a config file, or its JSON text."""
    if isinstance(value, str):
        return name_text(value, path)
    if isinstance(value, os.PathLike):
        return path_text(value, path)
    if not isinstance(value, Mapping):
        raise fail(path, "a dict of servers by name, or the path of a config file", value)
    return mapping_of(_server)(value, path)


_prompt_object = tagged({"preset": SystemPromptPreset, "custom": SystemPromptCustom, "file": SystemPromptFile})


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
            raise wrong(path, "as a dict must be {'type': 'preset', 'preset': 'claude_code'}: the default tools.")
        return dict(value)
    if isinstance(value, (list, tuple)) and any(callable(part) for part in value):
        names = ", ".join(getattr(part, "__name__", "...") for part in value if callable(part))
        raise wrong(
            path,
            "must be names of built-in tools. Register your own functions as a server: "
            f"`mcp_servers={{'tools': [{names}]}}`.",
        )
    return tool_names(value, path)


def _tool_name(value: Any, path: str) -> str:
    checked = str(name_text(value, path))
    rule = checked.strip()
    if _taken_apart(rule) != [rule]:
        # A part may be a rule of its own: `Bash(echo (a) Write b)` allows Write.
        raise wrong(
            path,
            "is not a single rule for the CLI, which cuts at commas and spaces outside of parentheses and does not "
            "count nested or escaped ones. Write separate entries, or put the rule into "
            "`settings={'permissions': {'allow': [...], 'deny': [...]}}`, which is not cut.",
        )
    if not _well_formed(rule):
        raise wrong(
            path,
            "has unbalanced parentheses, so the CLI would take it for the name of a tool; write `Tool` or "
            "`Tool(pattern)`, with \\( and \\) for those that the pattern means literally.",
        )
    return checked


def _taken_apart(text: str) -> list[str]:
    """Return the rules that the CLI makes of one entry (2.1.328)."""
    rules = [""]
    inside = False
    for character in text:
        if character in ", " and not inside:
            rules.append("")
            continue
        if character in "()":
            inside = character == "("
        rules[-1] += character
    return [rule for rule in rules if rule]


def _well_formed(rule: str) -> bool:
    """Return whether the CLI reads `Tool` or `Tool(pattern)`; anything else matches nothing, in silence (2.1.328)."""
    tool, parenthesis, pattern = rule.partition("(")
    if not parenthesis:
        return ")" not in rule
    before_the_end = pattern[:-1]
    escaped = (len(before_the_end) - len(before_the_end.rstrip("\\"))) % 2 == 1
    return bool(tool) and ")" not in tool and not tool.endswith("\\") and pattern.endswith(")") and not escaped


tool_names: Check = list_of(_tool_name, example='["Bash"]')


thinking: Check = tagged(
    {"adaptive": ThinkingConfigAdaptive, "enabled": ThinkingConfigEnabled, "disabled": ThinkingConfigDisabled}
)


def task_budget(value: Any, path: str) -> Any:
    """Accept a `TaskBudget`, or a dict with `total`."""
    if not isinstance(value, (TaskBudget, Mapping)):
        raise fail(path, "a TaskBudget or {'total': tokens}", value)
    return instance(TaskBudget)(value, path)


plugins: Check = list_of(tagged({"local": SdkPluginConfig}), example='[{"type": "local", "path": "..."}]')


def skills(value: Any, path: str) -> Any:
    """Accept 'all', or a list of skill names."""
    if isinstance(value, str):
        if value != "all":
            raise wrong(path, f"must be 'all' or a list of names: write `{path}=[...]`.")
        return "all"
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
        raise wrong(
            path, "is not a skill name: no leading slash, outer spaces, parentheses, commas, asterisks or controls."
        )
    return checked


def output_format(value: Any, path: str) -> dict[str, Any]:
    """Accept `{"type": "json_schema", "schema": {...}}`, or a type."""
    if isinstance(value, (type, UnionType)) or get_origin(value) is not None:
        from hackamore.checked.schemas import schema_for

        return {"type": "json_schema", "schema": schema_for(value, path)}
    copied = json_object(value, path)
    if copied.get("type") != "json_schema" or not isinstance(copied.get("schema"), dict) or len(copied) != 2:
        raise wrong(path, "must be a type, or {'type': 'json_schema', 'schema': {...}}.")
    return copied


def tool_config(value: Any, path: str) -> dict[str, Any]:
    """Accept `{"askUserQuestion": {"previewFormat": "markdown" or "html"}}`."""
    copied = json_object(value, path)
    question = copied.get("askUserQuestion", {})
    if set(copied) - {"askUserQuestion"} or not isinstance(question, dict) or set(question) - {"previewFormat"}:
        raise wrong(path, "knows only {'askUserQuestion': {'previewFormat': ...}}.")
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


def _variable_text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise fail(path, "a str (or None to unset it)", value, "Write its text, such as '1'.")
    return path_text(value, path)


def _variable_name(value: Any, path: str) -> str:
    checked = str(name_text(value, path))
    if "=" in checked:
        raise wrong(path, "must not contain '='.")
    return checked


environment: Check = mapping_of(optional(_variable_text), key=_variable_name)


def inherit_env(value: Any, path: str) -> bool | tuple[str, ...]:
    """Accept True, False, or the names of the variables to pass on."""
    return value if isinstance(value, bool) else tuple(list_of(_variable_name, example='["PATH", "HOME"]')(value, path))


def _flag_name(value: Any, path: str) -> str:
    import re

    checked = str(name_text(value, path))
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]+", checked):
        raise wrong(path, "must be long flag names without the dashes, such as 'chrome'", value)
    if checked in _RESERVED:
        raise OptionsError(
            f"`{path}` must not contain {checked!r}: {_RESERVED[checked]}", field=f"extra_args.{checked}"
        )
    return checked


_OURS = "Hackamore sets it and depends on it."
_RESERVED = {
    "print": _OURS,
    "output-format": _OURS,
    "input-format": _OURS,
    "verbose": _OURS,
    "await-initialize": _OURS,
    "session-mirror": "use the option `session_store`.",
    "version": "it would print a version and exit.",
    "help": "it would print a help text and exit.",
    "bg": "a session in the background has no stream.",
    "background": "a session in the background has no stream.",
}


def _flag_value(value: Any, path: str) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return tuple(None if part is None else text(part, f"{path}[{index}]") for index, part in enumerate(value))
    if not isinstance(value, str):
        raise fail(path, "a str, None for a bare flag, or a list of them to repeat it", value)
    return text(value, path)


extra_args: Check = mapping_of(_flag_value, key=_flag_name)


def hooks(value: Any, path: str) -> Any:
    """Accept matchers by event."""
    from hackamore.hooks.matchers import check_hooks

    return check_hooks(value, path)


_OFFICIAL = (
    "(tool_name, input_data, context) is the form of claude-agent-sdk; here `request` has `tool_name` and `input`."
)


def request_callback(value: Any, path: str) -> Any:
    """Accept a plain or async function of one request, which returns the answer."""
    from hackamore.checked.functions import check_annotations, check_callback
    from hackamore.dialogs import ElicitationRequest, ElicitationResult, UserDialogRequest, UserDialogResult
    from hackamore.permissions import Allow, Deny, PermissionRequest

    asked: type
    answers: tuple[type, ...]
    if path == "can_use_tool":
        # A function that always raises is often annotated `-> None`.
        asked, answers = PermissionRequest, (Allow, Deny, type(None))
    elif path == "on_elicitation":
        asked, answers = ElicitationRequest, (ElicitationResult, Mapping, type(None))
    else:
        asked, answers = UserDialogRequest, (UserDialogResult, Mapping, type(None))
    check_callback(value, path, ("request",), official=_OFFICIAL)
    check_annotations(value, path, asked, answers, f"`{path}`")
    return value


def plain_callback(parameter: str) -> Check:
    """Return the check for plain functions of one argument; they are called where nothing can be awaited."""

    def check(value: Any, path: str) -> Any:
        from hackamore.checked.functions import check_callback, is_async

        check_callback(value, path, (parameter,))
        if is_async(value):
            raise wrong(path, "must be a regular function, not `async def`.")
        return value

    return check


def trace(value: Any, path: str) -> Any:
    """Accept a function, or the path of a file."""
    return plain_callback("line")(value, path) if callable(value) else path_text(value, path)


def policy(value: Any, path: str) -> Any:
    """Accept an object with the method `decide`."""
    if isinstance(value, type) or not callable(getattr(value, "decide", None)):
        hint = 'Write `Policy.load("policy.toml")` for a file.' if isinstance(value, (str, os.PathLike)) else ""
        raise fail(path, "a hackamore.Policy, or another object with the method `decide`", value, hint)
    return value


def approvals(value: Any, path: str) -> Any:
    """Accept an object with the methods `permit` and `elicit`."""
    if isinstance(value, type) or not (
        callable(getattr(value, "permit", None)) and callable(getattr(value, "elicit", None))
    ):
        hint = "Write `Approvals(...)` around it." if isinstance(value, (str, os.PathLike)) else ""
        raise fail(path, "a hackamore.Approvals", value, hint)
    return value


def session_store(value: Any, path: str) -> Any:
    """Accept an object with the methods of a session store."""
    from hackamore.options.stores import problem_with

    if problem := problem_with(value):
        raise fail(path, problem.removeprefix("must be "), value)
    return value


def observer(value: Any, path: str) -> Any:
    """Accept an object with the method `observe`."""
    if isinstance(value, type) or not callable(getattr(value, "observe", None)):
        raise fail(path, f"an object with the method `observe`, such as `hackamore.{path.capitalize()}(...)`", value)
    return value


def user(value: Any, path: str) -> str | int:
    """Accept the name or number of a user of the operating system."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return whole(value, path)
    return str(name_text(value, path))


def cwd(value: Any, path: str) -> str | None:
    """Accept a path; an empty one means none."""
    return path_text(value, path) or None


def cli_path(value: Any, path: str) -> str:
    """Accept a path with something in it."""
    checked = path_text(value, path)
    if not checked:
        raise wrong(path, "must not be empty; leave it out to have the CLI found.")
    return checked


_TOOLS = (
    "Agent Artifact AskUserQuestion Bash ClaudeDesign CronCreate CronDelete CronList Edit EndConversation EnterPlanMode EnterWorktree "
    "ExitPlanMode ExitWorktree Glob Grep ListAgents ListMcpResourcesTool LSP Monitor NotebookEdit OfferChromeSetup PowerShell Projects "
    "propose_skills PushNotification Read ReadMcpResourceDirTool ReadMcpResourceTool ReadNotifications RemoteTrigger ReportFindings "
    "ScheduleWakeup SendFeedback SendMessage SendUserFile SendUserMessage SetGoal ShareOnboardingGuide ShowOnboardingRolePicker Skill "
    "SubagentHandback TaskCreate TaskGet TaskList TaskStop TaskUpdate TodoWrite ToolSearch WaitForMcpServers WebFetch WebSearch Workflow "
    "Write"
)
BUILTIN_TOOL_NAMES: tuple[str, ...] = tuple(_TOOLS.split())
"""The names of built-in tools. A session has some of them: `InitMessage.tools` names those."""


def uuid(value: Any, path: str) -> str:
    """Accept the text of a UUID."""
    import re

    checked = str(name_text(value, path))
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", checked):
        raise wrong(path, "must be a UUID, such as str(uuid.uuid4())", value)
    return checked


# -- values that a file must not set unless it is trusted: the reason and the place, or None ---------------------------

_HARMLESS_MODES = ("default", "plan")


def refused_mode(value: Any) -> tuple[str, str] | None:
    """Refuse every mode except default and plan."""
    if value in _HARMLESS_MODES:
        return None
    return f"a file may only set the modes default and plan, not {value!r}", "permission_mode"


def refused_agent(value: Any) -> tuple[str, str] | None:
    """Refuse agents with other permission modes, with servers, and with unknown keys."""
    known = {name for field in AgentDefinition.__fields__.values() for name in (field.name, field.wire)}
    refused = None
    for agent, definition in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(definition, Mapping):
            continue
        if (mode := definition.get("permissionMode", "default")) not in _HARMLESS_MODES:
            reason = f"a file may only set the modes default and plan, not {mode!r}"
            refused = reason, f"agents.{agent}.permissionMode"
        elif "mcpServers" in definition:
            refused = "servers are programs to run", f"agents.{agent}.mcpServers"
        elif unknown := next((key for key in definition if key not in known), None):
            # The CLI receives such a key as it is: `hooks`, for example, which are programs.
            refused = "Hackamore does not know its effect", f"agents.{agent}.{unknown}"
    return refused


def refused_prompt(value: Any) -> tuple[str, str] | None:
    """Refuse a system prompt that is read from a file."""
    if isinstance(value, Mapping) and value.get("type") == "file":
        return "it names a file to read, which may hold secrets", "system_prompt.path"
    return None
