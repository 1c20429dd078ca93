"""The processes of a pool: how many there are in each state, which one is used or ended first, and what they weigh."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from hackamore.pool.rows import Row
from hackamore.pool.states import LIVE, SLOT, State, Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hackamore.pool.members import PoolLimits, Slot

PROCESS_BYTES = 200 * 2**20
"""The expected size of a process that was not measured yet."""

_ORDER: dict[State, Callable[[Slot], tuple[Any, ...]]] = {
    State.WARM: lambda slot: (slot.number,),
    State.IDLE: lambda slot: (slot.waited_for, slot.used_at, slot.number),
    State.SETTLING: lambda slot: (slot.stop_at, slot.number),
}
"""The order of the processes of a state: the one that is used or ended first comes first."""


class Slots(dict[int, "Slot"]):
    """All processes of a pool, by number."""

    def __init__(self, limits: PoolLimits) -> None:
        super().__init__()
        self._limits = limits
        self.numbers: Iterator[int] = count()
        self.counts: dict[State, int] = dict.fromkeys(State, 0)
        self.rows: dict[State, Row[Slot]] = {state: Row() for state in _ORDER}
        self.coming: int = 0  # processes that will be warm
        self.live: int = 0
        self._sized = self._unsized = 0
        self._bytes = self._leaving_bytes = 0

    def add(self, slot: Slot) -> None:
        self[slot.number] = slot
        self.counts[slot.state] += 1
        self.coming += slot.conv is None and not slot.cold
        self._weigh(slot, 1)

    def move(self, slot: Slot, trigger: Trigger) -> None:
        then = SLOT[slot.state, trigger]
        self.counts[slot.state] -= 1
        self.counts[then] += 1
        self.coming -= slot.state is State.STARTING and slot.conv is None and not slot.cold
        self._weigh(slot, -1)
        slot.state = then
        self._weigh(slot, 1)
        self.shelve(slot)

    def shelve(self, slot: Slot) -> None:
        for state, row in self.rows.items():
            row.put(slot, _ORDER[state](slot) if slot.state is state else None)

    def measured(self, sizes: Mapping[int, int]) -> None:
        """Record the resident memory of processes, by the number of their slots."""
        for number, size in sizes.items():
            if number in self:
                self._weigh(self[number], -1)
                self[number].memory = size
                self._weigh(self[number], 1)

    @property
    def spares(self) -> int:
        """The number of processes that are warm or will be."""
        return self.counts[State.WARM] + self.coming

    @property
    def leaving(self) -> int:
        return self.counts[State.HIBERNATING] + self.counts[State.STOPPING]

    def has_room(self, *, for_caller: bool = True) -> bool:
        """Return whether one more process may be started. For a caller, one always may, regardless of the memory."""
        if self.live >= self._limits.max_live:
            return False
        limit = self._limits.memory
        return limit is None or (for_caller and self.live == 0) or self.memory + self._expected_size <= limit

    @property
    def _expected_size(self) -> int:
        return self._bytes // self._sized if self._sized else PROCESS_BYTES

    @property
    def memory(self) -> int:
        """The resident memory of all processes in bytes, as measured, or expected where that is to come."""
        return self._bytes - self._leaving_bytes + self._unsized * self._expected_size

    def _weigh(self, slot: Slot, sign: Literal[-1, 1]) -> None:
        if slot.state not in LIVE:
            return
        self.live += sign
        leaving = slot.state in (State.HIBERNATING, State.STOPPING)
        if slot.memory is None:
            self._unsized += 0 if leaving else sign
            return
        self._sized += sign
        self._bytes += sign * slot.memory
        self._leaving_bytes += sign * slot.memory if leaving else 0
