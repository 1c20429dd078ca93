"""How a connection stands: its machines, and what follows from their states alone. Each of them moves by a table of `states.session`."""

from __future__ import annotations

import copy
from enum import Enum, auto
from typing import TYPE_CHECKING

from hackamore._engine.protocol.states import session as states
from hackamore.errors import SessionClosedError

if TYPE_CHECKING:
    from hackamore.errors import HackamoreError


class Role(Enum):
    """Which end of the wire a connection is."""

    HOST = auto()
    CLI = auto()


class Machines:
    """The machines of a connection."""

    def __init__(self, role: Role, *, hold_until_confirmed: bool, one_way: bool) -> None:
        self.role = role
        self.one_way = one_way
        # the state of the session, as its user sees it. That it is being stopped stands here and nowhere else.
        self.lifecycle: states.SessionState = states.SessionState.NEW
        self.handshake = states.Handshake.NONE if one_way else states.Handshake.UNSENT
        self.input = (
            states.Half.CLOSED if one_way else states.Half.OPEN
        )  # the writing of this side; only the `Outbox` moves it
        self.output = states.Half.OPEN
        self.process = states.Process.ALIVE
        # how it ended, once it has: then nothing more can happen, and the process, if it lives, is to be stopped
        self.ending: states.Ending | None = None
        self.terminal_error: HackamoreError | None = None
        self.session_id: str | None = None  # the session, as soon as a message has named it
        self.exit_code: int | None = None
        self.stderr_tail: bytes = b""
        self._hold_until_confirmed = hold_until_confirmed

    @property
    def over(self) -> bool:
        """True once nothing more can happen: the process, if it lives, is to be stopped."""
        return self.ending is not None

    @property
    def exited(self) -> bool:
        """True once the exit status is known and the output was read to its end."""
        return self.process is states.Process.EXITED and self.output is states.Half.CLOSED

    @property
    def finishing(self) -> bool:
        """True once closing stdin was requested: prompts are refused."""
        return self.input is not states.Half.OPEN

    @property
    def input_closed(self) -> bool:
        """True once nothing can be written any more."""
        return self.input in (states.Half.CLOSED, states.Half.BROKEN)

    @property
    def stopping(self) -> bool:
        return self.lifecycle is states.SessionState.STOPPING

    @property
    def starting(self) -> bool:
        """True while a host waits for its handshake to be confirmed or to fail."""
        waiting = self.handshake in (states.Handshake.UNSENT, states.Handshake.SENT, states.Handshake.IMPLICIT)
        return self.role is Role.HOST and (waiting or self.lifecycle is states.SessionState.INITIALIZING)

    @property
    def flows(self) -> bool:
        """True if prompts and operations are written immediately."""
        flows = states.operations_flow(self.handshake, self._hold_until_confirmed)
        return flows or self.stopping or self.role is Role.CLI

    @property
    def writable(self) -> bool:
        """True while a frame that is written may still be read."""
        return states.peer_can_read(self.input, self.output, self.process, self.role is Role.CLI)

    @property
    def stderr(self) -> str:
        return self.stderr_tail.decode("utf-8", "replace")

    def move_lifecycle(self, trigger: states.LifecycleTrigger) -> None:
        self.lifecycle = states.LIFECYCLE[self.lifecycle, trigger]

    def begin_start(self) -> None:
        """Apply that the process is being started."""
        self.move_lifecycle(states.LifecycleTrigger.LAUNCHED if self.one_way else states.LifecycleTrigger.START)

    def require_open(self, *, stopping: bool = True) -> None:
        """Raise SessionClosedError if the session is over, or the peer does not read; without `stopping` also during a stop."""
        if self.over or not self.writable or (self.stopping and not stopping):
            raise self.closed_error()

    def closed_error(self) -> HackamoreError:
        """Return a fresh error for a caller who wants something of a session that is over, or is being stopped."""
        if self.terminal_error is not None:
            return self.named(copy.copy(self.terminal_error))  # raised twice, one error would collect tracebacks
        stopped = self.stopping or self.ending is states.Ending.STOPPED
        error = SessionClosedError(
            expected=stopped or self.over or self.input in (states.Half.CLOSING, states.Half.CLOSED),
            reason="it was stopped" if stopped else "it has ended" if self.over else "it ends, and takes nothing new",
            exit_code=self.exit_code,
            stderr_tail=self.stderr,
        )
        return self.named(error)

    def named(self, error: HackamoreError) -> HackamoreError:
        """Set the session id of an error."""
        error.session_id = error.session_id or self.session_id
        return error
