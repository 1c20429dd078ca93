"""The control protocol as a table: one row for each request, in both directions.

A row has the name of the request on the wire, its fields, the class of its answer, and its timeout. A row of a request that Hackamore sends
also describes the method of `Session`: `aio/operations.py` and the tables of docs/reference/control.md are generated from it. A row of
a request that the CLI sends has the answer for the case that there is no better one. Checked against Claude Code 2.1.330.
"""

from __future__ import annotations

from enum import Enum, auto
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from hackamore.messages import results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.messages.results import ControlResult

DeadlineClass = Literal["initialize", "control", "rewind", "hook", "permission", "mcp", "dialog"]
"""The timeout of a request: a name of `Timeouts`, but for `dialog`, which waits for a person like a permission."""


class Direction(Enum):
    """The sender of a request."""

    HOST_TO_CLI = auto()
    CLI_TO_HOST = auto()
    BOTH = auto()


class FailPolicy(Enum):
    """The answer to a request of the CLI whose callback fails, misses its timeout or does not exist."""

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
    name: str  # name in Python
    wire: str  # name on the wire
    kind: str  # JSON type; `any` is not checked. A trailing `?` allows null.
    required: bool  # True if the request is invalid without it
    # Python type and default of the method's parameter; empty if only `Session.request` can send the field
    declared: str = ""
    doc: str = ""  # description of the parameter
    positional: bool = False  # True if a parameter with a default may be positional
    always: bool = False  # True if the default is sent as well


class ControlRow(NamedTuple):
    subtype: str  # name on the wire
    direction: Direction  # the sender
    summary: str  # purpose, as the first line of a docstring
    fields: tuple[Field, ...] = ()  # its fields
    result: type[ControlResult] = results.ControlResult  # class of the answer
    deadline: DeadlineClass = "control"  # its timeout
    fail: FailPolicy = FailPolicy.ERROR  # the answer that Hackamore gives if it has no better one
    method: str = ""  # name of the method of `Session`; empty without one
    note: str = ""  # further description of the method
    shows: str = ""  # fields of the answer that the documentation names
    by_hand: bool = False  # True if the method is written by hand, because it does more than send one request
    needs: str = ""  # name of the option without which Hackamore refuses it; empty if it needs none
    example: str = ""  # a call, for the docstring of the method; empty without one


def _fields(text: str) -> tuple[Field, ...]:
    """Read `name*:kind` or `name=wire:kind`, separated by blanks; `*` marks required fields."""
    fields = []
    for part in text.split():
        label, kind = part.split(":")
        required = label.endswith("*")
        name, _, wire = label.removesuffix("*").partition("=")
        fields.append(Field(name, wire or name, kind, required))
    return tuple(fields)


def _par(field: str, declared: str, doc: str, *, positional: bool = False, always: bool = False) -> Field:
    """Return a field that is a parameter of the method."""
    return _fields(field)[0]._replace(declared=declared, doc=doc, positional=positional, always=always)


def _op(
    subtype: str,
    summary: str,
    *parameters: Field,
    more: str = "",
    result: type[ControlResult] = results.ControlResult,
    shows: str = "",
    deadline: DeadlineClass = "control",
    method: str | None = None,
    note: str = "",
    by_hand: bool = False,
    needs: str = "",
    example: str = "",
) -> ControlRow:
    """Return the row of an operation of `Session`; what is not given is as in `ControlRow`.

    `parameters` are fields that are parameters of the method, and `more` further ones, as `_fields` reads them. The name of the method
    is `subtype` if `method` is None.
    """
    fields = (*parameters, *_fields(more))
    named = subtype if method is None else method
    return ControlRow(
        subtype,
        Direction.HOST_TO_CLI,
        summary,
        fields,
        result,
        deadline,
        method=named,
        note=note,
        shows=shows,
        by_hand=by_hand,
        needs=needs,
        example=example,
    )


def _theirs(subtype: str, summary: str, fields: str, deadline: DeadlineClass, fail: FailPolicy) -> ControlRow:
    direction = Direction.BOTH if subtype == "mcp_message" else Direction.CLI_TO_HOST
    return ControlRow(subtype, direction, summary, _fields(fields), results.ControlResult, deadline, fail)


_SERVER = _par("server_name=serverName*:string", "str", "name of the server.")
_TASK = _par("task_id*:string", "str", "id of the task.")
_SETTINGS = _par("settings*:object", "Mapping[str, Any]", "settings by their names in settings files; None clears one.")

OPERATIONS: Mapping[str, tuple[ControlRow, ...]] = {
    "turn": (
        _op(
            "interrupt",
            "Interrupt the running turn.",
            _par("cancel_queued:boolean", "bool = False", "True also cancels queued prompts."),
            result=results.InterruptReceipt,
            shows="still_queued cancelled",
            note="The answer names turns by their ids.",
            example="receipt = await session.interrupt()",
        ),
        _op(
            "cancel_async_message",
            "Cancel a queued prompt.",
            _par("message_uuid*:string", "str", "id of its turn: `turn.id`."),
            result=results.CancelledMessage,
            shows="cancelled",
        ),
        _op(
            "set_model",
            "Change the model for later turns.",
            _par(
                "model:string?",
                "str | None = None",
                "name or alias of the model; None selects the default of the CLI, not `Options.model`.",
                positional=True,
            ),
            example='await session.set_model("sonnet")',
        ),
        _op(
            "set_max_thinking_tokens",
            "Change the thinking budget.",
            _par("max_thinking_tokens:number?", "int | None", "tokens; None for the default of the session."),
            _par(
                "thinking_display:string?",
                "str | None = None",
                "`summarized`, `omitted` or `highlights`; None leaves it unchanged.",
            ),
        ),
        _op(
            "get_context_usage",
            "Return the contents of the context window by size.",
            _par(
                "detail:string",
                'Literal["summary", "full"] = "full"',
                "`full` counts tokens with requests to the API; `summary` estimates them without requests.",
                always=True,
            ),
            result=results.ContextUsage,
            shows="total_tokens max_tokens percentage categories",
        ),
    ),
    "permissions": (
        _op(
            "set_permission_mode",
            "Change the permission mode.",
            _par("mode*:string", "PermissionMode", "the new mode."),
            example='await session.set_permission_mode("acceptEdits")',
        ),
        _op(
            "list_permission_rules",
            "Return the permission rules in force.",
            result=results.PermissionRules,
            shows="state",
            note="`state` has `rules`.",
        ),
        _op(
            "set_mcp_permission_mode_override",
            "Narrow the permission mode for one MCP server.",
            _SERVER,
            _par("mode*:string?", "PermissionMode | None", "the mode for its tools; None removes the override."),
            result=results.PermissionModeOverride,
            shows="warning",
        ),
        _op(
            "register_repo_root",
            "Add a root folder inside the working directory.",
            _par("directory*:string", "str", "path of the folder; the CLI refuses one outside the working directory."),
            more="reload_claude_md:boolean reload_plugins:boolean reload_skills:boolean",
        ),
    ),
    "files": (
        _op(
            "rewind_files",
            "Restore files to their state at a prompt.",
            _par("user_message_id*:string", "str", "id of the prompt: `turn.id`."),
            _par("dry_run:boolean", "bool = False", "True only reports what would change.", always=True),
            result=results.RewindResult,
            shows="can_rewind files_changed insertions deletions",
            deadline="rewind",
            needs="enable_file_checkpointing",
            example="await session.rewind_files(turn.id)",
        ),
        _op(
            "read_file",
            "Read a file under the rules of the Read tool.",
            _par("path*:string", "str", "path of the file, absolute or relative to the working directory."),
            _par("max_bytes:number", "int | None = None", "limit in bytes; None for 1 MB."),
            _par("encoding:string", "str | None = None", "`utf-8` or `base64`; None for `utf-8`."),
            result=results.FileContents,
            shows="contents abs_path truncated",
        ),
        _op(
            "seed_read_state",
            "Mark a file as read, so that the model may edit it.",
            _par("path*:string", "str", "path of the file."),
            _par("mtime*:number", "float", "its modification time in milliseconds since 1970."),
        ),
        _op(
            "file_suggestions",
            "Return the files that complete a partial path.",
            _par("query*:string", "str", "the partial path."),
            result=results.FileSuggestions,
            shows="suggestions",
            method="get_file_suggestions",
        ),
    ),
    "tasks": (
        _op(
            "stop_task",
            "Stop a background task.",
            _TASK,
            note="The CLI also accepts the id of a task that does not exist.",
        ),
        _op(
            "background_tasks",
            "Move running tools to the background.",
            _par("tool_use_id:string", "str | None = None", "id of one tool call; None for all."),
            result=results.BackgroundTasksResult,
            shows="backgrounded",
            method="move_to_background",
            note="Only tools that `task_started` reported can be moved (a shell after two to four seconds). "
            "`backgrounded` is None if the CLI does not report success.",
        ),
        _op(
            "get_task_output",
            "Return the last 8 KiB of the output of a shell task.",
            _TASK,
            result=results.TaskOutput,
            shows="output total_bytes truncated",
        ),
    ),
    "servers": (
        _op(
            "mcp_status",
            "Return the state of all MCP servers.",
            more="live_reply=liveReply:boolean",
            result=results.McpStatus,
            shows="mcp_servers",
            method="get_mcp_status",
            note="Each of `mcp_servers` has `name`, `status`, `tools` and `error`.",
        ),
        _op(
            "mcp_set_servers",
            "Replace the dynamic MCP servers.",
            _par("servers*:object", "Mapping[str, Any]", "configurations and in-process servers by name."),
            result=results.McpServersChange,
            shows="added removed errors",
            method="set_mcp_servers",
            note="Takes configurations and tool servers by name, as `Options(mcp_servers=...)` does; `{}` removes all.",
            by_hand=True,
        ),
        _op("mcp_reconnect", "Connect an MCP server again.", _SERVER, method="reconnect_mcp_server"),
        _op(
            "mcp_toggle",
            "Enable or disable an MCP server.",
            _SERVER,
            _par("enabled*:boolean", "bool", "True to enable it."),
            method="toggle_mcp_server",
        ),
        _op(
            "mcp_call",
            "Call a tool of an MCP server without the model.",
            _par("tool*:string", "str", "full name of the tool: `mcp__server__tool`."),
            _par(
                "arguments:object",
                "Mapping[str, Any] | None = None",
                "input of the tool; None for none.",
                positional=True,
                always=True,
            ),
            more="expires_at:string timeout_ms:number result_not_for_model:boolean check_permissions:boolean "
            "input_files:array output_files:array",
            result=results.McpCallResult,
            shows="content structured_content",
            method="call_mcp_tool",
            note="Not for in-process servers: call the function itself.",
        ),
        _op(
            "mcp_read_resource",
            "Read a `ui://` resource of an MCP server.",
            _SERVER,
            _par("uri*:string", "str", "URI of the resource; it begins with `ui://`."),
            result=results.McpResourceContents,
            shows="contents",
            method="read_mcp_resource",
        ),
    ),
    "settings": (
        _op(
            "get_settings",
            "Return the settings in force.",
            result=results.SettingsReport,
            shows="effective sources errors",
        ),
        _op("apply_flag_settings", "Merge into the settings of the command line, for this session.", _SETTINGS),
        _op(
            "update_settings",
            "Write to a settings file.",
            _par("source*:string", "str", "`userSettings` or `localSettings`."),
            _SETTINGS,
            note="The CLI accepts few keys: `effortLevel` of the user, `outputStyle` of the local file.",
        ),
        _op(
            "get_hooks_listing",
            "Return all hooks, including those of settings files.",
            result=results.HooksListing,
            shows="hooks events errors",
        ),
        _op(
            "reload_plugins",
            "Reload plugins from disk.",
            _par(
                "add_plugins:array",
                "Sequence[SdkPluginConfig | Mapping[str, Any]] = ()",
                "further plugins, as in `Options(plugins=...)`; their paths are absolute.",
            ),
            _par(
                "hold_on_cache_impact:boolean",
                "bool = False",
                "True changes nothing if the new tools would invalidate the prompt cache; `held` of the answer is then True.",
            ),
            _par(
                "refuse_if_busy:boolean",
                "bool = False",
                "True raises `ControlRejectedError` while a turn runs (`code` is `reload_plugins_busy`).",
            ),
            result=results.ReloadedPlugins,
            shows="commands agents plugins error_count held cache_impact",
        ),
        _op("reload_skills", "Reload skills from disk.", result=results.SkillList, shows="skills"),
        _op(
            "reload_output_styles",
            "Reload output styles from disk.",
            result=results.OutputStyles,
            shows="available_output_styles",
        ),
    ),
    "session": (
        _op(
            "initialize",
            "Return the current answer of the CLI to the handshake.",
            more="hooks:object? sdk_mcp_servers=sdkMcpServers:array sdk_mcp_server_configs=sdkMcpServerConfigs:object "
            "sdk_mcp_server_manifests=sdkMcpServerManifests:object json_schema=jsonSchema:object "
            "system_prompt=systemPrompt:any append_system_prompt=appendSystemPrompt:string "
            "system_prompt_snapshot=systemPromptSnapshot:boolean plan_mode_instructions=planModeInstructions:string "
            "tool_aliases=toolAliases:object exclude_dynamic_sections=excludeDynamicSections:boolean agents:object "
            "title:string skills:any prompt_suggestions=promptSuggestions:boolean "
            "agent_progress_summaries=agentProgressSummaries:boolean forward_subagent_text=forwardSubagentText:boolean "
            "supported_dialog_kinds=supportedDialogKinds:array per_task_stop_affordance=perTaskStopAffordance:boolean "
            "plugins:array mcp_servers=mcpServers:object",
            result=results.ServerInfo,
            deadline="initialize",
            shows="commands agents models session_state current_permission_mode",
            method="reinitialize",
            note="Hooks, tools, agents and prompts of the session stay. `Session.server_info` keeps the answer of the start.",
        ),
        _op("list_models", "Return the available models.", result=results.ModelList, shows="models"),
        _op(
            "get_usage",
            "Return cost and rate limits.",
            _par(
                "skip_behaviors:boolean",
                "bool = False",
                "True does not read local transcripts; `behaviors` of the answer is then None.",
            ),
            result=results.UsageReport,
            shows="session rate_limits behaviors",
        ),
        _op("get_session_cost", "Return the cost so far as a text.", result=results.SessionCost, shows="text"),
        _op(
            "get_binary_version",
            "Return the version of the CLI.",
            result=results.BinaryVersion,
            shows="version build_time",
        ),
        _op(
            "rename_session",
            "Change the title of the session.",
            _par("title*:string", "str", "the new title."),
            more="source:string session_id:string",
        ),
        _op(
            "set_color",
            "Change the color of the session.",
            _par("color*:string", "str", "name of the color, or `default`."),
            note="Current versions of the CLI refuse it.",
        ),
        _op(
            "set_has_subscribers",
            "Tell the CLI whether the output has readers.",
            _par("has_subscribers*:boolean?", "bool | None", "True if it has; None if that is unknown."),
        ),
    ),
}
"""The methods of `Session` by the sections of docs/reference/control.md."""

ROWS: tuple[ControlRow, ...] = (
    *chain.from_iterable(OPERATIONS.values()),
    _theirs(
        "can_use_tool",
        "Decide whether a tool may be used.",
        "tool_name*:string input*:object tool_use_id:string? permission_suggestions:any",
        "permission",
        FailPolicy.PERMISSION_DENIED,
    ),
    _theirs(
        "hook_callback",
        "Run a hook.",
        "callback_id*:string input:any tool_use_id:string?",  # without an input, its `on_failure` decides
        "hook",
        FailPolicy.HOOK_CONTINUES,
    ),
    _theirs(
        "mcp_message",
        "Pass a JSON-RPC message to, or from, an in-process MCP server.",
        "server_name*:string message*:object",
        "mcp",
        FailPolicy.MCP_ERROR,
    ),
    _theirs(
        "elicitation",
        "Ask the user for an MCP server.",
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
