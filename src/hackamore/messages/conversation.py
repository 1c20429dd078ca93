"""The conversation itself: replies, prompts, tool results, and the result of a turn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hackamore.errors import HackamoreError, escape_terminal
from hackamore.messages.base import (
    NO_RAW,
    Integer,
    Message,
    Number,
    Record,
    check_shape,
    computed_once,
    decoded_once,
    plain,
    plain_object,
)
from hackamore.messages.content import ContentBlock, KnownBlock, TextBlock

if TYPE_CHECKING:
    from datetime import datetime

    from hackamore.messages.stream import RateLimitInfo

__all__ = [
    "ApprovalPendingError",
    "AssistantMessage",
    "AssistantMessageBody",
    "AuthenticationError",
    "CacheCreation",
    "ContextCategory",
    "ContextOverLimit",
    "ContextUsage",
    "DeferredToolUse",
    "InvalidConfigFile",
    "MessageOrigin",
    "ModelUsage",
    "PermissionDenial",
    "RateLimitedError",
    "ResultError",
    "ResultMessage",
    "ServerToolUsage",
    "OutputTokensDetails",
    "Usage",
    "UserMessage",
    "UserMessageBody",
]


class CacheCreation(Record, frozen=True, kw_only=True):
    """Tokens written to the cache, by how long they live there.

    Attributes:
        ephemeral_5m_input_tokens: for five minutes.
        ephemeral_1h_input_tokens: for an hour.
    """

    ephemeral_5m_input_tokens: Integer = 0
    ephemeral_1h_input_tokens: Integer = 0


class ServerToolUsage(Record, frozen=True, kw_only=True):
    """How often tools at the API were used.

    Attributes:
        web_search_requests: searches.
        web_fetch_requests: pages fetched.
    """

    web_search_requests: Integer = 0
    web_fetch_requests: Integer = 0


class OutputTokensDetails(Record, frozen=True, kw_only=True):
    """Use of the output tokens.

    Attributes:
        thinking_tokens: on reasoning.
    """

    thinking_tokens: Integer | None = None


class Usage(Record, frozen=True, kw_only=True):
    """Tokens that were used, as the Messages API counts them.

    Attributes:
        input_tokens: read, apart from the cache.
        output_tokens: written.
        cache_creation_input_tokens: written to the cache.
        cache_read_input_tokens: read from the cache.
        cache_creation: the same writes by lifetime.
        server_tool_use: uses of tools at the API.
        service_tier: `standard`, `priority` or `batch`.
        inference_geo: where it was computed.
        speed: `standard` or `fast`.
        output_tokens_details: use of the output tokens.
        iterations: the same numbers for each step, where a request took several.
    """

    input_tokens: Integer = 0
    output_tokens: Integer = 0
    cache_creation_input_tokens: Integer | None = None
    cache_read_input_tokens: Integer | None = None
    cache_creation: CacheCreation | None = None
    server_tool_use: ServerToolUsage | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    output_tokens_details: OutputTokensDetails | None = None
    iterations: Any = None


class ModelUsage(Record, frozen=True, kw_only=True, rename="camel"):
    """Usage and cost of one model in the conversation so far; use these numbers for accounting.

    Attributes:
        input_tokens: read, apart from the cache.
        output_tokens: written.
        thinking_tokens: the part of those that was reasoning.
        cache_read_input_tokens: read from the cache.
        cache_creation_input_tokens: written to the cache.
        cache_creation_ephemeral_5m_input_tokens: the part of those that lives for five minutes.
        cache_creation_ephemeral_1h_input_tokens: the part of those that lives for an hour.
        web_search_requests: searches.
        cost_usd: the estimated price in US dollars.
        context_window: the model's context, in tokens.
        max_output_tokens: the longest reply, in tokens.
        canonical_model: the name in the price table.
        provider: the provider of the API (`firstParty`, `bedrock`, `vertex`, ...).
        cost_basis: where the price comes from: `list`, `managed` or `unknown`.
    """

    input_tokens: Integer = 0
    output_tokens: Integer = 0
    thinking_tokens: Integer | None = None
    cache_read_input_tokens: Integer = 0
    cache_creation_input_tokens: Integer = 0
    cache_creation_ephemeral_5m_input_tokens: Integer | None = msgspec.field(
        default=None, name="cacheCreationEphemeral5mInputTokens"
    )
    cache_creation_ephemeral_1h_input_tokens: Integer | None = msgspec.field(
        default=None, name="cacheCreationEphemeral1hInputTokens"
    )
    web_search_requests: Integer = 0
    cost_usd: float = msgspec.field(default=0.0, name="costUSD")
    context_window: Integer = 0
    max_output_tokens: Integer = 0
    canonical_model: str | None = None
    provider: str | None = None
    cost_basis: str | None = None


class MessageOrigin(Record, frozen=True, kw_only=True, rename="camel"):
    """Where a message came from.

    Attributes:
        kind: `human`, `channel`, `peer`, `task-notification`, `coordinator`, `observer`, `auto-continuation`, ...
        server: the channel's server.
        from_: the sender; can be forged.
        from_mode: `bypass` or `prompting`.
        name: the sender's name.
        from_session: the sender's session.
        sender_task_id: the sender's task.
        body: the text that was sent.
        verified_peer_pid: the sender's process id, checked by the kernel.
        subkind: the kind of task notification, such as `external-event`.
        fire_reason: why a schedule fired.
        run_id: which run it belongs to.
    """

    kind: str = ""
    server: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    from_mode: str | None = None
    name: str | None = None
    from_session: str | None = None
    sender_task_id: str | None = None
    body: str | None = None
    verified_peer_pid: Integer | None = None
    subkind: str | None = None
    fire_reason: str | None = None
    run_id: str | None = None


class ContextCategory(Record, frozen=True, kw_only=True):
    """A part of the context.

    Attributes:
        name: its name.
        tokens: how long it is.
        kind: `used`, `free`, `buffer` or `deferred`.
    """

    name: str = ""
    tokens: Number = 0
    kind: str = ""


class ContextOverLimit(Record, frozen=True, kw_only=True):
    """The context is longer than it may be.

    Attributes:
        tokens_over: by how much.
        kind: which limit: `hard_limit` or `compaction_window`.
    """

    tokens_over: Number = 0
    kind: str = ""


class ContextUsage(Record, frozen=True, kw_only=True):
    """How full the context is: what `/context` answers.

    Attributes:
        model: the model.
        total_tokens: tokens in use.
        raw_max_tokens: the model's context.
        percentage: the part in use, in percent.
        over_limit: set if that is too much.
        categories: the parts.
        mcp_tools: the length of each MCP tool's description, as plain dicts.
        memory_files: the length of each memory file, as plain dicts.
        agents: the length of each agent's description, as plain dicts.
        skills: the length of each skill's description, as plain dicts.
    """

    model: str = ""
    total_tokens: Number = 0
    raw_max_tokens: Number = 0
    percentage: Number = 0
    over_limit: ContextOverLimit | None = None
    categories: list[ContextCategory] = msgspec.field(default_factory=list)
    mcp_tools: list[dict[str, Any]] = msgspec.field(default_factory=list)
    memory_files: list[dict[str, Any]] = msgspec.field(default_factory=list)
    agents: list[dict[str, Any]] = msgspec.field(default_factory=list)
    skills: list[dict[str, Any]] | None = None


class AssistantMessageBody(Record, frozen=True, kw_only=True):
    """The Messages API's part of an `AssistantMessage`.

    Attributes:
        id: the reply's id; several frames can share it, one for each block.
        role: `assistant`.
        model: the model; `<synthetic>` for what the CLI says itself.
        content: the blocks.
        stop_reason: why the model stopped; None while the reply continues.
        stop_sequence: the sequence it stopped at.
        stop_details: why it refused, as the API defines it.
        usage: tokens used; not final while the reply continues.
        container: the API's code execution container.
        context_management: parts that the API removed from the context.
    """

    id: str | None = None
    role: str = "assistant"
    model: str = ""
    if TYPE_CHECKING:
        content: list[ContentBlock] = msgspec.field(default_factory=list)
    else:
        content: list[KnownBlock] = msgspec.field(default_factory=list)
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Any = None
    usage: Usage | None = None
    container: Any = None
    context_management: Any = None


class AssistantMessage(Message, frozen=True, kw_only=True, tag="assistant"):
    """A piece of the model's reply: one complete block, or several.

    Attributes:
        message: the Messages API's part; its fields are also at hand here.
        parent_tool_use_id: the call that started the subagent which is speaking; None in the main conversation.
        error: the kind of failure, if this reports a failure (`authentication_failed`, `rate_limit`, `overloaded`, ...).
        is_api_error_message: True if the CLI says this itself, to report a failure of the API.
        request_id: the API request.
        user_message_uuid: the prompt that is answered, on the first frame after it changed.
        user_message_uuids: all prompts that this turn has taken up.
        resume_reason: why the turn runs again, after a restart.
        resumed_from_incomplete_thinking: True if the reply continues inside reasoning that was cut off.
        supersedes: earlier messages that this one replaces.
        aborted: True if it was cut short by an interrupt.
        agent_id: the task of the subagent which is speaking.
        subagent_type: that agent's type.
        task_description: the task of that agent.
        timestamp: when, for display; not for ordering.
        context_usage: the answer of `/context`.
        usage_report: the answer of `/usage`, as plain values; experimental in the CLI.
    """

    message: AssistantMessageBody = msgspec.field(default_factory=AssistantMessageBody)
    parent_tool_use_id: str | None = None
    error: str | None = None
    is_api_error_message: bool | None = None
    request_id: str | None = None
    user_message_uuid: str | None = None
    user_message_uuids: list[str] | None = None
    resume_reason: str | None = None
    resumed_from_incomplete_thinking: bool | None = None
    supersedes: list[str] | None = None
    aborted: bool | None = None
    agent_id: str | None = None
    subagent_type: str | None = None
    task_description: str | None = None
    timestamp: str | None = None
    context_usage: ContextUsage | None = None
    usage_report: dict[str, Any] | None = None

    @property
    def content(self) -> list[ContentBlock]:
        """The blocks."""
        return self.message.content

    @property
    def text(self) -> str:
        """The text of the text blocks, joined; empty if there is none."""
        return "".join([block.text for block in self.message.content if isinstance(block, TextBlock)])

    @property
    def model(self) -> str:
        """The model; `<synthetic>` for what the CLI says itself."""
        return self.message.model

    @property
    def message_id(self) -> str | None:
        """The reply's id; several messages can share it, one for each block."""
        return self.message.id

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped; None while the reply continues."""
        return self.message.stop_reason

    @property
    def usage(self) -> Usage | None:
        """Tokens used; not final while the reply continues."""
        return self.message.usage


class UserMessageBody(Record, frozen=True, kw_only=True):
    """The Messages API's part of a `UserMessage`.

    Attributes:
        role: `user`.
        content: a string, or the blocks.
    """

    role: str = "user"
    if TYPE_CHECKING:
        content: str | list[ContentBlock] = ""
    else:
        content: str | list[KnownBlock] = ""


class UserMessage(Message, frozen=True, kw_only=True, tag="user"):
    """Input of the model: tool results, prompts of the CLI's own, and prompts played back.

    Attributes:
        message: the Messages API's part; its content is also at hand here.
        parent_tool_use_id: the call that started the subagent which is spoken to; None in the main conversation.
        is_synthetic: True if no user typed it.
        is_replay: True if it repeats a prompt that was sent, or an old message.
        priority: its place in the queue: `now`, `next` or `later`.
        origin: where it came from.
        should_query: False if it starts no turn.
        timestamp: when, for display.
        client_composed: True if it is taken word for word: no commands, no file references.
        pasted_content: pasted text that is not part of the content.
        inline_pastes: pasted text that is part of the content.
        file_attachments: files that came with it, as the CLI describes them.
        agent_id: the task of the subagent which is spoken to.
        subagent_type: that agent's type.
        task_description: the task of that agent.
    """

    message: UserMessageBody = msgspec.field(default_factory=UserMessageBody)
    parent_tool_use_id: str | None = None
    tool_use_result_raw: Raw = msgspec.field(default=NO_RAW, name="tool_use_result")
    is_synthetic: bool | None = msgspec.field(default=None, name="isSynthetic")
    is_replay: bool | None = msgspec.field(default=None, name="isReplay")
    priority: str | None = None
    origin: MessageOrigin | None = None
    should_query: bool | None = msgspec.field(default=None, name="shouldQuery")
    timestamp: str | None = None
    client_composed: bool | None = None
    pasted_content: list[Any] | None = None
    inline_pastes: list[str] | None = None
    file_attachments: list[Any] | None = None
    agent_id: str | None = None
    subagent_type: str | None = None
    task_description: str | None = None

    @property
    def content(self) -> str | list[ContentBlock]:
        """A string, or the blocks."""
        return self.message.content

    @property
    def text(self) -> str:
        """The content if it is a string, else the text of its text blocks, joined; empty if there is none."""
        content = self.message.content
        if isinstance(content, str):
            return content
        return "".join([block.text for block in content if isinstance(block, TextBlock)])

    @decoded_once
    def tool_use_result(self) -> Any:
        """The tool's whole structured output."""
        return plain(self.tool_use_result_raw) if self.tool_use_result_raw else None


class PermissionDenial(Record, frozen=True, kw_only=True, dict=True, gc=True):
    """A tool call that was not allowed.

    Attributes:
        tool_name: the tool.
        tool_use_id: the call.
    """

    tool_name: str = ""
    tool_use_id: str = ""
    tool_input_raw: Raw = msgspec.field(default=NO_RAW, name="tool_input")

    payload_shapes: ClassVar[dict[str, bytes]] = {"tool_input": b"{"}

    def __post_init__(self) -> None:
        check_shape(self.tool_input_raw, b"{")

    @decoded_once
    def tool_input(self) -> dict[str, Any]:
        """The arguments."""
        return plain_object(self.tool_input_raw)


class DeferredToolUse(Record, frozen=True, kw_only=True, dict=True, gc=True):
    """A tool call that a `PreToolUse` hook put off.

    Attributes:
        id: the call.
        name: the tool.
    """

    id: str = ""
    name: str = ""
    input_raw: Raw = msgspec.field(default=NO_RAW, name="input")

    payload_shapes: ClassVar[dict[str, bytes]] = {"input": b"{"}

    def __post_init__(self) -> None:
        check_shape(self.input_raw, b"{")

    @decoded_once
    def input(self) -> dict[str, Any]:
        """The arguments."""
        return plain_object(self.input_raw)


class InvalidConfigFile(Record, frozen=True, kw_only=True):
    """A configuration file that the CLI cannot read.

    Attributes:
        path: the file.
        is_global: True for the user's own configuration.
        backup_searched: True if a backup was looked for.
        backup_path: the backup.
    """

    path: str = ""
    is_global: bool = False
    backup_searched: bool = False
    backup_path: str | None = None


class ResultMessage(Message, frozen=True, kw_only=True, tag="result"):
    """A turn has ended, well or not: `is_error` says which.

    Attributes:
        subtype: `success`, `error_during_execution`, `error_max_turns`, `error_max_budget_usd`, ...
        is_error: True if the turn failed. Where the CLI says nothing, any subtype but `success` is a failure.
        result: the field behind `text`, as the CLI sends it: None if the turn ended without a text.
        errors: the problems, for the error subtypes.
        terminal_reason: why the loop ended: `completed`, `max_turns`, `aborted_streaming`, `api_error`, ...
        api_error_status: the HTTP status of the API call that failed.
        api_error_type: the API's name for that failure: `rate_limit_error`, `overloaded_error`, ... (2.1.330).
        api_error: the CLI's name for it, such as `usage_limit_reached` or `connection_failed` (2.1.330).
        stop_reason: why the model stopped.
        num_turns: requests to the model.
        duration_ms: the turn's length in milliseconds.
        duration_api_ms: the part of it that was spent at the API.
        total_cost_usd: the estimated price of the conversation so far, in US dollars; after `resume` what came before is in it (2.1.328).
        usage: tokens of the main conversation in this turn.
        model_usage: usage of each model in the conversation so far; use these numbers for accounting.
        model_usage_since_last_result: the part of it since the last result of this process; None from a CLI that does not send it.
        permission_denials: tool calls that were not allowed.
        deferred_tool_use: a tool call that a hook put off.
        user_message_uuid: the prompt that was answered.
        user_message_uuids: all prompts that were answered.
        origin: where the prompt came from.
        queued_turn_count: prompts that still wait.
        begun_message_ids: ids of the API messages that began to stream in this turn, with partial messages (2.1.330).
        result_index: number of this result in the run, from 0; a gap means that one is missing.
        local_command: the local command that answered.
        resume_reason: why the turn ran again, after a restart.
        startup_failure_reason: why the CLI refused to start.
        invalid_config_file: the configuration file that was the reason.
        credential_expires_at: when the login ends.
        fast_mode_state: `off`, `cooldown` or `on`.
        fast_mode_disabled_reason: why there is no fast mode.
        ttft_ms: milliseconds to the first token.
        ttft_stream_ms: the same, measured in the stream.
        time_to_request_ms: milliseconds to the API request.
        time_to_request_from_spawn_ms: the same from the start of the process.
        request_sent_wall_ms: wall clock of the API request.
        time_origin_ms: the clock's origin.
        first_content_frame_ms: milliseconds to the first frame with content.
        first_stream_post_ms: a remote worker's latency.
        first_stream_post_ack_ms: a remote worker's latency.
        first_stream_post_queue_wait_ms: a remote worker's latency.
        first_stream_post_queued_behind: the work that delayed it.
        first_stream_post_wall_ms: a remote worker's latency.
        first_text_post_ms: a remote worker's latency.
        first_text_post_queue_wait_ms: a remote worker's latency.
        first_text_post_queued_behind: the work that delayed it.
        first_text_post_wall_ms: a remote worker's latency.
        warm_spare_claimed: True if a process answered that had been started ahead.
    """

    subtype: str | None = None
    if TYPE_CHECKING:
        is_error: bool = False
    else:
        is_error: bool | UnsetType = UNSET
    result: str | None = None
    errors: list[str] = msgspec.field(default_factory=list)
    structured_output_raw: Raw = msgspec.field(default=NO_RAW, name="structured_output")
    terminal_reason: str | None = None
    api_error_status: Integer | None = None
    api_error_type: str | None = None
    api_error: str | None = None
    stop_reason: str | None = None
    num_turns: Integer = 0
    duration_ms: Number = 0
    duration_api_ms: Number = 0
    total_cost_usd: float | None = None
    usage: Usage | None = None
    model_usage: dict[str, ModelUsage] = msgspec.field(default_factory=dict, name="modelUsage")
    model_usage_since_last_result: dict[str, ModelUsage] | None = None
    permission_denials: list[PermissionDenial] = msgspec.field(default_factory=list)
    deferred_tool_use: DeferredToolUse | None = None
    user_message_uuid: str | None = None
    user_message_uuids: list[str] | None = None
    origin: MessageOrigin | None = None
    queued_turn_count: Integer | None = None
    begun_message_ids: list[str] | None = None
    result_index: Integer | None = None
    local_command: str | None = None
    resume_reason: str | None = None
    startup_failure_reason: str | None = None
    invalid_config_file: InvalidConfigFile | None = None
    credential_expires_at: str | None = None
    fast_mode_state: str | None = None
    fast_mode_disabled_reason: str | None = None
    ttft_ms: Number | None = None
    ttft_stream_ms: Number | None = None
    time_to_request_ms: Number | None = None
    time_to_request_from_spawn_ms: Number | None = None
    request_sent_wall_ms: Number | None = None
    time_origin_ms: Number | None = None
    first_content_frame_ms: Number | None = None
    first_stream_post_ms: Number | None = None
    first_stream_post_ack_ms: Number | None = None
    first_stream_post_queue_wait_ms: Number | None = None
    first_stream_post_queued_behind: str | None = None
    first_stream_post_wall_ms: Number | None = None
    first_text_post_ms: Number | None = None
    first_text_post_queue_wait_ms: Number | None = None
    first_text_post_queued_behind: str | None = None
    first_text_post_wall_ms: Number | None = None
    warm_spare_claimed: bool | None = None

    def __post_init__(self) -> None:
        # A failure must not pass for a success because one field was left out or could not be read.
        if self.is_error not in (True, False):
            msgspec.structs.force_setattr(self, "is_error", self.subtype != "success")

    @decoded_once
    def structured_output(self) -> Any:
        """The typed output that `output_format` asked for, or None."""
        return plain(self.structured_output_raw) if self.structured_output_raw else None

    @property
    def text(self) -> str:
        """The answer: the final text of the turn, or the text of the API error that ended it; empty if there is none."""
        return self.result or ""

    @computed_once
    def rate_limit(self) -> RateLimitInfo | None:
        """The limit that ended the turn, as the CLI reported it just before; None if it reported none, as with API keys."""
        return None  # the connection that has received the report puts it here

    @computed_once
    def key_source(self) -> str | None:
        """The source of the key or token that the CLI uses, such as `ANTHROPIC_API_KEY`; None if the CLI does not name it."""
        return None  # as `rate_limit`

    @computed_once
    def pending_approvals(self) -> tuple[str, ...]:
        """The requests of `hackamore.Approvals` because of which the turn ended: their calls have not run, and wait for a person."""
        return ()  # as `rate_limit`

    def raise_for_error(self) -> None:
        """Raise an error if the turn failed.

        Raises:
            AuthenticationError: the API refused the login, or the CLI has none.
            RateLimitedError: a rate limit ended the turn.
            ApprovalPendingError: a call waits for the answer of a person.
            ResultError: it ended with another error.
        """
        if self.is_error:
            raise ResultError.of(self)


class ResultError(HackamoreError):
    """The turn ended with an error result.

    Attributes:
        result: the `ResultMessage`; `subtype`, `terminal_reason`, `api_error_status` and `errors` say why.
        retryable: True if the API was overloaded or unreachable, or failed with status 408, 409, 429, 500 or above.
    """

    def __init__(self, result: ResultMessage) -> None:
        self.result = result
        self.session_id: str | None = result.session_id or None
        status = _status_of(result)
        failed = status in _LATER or (status is not None and status >= _SERVER_ERRORS)
        self.retryable: bool = failed or (result.is_error and result.api_error in _UNREACHABLE)
        text = "; ".join(result.errors) or result.result or result.subtype or "unknown error"
        reason = result.terminal_reason or result.subtype
        message = f"The turn failed ({escape_terminal(str(reason))}): {escape_terminal(text)}"
        hint = next((hint for sign, hint in _HINTS.items() if sign in (result.subtype or "") or sign in text), "")
        if hint:
            again = f"`Options(resume={self.session_id!r})`" if self.session_id else "`Options(resume=...)`"
            message = f"{message.rstrip('.')}. {hint.format(again=again)}"
        super().__init__(message)

    @staticmethod
    def of(result: ResultMessage) -> ResultError | AuthenticationError:
        """Return the error for a result.

        Args:
            result: the result of a turn that failed.

        Returns:
            The error, not raised: an `AuthenticationError`, `RateLimitedError` or `ApprovalPendingError`, if the login, a rate limit or a
            call that waits for a person is the cause.
        """
        if result.pending_approvals:
            return ApprovalPendingError(result)
        if _status_of(result) in REFUSED or (result.is_error and (result.result or "").startswith(_NO_LOGIN)):
            return AuthenticationError(_status_of(result), key_source=result.key_source, result=result)
        limited = _status_of(result) == _TOO_MANY or _OLD_LIMIT.match(result.result or "") is not None
        return RateLimitedError(result) if limited else ResultError(result)


class RateLimitedError(ResultError):
    """A rate limit of the API or of the plan ended the turn.

    Attributes:
        result: the `ResultMessage`.
        resets_at: when the limit resets, with its time zone (UTC); None if the CLI reports no time, as with API keys.
        kind: the limit: `five_hour`, `seven_day`, `seven_day_opus`, `seven_day_sonnet`, `overage`, ...; None if the CLI names none.
        retryable: True, except where the account needs credits and no time is known.
    """

    def __init__(self, result: ResultMessage) -> None:
        super().__init__(result)
        limit = result.rate_limit
        self.resets_at: datetime | None = limit.resets_at_time if limit is not None else None
        self.kind: str | None = limit.rate_limit_type if limit is not None else None
        self.retryable: bool = self.resets_at is not None or limit is None or limit.error_code is None
        named = f"The limit {escape_terminal(self.kind, 100)!r}" if self.kind else "The limit"
        if self.resets_at is not None:
            advice = f"{named} resets at {self.resets_at:%Y-%m-%d %H:%M:%S} UTC: try again then, or pass `retry=hackamore.Retry()` to `run`"
        elif self.retryable:
            advice = "Try again later, or pass `retry=hackamore.Retry()` to `run`"
        else:
            advice = f"{named} needs credits: buy some, or use another account"
        self.args: tuple[Any, ...] = (f"{str(self).rstrip('.')}. {advice}.",)


class ApprovalPendingError(ResultError):
    """The turn ended because a call waits for the answer of a person. The call has not run.

    Attributes:
        result: the `ResultMessage`.
        requests: the ids of the requests that wait, for `Approvals.get` and `Approvals.answer`.
        retryable: always False: the next attempt would wait as well.
    """

    def __init__(self, result: ResultMessage) -> None:
        super().__init__(result)
        self.requests: tuple[str, ...] = result.pending_approvals
        names = ", ".join(map(repr, self.requests))
        text = (
            f"The turn ended because a call waits for the answer of a person (request {names}). The call has not run. `Approvals.answer` "
            "answers it, and `Approvals.answered` then returns the conversation to continue."
        )
        self.args: tuple[Any, ...] = (text,)


class AuthenticationError(HackamoreError):
    """The API refused the login of the CLI, or the CLI has none.

    The CLI repeats a refused request for minutes. Hackamore ends the turn when the API refuses it again.

    Attributes:
        status: the HTTP status: 401, or 403 if the login does not permit the request; None if the CLI has no login.
        key_source: the source of the key or token, such as `ANTHROPIC_API_KEY` or `apiKeyHelper`; None if the CLI does not name it.
        result: the `ResultMessage`, if the CLI ended the turn; None if Hackamore ended it.
    """

    def __init__(self, status: int | None, *, key_source: str | None, result: ResultMessage | None = None) -> None:
        self.status: int | None = status
        self.key_source: str | None = key_source
        self.result: ResultMessage | None = result
        self.session_id: str | None = (result.session_id or None) if result is not None else None
        if status is None:
            text = "The CLI is not logged in"
        else:
            text = f"The API refused the login of the CLI (status {status}), also when the CLI repeated the request"
        if result is not None and result.result:
            text = f"The turn failed: {escape_terminal(result.result)}"
        source = escape_terminal(key_source or ("a token" if status is not None else "nothing"), 100)
        fix = _KEY_FIXES.get(source, f"It uses {source}: check it.")
        super().__init__(f"{text.rstrip('.')}. {fix} `hackamore doctor` shows the login that the CLI uses.")


REFUSED = (401, 403)
"""The statuses by which an API refuses a login."""
_NO_LOGIN = "Not logged in"
_KEY_FIXES = {
    "nothing": "Set ANTHROPIC_API_KEY (`Options(env=...)`, or your environment for a CLI here), or log in with `/login` in a terminal.",
    "a token": "Check ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN and CLAUDE_CODE_OAUTH_TOKEN, or run the CLI in a terminal and log in again.",
    "ANTHROPIC_API_KEY": "Its key is in ANTHROPIC_API_KEY: set a valid one in your environment or with `Options(env=...)`.",
    "apiKeyHelper": "Its key comes from the command in the setting `apiKeyHelper`: check the output of that command.",
    "/login managed key": "Its key is of an earlier `/login`: run the CLI in a terminal and log in again.",
}
_TOO_MANY = 429
_LATER = (408, 409, _TOO_MANY)
_SERVER_ERRORS = 500
_UNREACHABLE = ("connection_failed",)
_OLD_STATUS = re.compile(r"API Error: ([45]\d\d)\b")
"""CLIs without the field `api_error_status` (2.0.0) have the status in the text alone."""
_OLD_LIMIT = re.compile(r"[\w -]{1,40} limit reached \u2219 resets ")
"""The same for a limit of the plan."""


def _status_of(result: ResultMessage) -> int | None:
    """Return the HTTP status of the API call that ended a turn, if one did."""
    if not result.is_error or result.api_error_status is not None:
        return result.api_error_status
    found = _OLD_STATUS.match(result.result or "")
    return int(found[1]) if found else None


_HINTS = {
    "error_max_turns": "Raise `Options.max_turns`, or continue this conversation with {again}.",
    "error_max_budget_usd": "Raise `Options.max_budget_usd`, or continue this conversation with {again}.",
    "error_max_structured_output_retries": "Simplify `output_type`, or describe in the prompt how to fill it.",
}
