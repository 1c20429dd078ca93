"""Exchanges: a request and its one answer.

Every exchange stands in one ledger under its request id from before its first byte is written until its ending: answer, rejection,
timeout, cancellation, stop or death. `Ledger.remove` is the only way out and works once, so the first ending wins and there is
never a second answer. Ids that are out are remembered for a while: a repeated one is dropped.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore._engine.protocol.control_table import ControlRow
    from hackamore.messages.control import ControlRequest

_REMEMBERED = 4_096  # the memory of a long session must not grow with its requests
REQUEST_BYTES = 2_500
"""The bytes of an open request besides its line: its job, its decoded form and its timeout. Measured: 2,200 to 3,100."""


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
