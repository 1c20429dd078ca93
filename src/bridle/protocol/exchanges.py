"""Exchanges: a request and its one answer.

Rules. Every exchange stands in one ledger under its request id from before its first byte is written until its ending, whatever that
is: answer, rejection, deadline, cancellation, stop or death. `Ledger.remove` is the only way out and works once, so the first
ending wins and there is never a second answer. Ids that are out are remembered for a while: a repeated one is nobody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bridle.messages.control import ControlRequest
    from bridle.protocol.control import ControlRow

__all__ = ["InFlightRequest", "Ledger", "PendingRequest"]

_REMEMBERED = 4_096


class PendingRequest:
    """A request of ours that waits for its answer.

    Attributes:
        request_id: its id.
        operation: what its user called it.
        subtype: what it is on the wire.
        row: its row in the table; None for a subtype that has none.
        written: False while it waits for the session to be ready.
        internal: True if nobody waits for it: its ending is not reported.
    """

    __slots__ = ("internal", "operation", "request_id", "row", "subtype", "written")

    def __init__(
        self,
        request_id: str,
        subtype: str,
        row: ControlRow | None = None,
        *,
        operation: str | None = None,
        internal: bool = False,
    ) -> None:
        self.request_id = request_id
        self.subtype = subtype
        self.operation = operation or subtype
        self.row = row
        self.internal = internal
        self.written = False


class InFlightRequest:
    """A request of the peer that we are handling.

    Attributes:
        request_id: its id, to be repeated in the answer.
        subtype: what is asked for.
        row: its row in the table.
        frame: the whole request.
    """

    __slots__ = ("frame", "request_id", "row", "subtype")

    def __init__(self, request_id: str, row: ControlRow, frame: ControlRequest) -> None:
        self.request_id = request_id
        self.subtype = row.subtype
        self.row = row
        self.frame = frame


E = TypeVar("E", PendingRequest, InFlightRequest)


class Ledger(Generic[E]):
    """The open exchanges of one direction, in the order in which they were opened."""

    __slots__ = ("_closed", "_open")

    def __init__(self) -> None:
        self._open: dict[str, E] = {}
        self._closed: dict[str, None] = {}

    def add(self, exchange: E) -> None:
        """Open `exchange`. Its id must be `fresh`."""
        self._open[exchange.request_id] = exchange

    def remove(self, request_id: str) -> E | None:
        """Close an exchange and return it; None if it is not open (any more)."""
        exchange = self._open.pop(request_id, None)
        if exchange is not None:
            self.forget(request_id)
        return exchange

    def forget(self, request_id: str) -> None:
        """Take an id that was dealt with without ever being open: it is not `fresh` any more."""
        self._closed[request_id] = None
        if len(self._closed) > _REMEMBERED:
            del self._closed[next(iter(self._closed))]

    def get(self, request_id: str) -> E | None:
        """Return an open exchange."""
        return self._open.get(request_id)

    def fresh(self, request_id: str) -> bool:
        """Return whether this id is neither open nor was lately."""
        return request_id not in self._open and request_id not in self._closed

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._open

    def __iter__(self) -> Iterator[E]:
        return iter(list(self._open.values()))
