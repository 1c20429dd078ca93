"""The callers of a pool that wait, in their order, and those that need a place for a process."""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import count, takewhile
from typing import TYPE_CHECKING

from hackamore.pool.pace import Crowd
from hackamore.pool.rows import Row
from hackamore.pool.states import HELD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore.pool.members import Waiter


class Callers(OrderedDict["Waiter", None]):
    """The queue of a pool.

    Attributes:
        for_any: the callers that need a place for a process, and that any new one suits.
        for_own: the others that need a place.
        round: the number of the last look at them.
        crowd: how many of the last ones waited for a place.
    """

    def __init__(self) -> None:
        super().__init__()
        self.turns: Iterator[int] = count(1)
        self._turns_before = count(0, -1)
        self._reordered = False  # since places were last reported
        self.for_any: Row[Waiter] = Row()
        self.for_own: Row[Waiter] = Row()
        self.round: int = 0
        self.crowd: Crowd = Crowd()
        self._crowded_round = 0
        self._crowded_by = ""

    def add(self, waiter: Waiter, *, last: bool = True) -> None:
        """Queue a caller; with `last=False` before all others."""
        if not last:
            waiter.turn, self._reordered = next(self._turns_before), True
        conv = waiter.conv
        for queue in (self,) if conv is None else (self, conv.waiters):
            queue[waiter] = None
            queue.move_to_end(waiter, last)
        if conv is None:
            self.line_up(waiter)

    def remove(self, waiter: Waiter) -> None:
        if waiter in self:
            del self[waiter]
            self._reordered = True
        self.line_up(waiter)

    def line_up(self, waiter: Waiter) -> None:
        conv, own = waiter.conv, bool(waiter.differences.cold)
        waits = waiter in self and waiter.started is None
        if conv is not None:
            own = own or conv.record is not None
            waits &= conv.first is waiter and conv.lease in HELD and conv.slot is None and not conv.wanted
        self.for_own.put(waiter, (waiter.turn,) if waits and own else None)
        self.for_any.put(waiter, (waiter.turn,) if waits and not own else None)
        if not waits:
            self.note_rounds(waiter, math.inf)
        elif waiter.since == math.inf:
            waiter.since = self.round + 1

    def note_rounds(self, waiter: Waiter, since: float) -> None:
        """Record whether there was no place for a caller in a round that counts for it; those from `since` on count next."""
        if waiter.since <= self._crowded_round:
            waiter.crowded = self._crowded_by
        waiter.since = since

    def crowded(self, limit: str) -> None:
        """Record that there was no place in this round, because of a limit."""
        self._crowded_round, self._crowded_by = self.round, limit

    def moved(self) -> list[Waiter]:
        """Return the callers that have another place than at the last call."""
        if self._reordered:
            places = list(enumerate(self, 1))
        else:
            # Only the callers at the end of the queue are new.
            latest = takewhile(lambda waiter: not waiter.place, reversed(self))
            places = [(len(self) - back, waiter) for back, waiter in enumerate(latest)][::-1]
        self._reordered = False
        moved = [waiter for place, waiter in places if place != waiter.place]
        for place, waiter in places:
            waiter.place = place
        return moved
