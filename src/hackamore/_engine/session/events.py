"""The events of `session.events()`."""

from __future__ import annotations

import msgspec

from hackamore._engine.protocol.states.session import SessionActivity, TurnState  # noqa: TC001

# `help()` reads the annotations of these classes.
from hackamore.errors import HackamoreError, StreamWarning  # noqa: TC001
from hackamore.messages.results import ServerInfo  # noqa: TC001
from hackamore.messages.system import BackgroundTask  # noqa: TC001


class SessionEvent(msgspec.Struct, frozen=True, eq=False):
    """The base of what `session.events()` gives."""


class SessionStarted(SessionEvent, frozen=True, eq=False):
    """The session is ready; `server_info` is what the CLI said of itself, None if it said nothing."""

    server_info: ServerInfo | None


class TurnStarted(SessionEvent, frozen=True, eq=False):
    """The CLI works on a prompt of this session."""

    turn_id: str


class TurnCompleted(SessionEvent, frozen=True, eq=False):
    """A prompt of this session is over; `state` is its final state."""

    turn_id: str
    state: TurnState


class ActivityChanged(SessionEvent, frozen=True, eq=False):
    """The CLI does something else now."""

    activity: SessionActivity


class BackgroundTasksChanged(SessionEvent, frozen=True, eq=False):
    """Other tasks run in the background now."""

    tasks: tuple[BackgroundTask, ...]


class WarningRaised(SessionEvent, frozen=True, eq=False):
    """Something was degraded."""

    warning: StreamWarning


class SessionCompleted(SessionEvent, frozen=True, eq=False):
    """The CLI ended by itself, while no prompt was open."""

    exit_code: int | None


class SessionStopped(SessionEvent, frozen=True, eq=False):
    """Your program stopped the session."""

    exit_code: int | None


class SessionFailed(SessionEvent, frozen=True, eq=False):
    """The session was lost; pending calls fail with `reason`."""

    reason: HackamoreError
    exit_code: int | None
