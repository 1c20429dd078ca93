"""Arguments of a hook: the input of each event, its context, and their decoding.

The class `StopHookInput` is the input of the event `Stop`: its name says the event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from hackamore.checked.functions import as_bytes, decode_asked, ignore_warning, reached
from hackamore.errors import DecodeError
from hackamore.messages.base import NO_RAW, Kept, Number, Record, computed_once, decoded_once, plain
from hackamore.permissions import McpServerProvenance, PermissionUpdate, decode_updates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hackamore.errors import StreamWarning

__all__ = [
    "BackgroundTaskSummary",
    "ConfigChangeHookInput",
    "CwdChangedHookInput",
    "DirectoryAddedHookInput",
    "ElicitationHookInput",
    "ElicitationResultHookInput",
    "EXIT_REASONS",
    "FileChangedHookInput",
    "HOOK_EVENTS",
    "HookContext",
    "HookEffort",
    "HookInput",
    "InstructionsLoadedHookInput",
    "MessageDisplayHookInput",
    "NotificationHookInput",
    "PermissionDeniedHookInput",
    "PermissionRequestHookInput",
    "PostCompactHookInput",
    "PostModelSwitchHookInput",
    "PostToolBatchHookInput",
    "PostToolBatchToolCall",
    "PostToolUseFailureHookInput",
    "PostToolUseHookInput",
    "PreCompactHookInput",
    "PreModelSwitchHookInput",
    "PreToolUseHookInput",
    "SessionCronSummary",
    "SessionEndHookInput",
    "SessionStartHookInput",
    "SetupHookInput",
    "StopFailureHookInput",
    "StopHookInput",
    "SubagentStartHookInput",
    "SubagentStopHookInput",
    "TaskCompletedHookInput",
    "TaskCreatedHookInput",
    "TeammateIdleHookInput",
    "UnknownHookInput",
    "UserPromptExpansionHookInput",
    "UserPromptSubmitHookInput",
    "WorktreeCreateHookInput",
    "WorktreeRemoveHookInput",
    "decode_hook_input",
]


class HookEffort(Record, frozen=True, kw_only=True):
    """How much the model thinks.

    Attributes:
        level: `low`, `medium`, `high`, ...
    """

    level: str = ""


class BackgroundTaskSummary(Record, frozen=True, kw_only=True):
    """A task that still runs when the turn stops.

    Attributes:
        id: the task.
        type: its kind.
        status: how it is.
        description: its purpose.
        command: the shell command.
        agent_type: the type of a subagent.
        server: the server of an MCP task.
        tool: the tool of an MCP task.
        name: its name.
    """

    id: str = ""
    type: str = ""
    status: str = ""
    description: str = ""
    command: str | None = None
    agent_type: str | None = None
    server: str | None = None
    tool: str | None = None
    name: str | None = None


class SessionCronSummary(Record, frozen=True, kw_only=True):
    """A prompt that the session has scheduled.

    Attributes:
        id: the schedule.
        schedule: when, as a cron expression.
        recurring: True if it comes again.
        prompt: the prompt.
    """

    id: str = ""
    schedule: str = ""
    recurring: bool | None = None
    prompt: str = ""


class HookInput(Kept, frozen=True, kw_only=True):
    """The base of the inputs of all events.

    Attributes:
        session_id: the session.
        transcript_path: the file that its transcript is written to.
        cwd: its working directory.
        hook_event_name: the event, as the CLI names it.
        prompt_id: the prompt that is being answered; None before the first.
        permission_mode: the permission mode.
        agent_id: the subagent it happens in; None in the main conversation.
        agent_type: the agent's type.
        effort: how much the model thinks, where a tool is involved.
    """

    wire_event: ClassVar[str] = ""

    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    hook_event_name: str = ""
    prompt_id: str | None = None
    permission_mode: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    effort: HookEffort | None = None

    def __init_subclass__(cls) -> None:
        """Take the event from the name of the class; private bases and `UnknownHookInput` have none."""
        name = cls.__name__.removesuffix("HookInput")
        cls.wire_event = "" if name == "Unknown" or name.startswith("_") else name


class UnknownHookInput(HookInput, frozen=True, kw_only=True):
    """The input of an event that this version does not know, or one that cannot be read. `data` has its content.

    Attributes:
        problem: why it cannot be read; None if only the event is unknown.
    """

    problem: str | None = msgspec.field(default=None, name="(problem)")


class HookContext:
    """Where a hook is called from. Frozen.

    Args:
        session: the session of the hook, for tests of hooks; None without one.
        cancelled: returns whether the CLI has cancelled the hook; None for never.
        tool_use_id: the id of the tool call; None without one.

    Attributes:
        tool_use_id: the call it is about. The CLI makes one up where no tool is involved.
        conversation: the key of the conversation in its `SessionPool`; None outside a pool.
        caller: the value of the check-out, `pool.conversation(key, caller=...)`; None without one.
    """

    __slots__ = ("_cancelled", "_session", "caller", "conversation", "tool_use_id")

    tool_use_id: str | None
    conversation: str | None
    caller: Any

    def __init__(
        self, tool_use_id: str | None = None, session: Any = None, cancelled: Callable[[], bool] | None = None
    ) -> None:
        object.__setattr__(self, "tool_use_id", tool_use_id)
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "conversation", getattr(session, "conversation", None))
        object.__setattr__(self, "caller", getattr(session, "caller", None))
        object.__setattr__(self, "_cancelled", cancelled)

    @property
    def session(self) -> Any:
        """The session; None once no other object holds it any more. Its methods may be called from the hook.

        In a plain function, which runs in a thread, they block: `context.session.interrupt()`. In an async one they are awaited,
        except with `hackamore.sync`.
        """
        return reached(object.__getattribute__(self, "_session"))

    @property
    def cancelled(self) -> bool:
        """True once the CLI no longer waits for the answer: stop the work.

        A plain function runs in a thread, which cannot be ended from outside; an async one is also cancelled.
        """
        cancelled: Callable[[], bool] | None = object.__getattribute__(self, "_cancelled")
        return bool(cancelled()) if cancelled is not None else False

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("HookContext is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("HookContext is frozen")

    def __repr__(self) -> str:
        return f"HookContext(tool_use_id={self.tool_use_id!r}, cancelled={self.cancelled})"


class PostToolBatchToolCall(Record, frozen=True, kw_only=True, dict=True, gc=True):
    """One call of a batch.

    Attributes:
        tool_name: the tool.
        tool_use_id: the call.
        tool_input_raw: the exact bytes of the tool's input.
        tool_response_raw: the exact bytes of its result.
    """

    tool_name: str = ""
    tool_use_id: str = ""
    tool_input_raw: Raw = msgspec.field(default=NO_RAW, name="tool_input")
    tool_response_raw: Raw = msgspec.field(default=NO_RAW, name="tool_response")

    @decoded_once
    def tool_input(self) -> Any:
        """The tool's input, of any shape."""
        return plain(self.tool_input_raw) if self.tool_input_raw else None

    @decoded_once
    def tool_response(self) -> Any:
        """The tool's result, of any shape; None without one."""
        return plain(self.tool_response_raw) if self.tool_response_raw else None


class _OfTool(HookInput, frozen=True, kw_only=True):
    tool_name: str = ""
    mcp_server: McpServerProvenance | None = None
    tool_input_raw: Raw = msgspec.field(default=NO_RAW, name="tool_input")

    @decoded_once
    def tool_input(self) -> Any:
        """The tool's input, of any shape."""
        return plain(self.tool_input_raw) if self.tool_input_raw else None


class PreToolUseHookInput(_OfTool, frozen=True, kw_only=True):
    """A tool is about to run.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
    """

    tool_use_id: str = ""


class PostToolUseHookInput(_OfTool, frozen=True, kw_only=True):
    """A tool has run.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
        tool_response_raw: the exact bytes of its result.
        duration_ms: how long it took, in milliseconds.
    """

    tool_use_id: str = ""
    tool_response_raw: Raw = msgspec.field(default=NO_RAW, name="tool_response")
    duration_ms: Number | None = None

    @decoded_once
    def tool_response(self) -> Any:
        """The tool's result, of any shape."""
        return plain(self.tool_response_raw) if self.tool_response_raw else None


class PostToolUseFailureHookInput(_OfTool, frozen=True, kw_only=True):
    """A tool has failed.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
        error: the text of the error.
        is_interrupt: True if it was interrupted.
        duration_ms: how long it took, in milliseconds.
    """

    tool_use_id: str = ""
    error: str = ""
    is_interrupt: bool | None = None
    duration_ms: Number | None = None


class PostToolBatchHookInput(HookInput, frozen=True, kw_only=True):
    """All tools that the model called in one message are done.

    Attributes:
        tool_calls: the calls.
    """

    tool_calls: list[PostToolBatchToolCall] = msgspec.field(default_factory=list)


class PermissionRequestHookInput(_OfTool, frozen=True, kw_only=True):
    """The CLI is about to request permission for a tool.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
        suggestions_raw: the exact bytes of the suggested updates.
    """

    suggestions_raw: Raw = msgspec.field(default=NO_RAW, name="permission_suggestions")

    @computed_once
    def permission_suggestions(self) -> tuple[PermissionUpdate, ...]:
        """The choices for "do not ask again"."""
        return decode_updates(self.suggestions_raw) if self.suggestions_raw else ()


class PermissionDeniedHookInput(_OfTool, frozen=True, kw_only=True):
    """A tool was denied.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
        reason: why.
    """

    tool_use_id: str = ""
    reason: str = ""


class SessionStartHookInput(HookInput, frozen=True, kw_only=True):
    """A session begins.

    Attributes:
        source: why: `startup`, `resume`, `clear`, `compact` or `fork`.
        model: the model.
        session_title: the session's title.
        seconds_since_last_response: how long ago the last reply was.
        context_tokens: how many tokens the conversation has.
        prompt_cache_likely_expired: True if the prompt cache is probably gone.
        estimated_cache_write_usd: the possible cost of writing it again.
    """

    source: str = ""
    model: str | None = None
    session_title: str | None = None
    seconds_since_last_response: Number | None = None
    context_tokens: Number | None = None
    prompt_cache_likely_expired: bool | None = None
    estimated_cache_write_usd: Number | None = None


class SessionEndHookInput(HookInput, frozen=True, kw_only=True):
    """A session ends.

    Attributes:
        reason: why: one of `EXIT_REASONS`.
    """

    reason: str = ""


class SetupHookInput(HookInput, frozen=True, kw_only=True):
    """The CLI prepares a project.

    Attributes:
        trigger: `init` or `maintenance`.
    """

    trigger: str = ""


class UserPromptSubmitHookInput(HookInput, frozen=True, kw_only=True):
    """A prompt was submitted.

    Attributes:
        prompt: the prompt.
        source: its author: `user`, `sdk`, `system`, ...
        session_title: the session's title.
    """

    prompt: str = ""
    source: str | None = None
    session_title: str | None = None


class UserPromptExpansionHookInput(HookInput, frozen=True, kw_only=True):
    """A slash command or a server's prompt was expanded.

    Attributes:
        expansion_type: `slash_command` or `mcp_prompt`.
        command_name: the command.
        command_args: its arguments.
        command_source: where it is defined.
        prompt: the expanded prompt.
    """

    expansion_type: str = ""
    command_name: str = ""
    command_args: str = ""
    command_source: str | None = None
    prompt: str = ""


class MessageDisplayHookInput(HookInput, frozen=True, kw_only=True):
    """Text of the reply is about to be shown.

    Attributes:
        turn_id: the turn.
        message_id: the message.
        index: the number of this part.
        final: True for the last part.
        delta: the text.
    """

    turn_id: str = ""
    message_id: str = ""
    index: Number | None = None
    final: bool | None = None
    delta: str = ""


class NotificationHookInput(HookInput, frozen=True, kw_only=True):
    """The user is notified.

    Attributes:
        message: the text.
        title: its title.
        notification_type: its kind.
    """

    message: str = ""
    title: str | None = None
    notification_type: str = ""


class _Stop(HookInput, frozen=True, kw_only=True):
    stop_hook_active: bool = False
    last_assistant_message: str | None = None
    background_tasks: list[BackgroundTaskSummary] = msgspec.field(default_factory=list)
    session_crons: list[SessionCronSummary] = msgspec.field(default_factory=list)


class StopHookInput(_Stop, frozen=True, kw_only=True):
    """The turn is about to end.

    Attributes:
        stop_hook_active: True if a hook has already made it continue.
        last_assistant_message: the last text of the reply.
        background_tasks: the tasks that still run in the background.
        session_crons: prompts that are scheduled.
    """


class StopFailureHookInput(HookInput, frozen=True, kw_only=True):
    """The turn ended with an error of the API.

    Attributes:
        error: its kind.
        error_details: the text of the API.
        last_assistant_message: the last text of the reply.
    """

    error: str = ""
    error_details: str | None = None
    last_assistant_message: str | None = None


class SubagentStartHookInput(HookInput, frozen=True, kw_only=True):
    """A subagent starts; `agent_id` and `agent_type` say which."""


class SubagentStopHookInput(_Stop, frozen=True, kw_only=True):
    """A subagent is about to stop; `agent_id` and `agent_type` say which.

    Attributes:
        agent_transcript_path: the file that its transcript is written to.
        stop_hook_active: True if a hook has already made it continue.
        last_assistant_message: the last text of the reply.
        background_tasks: the tasks that still run in the background.
        session_crons: prompts that are scheduled.
    """

    agent_transcript_path: str = ""


class PreCompactHookInput(HookInput, frozen=True, kw_only=True):
    """The conversation is about to be compacted.

    Attributes:
        trigger: `manual` or `auto`.
        custom_instructions: the instructions of the user.
    """

    trigger: str = ""
    custom_instructions: str | None = None


class PostCompactHookInput(HookInput, frozen=True, kw_only=True):
    """The conversation was compacted.

    Attributes:
        trigger: `manual` or `auto`.
        compact_summary: the summary that remains.
    """

    trigger: str = ""
    compact_summary: str = ""


class _ModelSwitch(HookInput, frozen=True, kw_only=True):
    from_model: str = ""
    to_model: str = ""
    requested_model: str | None = None
    source: str = ""
    context_tokens: Number | None = None
    prompt_cache_warm: bool | None = None
    cache_ttl: str | None = None
    estimated_cache_write_usd: Number | None = None
    pricing: str | None = None


class PreModelSwitchHookInput(_ModelSwitch, frozen=True, kw_only=True):
    """The model is about to be switched.

    Attributes:
        from_model: the model until now.
        to_model: the model from now on.
        requested_model: the requested name, if it was not the model's own name.
        source: the origin of the switch.
        context_tokens: how many tokens the conversation has.
        prompt_cache_warm: True if the old model's cache would still be hit.
        cache_ttl: how long caches live: `5m` or `1h`.
        estimated_cache_write_usd: the possible cost of writing the new model's cache.
        pricing: where the estimate's prices are from.
    """


class PostModelSwitchHookInput(_ModelSwitch, frozen=True, kw_only=True):
    """The model was switched.

    Attributes:
        from_model: the model until now.
        to_model: the model from now on.
        requested_model: the requested name, if it was not the model's own name.
        source: the origin of the switch.
        context_tokens: how many tokens the conversation has.
        prompt_cache_warm: True if the old model's cache would still be hit.
        cache_ttl: how long caches live: `5m` or `1h`.
        estimated_cache_write_usd: the possible cost of writing the new model's cache.
        pricing: where the estimate's prices are from.
    """


class TeammateIdleHookInput(HookInput, frozen=True, kw_only=True):
    """A teammate has nothing to do.

    Attributes:
        teammate_name: the name of the teammate.
        team_name: the team; deprecated by the CLI.
    """

    teammate_name: str = ""
    team_name: str | None = None


class _OfTask(HookInput, frozen=True, kw_only=True):
    task_id: str = ""
    task_subject: str = ""
    task_description: str | None = None
    teammate_name: str | None = None
    team_name: str | None = None


class TaskCreatedHookInput(_OfTask, frozen=True, kw_only=True):
    """An item was added to the task list.

    Attributes:
        task_id: the item.
        task_subject: its title.
        task_description: its text.
        teammate_name: the teammate that has it.
        team_name: the team; deprecated by the CLI.
    """


class TaskCompletedHookInput(_OfTask, frozen=True, kw_only=True):
    """An item of the task list was completed.

    Attributes:
        task_id: the item.
        task_subject: its title.
        task_description: its text.
        teammate_name: the teammate that has it.
        team_name: the team; deprecated by the CLI.
    """


class ElicitationHookInput(HookInput, frozen=True, kw_only=True):
    """A server asks the user for something.

    Attributes:
        mcp_server_name: the server.
        message: its text.
        mode: `form` or `url`.
        url: the page to open, in mode `url`.
        elicitation_id: the question, in mode `url`.
        requested_schema_raw: the exact bytes of the form's JSON schema.
    """

    mcp_server_name: str = ""
    message: str = ""
    mode: str | None = None
    url: str | None = None
    elicitation_id: str | None = None
    requested_schema_raw: Raw = msgspec.field(default=NO_RAW, name="requested_schema")

    @decoded_once
    def requested_schema(self) -> Any:
        """The form's JSON schema; None without one."""
        return plain(self.requested_schema_raw) if self.requested_schema_raw else None


class ElicitationResultHookInput(HookInput, frozen=True, kw_only=True):
    """The user has answered a server.

    Attributes:
        mcp_server_name: the server.
        elicitation_id: the question.
        mode: `form` or `url`.
        action: `accept`, `decline` or `cancel`.
        content_raw: the exact bytes of the form's values.
    """

    mcp_server_name: str = ""
    elicitation_id: str | None = None
    mode: str | None = None
    action: str = ""
    content_raw: Raw = msgspec.field(default=NO_RAW, name="content")

    @decoded_once
    def content(self) -> Any:
        """The form's values; None without any."""
        return plain(self.content_raw) if self.content_raw else None


class ConfigChangeHookInput(HookInput, frozen=True, kw_only=True):
    """Settings or skills have changed.

    Attributes:
        source: which: `user_settings`, `project_settings`, `local_settings`, `policy_settings` or `skills`.
        file_path: the file.
    """

    source: str = ""
    file_path: str | None = None


class InstructionsLoadedHookInput(HookInput, frozen=True, kw_only=True):
    """A file with instructions was loaded.

    Attributes:
        file_path: the file.
        memory_type: `User`, `Project`, `Local` or `Managed`.
        load_reason: why.
        globs: the patterns it is for.
        trigger_file_path: the file that made it load.
        parent_file_path: the file that includes it.
    """

    file_path: str = ""
    memory_type: str = ""
    load_reason: str = ""
    globs: list[str] | None = None
    trigger_file_path: str | None = None
    parent_file_path: str | None = None


class WorktreeCreateHookInput(HookInput, frozen=True, kw_only=True):
    """A worktree is to be created.

    Attributes:
        name: its name.
    """

    name: str = ""


class WorktreeRemoveHookInput(HookInput, frozen=True, kw_only=True):
    """A worktree is to be removed.

    Attributes:
        worktree_path: its folder.
    """

    worktree_path: str = ""


class CwdChangedHookInput(HookInput, frozen=True, kw_only=True):
    """The working directory has changed.

    Attributes:
        old_cwd: the old one.
        new_cwd: the new one.
    """

    old_cwd: str = ""
    new_cwd: str = ""


class FileChangedHookInput(HookInput, frozen=True, kw_only=True):
    """A watched file has changed.

    Attributes:
        file_path: the file.
        event: `change`, `add` or `unlink`.
    """

    file_path: str = ""
    event: str = ""


class DirectoryAddedHookInput(HookInput, frozen=True, kw_only=True):
    """A working directory was added.

    Attributes:
        directory: the folder.
        source: `slash_command` or `register_repo_root`.
    """

    directory: str = ""
    source: str = ""


EXIT_REASONS: tuple[str, ...] = ("clear", "resume", "logout", "prompt_input_exit", "other")
"""The reasons in a `SessionEndHookInput`."""
HOOK_EVENTS: dict[str, type[HookInput]] = {
    kind.wire_event: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, HookInput) and kind.wire_event
}
"""The input class of every event that is known."""


class HookRequest(NamedTuple):
    """A `hook_callback` request, taken apart.

    Attributes:
        callback_id: the id that the callback was registered with; empty if there is none.
        tool_use_id: the call it is about. The CLI makes one up where no tool is involved.
        input_raw: the exact bytes of the input.
    """

    callback_id: str
    tool_use_id: str | None
    input_raw: bytes


class _Usual(msgspec.Struct, frozen=True):
    callback_id: str = ""
    tool_use_id: str | None = None
    input_raw: Raw = msgspec.field(default=NO_RAW, name="input")


class _Envelope(msgspec.Struct, frozen=True):
    callback_id_raw: Raw = msgspec.field(default=NO_RAW, name="callback_id")
    tool_use_id_raw: Raw = msgspec.field(default=NO_RAW, name="tool_use_id")
    input_raw: Raw = msgspec.field(default=NO_RAW, name="input")


_usual = msgspec.json.Decoder(_Usual).decode
_split = msgspec.json.Decoder(_Envelope).decode
_text = msgspec.json.Decoder(str).decode


def decode_hook_request(request: bytes | Raw | Mapping[str, Any]) -> HookRequest:
    """Return the parts of a `hook_callback` request; what cannot be read is empty. Never raises."""
    try:
        usual = _usual(request)  # type: ignore[arg-type]  # a mapping is a TypeError
    except (TypeError, ValueError, RecursionError):
        pass
    else:
        return HookRequest(usual.callback_id, usual.tool_use_id, bytes(usual.input_raw))
    try:
        envelope = _split(as_bytes(request))
    except (ValueError, RecursionError):
        return HookRequest("", None, b"")
    return HookRequest(
        _optional(envelope.callback_id_raw) or "", _optional(envelope.tool_use_id_raw), bytes(envelope.input_raw)
    )


def _optional(payload: Raw) -> str | None:
    try:
        return _text(payload) if payload else None
    except ValueError:
        return None


def decode_hook_input(
    event: str, raw: bytes | Raw | Mapping[str, Any], warn: Callable[[StreamWarning], None] = ignore_warning
) -> HookInput:
    """Return the typed input of `event`. Never raises: what cannot be read is an `UnknownHookInput` with a `problem`.

    With a `problem` the callback must not be called: the hook has failed, and its `on_failure` decides.

    Args:
        event: the event that the callback was registered for; if it is not known, the input's own name counts.
        raw: the input, as it came.
        warn: called for each field that was left out because of its shape.

    Returns:
        The input; an `UnknownHookInput` if the event is unknown or the input is unreadable.
    """
    payload = b""
    try:
        payload = as_bytes(raw)
        kind = HOOK_EVENTS.get(event)
        if kind is None:
            asked: HookInput = decode_asked(UnknownHookInput, payload, event or "hook", ignore_warning)
            kind = HOOK_EVENTS.get(asked.hook_event_name)
            if kind is None:
                return asked
        asked = decode_asked(kind, payload, kind.wire_event, warn)
    except (DecodeError, ValueError, RecursionError) as error:
        asked = UnknownHookInput(hook_event_name=event)
        force_setattr(asked, "problem", getattr(error, "detail", None) or str(error))
        force_setattr(asked, "raw", payload)
    return asked
