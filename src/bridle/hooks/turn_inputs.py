"""Inputs of the events of sessions, prompts, turns and models."""

from __future__ import annotations

import msgspec

from bridle.hooks.base import BackgroundTaskSummary, HookInput, SessionCronSummary
from bridle.messages.base import Number  # noqa: TC001 - msgspec reads it

__all__ = [
    "MessageDisplayHookInput",
    "NotificationHookInput",
    "PostCompactHookInput",
    "PostModelSwitchHookInput",
    "PreCompactHookInput",
    "PreModelSwitchHookInput",
    "SessionEndHookInput",
    "SessionStartHookInput",
    "SetupHookInput",
    "StopFailureHookInput",
    "StopHookInput",
    "SubagentStartHookInput",
    "SubagentStopHookInput",
    "UserPromptExpansionHookInput",
    "UserPromptSubmitHookInput",
]


class SessionStartHookInput(HookInput, frozen=True, kw_only=True):
    """A session begins.

    Attributes:
        source: why: `startup`, `resume`, `clear`, `compact` or `fork`.
        model: the model.
        session_title: the session's title.
        seconds_since_last_response: how long ago the last reply was.
        context_tokens: how many tokens the conversation has.
        prompt_cache_likely_expired: True if the prompt cache is probably gone.
        estimated_cache_write_usd: what writing it again may cost.
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
        reason: why: `clear`, `resume`, `logout`, `prompt_input_exit` or `other`.
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
        source: who wrote it: `user`, `sdk`, `system`, ...
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
        prompt: what it became.
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
        stop_hook_active: True if it goes on already because a hook wanted it.
        last_assistant_message: the last text of the reply.
        background_tasks: what still runs in the background.
        session_crons: prompts that are scheduled.
    """


class StopFailureHookInput(HookInput, frozen=True, kw_only=True):
    """The turn ended with an error of the API.

    Attributes:
        error: its kind.
        error_details: what the API said.
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
        stop_hook_active: True if it goes on already because a hook wanted it.
        last_assistant_message: the last text of the reply.
        background_tasks: what still runs in the background.
        session_crons: prompts that are scheduled.
    """

    agent_transcript_path: str = ""


class PreCompactHookInput(HookInput, frozen=True, kw_only=True):
    """The conversation is about to be compacted.

    Attributes:
        trigger: `manual` or `auto`.
        custom_instructions: what the user asked for.
    """

    trigger: str = ""
    custom_instructions: str | None = None


class PostCompactHookInput(HookInput, frozen=True, kw_only=True):
    """The conversation was compacted.

    Attributes:
        trigger: `manual` or `auto`.
        compact_summary: what is left of it.
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
        requested_model: what was asked for, if it was not the model's own name.
        source: who switches.
        context_tokens: how many tokens the conversation has.
        prompt_cache_warm: True if the old model's cache would still be hit.
        cache_ttl: how long caches live: `5m` or `1h`.
        estimated_cache_write_usd: what writing the new model's cache may cost.
        pricing: where the estimate's prices are from.
    """


class PostModelSwitchHookInput(_ModelSwitch, frozen=True, kw_only=True):
    """The model was switched.

    Attributes:
        from_model: the model until now.
        to_model: the model from now on.
        requested_model: what was asked for, if it was not the model's own name.
        source: who switches.
        context_tokens: how many tokens the conversation has.
        prompt_cache_warm: True if the old model's cache would still be hit.
        cache_ttl: how long caches live: `5m` or `1h`.
        estimated_cache_write_usd: what writing the new model's cache may cost.
        pricing: where the estimate's prices are from.
    """
