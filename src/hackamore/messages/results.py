"""Answers of control operations: one class for each answer whose fields are known.

Validation is permissive: every field has a default, a field of the wrong shape is left out with a `FIELD_DROPPED` warning, and what a
class does not name is in `data`. Field names are the wire's in snake_case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
from msgspec.structs import force_setattr

from hackamore.errors import DecodeError
from hackamore.messages.base import Number, Record, decoded_once, decoder, plain
from hackamore.messages.system import SlashCommand  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from hackamore.errors import StreamWarning

__all__ = [
    "AccountInfo",
    "AgentInfo",
    "BackgroundTasksResult",
    "BinaryVersion",
    "CancelledMessage",
    "ContextUsage",
    "ContextUsageCategory",
    "ControlResult",
    "FileContents",
    "FileSuggestions",
    "HooksListing",
    "InterruptReceipt",
    "McpCallResult",
    "McpResourceContents",
    "McpServerStatus",
    "McpServersChange",
    "McpStatus",
    "ModelInfo",
    "ModelList",
    "OutputStyles",
    "PermissionModeOverride",
    "PermissionRule",
    "PermissionRules",
    "PermissionRulesState",
    "ReloadedPlugins",
    "RewindResult",
    "ServerInfo",
    "SessionCost",
    "SettingsReport",
    "SkillList",
    "TaskOutput",
    "UsageReport",
    "decode_result",
]


def _list(name: str | None = None) -> Any:
    return msgspec.field(default_factory=list, name=name)


def _dict(name: str | None = None) -> Any:
    return msgspec.field(default_factory=dict, name=name)


def _none(name: str) -> Any:
    return msgspec.field(default=None, name=name)


class ControlResult(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The answer to a control operation; the base of the typed ones, and itself the answer of those that say nothing more.

    Attributes:
        raw: the exact bytes of the payload; empty if there was none.
    """

    raw: bytes = msgspec.field(default=b"", name="(raw)")

    payload_shapes: ClassVar[dict[str, bytes]] = {}

    @decoded_once
    def data(self) -> dict[str, Any]:
        """The whole payload with its names on the wire, unknown fields included."""
        value = plain(self.raw) if self.raw else {}
        return value if isinstance(value, dict) else {}


class AgentInfo(Record, frozen=True, kw_only=True):
    """A subagent that can be used."""

    name: str = ""
    description: str = ""
    model: str | None = None


class AccountInfo(Record, frozen=True, kw_only=True):
    """The login of the CLI."""

    email: str | None = None
    organization: str | None = None
    subscription_type: str | None = _none("subscriptionType")
    token_source: str | None = _none("tokenSource")
    api_key_source: str | None = _none("apiKeySource")
    api_provider: str | None = _none("apiProvider")


class ModelInfo(Record, frozen=True, kw_only=True):
    """A model that can be chosen."""

    value: str = ""
    resolved_model: str | None = _none("resolvedModel")
    display_name: str = msgspec.field(default="", name="displayName")
    description: str = ""
    supports_effort: bool | None = _none("supportsEffort")
    supported_effort_levels: list[str] = _list("supportedEffortLevels")
    supports_adaptive_thinking: bool | None = _none("supportsAdaptiveThinking")
    supports_fast_mode: bool | None = _none("supportsFastMode")
    supports_auto_mode: bool | None = _none("supportsAutoMode")


class ServerInfo(ControlResult, frozen=True, kw_only=True):
    """The CLI's answer to `initialize`: its capabilities."""

    commands: list[SlashCommand] = _list()
    agents: list[AgentInfo] = _list()
    output_style: str | None = None
    available_output_styles: list[str] = _list()
    models: list[ModelInfo] = _list()
    account: AccountInfo | None = None
    pid: int | None = None
    claude_code_version: str | None = None
    capabilities: list[str] = _list()
    hooks_applied: bool | None = None
    hook_on_failure_supported: bool | None = None
    plugins_applied: bool | None = None
    mcp_servers_applied: bool | None = None
    sdk_mcp_manifests_parked: dict[str, str] = _dict()
    session_state: str | None = None
    current_permission_mode: str | None = None
    fast_mode_state: str | None = None
    fast_mode_disabled_reason: str | None = None


class InterruptReceipt(ControlResult, frozen=True, kw_only=True):
    """Effect of an interrupt: ids of prompts that stay queued or were cancelled."""

    still_queued: list[str] = _list()
    cancelled: list[str] = _list()


class McpServerStatus(Record, frozen=True, kw_only=True):
    """One MCP server."""

    name: str = ""
    status: str = ""
    server_info: dict[str, Any] | None = _none("serverInfo")
    error: str | None = None
    config: dict[str, Any] | None = None
    scope: str | None = None
    tools: list[dict[str, Any]] = _list()


class McpStatus(ControlResult, frozen=True, kw_only=True):
    """All MCP servers."""

    mcp_servers: list[McpServerStatus] = _list("mcpServers")


class McpServersChange(ControlResult, frozen=True, kw_only=True):
    """Changes of `mcp_set_servers`."""

    added: list[str] = _list()
    removed: list[str] = _list()
    errors: dict[str, str] = _dict()


class McpResourceContents(ControlResult, frozen=True, kw_only=True):
    """A resource of an MCP server."""

    contents: list[dict[str, Any]] = _list()


class McpCallResult(ControlResult, frozen=True, kw_only=True):
    """The answer of an MCP tool that was called without the model."""

    content: Any = None
    structured_content: Any = _none("structuredContent")
    meta: dict[str, Any] | None = _none("_meta")
    staging: dict[str, Any] | None = None


class PermissionModeOverride(ControlResult, frozen=True, kw_only=True):
    """The CLI's answer about a permission mode for one server."""

    warning: str | None = None


class ContextUsageCategory(Record, frozen=True, kw_only=True):
    """The share of one kind of content in the context window."""

    id: str | None = None
    name: str = ""
    tokens: Number = 0
    color: str = ""
    kind: str | None = None
    is_deferred: bool | None = _none("isDeferred")


class ContextUsage(ControlResult, frozen=True, kw_only=True):
    """The content of the context window, by kind."""

    categories: list[ContextUsageCategory] = _list()
    total_tokens: Number = msgspec.field(default=0, name="totalTokens")
    max_tokens: Number = msgspec.field(default=0, name="maxTokens")
    raw_max_tokens: Number = msgspec.field(default=0, name="rawMaxTokens")
    percentage: Number = 0
    grid_rows: list[list[dict[str, Any]]] = _list("gridRows")
    model: str = ""
    memory_files: list[dict[str, Any]] = _list("memoryFiles")
    mcp_tools: list[dict[str, Any]] = _list("mcpTools")
    mcp_instructions: list[dict[str, Any]] = _list("mcpInstructions")
    deferred_builtin_tools: list[dict[str, Any]] = _list("deferredBuiltinTools")
    system_tools: list[dict[str, Any]] = _list("systemTools")
    system_prompt_sections: list[dict[str, Any]] = _list("systemPromptSections")
    agents: list[dict[str, Any]] = _list()
    slash_commands: dict[str, Any] | None = _none("slashCommands")
    skills: dict[str, Any] | None = None
    auto_compact_threshold: Number | None = _none("autoCompactThreshold")
    is_auto_compact_enabled: bool | None = _none("isAutoCompactEnabled")
    message_breakdown: dict[str, Any] | None = _none("messageBreakdown")
    api_usage: dict[str, Any] | None = _none("apiUsage")


class UsageReport(ControlResult, frozen=True, kw_only=True):
    """Usage of a limit, and the rest of it."""

    session: dict[str, Any] = _dict()
    subscription_type: str | None = None
    rate_limits_available: bool | None = None
    rate_limits: dict[str, Any] | None = None
    behaviors: dict[str, Any] | None = None


class RewindResult(ControlResult, frozen=True, kw_only=True):
    """Effect of restoring files, or of a dry run."""

    can_rewind: bool | None = _none("canRewind")
    error: str | None = None
    files_changed: list[str] = _list("filesChanged")
    insertions: int | None = None
    deletions: int | None = None
    skipped_links: int | None = _none("skippedLinks")


class FileContents(ControlResult, frozen=True, kw_only=True):
    """A file, as the CLI read it."""

    contents: str = ""
    abs_path: str = msgspec.field(default="", name="absPath")
    truncated: bool | None = None
    encoding: str | None = None
    lossy: bool | None = None


class ReloadedPlugins(ControlResult, frozen=True, kw_only=True):
    """Plugins and their parts after a reload."""

    commands: list[SlashCommand] = _list()
    agents: list[AgentInfo] = _list()
    plugins: list[dict[str, Any]] = _list()
    mcp_servers: list[McpServerStatus] = _list("mcpServers")
    error_count: int = 0
    held: bool | None = None
    cache_impact: dict[str, Any] | None = None


class SkillList(ControlResult, frozen=True, kw_only=True):
    """The skills there are."""

    skills: list[SlashCommand] = _list()


class OutputStyles(ControlResult, frozen=True, kw_only=True):
    """The output styles there are."""

    available_output_styles: list[str] = _list()


class BackgroundTasksResult(ControlResult, frozen=True, kw_only=True):
    """Whether something was moved to the background; None: the CLI does not say."""

    backgrounded: bool | None = None


class SessionCost(ControlResult, frozen=True, kw_only=True):
    """The cost so far, in words."""

    text: str = ""


class ModelList(ControlResult, frozen=True, kw_only=True):
    """The models that can be chosen."""

    models: list[ModelInfo] = _list()


class BinaryVersion(ControlResult, frozen=True, kw_only=True):
    """The CLI's version."""

    version: str = ""
    build_time: str | None = _none("buildTime")


class FileSuggestions(ControlResult, frozen=True, kw_only=True):
    """Files that begin with the requested text."""

    suggestions: list[Any] = _list()
    cwd: str | None = None


class CancelledMessage(ControlResult, frozen=True, kw_only=True):
    """Whether a queued prompt was cancelled."""

    cancelled: bool | None = None
    message_uuid: str | None = None


class TaskOutput(ControlResult, frozen=True, kw_only=True):
    """The end of a background task's output."""

    output: str = ""
    total_bytes: int = 0
    truncated: bool = False


class SettingsReport(ControlResult, frozen=True, kw_only=True):
    """The settings in force."""

    effective: dict[str, Any] = _dict()
    sources: list[dict[str, Any]] = _list()
    applied: dict[str, Any] = _dict()
    errors: list[dict[str, Any]] = _list()


class HooksListing(ControlResult, frozen=True, kw_only=True):
    """All hooks: those of the program and those of settings files."""

    events: list[dict[str, Any]] = _list()
    hooks: list[dict[str, Any]] = _list()
    event_catalog: list[dict[str, Any]] = _list("eventCatalog")
    policy: dict[str, Any] = _dict()
    safe_mode: dict[str, Any] | None = _none("safeMode")
    bare_mode: dict[str, Any] | None = _none("bareMode")
    errors: list[dict[str, Any]] = _list()


class PermissionRule(Record, frozen=True, kw_only=True):
    """One permission rule in force."""

    behavior: str = ""
    source: str = ""
    rule: str = ""
    editability: str | None = None
    not_in_effect: bool | None = _none("notInEffect")
    description: dict[str, Any] | None = None


class PermissionRulesState(Record, frozen=True, kw_only=True):
    """The permission rules in force, and the folders they speak of."""

    rules: list[PermissionRule] = _list()
    workspace_directories: list[dict[str, Any]] = _list("workspaceDirectories")
    original_cwd: str | None = _none("originalCwd")
    managed_only: bool | None = _none("managedOnly")
    errors: list[dict[str, Any]] = _list()
    withheld: bool | None = None


class PermissionRules(ControlResult, frozen=True, kw_only=True):
    """The answer to `list_permission_rules`."""

    state: PermissionRulesState = msgspec.field(default_factory=PermissionRulesState)


R = TypeVar("R", bound=ControlResult)
_NULL = msgspec.Raw(b"null")


def decode_result(kind: type[R], payload: Raw, warn: Callable[[StreamWarning], None]) -> R:
    """Return the answer of an operation; never raises, for any payload. `warn` is called for each field that was left out."""
    if not payload or payload == _NULL:
        return kind()
    try:
        result: R = decoder(kind)(payload)
    except (ValueError, RecursionError):
        result = _decode_slowly(kind, payload, warn)
    force_setattr(result, "raw", bytes(payload))
    return result


def _decode_slowly(kind: type[R], payload: Raw, warn: Callable[[StreamWarning], None]) -> R:
    from hackamore.messages import degrade

    report = degrade.Report("control_response", warn)
    try:
        result: R = degrade.build(kind, degrade.split_line(bytes(payload)), "", report)
    except (DecodeError, ValueError, RecursionError) as error:
        report.dropped("response", str(error))
        result = kind()
    report.finish()
    return result
