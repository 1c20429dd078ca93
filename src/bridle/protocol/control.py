"""The control protocol as a table: one row for each request, both ways.

A row says who asks, with which fields, what the answer is, which deadline counts, and, for what the CLI asks of us, what it gets when
we have no better answer. Sources: wire-protocol 3.1a, 3.1b, 3.2 and 4, checked against CLI 2.1.328.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Raw

from bridle.messages.base import NO_RAW
from bridle.protocol import results

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.messages.control import ControlRequest
    from bridle.protocol.results import ControlResult

__all__ = [
    "ROWS",
    "ControlRow",
    "DeadlineClass",
    "Direction",
    "FailPolicy",
    "Field",
    "encode_request",
    "fail_answer",
    "malformed",
    "row_for",
]

DeadlineClass = Literal["initialize", "control", "rewind", "hook", "permission", "mcp", "dialog"]
"""Which deadline counts; all but `dialog` are names of `Timeouts`, and a dialog waits for a person like a permission."""


class Direction(Enum):
    """Who asks whom."""

    HOST_TO_CLI = auto()
    CLI_TO_HOST = auto()
    BOTH = auto()


class FailPolicy(Enum):
    """What a request gets when its callback fails, misses its deadline or is not there."""

    HOOK_CONTINUES = auto()
    """Fail open: `{}`."""
    PERMISSION_DENIED = auto()
    """Fail closed: deny, with the reason."""
    MCP_ERROR = auto()
    """A JSON-RPC error inside a success."""
    DECLINED = auto()
    CANCELLED = auto()
    ERROR = auto()
    """An error response."""


class Field(NamedTuple):
    """One field of a request.

    Attributes:
        name: in Python.
        wire: on the wire.
        kind: the JSON type it must have; `any` is not looked at. A `?` behind it allows null.
        required: without it the request means nothing.
    """

    name: str
    wire: str
    kind: str
    required: bool


class ControlRow(NamedTuple):
    """One request of the control protocol.

    Attributes:
        subtype: its name on the wire.
        direction: who asks.
        summary: what it is for.
        fields: what it carries.
        result: the class of the answer.
        deadline: which deadline counts.
        fail: what it gets from us when we have no better answer.
    """

    subtype: str
    direction: Direction
    summary: str
    fields: tuple[Field, ...] = ()
    result: type[ControlResult] = results.ControlResult
    deadline: DeadlineClass = "control"
    fail: FailPolicy = FailPolicy.ERROR


def _fields(text: str) -> tuple[Field, ...]:
    """Read `name*:kind` or `name=wire:kind`, separated by blanks; `*` marks what is required."""
    fields = []
    for part in text.split():
        label, kind = part.split(":")
        required = label.endswith("*")
        name, _, wire = label.removesuffix("*").partition("=")
        fields.append(Field(name, wire or name, kind, required))
    return tuple(fields)


def _ours(
    subtype: str,
    summary: str,
    fields: str = "",
    result: type[ControlResult] = results.ControlResult,
    deadline: DeadlineClass = "control",
) -> ControlRow:
    return ControlRow(subtype, Direction.HOST_TO_CLI, summary, _fields(fields), result, deadline)


def _theirs(subtype: str, summary: str, fields: str, deadline: DeadlineClass, fail: FailPolicy) -> ControlRow:
    direction = Direction.BOTH if subtype == "mcp_message" else Direction.CLI_TO_HOST
    return ControlRow(subtype, direction, summary, _fields(fields), results.ControlResult, deadline, fail)


ROWS: tuple[ControlRow, ...] = (
    # -- the host asks: with a public method in the TypeScript package (3.1a) --
    _ours("interrupt", "Stop the turn.", "cancel_queued:boolean", results.InterruptReceipt),
    _ours(
        "initialize",
        "The handshake: hooks, in-process servers, prompts, agents.",
        "hooks:object? sdk_mcp_servers=sdkMcpServers:array sdk_mcp_server_configs=sdkMcpServerConfigs:object "
        "sdk_mcp_server_manifests=sdkMcpServerManifests:object json_schema=jsonSchema:object "
        "system_prompt=systemPrompt:any append_system_prompt=appendSystemPrompt:string "
        "system_prompt_snapshot=systemPromptSnapshot:boolean plan_mode_instructions=planModeInstructions:string "
        "tool_aliases=toolAliases:object exclude_dynamic_sections=excludeDynamicSections:boolean agents:object "
        "title:string skills:any prompt_suggestions=promptSuggestions:boolean "
        "agent_progress_summaries=agentProgressSummaries:boolean forward_subagent_text=forwardSubagentText:boolean "
        "supported_dialog_kinds=supportedDialogKinds:array per_task_stop_affordance=perTaskStopAffordance:boolean "
        "plugins:array mcp_servers=mcpServers:object",
        results.ServerInfo,
        "initialize",
    ),
    _ours("set_permission_mode", "Change the permission mode.", "mode*:string"),
    _ours("set_model", "Change the model for later turns; null is the session's default.", "model:string?"),
    _ours(
        "set_mcp_permission_mode_override",
        "Narrow the permission mode for one server; null clears it.",
        "server_name=serverName*:string mode*:string?",
        results.PermissionModeOverride,
    ),
    _ours(
        "set_max_thinking_tokens",
        "Change the thinking budget; null is the session's default.",
        "max_thinking_tokens:number? thinking_display:string?",
    ),
    _ours("mcp_status", "State of all MCP servers.", "live_reply=liveReply:boolean", results.McpStatus),
    _ours("get_context_usage", "What fills the context window.", "detail:string", results.ContextUsage),
    _ours("get_usage", "Cost and rate limits.", "skip_behaviors:boolean", results.UsageReport),
    _ours(
        "rewind_files",
        "Restore files to their state at a prompt.",
        "user_message_id*:string dry_run:boolean",
        results.RewindResult,
        "rewind",
    ),
    _ours(
        "read_file",
        "Read a file under the rules of the Read tool.",
        "path*:string max_bytes:number encoding:string",
        results.FileContents,
    ),
    _ours("seed_read_state", "Count a file as read, so that it may be edited.", "path*:string mtime*:number"),
    _ours("mcp_set_servers", "Replace the dynamic MCP servers.", "servers*:object", results.McpServersChange),
    _ours(
        "reload_plugins",
        "Reload plugins from disk.",
        "hold_on_cache_impact:boolean add_plugins:array refuse_if_busy:boolean",
        results.ReloadedPlugins,
    ),
    _ours("reload_skills", "Reload skills.", "", results.SkillList),
    _ours("reload_output_styles", "Read output styles again.", "", results.OutputStyles),
    _ours("mcp_reconnect", "Connect a server again.", "server_name=serverName*:string"),
    _ours("mcp_toggle", "Switch a server on or off.", "server_name=serverName*:string enabled*:boolean"),
    _ours("stop_task", "Stop a background task.", "task_id*:string"),
    _ours(
        "background_tasks",
        "Move running tools to the background.",
        "tool_use_id:string",
        results.BackgroundTasksResult,
    ),
    _ours("apply_flag_settings", "Merge into the settings of the flag layer; null clears.", "settings*:object"),
    _ours("update_settings", "Write a settings file.", "source*:string settings*:object"),
    _ours(
        "mcp_read_resource",
        "Read a `ui://` resource of a server.",
        "server_name=serverName*:string uri*:string",
        results.McpResourceContents,
    ),
    # -- the host asks: without one (3.1b) --
    _ours("rename_session", "Name the session.", "title*:string source:string session_id:string"),
    _ours("set_color", "Colour of the session.", "color*:string"),
    _ours("get_session_cost", "The cost so far, in words.", "", results.SessionCost),
    _ours("list_models", "The models that can be chosen.", "", results.ModelList),
    _ours("get_binary_version", "The CLI's version.", "", results.BinaryVersion),
    _ours(
        "mcp_call",
        "Call a tool of a server without the model.",
        "tool*:string arguments:object expires_at:string timeout_ms:number result_not_for_model:boolean "
        "check_permissions:boolean input_files:array output_files:array",
        results.McpCallResult,
    ),
    _ours("file_suggestions", "Files that begin like this.", "query*:string", results.FileSuggestions),
    _ours("cancel_async_message", "Withdraw a prompt that waits.", "message_uuid*:string", results.CancelledMessage),
    _ours(
        "register_repo_root",
        "Add a root inside the working directory.",
        "directory*:string reload_claude_md:boolean reload_plugins:boolean reload_skills:boolean",
    ),
    _ours("set_has_subscribers", "Whether anybody watches the output.", "has_subscribers*:boolean?"),
    _ours("get_task_output", "The end of a task's output.", "task_id*:string", results.TaskOutput),
    _ours("get_settings", "The settings in force.", "", results.SettingsReport),
    _ours("get_hooks_listing", "The hooks there are.", "", results.HooksListing),
    _ours("list_permission_rules", "The permission rules in force.", "", results.PermissionRules),
    # -- the CLI asks (3.2) --
    _theirs(
        "can_use_tool",
        "May this tool be used?",
        "tool_name*:string input*:object tool_use_id:string? permission_suggestions:any",
        "permission",
        FailPolicy.PERMISSION_DENIED,
    ),
    _theirs(
        "hook_callback",
        "Run a hook.",
        "callback_id*:string input*:object tool_use_id:string?",
        "hook",
        FailPolicy.HOOK_CONTINUES,
    ),
    _theirs(
        "mcp_message",
        "A JSON-RPC message for, or from, an in-process MCP server.",
        "server_name*:string message*:object",
        "mcp",
        FailPolicy.MCP_ERROR,
    ),
    _theirs(
        "elicitation",
        "An MCP server asks the user.",
        "mcp_server_name*:string message*:string mode:any url:any requested_schema:any",
        "dialog",
        FailPolicy.DECLINED,
    ),
    _theirs(
        "request_user_dialog",
        "Show a dialog.",
        "dialog_kind*:string payload*:object tool_use_id:any",
        "dialog",
        FailPolicy.CANCELLED,
    ),
)
"""Every request of the documented control protocol."""

_BY_SUBTYPE = {row.subtype: row for row in ROWS}


def row_for(subtype: str | None) -> ControlRow | None:
    """Return the row of a request; None if it has none."""
    return _BY_SUBTYPE.get(subtype or "")


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "object": (dict,),
    "array": (list, tuple),
}


def _fits(value: object, kind: str) -> bool:
    if kind == "any" or (value is None and kind.endswith("?")) or isinstance(value, Raw):
        return True
    kind = kind.removesuffix("?")
    return isinstance(value, _JSON_TYPES[kind]) and not (kind == "number" and isinstance(value, bool))


def encode_request(subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request by their names on the wire.

    Args:
        subtype: the request. One that has no row is passed on as it is.
        fields: by their names in Python or on the wire; unknown ones are passed on.

    Raises:
        TypeError: if a required field is missing or one has the wrong type.
    """
    row = row_for(subtype)
    if "subtype" in fields:
        raise TypeError(f"`{subtype}`: `subtype` is no field of a request")
    if row is None:
        return dict(fields)
    by_name = {field.name: field for field in row.fields} | {field.wire: field for field in row.fields}
    wire = {}
    for name, value in fields.items():
        field = by_name.get(name)
        if field is not None and not _fits(value, field.kind):
            raise TypeError(f"`{subtype}`: `{name}` must be {field.kind}, not {type(value).__name__}")
        wire[field.wire if field is not None else name] = value
    for field in row.fields:
        if field.required and field.wire not in wire:
            raise TypeError(f"`{subtype}`: `{field.name}` is missing")
    return wire


_split = msgspec.json.Decoder(dict[str, Raw]).decode
_STARTS = {"string": b'"', "boolean": b"tf", "number": b"-0123456789", "object": b"{", "array": b"["}


_TYPES: dict[str, Any] = {"string": str, "boolean": bool, "number": int | float, "object": Raw, "array": Raw}


_Shape = tuple["Callable[[Raw], Any]", tuple[tuple[str, bytes], ...]]
_shapes: dict[str, _Shape] = {}


def _shape(row: ControlRow) -> _Shape:
    """Return a decoder that takes requests of the right shape, and where it left open what a field begins with."""
    fields: list[Any] = []
    open_fields = []
    for field in row.fields:
        kind, nullable = field.kind.removesuffix("?"), field.kind.endswith("?")
        if kind == "any":
            continue
        type_ = _TYPES[kind]
        if type_ is Raw:
            open_fields.append((field.name, _STARTS[kind] + (b"n" if nullable else b"")))
        elif nullable:
            type_ = type_ | None
        fields.append(
            (field.name, type_, msgspec.field(name=field.wire, default=msgspec.NODEFAULT if field.required else None))
        )
    fields.sort(key=lambda field: field[2].default is not msgspec.NODEFAULT)
    return msgspec.json.Decoder(msgspec.defstruct(row.subtype, fields)).decode, tuple(open_fields)


def malformed(row: ControlRow, request: Raw) -> str | None:
    """Return what is wrong with a request that we received; None if it can be handled."""
    shape = _shapes.get(row.subtype)
    if shape is None:
        shape = _shapes[row.subtype] = _shape(row)
    decode, open_fields = shape
    try:
        shaped = decode(request)
    except (ValueError, RecursionError):
        return _malformed(row, request)
    for name, starts in open_fields:
        payload = getattr(shaped, name)
        if payload is not None and memoryview(payload)[0] not in starts:
            return _malformed(row, request)
    return None


def _malformed(row: ControlRow, request: Raw) -> str | None:
    try:
        fields = _split(request)
    except (ValueError, RecursionError) as error:
        return str(error)
    for field in row.fields:
        payload = fields.get(field.wire)
        if payload is None:
            if field.required:
                return f"`{field.wire}` is missing"
            continue
        if field.kind == "any":
            continue
        starts = _STARTS[field.kind.removesuffix("?")] + (b"n" if field.kind.endswith("?") else b"")
        if memoryview(payload)[0] not in starts:
            return f"`{field.wire}` is not {field.kind}"
    return None


class _MessageId(msgspec.Struct):
    # Bytes, because it is repeated as it came; `Raw | None` would refuse everything but null.
    id: Raw = NO_RAW


class _McpRequest(msgspec.Struct):
    message: _MessageId


_mcp_id = msgspec.json.Decoder(_McpRequest).decode
_MCP_INTERNAL_ERROR = -32603


def fail_answer(row: ControlRow, frame: ControlRequest, reason: str) -> dict[str, Any] | None:
    """Return the payload that says "no" safely; None if the request gets an error response."""
    reason = reason.encode("utf-8", "replace").decode()
    match row.fail:
        case FailPolicy.HOOK_CONTINUES:
            return {}
        case FailPolicy.PERMISSION_DENIED:
            return {"behavior": "deny", "message": reason}
        case FailPolicy.MCP_ERROR:
            message_id = _id_of_message(frame)
            if not message_id:
                # A notification: it is acknowledged, there is nobody to tell.
                return {"mcp_response": {"jsonrpc": "2.0", "id": 0, "result": {}}}
            error = {"code": _MCP_INTERNAL_ERROR, "message": reason}
            return {"mcp_response": {"jsonrpc": "2.0", "id": message_id, "error": error}}
        case FailPolicy.DECLINED:
            return {"action": "decline"}
        case FailPolicy.CANCELLED:
            return {"behavior": "cancelled"}
        case _:
            return None


def _id_of_message(frame: ControlRequest) -> Raw:
    try:
        return _mcp_id(frame.request_raw).message.id
    except (ValueError, RecursionError):
        return NO_RAW
