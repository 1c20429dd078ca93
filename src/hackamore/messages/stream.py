"""Frames that report progress while a turn runs, and what belongs to no turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Raw

from hackamore.messages.base import (
    NO_RAW,
    Integer,
    Message,
    Number,
    Record,
    decoded_once,
    plain_object,
    repair_surrogates,
)

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "ActiveGoal",
    "ActiveGoalMessage",
    "AuthStatusMessage",
    "CommandLifecycleMessage",
    "ConversationResetMessage",
    "PromptSuggestionMessage",
    "RateLimitEvent",
    "RateLimitInfo",
    "StreamEvent",
    "SubagentRetry",
    "ToolProgressMessage",
    "ToolUseSummaryMessage",
]


class _Delta(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    index: Integer | None = None
    delta: _Delta | None = None


_NO_EVENT = _Event()
_event = msgspec.json.Decoder(_Event).decode


class StreamEvent(Message, frozen=True, kw_only=True, tag="stream_event"):
    """A piece of a reply while it is written; only with `include_partial_messages=True`.

    The whole `AssistantMessage` follows when its block is complete.

    Attributes:
        parent_tool_use_id: the call that started the subagent which is speaking; None in the main conversation.
        ttft_ms: milliseconds to the first token, on the frame that has it.
        user_message_uuid: the prompt that is answered, on the first frame after it changed.
        user_message_uuids: all prompts that this turn has taken up.
        resume_reason: why the turn runs again, after a restart.
    """

    event_raw: Raw = msgspec.field(default=NO_RAW, name="event")
    parent_tool_use_id: str | None = None
    ttft_ms: Number | None = None
    user_message_uuid: str | None = None
    user_message_uuids: list[str] | None = None
    resume_reason: str | None = None

    # Checked by `decode` and not by `__post_init__`: there is one of these for every token.
    payload_shapes: ClassVar[dict[str, bytes]] = {"event": b"{"}

    @decoded_once
    def event(self) -> dict[str, Any]:
        """The Messages API's stream event."""
        return plain_object(self.event_raw)

    def _glance(self) -> _Event:
        # Reads three fields without building the whole event: it is called for every token.
        if not self.event_raw:
            return _NO_EVENT
        try:
            return _event(self.event_raw)
        except (ValueError, RecursionError):
            pass
        try:
            return _event(repair_surrogates(bytes(self.event_raw)))
        except (ValueError, RecursionError):
            return _NO_EVENT

    @property
    def event_type(self) -> str:
        """The event's type: `message_start`, `content_block_delta`, ...; empty if it has none."""
        return self._glance().type

    @property
    def index(self) -> int | None:
        """Which content block of the reply this belongs to."""
        return self._glance().index

    @property
    def text_delta(self) -> str | None:
        """The piece of text that was added, or None if this is another kind of piece."""
        delta = self._glance().delta
        return delta.text if delta is not None and delta.type == "text_delta" else None

    @property
    def thinking_delta(self) -> str | None:
        """The piece of reasoning that was added, or None if this is another kind of piece."""
        delta = self._glance().delta
        return delta.thinking if delta is not None and delta.type == "thinking_delta" else None

    @property
    def input_json_delta(self) -> str | None:
        """The piece of a tool's input that was added, as JSON text, or None if this is another kind of piece."""
        delta = self._glance().delta
        return delta.partial_json if delta is not None and delta.type == "input_json_delta" else None


class SubagentRetry(Record, frozen=True, kw_only=True):
    """A subagent waits to ask the API again.

    Attributes:
        agent_id: the subagent.
        attempt: which attempt failed.
        max_retries: how many there will be at most.
        retry_delay_ms: milliseconds until the next.
        error_status: the HTTP status; None if there was no answer.
        error_category: the kind of failure.
    """

    agent_id: str = ""
    attempt: Integer = 0
    max_retries: Integer = 0
    retry_delay_ms: Number = 0
    error_status: Integer | None = None
    error_category: str = ""


class ToolProgressMessage(Message, frozen=True, kw_only=True, tag="tool_progress"):
    """A tool call takes long and is still running.

    Attributes:
        tool_use_id: the call.
        tool_name: the tool.
        parent_tool_use_id: the call that started the subagent which called it.
        elapsed_time_seconds: how long it has run.
        task_id: the background task it became.
        heartbeat: True if this says nothing but that it is alive.
        subagent_type: the agent, where the tool is one.
        subagent_retry: set while that agent waits to ask the API again.
    """

    tool_use_id: str = ""
    tool_name: str = ""
    parent_tool_use_id: str | None = None
    elapsed_time_seconds: Number = 0
    task_id: str | None = None
    heartbeat: bool | None = None
    subagent_type: str | None = None
    subagent_retry: SubagentRetry | None = None


class ToolUseSummaryMessage(Message, frozen=True, kw_only=True, tag="tool_use_summary"):
    """One line about a group of tool calls.

    Attributes:
        summary: the line.
        preceding_tool_use_ids: the calls.
    """

    summary: str = ""
    preceding_tool_use_ids: list[str] = msgspec.field(default_factory=list)


class AuthStatusMessage(Message, frozen=True, kw_only=True, tag="auth_status"):
    """A login is in progress.

    Attributes:
        is_authenticating: True until it is over.
        output: its output.
        error: why it failed.
    """

    is_authenticating: bool = msgspec.field(default=False, name="isAuthenticating")
    output: list[str] = msgspec.field(default_factory=list)
    error: str | None = None


class RateLimitInfo(Record, frozen=True, kw_only=True, rename="camel"):
    """How much of the plan's limits is used.

    Attributes:
        status: `allowed`, `allowed_warning` or `rejected`.
        resets_at: when the limit starts again, in seconds since 1970; `resets_at_time` is the same as a `datetime`.
        rate_limit_type: which limit: `five_hour`, `seven_day`, `seven_day_opus`, `seven_day_sonnet`, `overage`, ...
        utilization: the part that is used, as the CLI reports it.
        overage_status: like `status`, for paid use beyond the limit.
        overage_resets_at: when that starts again.
        overage_disabled_reason: why there is no paid use beyond the limit.
        is_using_overage: True while use beyond the limit is paid for.
        overage_in_use: as the CLI reports it.
        overage_enabled: True if paid use beyond the limit is possible.
        surpassed_threshold: the warning threshold that was passed.
        limit_scope: `service`, `channel` or `group_pool`.
        error_code: `credits_required`, where that is the reason.
        can_user_purchase_credits: True if this user may buy credits.
        has_chargeable_saved_payment_method: True if a payment method is on file.
        unified_windows: the state of each limit by name, as the CLI reports it (2.1.330).
    """

    status: str = ""
    resets_at: Number | None = None
    rate_limit_type: str | None = None
    utilization: Number | None = None
    overage_status: str | None = None
    overage_resets_at: Number | None = None
    overage_disabled_reason: str | None = None
    is_using_overage: bool | None = None
    overage_in_use: bool | None = None
    overage_enabled: bool | None = None
    surpassed_threshold: Number | None = None
    limit_scope: str | None = None
    error_code: str | None = None
    can_user_purchase_credits: bool | None = None
    has_chargeable_saved_payment_method: bool | None = None
    unified_windows: dict[str, Any] | None = None

    @property
    def resets_at_time(self) -> datetime | None:
        """When the limit starts again, in UTC; None if the CLI names no time, or none that a calendar has."""
        from datetime import UTC, datetime

        seconds = self.overage_resets_at if self.resets_at is None else self.resets_at
        if seconds is None:
            return None
        try:
            return datetime.fromtimestamp(seconds, UTC)
        except (OverflowError, OSError, ValueError):
            return None


class RateLimitEvent(Message, frozen=True, kw_only=True, tag="rate_limit_event"):
    """The rest of the plan's limits has changed.

    Attributes:
        rate_limit_info: the new state.
    """

    rate_limit_info: RateLimitInfo = msgspec.field(default_factory=RateLimitInfo)


class PromptSuggestionMessage(Message, frozen=True, kw_only=True, tag="prompt_suggestion"):
    """A suggestion for the next prompt of the user; comes after the result.

    Attributes:
        suggestion: the prompt.
    """

    suggestion: str = ""


class ConversationResetMessage(Message, frozen=True, kw_only=True, tag="conversation_reset"):
    """The conversation was discarded and a new one begins.

    Attributes:
        new_conversation_id: the new transcript; not the session's id.
        trigger: `clear`, `plan_mode_exit`, `fresh_session`, `onboarding`; None if nothing was said.
        user_message_uuid: the prompt that asked for it.
        timestamp: when, for display.
    """

    new_conversation_id: str = ""
    trigger: str | None = None
    user_message_uuid: str | None = None
    timestamp: str | None = None


class ActiveGoal(Record, frozen=True, kw_only=True):
    """The goal that `/goal` set.

    Attributes:
        condition: when it is reached.
        iterations: how often it was checked.
        set_at: when it was set, in milliseconds since 1970.
        tokens_at_start: tokens used by then.
        last_reason: why it was not reached at the last check.
    """

    condition: str = ""
    iterations: Integer = 0
    set_at: Number = 0
    tokens_at_start: Number = 0
    last_reason: str | None = None


class ActiveGoalMessage(Message, frozen=True, kw_only=True, tag="active_goal"):
    """The goal has changed.

    Attributes:
        value: the goal, or None if there is none any more.
    """

    value: ActiveGoal | None = None


class CommandLifecycleMessage(Message, frozen=True, kw_only=True, tag="command_lifecycle"):
    """A prompt that was sent with a `uuid` has come one step further.

    Attributes:
        command_uuid: that `uuid`.
        state: `queued`, `started`, `completed`, `cancelled`, `discarded` or `refused`.
        wakeup_source: the work that the scheduler started, if it did.
    """

    command_uuid: str = ""
    state: str = ""
    wakeup_source: str | None = None
