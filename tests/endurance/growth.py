"""Measure what a process holds, and judge if it grows."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import statistics
import sys
import threading
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hackamore.transports.process.processes import descendants
from tests.support.leaks import open_descriptors
from tests.support.light import resident


class _Heap(ctypes.Structure):
    """The result of glibc's `mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def heap() -> tuple[int, int]:
    """Return the bytes that malloc has given out, and those that it holds free; zeros without glibc."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return 0, 0
    mallinfo.restype = _Heap
    found = mallinfo()
    return found.uordblks + found.hblkhd, found.fordblks


class Sample(NamedTuple):
    """What a process holds at a moment when it does nothing.

    Attributes:
        seconds: the moment.
        resident: bytes of memory that it occupies.
        traced: bytes of live Python objects (tracemalloc); 0 if they are not traced.
        blocks: live blocks of Python's allocator.
        heap_used: bytes in use in malloc's arenas.
        heap_free: bytes that malloc's arenas hold free.
        descriptors: open file descriptors.
        threads: threads.
        children: processes below it.
    """

    seconds: float
    resident: int
    traced: int
    blocks: int
    heap_used: int
    heap_free: int
    descriptors: int
    threads: int
    children: int


def sample(seconds: float) -> Sample:
    """Measure this process."""
    gc.collect()
    used, free = heap()
    threads = [
        one for one in threading.enumerate() if not one.name.startswith("Trio thread ")
    ]  # it keeps them, idle, for 10 s
    traced = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0
    return Sample(
        seconds, resident(), traced, sys.getallocatedblocks(), used, free, len(open_descriptors()), len(threads),
        len(descendants(os.getpid())),
    )  # fmt: skip


class Allowed(NamedTuple):
    """Growth that is noise: a share of the level after warm-up, plus an amount."""

    share: float
    amount: float


ALLOWED = {
    "resident": Allowed(0.06, 2e6),
    "traced": Allowed(0.03, 2e5),
    "blocks": Allowed(0.03, 3e3),
    "descriptors": Allowed(0, 1),
    "threads": Allowed(0, 1),
    "children": Allowed(0, 0.5),
}
RISING = 0.6
"""A series grows if so many of its pairs rise; half of them do in noise."""


@dataclass(frozen=True)
class Verdict:
    """How a figure developed.

    Attributes:
        name: the figure.
        first: the first sample.
        level: the median of the first samples after warm-up.
        last: the median of the last samples.
        growth: the growth from the end of warm-up to the end, by the median slope.
        rising: the share of pairs of samples that rise.
        allowed: the growth that is noise.
    """

    name: str
    first: float
    level: float
    last: float
    growth: float
    rising: float
    allowed: float

    @property
    def grows(self) -> bool:
        """True if the growth is more than noise."""
        return self.growth > self.allowed and self.rising > RISING


def judged(name: str, times: Sequence[float], values: Sequence[float], warm: int, allowed: Allowed) -> Verdict:
    """Judge a series by the median of the slopes of all pairs (Theil-Sen), which a few odd samples do not change.

    Args:
        name: the figure.
        times: seconds of the samples.
        values: the samples.
        warm: the number of samples that belong to the warm-up.
        allowed: the growth that is noise.
    """
    pairs = list(itertools.combinations(range(warm, len(values)), 2))
    if not pairs:
        return Verdict(name, values[0], values[-1], values[-1], 0.0, 0.0, allowed.amount)
    if len(pairs) > 200_000:
        pairs = pairs[:: len(pairs) // 200_000 + 1]
    slopes = [(values[b] - values[a]) / (times[b] - times[a]) for a, b in pairs if times[b] > times[a]]
    edge = max(1, (len(values) - warm) // 8)
    level = statistics.median(values[warm : warm + edge])
    growth = statistics.median(slopes) * (times[-1] - times[warm])
    rising = sum(slope > 0 for slope in slopes) / len(slopes)
    last = statistics.median(values[-edge:])
    return Verdict(name, values[0], level, last, growth, rising, level * allowed.share + allowed.amount)


def verdicts(samples: Sequence[Sample], warm: int) -> list[Verdict]:
    """Judge every figure that has a limit."""
    times = [one.seconds for one in samples]
    return [
        judged(name, times, [getattr(one, name) for one in samples], warm, allowed) for name, allowed in ALLOWED.items()
    ]


def shown(name: str, value: float) -> str:
    """Return a figure for readers."""
    return f"{value / 1e6:.2f} MB" if name in {"resident", "traced", "heap_used", "heap_free"} else f"{value:,.0f}"


def table(found: Sequence[Verdict]) -> str:
    """Return the verdicts as a Markdown table."""
    lines = [
        "| Figure | First | After warm-up | At the end | Growth by slope | Limit | Verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        cells = [shown(one.name, value) for value in (one.first, one.level, one.last, one.growth, one.allowed)]
        lines.append(f"| {one.name} | {' | '.join(cells)} | {'GROWS' if one.grows else 'flat'} |")
    return "\n".join(lines) + "\n"
