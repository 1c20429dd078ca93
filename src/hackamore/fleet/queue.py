"""The tasks of a run that wait, as its driver knows them: the journal may hold any number of others."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class TaskQueue:
    """Tasks that wait, in the order in which they came first. Each call takes the logarithm of their number."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._due: dict[str, float] = {}
        # Entries of the heaps count as long as `_due` agrees.
        self._ready: list[tuple[int, str]] = []
        self._later: list[tuple[float, str]] = []

    def put(self, task: str, at: float = 0.0) -> None:
        """Set when a task may be due: 0 for now, infinity for a task that does not wait."""
        place = self._places.setdefault(task, len(self._places))
        if self._due.get(task) == at:
            return
        self._due[task] = at
        if not at:
            heappush(self._ready, (place, task))
        elif at < inf:
            heappush(self._later, (at, task))

    def take(self, now: float, taken: list[str]) -> Iterator[str]:
        """Iterate over the tasks that may be due; those that were yielded are out of the queue, and in `taken`."""
        while (at := self.next_due()) is not None and at <= now:
            self.put(heappop(self._later)[1])
        while self._ready:
            _, task = heappop(self._ready)
            if self._due.get(task) == 0.0:
                del self._due[task]
                taken.append(task)
                yield task

    def next_due(self) -> float | None:
        """Return when the next task is due that is not now; None if there is none."""
        while self._later and self._due.get(self._later[0][1]) != self._later[0][0]:
            heappop(self._later)
        return self._later[0][0] if self._later else None
