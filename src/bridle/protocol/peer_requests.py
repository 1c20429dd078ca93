"""The peer's requests: each gets exactly one answer, from a handler or, safely, from its row in the control table."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from bridle.errors import DecodeError
from bridle.protocol import events, frames
from bridle.protocol.control import Direction, fail_answer, malformed, row_for
from bridle.protocol.exchanges import InFlightRequest, Ledger
from bridle.protocol.life import Role
from bridle.protocol.states.session import Handshake, HandshakeHappening

if TYPE_CHECKING:
    from typing import Literal

    from bridle.messages.control import ControlCancelRequest, ControlRequest
    from bridle.options.bounds import Limits
    from bridle.protocol.event_queue import EventQueue
    from bridle.protocol.halves import Halves
    from bridle.protocol.life import Life

__all__ = ["PeerRequests"]

logger = logging.getLogger("bridle")


class PeerRequests:
    """The requests that the peer sends. A host keeps those `early` that come before its `initialize`."""

    def __init__(self, limits: Limits, life: Life, halves: Halves, queue: EventQueue) -> None:
        self.in_flight: Ledger[InFlightRequest] = Ledger()
        self.early: dict[str, ControlRequest] = {}
        self.initialize_id: str | None = None
        self._limits = limits
        self._life = life
        self._halves = halves
        self._queue = queue

    # -- in ------------------------------------------------------------------------------------------------------------

    def receive(self, frame: ControlRequest) -> None:
        """Check a request, and report it or answer it immediately."""
        request_id = frame.request_id
        if not request_id or not self.in_flight.fresh(request_id) or request_id in self.early:
            logger.debug("a control request was dropped: its id %r is empty or was used before", request_id)
            return
        life = self._life
        host = life.role is Role.HOST
        if host and life.handshake is Handshake.UNSENT and not life.stopping:
            if len(self.early) >= self._limits.early_requests:
                self._refuse(request_id, "Too many requests before `initialize`")
            else:
                self.early[request_id] = frame
            return
        try:
            subtype = frame.subtype
        except DecodeError as error:
            self._refuse(request_id, f"Malformed request: {error.detail}")
            return
        if subtype is None:
            self._refuse(request_id, "Malformed request: `subtype` is missing")
            return
        if host:
            life.handshake_happened(HandshakeHappening.REQUEST)
        row = row_for(subtype)
        if row is None or row.direction not in (_ASKS_US[life.role], Direction.BOTH):
            self._refuse(request_id, f"Unknown subtype: {subtype}", "unsupported_request")
            return
        request = InFlightRequest(request_id, row, frame)
        if (problem := malformed(row, frame.request_raw)) is not None:
            text = f"A `{subtype}` request cannot be read: {problem}."
            self._queue.warn("CALLBACK_FAILED", text, subtype=subtype, reason=problem)
            self._answer_safely(request, f"the request cannot be read: {problem}")
            return
        if life.stopping:
            self._answer_safely(request, _STOPPING)
            return
        if subtype == "initialize" and life.handshake is Handshake.UNSENT:
            self.initialize_id = request_id
            life.handshake_happened(HandshakeHappening.SENT)
        self.in_flight.add(request)
        self._queue.emit(events.RequestReceived(request_id, subtype, frame, row))

    def receive_early(self) -> None:
        """Take up the requests that waited for `initialize`."""
        early, self.early = self.early, {}
        for frame in early.values():
            self.receive(frame)

    def cancelled(self, frame: ControlCancelRequest) -> None:
        """Close a request that the peer has withdrawn: nothing is written."""
        request_id = frame.request_id or ""
        self.early.pop(request_id, None)
        request = self.in_flight.remove(request_id)
        if request is None:
            logger.debug("no request is open that the cancellation of %r could mean", request_id)
        else:
            self._queue.emit(events.RequestCancelled(request_id, request.subtype, "cancelled"))

    # -- out -----------------------------------------------------------------------------------------------------------

    def answer(self, request_id: str, frame: bytes, happening: HandshakeHappening = HandshakeHappening.ANSWER) -> bool:
        """Close an open request with a frame; return whether the frame was written."""
        self.in_flight.remove(request_id)
        written = self._halves.write(frame)
        if request_id == self.initialize_id and self._life.handshake is Handshake.SENT:
            self._life.handshake_happened(happening)
        return written

    def fail(self, request_id: str, reason: str) -> bool:
        """Answer an open request safely; return whether the answer was written."""
        request = self.in_flight.get(request_id)
        return request is not None and self._answer_safely(request, reason)

    def expire(self, request_id: str, seconds: float | None) -> bool:
        """Answer an open request safely because its timeout has passed; return whether it was open."""
        request = self.in_flight.get(request_id)
        if request is None:
            return False
        within = f" within {seconds:g} s" if seconds is not None else " in time"
        self._take_away(request, f"it was not answered{within}", "expired")
        return True

    def stop(self) -> None:
        """Answer everything that is open safely: the session is being stopped."""
        for request in self.in_flight:
            self._take_away(request, _STOPPING, "stopping")
        self.receive_early()

    def end(self) -> None:
        """Close everything that is open: the session is over, and nothing can be written."""
        self.early.clear()
        for request in self.in_flight:
            self.in_flight.remove(request.request_id)
            self._queue.emit(events.RequestCancelled(request.request_id, request.subtype, "ended"))

    def _take_away(self, request: InFlightRequest, reason: str, why: Literal["expired", "stopping"]) -> None:
        self._answer_safely(request, reason)
        self._queue.emit(events.RequestCancelled(request.request_id, request.subtype, why))

    def _answer_safely(self, request: InFlightRequest, reason: str) -> bool:
        request_id = request.request_id
        payload = fail_answer(request.row, request.frame, reason) if self._life.role is Role.HOST else None
        no = payload is None
        frame = frames.error_frame(request_id, reason) if no else frames.success_frame(request_id, payload)
        self.in_flight.forget(request_id)
        return self.answer(request_id, frame)

    def _refuse(self, request_id: str, error: str, code: str | None = None) -> None:
        self.in_flight.forget(request_id)
        self._halves.write(frames.error_frame(request_id, error, code))


_STOPPING = "the session is stopping"
_ASKS_US = {Role.HOST: Direction.CLI_TO_HOST, Role.CLI: Direction.HOST_TO_CLI}
