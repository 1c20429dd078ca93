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

    description: str = option(check=name_text)
    prompt: str = option(check=text)
    tools: Sequence[str] | None = option(default=None, check=strings)
    disallowed_tools: Sequence[str] | None = option(default=None, check=strings)
    model: str | None = option(default=None, check=name_text)
    skills: Sequence[str] | None = option(default=None, check=strings)
    memory: Literal["user", "project", "local"] | None = option(default=None, check=choice("user", "project", "local"))
    mcp_servers: Sequence[str | Mapping[str, Any]] | None = option(default=None, check=_agent_servers, secret=True)
    initial_prompt: str | None = option(default=None, check=text)
    max_turns: int | None = option(default=None, check=integer(0))
    background: bool | None = option(default=None, check=boolean)
    effort: EffortLevel | int | None = option(default=None, check=_effort)
    permission_mode: PermissionMode | None = option(default=None, check=permission_mode_check)
    omit_claude_md: bool | None = option(default=None, check=boolean)
    auto_compact_window: int | None = option(default=None, check=integer(1))
    observer: str | None = option(default=None, check=text)
    observer_message: str | None = option(default=None, check=text)
    critical_system_reminder: str | None = option(default=None, check=text, wire="criticalSystemReminder_EXPERIMENTAL")


# -- servers -----------------------------------------------------------------------------------------------------------


class McpStdioServerConfig(Checked):
    """An MCP server that the CLI starts as a child process."""

    command: str = option(check=name_text)
    args: Sequence[str] | None = option(default=None, check=list_of(text), secret=True)
    env: Mapping[str, str] | None = option(default=None, check=mapping_of(text), secret=True)
    timeout: float | None = option(default=None, check=number(0))
    always_load: bool | None = option(default=None, check=boolean)
    type: Literal["stdio"] = option(default="stdio", check=choice("stdio"))


class McpSSEServerConfig(Checked):
    """An MCP server that is reached by server-sent events."""

    url: str = option(check=name_text, secret=True)
    headers: Mapping[str, str] | None = option(default=None, check=mapping_of(text), secret=True)
    tools: Sequence[Mapping[str, Any]] | None = option(default=None, check=list_of(json_object))
    timeout: float | None = option(default=None, check=number(0))
    always_load: bool | None = option(default=None, check=boolean)
    type: Literal["sse"] = option(default="sse", check=choice("sse"))


class McpHttpServerConfig(Checked):
    """An MCP server that is reached by streamable HTTP."""

    url: str = option(check=name_text, secret=True)
    headers: Mapping[str, str] | None = option(default=None, check=mapping_of(text), secret=True)
    tools: Sequence[Mapping[str, Any]] | None = option(default=None, check=list_of(json_object))
    timeout: float | None = option(default=None, check=number(0))
    always_load: bool | None = option(default=None, check=boolean)
    type: Literal["http"] = option(default="http", check=choice("http"))


McpServerConfig: TypeAlias = McpStdioServerConfig | McpSSEServerConfig | McpHttpServerConfig


def is_external_server(config: Any) -> bool:
    """Return True if the CLI itself connects to this server, False if it is served by this process."""
    return isinstance(config, (McpStdioServerConfig, McpSSEServerConfig, McpHttpServerConfig)) or (
        isinstance(config, Mapping) and config.get("type") != "sdk"
    )


# -- sandbox -----------------------------------------------------------------------------------------------------------


class SandboxNetworkConfig(Checked):
    """What sandboxed commands may reach."""

    allowed_domains: Sequence[str] | None = option(default=None, check=strings)
    denied_domains: Sequence[str] | None = option(default=None, check=strings)
    allow_managed_domains_only: bool | None = option(default=None, check=boolean)
    strict_allowlist: bool | None = option(default=None, check=boolean)
    allow_unix_sockets: Sequence[str] | None = option(default=None, check=strings)
    allow_all_unix_sockets: bool | None = option(default=None, check=boolean)
    allow_local_binding: bool | None = option(default=None, check=boolean)
    allow_mach_lookup: Sequence[str] | None = option(default=None, check=strings)
    http_proxy_port: int | None = option(default=None, check=integer(0))
    socks_proxy_port: int | None = option(default=None, check=integer(0))
    tls_terminate: Mapping[str, Any] | None = option(default=None, check=json_object)


class SandboxFilesystemConfig(Checked):
    """What sandboxed commands may read and write."""

    allow_write: Sequence[str] | None = option(default=None, check=strings)
    deny_write: Sequence[str] | None = option(default=None, check=strings)
    deny_read: Sequence[str] | None = option(default=None, check=strings)
    allow_read: Sequence[str] | None = option(default=None, check=strings)
    allow_managed_read_paths_only: bool | None = option(default=None, check=boolean)
    disabled: bool | None = option(default=None, check=boolean)


class SandboxSettings(Checked):
    """How shell commands are confined.

    `enabled=True` without `fail_if_unavailable` makes the CLI refuse to start where no sandbox can be had, as with the
    TypeScript package: running unconfined would be the opposite of what was asked for.
    """

    enabled: bool | None = option(default=None, check=boolean)
    fail_if_unavailable: bool | None = option(default=None, check=boolean)
    auto_allow_bash_if_sandboxed: bool | None = option(default=None, check=boolean)
    allow_unsandboxed_commands: bool | None = option(default=None, check=boolean)
    excluded_commands: Sequence[str] | None = option(default=None, check=strings)
    network: SandboxNetworkConfig | Mapping[str, Any] | None = option(
        default=None, check=class_or_wire_dict(SandboxNetworkConfig)
    )
    filesystem: SandboxFilesystemConfig | Mapping[str, Any] | None = option(
        default=None, check=class_or_wire_dict(SandboxFilesystemConfig)
    )
    credentials: Mapping[str, Any] | None = option(default=None, check=json_object, secret=True)
    ignore_violations: Mapping[str, Sequence[str]] | None = option(default=None, check=mapping_of(strings))
    enable_weaker_nested_sandbox: bool | None = option(default=None, check=boolean)
    enable_weaker_network_isolation: bool | None = option(default=None, check=boolean)
    allow_nested_user_namespaces: bool | None = option(default=None, check=boolean)
    allow_apple_events: bool | None = option(default=None, check=boolean)
    ripgrep: Mapping[str, Any] | None = option(default=None, check=json_object)
    bwrap_path: str | None = option(default=None, check=path_text)
    socat_path: str | None = option(default=None, check=path_text)


# -- system prompt, tools, thinking, budget, plugins -------------------------------------------------------------------


class SystemPromptPreset(Checked):
    """Claude Code's own system prompt, with `append` after it."""

    append: str | None = option(default=None, check=text)
    exclude_dynamic_sections: bool | None = option(default=None, check=boolean)
    snapshot: bool | None = option(default=None, check=boolean)
    preset: Literal["claude_code"] = option(default="claude_code", check=choice("claude_code"))
    type: Literal["preset"] = option(default="preset", check=choice("preset"))


def _prompt_blocks(value: Any, path: str) -> str | tuple[str, ...]:
    return text(value, path) if isinstance(value, str) else tuple(list_of(text)(value, path))


class SystemPromptCustom(Checked):
    """A system prompt of your own; a list makes blocks (over the bidirectional protocol)."""

    prompt: str | Sequence[str] = option(check=_prompt_blocks)
    snapshot: bool | None = option(default=None, check=boolean)
    type: Literal["custom"] = option(default="custom", check=choice("custom"))


class SystemPromptFile(Checked):
    """A system prompt of your own that the CLI reads from a file: for long ones, and those that `ps` must not show."""

    path: str | os.PathLike[str] = option(check=named_path)
    type: Literal["file"] = option(default="file", check=choice("file"))


class ThinkingConfigAdaptive(Checked):
    """The model decides how much to think."""

    display: Literal["summarized", "omitted"] | None = option(default=None, check=choice("summarized", "omitted"))
    type: Literal["adaptive"] = option(default="adaptive", check=choice("adaptive"))


class ThinkingConfigEnabled(Checked):
    """The model thinks, with at most `budget_tokens` tokens if that is given."""

    budget_tokens: int | None = option(default=None, check=integer(1))
    display: Literal["summarized", "omitted"] | None = option(default=None, check=choice("summarized", "omitted"))
    type: Literal["enabled"] = option(default="enabled", check=choice("enabled"))


class ThinkingConfigDisabled(Checked):
    """The model does not think."""

    type: Literal["disabled"] = option(default="disabled", check=choice("disabled"))


ThinkingConfig: TypeAlias = ThinkingConfigAdaptive | ThinkingConfigEnabled | ThinkingConfigDisabled


class TaskBudget(Checked):
    """A token budget that the model is told about."""

    total: int = option(check=integer(1))


class SdkPluginConfig(Checked):
    """A plugin in a local folder."""

    path: str | os.PathLike[str] = option(check=named_path)
    skip_mcp_discovery: bool | None = option(default=None, check=boolean)
    type: Literal["local"] = option(default="local", check=choice("local"))
