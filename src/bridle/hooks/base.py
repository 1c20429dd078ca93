"""What the inputs of all hook events share. The class `StopHookInput` is the input of the event `Stop`: its name says the event."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bridle.checked.functions import Asked
from bridle.messages.base import Record

__all__ = ["BackgroundTaskSummary", "HookEffort", "HookInput", "SessionCronSummary", "UnknownHookInput"]


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
        description: what it does.
        command: what a shell runs.
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


class HookInput(Asked, frozen=True, kw_only=True):
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
    """The input of an event that this version does not know, or one that cannot be read. What it says is in `data`.

    Attributes:
        problem: why it cannot be read; None if only the event is unknown.
    """

    problem: str | None = msgspec.field(default=None, name="(problem)")
