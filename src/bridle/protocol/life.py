"""How far a session has come: its lifecycle, the handshake that opens it, and how it ended.

That a session is being stopped stands here and nowhere else: its lifecycle is `STOPPING`.
"""

from __future__ import annotations

import copy
from enum import Enum, auto
from typing import TYPE_CHECKING

from bridle.errors import SessionClosedError
from bridle.protocol import events
from bridle.protocol.states.session import (
    HANDSHAKE,
    LIFECYCLE,
    Ending,
    Half,
    Handshake,
    HandshakeHappening,
    Lifecycle,
    LifecycleHappening,
    operations_flow,
)

if TYPE_CHECKING:
    from bridle.errors import BridleError
    from bridle.protocol.event_queue import EventQueue
    from bridle.protocol.halves import Halves

__all__ = ["Life", "Role"]


class Role(Enum):
    """Which end of the wire a connection is."""

    HOST = auto()
    CLI = auto()


class Life:
    """The state of a session as a whole."""

    def __init__(
        self, role: Role, halves: Halves, queue: EventQueue, *, one_way: bool, hold_until_confirmed: bool
    ) -> None:
        self.role = role
        self.one_way = one_way
        self.hold_until_confirmed = hold_until_confirmed
        self.lifecycle = Lifecycle.NEW
        self.handshake = Handshake.NONE if one_way else Handshake.UNSENT
        self.ending: Ending | None = None
        self.error: BridleError | None = None
        self._halves = halves
        self._queue = queue

    @property
    def over(self) -> bool:
        """True once nothing more can happen."""
        return self.ending is not None

    @property
    def stopping(self) -> bool:
        """True from the request to stop until the end."""
        return self.lifecycle is Lifecycle.STOPPING

    @property
    def starting(self) -> bool:
        """True while a host waits for its handshake to be confirmed or to fail."""
        waiting = self.handshake in (Handshake.UNSENT, Handshake.SENT, Handshake.IMPLICIT)
        return self.role is Role.HOST and (waiting or self.lifecycle is Lifecycle.INITIALIZING)

    @property
    def flows(self) -> bool:
        """True if prompts and operations are written immediately."""
        flows = operations_flow(self.handshake, self.hold_until_confirmed)
        return flows or self.stopping or self.role is Role.CLI

    def happened(self, happening: LifecycleHappening) -> None:
        """Move the lifecycle."""
        self.lifecycle = LIFECYCLE[self.lifecycle, happening]

    def handshake_happened(self, happening: HandshakeHappening) -> None:
        """Move the handshake, and write the held frames if they flow from now on."""
        flowed = self.flows
        self.handshake = HANDSHAKE[self.handshake, happening]
        if self.flows and not flowed:
            self._halves.release()
            self._queue.emit(events.OperationsReleased(implicitly=self.handshake is Handshake.IMPLICIT))

    def end(self, ending: Ending, error: BridleError | None) -> None:
        """Keep how the session ended."""
        self.ending = ending
        self.error = error if ending is Ending.FAILED else None
        self.handshake_happened(HandshakeHappening.ENDED)
        self.happened(LifecycleHappening.FAILURE if ending is Ending.FAILED else LifecycleHappening.ENDED_WELL)

    def require_open(self) -> None:
        """Raise `closed_error` if nothing can be written any more."""
        if self.over or not self._halves.open:
            raise self.closed_error()

    def closed_error(self) -> BridleError:
        """Return a fresh error for a caller who wants something of a session that is over, or ends."""
        if self.error is not None:
            return copy.copy(self.error)
        stopped = self.stopping or self.ending is Ending.STOPPED
        return SessionClosedError(
            expected=stopped or self.over or self._halves.input in (Half.CLOSING, Half.CLOSED),
            reason="it was stopped" if stopped else "it has ended" if self.over else "it ends, and takes nothing new",
            exit_code=self._halves.exit_code,
            stderr_tail=self._halves.stderr,
        )
