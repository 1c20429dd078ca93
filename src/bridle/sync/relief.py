"""Hands the reading over to another thread while the reading thread of a session runs a slow callback.

To wake a thread for each callback costs more than most callbacks. So while callbacks come, one thread for all sessions checks every
`TICK_SECONDS` whether the callback of the last check still runs, and then has another thread take over the reading. After a slow callback
the next one is expected to be slow: the reading is handed over immediately, until one is quick again.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from bridle.waiting.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Relief"]


TICK_SECONDS = 0.002
"""Time between two checks; a callback that is not expected to be slow may delay the reading for twice as long."""
IDLE_TICKS = 25
"""Checks without a callback after which the thread sleeps; the next callback wakes it."""
SLEEP_SECONDS = 60.0
"""Longest sleep."""


class Relief:
    """Watches the callbacks that the reading thread of one session runs.

    Args:
        run: runs a function in another thread; raises RuntimeError if none is available.
        read_on: continues the reading in the thread that calls it.
    """

    def __init__(self, run: Callable[[Callable[[], None]], None], read_on: Callable[[], None]) -> None:
        self._run = run
        self._read_on = read_on
        self._lock = threading.Lock()
        self._watch: _Watch | None = None
        self._count = self._running = self._seen = 0
        self._expects_slow = False

    def call(self, callback: Callable[[], None]) -> bool:
        """Run a callback, which must not raise, in this thread; return True if another thread took over the reading.

        Raises:
            RuntimeError: no thread is available; the callback was not run.
        """
        if self._expects_slow:
            self._run(self._read_on)
            begun = time.monotonic()
            callback()
            self._expects_slow = time.monotonic() - begun > TICK_SECONDS
            return True
        if self._watch is None:
            self._watch = _watch_over(self)
        with self._lock:
            self._count += 1
            number = self._running = self._count
        if self._watch.asleep:
            self._watch.ring()
        callback()
        with self._lock:
            relieved = self._running != number
            if not relieved:
                self._running = 0
            return relieved

    def close(self) -> None:
        """Stop watching. Never waits."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.leave(self)

    def look(self) -> bool:
        """Have the reading taken over if the callback of the last check still runs; return True if there was one since then."""
        with self._lock:
            seen, self._seen = self._seen, self._count
            if self._running and self._running == seen:
                try:
                    self._run(self._read_on)
                except RuntimeError:  # no thread is available: the reading goes on after the callback
                    return True
                self._running, self._expects_slow = 0, True
            return self._running != 0 or self._count != seen


class _Watch(threading.Thread):
    """The thread that checks. It ends with the last session it watches.

    Attributes:
        asleep: True while it only checks when it is rung.
    """

    def __init__(self) -> None:
        super().__init__(name="bridle-relief", daemon=True)
        self.asleep = False
        self._reliefs: set[Relief] = set()
        self._over = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def join_in(self, relief: Relief) -> None:
        """Watch one more session."""
        self._reliefs.add(relief)

    def leave(self, relief: Relief) -> None:
        """Watch one session less."""
        global _watch  # noqa: PLW0603 - one for the process
        with _lock:
            self._reliefs.discard(relief)
            if self._reliefs:
                return
            self._over = True
            if _watch is self:
                _watch = None
        self.ring()

    def ring(self) -> None:
        """Wake the thread."""
        with _lock:
            if self._bell.locked():
                self._bell.release()

    def run(self) -> None:
        """Check until no session is left."""
        idle = 0
        while not self._over:
            with _lock:
                reliefs = tuple(self._reliefs)
            if sum(_look(relief) for relief in reliefs):  # at each of them
                idle, self.asleep = 0, False
            elif idle == IDLE_TICKS and not self.asleep:
                # Set before the last check: a callback that begins after that check sees it, and rings.
                self.asleep = True
                continue
            else:
                idle += 1
            if self._bell.acquire(timeout=SLEEP_SECONDS if self.asleep else TICK_SECONDS):
                idle, self.asleep = 0, False


def _look(relief: Relief) -> bool:
    try:
        return relief.look()
    except Exception:  # no memory, for example: the other sessions are still watched
        logger.exception("the reading of a session could not be taken over")
        return True


_lock = threading.Lock()
_watch: _Watch | None = None


def _watch_over(relief: Relief) -> _Watch:
    global _watch  # noqa: PLW0603 - one for the process
    with _lock:
        if _watch is None:
            started = _Watch()
            started.start()
            _watch = started
        _watch.join_in(relief)
        return _watch


def _after_fork() -> None:
    """Begin again: a forked copy has neither the thread nor a holder of the lock."""
    global _lock, _watch
    _lock, _watch = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)
