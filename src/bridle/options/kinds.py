"""The nested configuration that some options take: agents, servers, sandbox, system prompt, thinking, plugins.

Classes are spelled in snake_case. Where an option also takes a dict, the dict has the CLI's own (camelCase) names,
and keys that this version does not know are passed on. A snake_case key in such a dict is refused: the CLI would
ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bridle.checked.checks import (
    boolean,
    choice,
    class_or_wire_dict,
    integer,
    json_object,
    list_of,
    mapping_of,
    name_text,
    named_path,
    number,
    path_text,
    strings,
    text,
    whole,
)
from bridle.checked.fields import Checked, option

if TYPE_CHECKING:
    import os

PermissionMode: TypeAlias = Literal["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto", "manual"]
EffortLevel: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
SettingSource: TypeAlias = Literal["user", "project", "local"]

permission_mode_check = choice("default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto", "manual")
effort_level = choice("low", "medium", "high", "xhigh", "max")


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


class McpSSEServerConfig(Checked):
    """An MCP server that is reached by server-sent events."""

    url: str = option(name_text, secret=True)
    headers: Mapping[str, str] | None = option(mapping_of(text), default=None, secret=True)
    tools: Sequence[Mapping[str, Any]] | None = option(list_of(json_object), default=None)
    timeout: float | None = option(number(0), default=None)
    always_load: bool | None = option(boolean, default=None)
    type: Literal["sse"] = option(choice("sse"), default="sse")


class McpHttpServerConfig(Checked):
    """An MCP server that is reached by streamable HTTP."""

    url: str = option(name_text, secret=True)
    headers: Mapping[str, str] | None = option(mapping_of(text), default=None, secret=True)
    tools: Sequence[Mapping[str, Any]] | None = option(list_of(json_object), default=None)
    timeout: float | None = option(number(0), default=None)
    always_load: bool | None = option(boolean, default=None)
    type: Literal["http"] = option(choice("http"), default="http")


McpServerConfig: TypeAlias = McpStdioServerConfig | McpSSEServerConfig | McpHttpServerConfig


def is_external_server(config: Any) -> bool:
    """Return True if the CLI itself connects to this server, False if it is served by this process."""
    return isinstance(config, (McpStdioServerConfig, McpSSEServerConfig, McpHttpServerConfig)) or (
        isinstance(config, Mapping) and config.get("type") != "sdk"
    )


# -- sandbox -----------------------------------------------------------------------------------------------------------


class SandboxNetworkConfig(Checked):
    """What sandboxed commands may reach."""

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
    """What sandboxed commands may read and write."""

    allow_write: Sequence[str] | None = option(strings, default=None)
    deny_write: Sequence[str] | None = option(strings, default=None)
    deny_read: Sequence[str] | None = option(strings, default=None)
    allow_read: Sequence[str] | None = option(strings, default=None)
    allow_managed_read_paths_only: bool | None = option(boolean, default=None)
    disabled: bool | None = option(boolean, default=None)


class SandboxSettings(Checked):
    """How shell commands are confined.

    `enabled=True` without `fail_if_unavailable` makes the CLI refuse to start where no sandbox can be had, as with the
    TypeScript package: running unconfined would be the opposite of what was asked for.
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
    """A token budget that the model is told about."""

    total: int = option(integer(1))


class SdkPluginConfig(Checked):
    """A plugin in a local folder."""

    path: str | os.PathLike[str] = option(named_path)
    skip_mcp_discovery: bool | None = option(boolean, default=None)
    type: Literal["local"] = option(choice("local"), default="local")
