"""Who reads on while the reading thread runs a callback: another thread, but only if the callback takes its time.

To wake a thread for each callback costs more than most callbacks. So while callbacks come, a thread looks every `TICK_SECONDS` whether
one still runs that ran the last time too, and takes the reading over then. Where one was slow, the next is expected to be, and the
reading is handed over at once, until one is quick again.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Relief"]

TICK_SECONDS = 0.002
"""How often it is looked: a callback that is not expected to be slow may hold the reading up for twice as long."""
IDLE_TICKS = 25
"""After so many without a callback the thread goes, and the next callback wakes it."""


class Relief:
    """Watches over the callbacks that the reading thread of one session runs.

    Args:
        run: runs a function in another thread; raises RuntimeError if none can be had.
        read_on: reads on, in the thread that calls it.
    """

    def __init__(self, run: Callable[[Callable[[], None]], None], read_on: Callable[[], None]) -> None:
        self._run = run
        self._read_on = read_on
        self._lock = threading.Lock()
        self._closed = (
            threading.Lock()
        )  # as a clock that can be stopped: it is released at the end, and waited for until then
        self._closed.acquire()
        self._count = 0
        self._running = 0
        self._used = self._watched = self._expects_slow = False

    def call(self, callback: Callable[[], None]) -> bool:
        """Run a callback, which must not raise, in this thread; True if another one reads on.

        Raises:
            RuntimeError: no thread can be had; the callback was not run.
        """
        if self._expects_slow:
            self._run(self._read_on)
            begun = time.monotonic()
            callback()
            self._expects_slow = time.monotonic() - begun > TICK_SECONDS
            return True
        with self._lock:
            self._count += 1
            number = self._running = self._count
            watched, self._watched, self._used = self._watched, True, True
        if not watched:
            try:
                self._run(self._watch)
            except RuntimeError:
                self._running, self._watched = 0, False
                raise
        callback()
        with self._lock:
            relieved = self._running != number
            if not relieved:
                self._running = 0
            return relieved

    def close(self) -> None:
        """Let the thread go, if there is one. Never waits."""
        if self._closed.locked():
            self._closed.release()

    def _watch(self) -> None:
        if self._is_held_up():
            self._read_on()

    def _is_held_up(self) -> bool:
        """Wait until a callback takes its time; False if none come any more."""
        seen = idle = 0
        while not self._closed.acquire(timeout=TICK_SECONDS):
            with self._lock:
                held_up = self._running != 0 and self._running == seen
                idle = 0 if self._used or self._running else idle + 1
                if held_up:
                    self._running, self._expects_slow = 0, True
                if held_up or idle > IDLE_TICKS:
                    self._watched = False
                    return held_up
                seen, self._used = self._running, False
        return False
