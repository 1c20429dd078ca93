"""Our requests: each is in the ledger before its first byte is written, and leaves it with its one ending."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from bridle.errors import (
    ControlRejectedError,
    ControlTimeoutError,
    InitQueueOverflowError,
    TooManyPendingRequestsError,
)
from bridle.protocol import events, frames
from bridle.protocol.answers import error_text
from bridle.protocol.control import encode_request, row_for
from bridle.protocol.exchanges import Ledger, PendingRequest
from bridle.protocol.results import ControlResult, decode_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridle.errors import BridleError
    from bridle.options.bounds import Limits
    from bridle.protocol.answers import Answer
    from bridle.protocol.event_queue import EventQueue
    from bridle.protocol.halves import Halves
    from bridle.protocol.life import Life

__all__ = ["OwnRequests"]

logger = logging.getLogger("bridle")

_INTERNAL_REQUESTS = 256
"""The number of internal requests that are remembered: a peer may answer none of them."""


class OwnRequests:
    """The requests that we send. The end of `initialize` is not among their events: those of the handshake tell it."""

    def __init__(
        self, limits: Limits, life: Life, halves: Halves, queue: EventQueue, random_bytes: Callable[[int], bytes]
    ) -> None:
        self.pending: Ledger[PendingRequest] = Ledger()
        self.initialize_id: str | None = None
        self._limits = limits
        self._life = life
        self._halves = halves
        self._queue = queue
        self._random_bytes = random_bytes
        self._internal: deque[str] = deque()
        self._counter = 0

    @property
    def waited_for(self) -> int:
        """The number of open requests that a caller waits for."""
        return sum(not request.internal for request in self.pending)

    def initialize(self, fields: Mapping[str, Any]) -> str:
        """Open the handshake's request; return its id. Its frame is written although nothing flows yet."""
        request, frame = self._open("initialize", fields, "initialize", internal=False)
        self.initialize_id = request.request_id
        self._halves.send(request, frame, flows=True)
        return request.request_id

    def awaits_initialize(self, request_id: str) -> bool:
        """Return whether this is the handshake's request, and open."""
        return request_id == self.initialize_id and request_id in self.pending

    def send(self, subtype: str, fields: Mapping[str, Any], operation: str, *, internal: bool) -> str:
        """Open a request, within the limits; return its id."""
        if not internal:
            count, limit = self.waited_for, self._limits.pending_requests
            if count >= limit:
                raise TooManyPendingRequestsError(operation, count, limit)
            waiting, limit = self._halves.held_requests, self._limits.queued_operations
            if waiting >= limit and not self._life.flows:
                raise InitQueueOverflowError(operation, waiting, limit)
        request, frame = self._open(subtype, fields, operation, internal=internal)
        if internal:
            self._internal.append(request.request_id)
            if len(self._internal) > _INTERNAL_REQUESTS:
                self.pending.remove(self._internal.popleft())
        self._halves.send(request, frame, flows=self._life.flows)
        return request.request_id

    def _open(
        self, subtype: str, fields: Mapping[str, Any], operation: str, *, internal: bool
    ) -> tuple[PendingRequest, bytes]:
        wire = encode_request(subtype, dict(fields))
        request_id = f"req_{self._counter + 1}_{self._random_bytes(4).hex()}"
        frame = frames.request_frame(request_id, subtype, wire)
        self._counter += 1
        request = PendingRequest(request_id, row_for(subtype), operation, subtype, internal)
        self.pending.add(request)
        return request, frame

    def waiting_for(self, request_id: str) -> PendingRequest | None:
        """Return the request that an answer belongs to; None for a late answer, or our own that the CLI plays back."""
        request = self.pending.get(request_id)
        if request is None or not request.written:
            logger.debug("no request waits for the control response to %r", request_id)
            return None
        return request

    def answered(self, request: PendingRequest, answer: Answer) -> ControlResult | None:
        """Resolve a request with its answer; return the result, if it is one."""
        if answer.failed:
            text = error_text(answer.error)
            self._resolve(request, error=ControlRejectedError(request.operation, text, answer.error_code))
            return None
        kind = request.row.result if request.row is not None else ControlResult
        result = decode_result(kind, answer.response, self._queue.warned)
        self._resolve(request, result=result)
        return result

    def cancel(self, request_id: str) -> bool:
        """Give a request up; return whether it was open."""
        if request_id == self.initialize_id:
            return False  # there is no session without it: stop that instead
        request = self.pending.remove(request_id)
        if request is None:
            return False
        if request.written:
            self._halves.write(frames.cancel_frame(request_id))
        else:
            self._halves.drop(request)
        return True

    def expire(self, request_id: str, seconds: float | None) -> bool:
        """Resolve a request whose timeout has passed; return whether it was open."""
        request = self.pending.get(request_id)
        if request is None:
            return False
        if not request.written:
            self._halves.drop(request)
        self._resolve(request, error=ControlTimeoutError(request.operation, request_id, seconds))
        return True

    def end(self) -> None:
        """Resolve everything that is open: the session is over, or ends."""
        for request in self.pending:
            self._resolve(request, error=self._life.closed_error())

    def _resolve(
        self, request: PendingRequest, *, result: ControlResult | None = None, error: BridleError | None = None
    ) -> None:
        self.pending.remove(request.request_id)
        if not request.internal and request.request_id != self.initialize_id:
            self._queue.emit(events.RequestResolved(request.request_id, request.operation, result, error))
