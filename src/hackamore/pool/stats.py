"""The numbers of a pool."""

from __future__ import annotations

from bisect import bisect_left

import msgspec

BUCKETS: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0)
"""Upper limits of the classes of `WaitTimes.histogram`, in seconds; the last class has none."""


class WaitTimes(msgspec.Struct, frozen=True):
    """How long callers waited for a session, in seconds.

    Attributes:
        count: number of check-outs.
        total: sum of the waits.
        max: the longest wait.
        histogram: number of waits up to 1 ms, 10 ms, 100 ms, 1 s, 10 s, and longer ones.
    """

    count: int = 0
    total: float = 0.0
    max: float = 0.0
    histogram: tuple[int, ...] = (0,) * (len(BUCKETS) + 1)

    @property
    def mean(self) -> float:
        """The mean wait; 0 without check-outs."""
        return self.total / self.count if self.count else 0.0


class PoolStats(msgspec.Struct, frozen=True):
    """The numbers of a pool at one moment.

    Attributes:
        live: CLI processes, including those that start or stop.
        starting: processes that are not ready yet.
        warm: processes that are ready and unused.
        busy: sessions that have a holder.
        idle: conversations with a process and without a holder.
        waiting: callers in the queue.
        hibernated: conversations that this pool has used and that have no process now.
        memory: resident memory of the process trees in bytes, at the last measurement; 0 without `memory_limit`.
        hits: check-outs that found a ready process.
        cold_starts: check-outs that waited for a new process.
        resumes: check-outs that waited for a resumed process.
        evictions: processes stopped or hibernated for `max_live` or `memory_limit`.
        hibernations: conversations that gave their process up, for any reason.
        deaths: processes that ended without a request of the pool.
        start_failures: processes that could not be started.
        timeouts: callers that got `PoolTimeoutError`.
        waits: how long callers waited.
    """

    live: int
    starting: int
    warm: int
    busy: int
    idle: int
    waiting: int
    hibernated: int
    memory: int
    hits: int
    cold_starts: int
    resumes: int
    evictions: int
    hibernations: int
    deaths: int
    start_failures: int
    timeouts: int
    waits: WaitTimes


class Meter(msgspec.Struct):
    """Counts what happens in a pool, under the names of `PoolStats`."""

    hits: int = 0
    cold_starts: int = 0
    resumes: int = 0
    evictions: int = 0
    hibernations: int = 0
    deaths: int = 0
    start_failures: int = 0
    timeouts: int = 0
    waits: WaitTimes = WaitTimes()

    def waited(self, seconds: float) -> None:
        """Count a wait."""
        was, at = self.waits, bisect_left(BUCKETS, seconds)
        histogram = tuple(number + (place == at) for place, number in enumerate(was.histogram))
        self.waits = WaitTimes(was.count + 1, was.total + seconds, max(was.max, seconds), histogram)
