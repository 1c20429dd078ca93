"""Exchanges: a request and its one answer, in both directions.

Every exchange stands in one ledger under its request id from before its first byte is written until its ending: answer, rejection,
timeout, cancellation, stop or death. `Ledger.remove` is the only way out and works once, so the first ending wins and there is
never a second answer. Ids that are out are remembered for a while: a repeated one is dropped.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from hackamore._engine.protocol import events, frames
from hackamore._engine.protocol.control import encode_request, error_text, fail_answer, malformed, row_for
from hackamore._engine.protocol.control_table import Direction
from hackamore._engine.protocol.machines import Role
from hackamore._engine.protocol.states.session import Handshake, HandshakeTrigger
from hackamore.errors import (
    ControlRejectedError,
    ControlTimeoutError,
    DecodeError,
    InitQueueOverflowError,
    TooManyPendingRequestsError,
)
from hackamore.messages.results import ControlResult, decode_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hackamore._engine.protocol.control import Answer
    from hackamore._engine.protocol.control_table import ControlRow
    from hackamore._engine.protocol.frames import Payload
    from hackamore._engine.protocol.log import SessionLog
    from hackamore._engine.protocol.machines import Machines
    from hackamore._engine.protocol.outbox import Outbox
    from hackamore.errors import HackamoreError
    from hackamore.messages.control import ControlCancelRequest, ControlRequest
    from hackamore.options.bounds import Limits

_REMEMBERED = 4_096  # the memory of a long session must not grow with its requests
_REQUEST_BYTES = 2_500
"""The bytes of an open request besides its line: its job, its decoded form and its timeout. Measured: 2,200 to 3,100."""
_INTERNAL_REQUESTS = 256
"""The number of internal requests that are remembered: a peer may answer none of them."""
_ASKS_US = {Role.HOST: Direction.CLI_TO_HOST, Role.CLI: Direction.HOST_TO_CLI}
_IS_STOPPING = "the session is stopping"


class PendingRequest(msgspec.Struct, eq=False):
    """A request of this side that waits for its answer. A subtype may have no row; the ending of an internal request is not reported."""

    request_id: str
    row: ControlRow | None
    operation: str
    subtype: str
    internal: bool = False
    written: bool = False
    size: int = 0


class InFlightRequest(msgspec.Struct, eq=False):
    """A request of the peer that is open: `frame` is the whole of it, and `size` what it occupies, about."""

    request_id: str
    row: ControlRow
    frame: ControlRequest
    size: int

    @property
    def subtype(self) -> str:
        return self.row.subtype


E = TypeVar("E", PendingRequest, InFlightRequest)


class Ledger(Generic[E]):
    """The open exchanges of one direction, in the order in which they were opened; `size` is the number of their bytes."""

    __slots__ = ("_closed", "_lately", "_open", "size")

    def __init__(self) -> None:
        self.size: int = 0
        self._open: dict[str, E] = {}
        self._closed: set[str] = set()
        self._lately: deque[str] = deque()  # the ids in `_closed`; a dict would pass over removed entries each time

    def add(self, exchange: E) -> None:
        """Open an exchange. Its id must be `fresh`."""
        self._open[exchange.request_id] = exchange
        self.size += exchange.size

    def remove(self, request_id: str) -> E | None:
        """Close an exchange and return it; None if it is not open."""
        exchange = self._open.pop(request_id, None)
        if exchange is not None:
            self.size -= exchange.size
            self.forget(request_id)  # a late or repeated answer finds it used, and is dropped
        return exchange

    def forget(self, request_id: str) -> None:
        """Remember an id as used that was answered without ever being open."""
        if request_id not in self._closed:
            self._closed.add(request_id)
            self._lately.append(request_id)
            if len(self._lately) > _REMEMBERED:
                self._closed.remove(self._lately.popleft())

    def get(self, request_id: str) -> E | None:
        return self._open.get(request_id)

    def fresh(self, request_id: str) -> bool:
        """Return whether this id is neither open nor was lately."""
        return request_id not in self._open and request_id not in self._closed

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._open

    def __iter__(self) -> Iterator[E]:
        return iter(list(self._open.values()))  # resolving one removes it


class Exchanges:
    """The open requests of both directions. Each of the peer's gets exactly one answer, from a handler or, safely, from its row."""

    def __init__(
        self, state: Machines, outbox: Outbox, log: SessionLog, limits: Limits, random_bytes: Callable[[int], bytes]
    ) -> None:
        self.pending: Ledger[PendingRequest] = Ledger()  # the requests of this side
        self.in_flight: Ledger[InFlightRequest] = Ledger()  # those of the peer
        self.initialize_id: str | None = None  # once this side has sent it. How it ends is the connection's business
        self._peer_initialize_id: str | None = None
        self._early: dict[str, ControlRequest] = {}  # those that a host got before its `initialize`
        self._internal: deque[str] = deque()
        self._counter = 0
        self._state = state
        self._outbox = outbox
        self._log = log
        self._limits = limits
        self._random_bytes = random_bytes

    def unanswered(self) -> dict[str, int]:
        """Return how many requests a `Snapshot` counts."""
        return {"pending_requests": self._waited_for, "in_flight_requests": len(self.in_flight) + len(self._early)}

    def expire(self, request_id: str, seconds: float | None, api_error: str) -> bool:
        """Apply an expired timeout. True if the request was open."""
        request = self.pending.get(request_id)
        if request is not None:
            if not request.written:
                self._outbox.drop(request)
            late = ControlTimeoutError(request.operation, request_id, seconds, api_error=api_error)
            self._resolve(request, error=late)
            return True
        asked = self.in_flight.get(request_id)
        if asked is None:
            return False
        within = f" within {seconds:g} s" if seconds is not None else " in time"
        self._take_away(asked, f"it was not answered{within}", "expired")
        return True

    def end_pending(self) -> None:
        """Resolve all requests of this side: the session is over, or ends."""
        for request in self.pending:
            self._resolve(request, error=self._state.closed_error())

    def stop(self) -> None:
        """Give all requests of the peer the safe answer: the session is being stopped."""
        for request in self.in_flight:
            self._take_away(request, _IS_STOPPING, "stopping")
        self.receive_early()

    def end(self) -> None:
        """Resolve and close all requests, without an answer: the session is over."""
        self.end_pending()
        self._early.clear()
        for request in self.in_flight:
            self.in_flight.remove(request.request_id)
            self._outbox.emit(events.RequestCancelled(request.request_id, request.subtype, "ended"))

    @property
    def _waited_for(self) -> int:
        return sum(not request.internal for request in self.pending)  # a CLI may never answer messages of servers

    def send_initialize(self, fields: Mapping[str, Any]) -> str:
        """Write `initialize`; return its request id."""
        request, frame = self._open("initialize", fields, "initialize", internal=False)
        self.initialize_id = request.request_id
        self._outbox.send(request, frame, flows=True)
        return request.request_id

    def send_request(
        self,
        subtype: str,
        fields: Mapping[str, Any] | None = None,
        *,
        operation: str | None = None,
        internal: bool = False,
    ) -> str:
        """Send a control request; return its id. One without a row is sent as it is; the ending of an `internal` one is not reported.

        Before the session is ready it waits in a queue. Raises SessionClosedError if the session is over or being stopped,
        TooManyPendingRequestsError if `Limits.pending_requests` wait, and InitQueueOverflowError if `Limits.queued_operations` are queued.
        """
        self._state.require_open(stopping=False)
        return self._request(subtype, fields or {}, operation or subtype, internal=internal)

    def interrupt(self, *, cancel_queued: bool = False, internal: bool = False) -> str:
        """Send an interrupt; return its request id. It is accepted while the session stops, and while it finishes."""
        self._state.require_open()
        fields = {"cancel_queued": True} if cancel_queued else {}
        return self._request("interrupt", fields, "interrupt", internal=internal)

    def _request(self, subtype: str, fields: Mapping[str, Any], operation: str, *, internal: bool) -> str:
        if not internal:
            count, limit = self._waited_for, self._limits.pending_requests
            if count >= limit:
                raise TooManyPendingRequestsError(operation, count, limit)
            waiting = sum(
                isinstance(what, PendingRequest) for what, _ in self._outbox.held
            )  # prompts wait without a limit
            if waiting >= self._limits.queued_operations and not self._state.flows:
                raise InitQueueOverflowError(operation, waiting, self._limits.queued_operations)
        request, frame = self._open(subtype, fields, operation, internal=internal)
        if internal:
            self._internal.append(request.request_id)
            if len(self._internal) > _INTERNAL_REQUESTS:
                self.pending.remove(self._internal.popleft())
        self._outbox.send(request, frame, flows=self._state.flows)
        return request.request_id

    def _open(
        self, subtype: str, fields: Mapping[str, Any], operation: str, *, internal: bool
    ) -> tuple[PendingRequest, bytes]:
        wire = encode_request(subtype, dict(fields))
        request_id = f"req_{self._counter + 1}_{self._random_bytes(4).hex()}"
        frame = frames.request_frame(request_id, subtype, wire)
        self._counter += 1  # after the encoding: a request that was refused uses no id
        request = PendingRequest(request_id, row_for(subtype), operation, subtype, internal)
        self.pending.add(request)
        return request, frame

    def answered(self, request: PendingRequest, answer: Answer) -> ControlResult | None:
        """Resolve a request with its answer; return the result, if it has one."""
        if answer.failed:
            error = ControlRejectedError(request.operation, error_text(answer.error), answer.error_code)
            self._resolve(request, error=error)
            return None
        kind = request.row.result if request.row is not None else ControlResult
        result = decode_result(kind, answer.response, self._outbox.warned)
        self._resolve(request, result=result)
        return result

    def _resolve(
        self, request: PendingRequest, *, result: ControlResult | None = None, error: HackamoreError | None = None
    ) -> None:
        self.pending.remove(request.request_id)
        # The end of `initialize` is `HandshakeFailed`.
        if not request.internal and request.request_id != self.initialize_id:
            self._outbox.emit(events.RequestResolved(request.request_id, request.operation, result, error))

    def cancel_request(self, request_id: str) -> bool:
        """Abandon a request of this side: its answer will be dropped. True if it was open."""
        if request_id == self.initialize_id:
            return False  # there is no session without it: stop that instead
        request = self.pending.remove(request_id)
        if request is None:
            return False
        if request.written:
            self._outbox.write(frames.cancel_frame(request_id))  # 2.1.327 ignores it and answers: the answer is dropped
        else:
            self._outbox.drop(request)
        return True

    def receive(self, frame: ControlRequest) -> None:
        """Check a request, and report it or answer it immediately."""
        request_id, state = frame.request_id, self._state
        if not request_id or not self.in_flight.fresh(request_id) or request_id in self._early:
            self._log.debug("a control request was dropped: its id %r is empty or was used before", request_id)
            return
        host = state.role is Role.HOST
        if host and state.handshake is Handshake.UNSENT and not state.stopping:  # after a stop `initialize` never comes
            size = sum(len(early.raw) for early in self._early.values()) + len(frame.raw)
            if len(self._early) >= self._limits.early_requests or size > self._limits.buffered_bytes:
                self._refuse(request_id, "Too many requests before `initialize`")
            else:
                self._early[request_id] = frame
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
            self._outbox.move_handshake(
                HandshakeTrigger.REQUEST
            )  # of any kind: it proves that the CLI has read `initialize`
        row = row_for(subtype)
        if row is None or row.direction not in (_ASKS_US[state.role], Direction.BOTH):
            self._refuse(request_id, f"Unknown subtype: {subtype}", "unsupported_request")
            return
        request = InFlightRequest(request_id, row, frame, len(frame.raw) + _REQUEST_BYTES)
        if (problem := malformed(row, frame.request_raw)) is not None:
            text = f"A `{subtype}` request cannot be read: {problem}."
            self._outbox.warn("CALLBACK_FAILED", text, subtype=subtype, reason=problem)
            self._answer_safely(request, f"the request cannot be read: {problem}")
            return
        if state.stopping:
            self._answer_safely(request, _IS_STOPPING)
            return
        if subtype == "initialize" and state.handshake is Handshake.UNSENT:
            self._peer_initialize_id = request_id
            self._outbox.move_handshake(HandshakeTrigger.SENT)
        self.in_flight.add(request)
        self._outbox.emit(events.RequestReceived(request_id, subtype, frame, row))

    def receive_early(self) -> None:
        """Take up the requests that waited for `initialize`."""
        early, self._early = self._early, {}
        for frame in early.values():
            self.receive(frame)

    def cancelled(self, frame: ControlCancelRequest) -> None:
        """Close a request that the peer has cancelled: nothing is written."""
        request_id = frame.request_id or ""
        self._early.pop(request_id, None)
        request = self.in_flight.remove(request_id)
        if request is None:
            self._log.debug("no request is open that the cancellation of %r could mean", request_id)
        else:
            self._outbox.emit(events.RequestCancelled(request_id, request.subtype, "cancelled"))

    def send_response(self, request_id: str, payload: Payload | None = None) -> bool:
        """Answer a request of the peer with an object, or ready JSON that is copied as it is. The first ending counts.

        Returns True if it was still open and the answer was written: after stdin was closed it cannot be read. Raises ValueError if
        JSON cannot hold it; the request stays open.
        """
        if request_id not in self.in_flight:
            return False
        return self._answer(request_id, frames.success_frame(request_id, payload))

    def send_error(self, request_id: str, error: str, code: str | None = None) -> bool:
        """Answer a request of the peer with an error; returns what `send_response` does."""
        if request_id not in self.in_flight:
            return False
        return self._answer(request_id, frames.error_frame(request_id, error, code), HandshakeTrigger.ERROR)

    def fail_request(self, request_id: str, reason: str) -> bool:
        """Answer a request of the peer safely, as its row says; returns what `send_response` does."""
        request = self.in_flight.get(request_id)
        return request is not None and self._answer_safely(request, reason)

    def _take_away(self, request: InFlightRequest, reason: str, why: Literal["expired", "stopping"]) -> None:
        self._answer_safely(request, reason)
        self._outbox.emit(events.RequestCancelled(request.request_id, request.subtype, why))

    def _answer(self, request_id: str, frame: bytes, trigger: HandshakeTrigger = HandshakeTrigger.ANSWER) -> bool:
        """Close a request with a frame; return whether the frame was written."""
        self.in_flight.remove(request_id)
        written = self._outbox.write(frame)
        if request_id == self._peer_initialize_id and self._state.handshake is Handshake.SENT:
            self._outbox.move_handshake(trigger)
        return written

    def _answer_safely(self, request: InFlightRequest, reason: str) -> bool:
        request_id = request.request_id
        payload = fail_answer(request.row, request.frame, reason) if self._state.role is Role.HOST else None
        no = payload is None
        frame = frames.error_frame(request_id, reason) if no else frames.success_frame(request_id, payload)
        self.in_flight.forget(request_id)  # one that cannot be read, or comes during a stop, is never opened
        return self._answer(request_id, frame)

    def _refuse(self, request_id: str, error: str, code: str | None = None) -> None:
        self.in_flight.forget(request_id)
        self._outbox.write(frames.error_frame(request_id, error, code))
