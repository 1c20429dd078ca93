"""The seam between a pool and threads: how it waits, starts jobs, and calls functions that block.

`aio.pool_seam` has the same methods for event loops. The core of a pool is touched under one lock. No thread that holds it takes the
lock of a session, or waits.
"""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hackamore.runtime.event_loops import context_for_thread
from hackamore.runtime.threads import Threads, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.runtime.flags import Flag

T = TypeVar("T")


class PoolSeam:
    """Waits, starts and calls for a pool in threads. `lock` is held while the core is read or changed."""

    def __init__(self, name: str = "pool") -> None:
        self._name = name
        self._pid = os.getpid()
        self.lock: threading.RLock = threading.RLock()
        self._nudged = threading.Event()
        self._threads = Threads(name=f"hackamore-{name}")
        self._context = context_for_thread()

    def check(self) -> None:
        """Raise RuntimeError in a forked copy of the process: it has no threads, and what it would change is its parent's."""
        if self._pid != os.getpid():
            raise RuntimeError(
                f"This {self._name} belongs to process {self._pid}, and this one is a fork. Make a new one."
            )

    def spawn(self, job: Callable[[], None]) -> None:
        """Start a job, which must not raise, in a thread; raise RuntimeError if there can be no more threads."""
        self._threads.run(partial(self._context.copy().run, job))

    def work(self, function: Callable[[], T]) -> T:
        return function()

    def wait(self, flag: Flag, seconds: float | None = None, *, since: int | None = None) -> bool:
        """Wait until a flag is set, or woken since it had `since` wakes, `seconds` at most; return False if the time passed."""
        with self.lock:
            if flag.is_set or (since is not None and flag.wakes != since):
                return True
            event = threading.Event()
            flag.waiters.append(event)
        try:
            return wait_for(event, seconds)
        finally:
            with self.lock:
                flag.leave(event)

    def finish(self, flag: Flag) -> None:
        """Wait until a flag is set; what is waited for has a time limit of its own."""
        self.wait(flag)

    def give_way(self) -> None:
        """Do nothing: threads share the processor by themselves."""

    def turn(self) -> None:
        """Do nothing: no caller stands in the way of threads that do something else."""

    # -- the keeper ----------------------------------------------------------------------------------------------------

    def sleep(self, until: float | None) -> None:
        """Wait until `nudge` is called, or a time has come."""
        seconds = None if until is None else min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
        self._nudged.wait(seconds)
        self._nudged.clear()

    def nudge(self) -> bool:
        """End the sleep of the keeper; from any thread."""
        self._nudged.set()
        return True

    def end(self) -> None:
        """Let threads that wait for jobs end."""
        self._threads.end()
