"""Limits that grow with the load of the machine: a starved machine makes a test slow, not red.

`patience(seconds)` is for every limit: how long a wait may take, and how long something fast may have taken. A timeout of the
library that a test lets expire (`Timeouts(turn=0.3)`) stays as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import cache

# An unloaded machine starts an interpreter without `site` in less.
QUICK_START = 0.03
# A process that shares a processor also shares its caches.
MARGIN = 1.5


def patience(seconds: float) -> float:
    """Return `seconds`, multiplied by how slow the machine is now."""
    return seconds * factor()


def factor() -> float:
    """Return how many times slower than an unloaded machine this one is: 1.0 or more."""
    waiting = max(os.getloadavg()[0], _running()) / _processors()
    return max(1.0, waiting * MARGIN, slow_start())


@cache
def slow_start() -> float:
    """Return how many times slower than usual the machine starts a process, measured once."""
    took = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True, timeout=600)
        took.append(time.monotonic() - began)
    return sorted(took)[1] / QUICK_START


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _running() -> int:
    """Return how many threads want a processor at this moment; the average of the last minute comes late."""
    try:
        with open("/proc/loadavg") as file:
            return int(file.read().split()[3].partition("/")[0])
    except OSError:
        return 0
