"""Who reads on while the reading thread of a session runs a callback: another thread, but only if the callback takes its time.

To wake a thread for each callback costs more than most callbacks. So while callbacks come, one thread for all sessions looks every
`TICK_SECONDS` whether one still runs that ran the last time too, and has the reading taken over then. Where one was slow, the next is
expected to be, and the reading is handed over at once, until one is quick again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Relief"]

logger = logging.getLogger("bridle")

TICK_SECONDS = 0.002
"""How often it is looked: a callback that is not expected to be slow may hold the reading up for twice as long."""
IDLE_TICKS = 25
"""After so many without a callback it sleeps, and the next callback wakes it."""
SLEEP_SECONDS = 60.0
"""For how long it sleeps at once."""


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
        self._watch: _Watch | None = None
        self._count = self._running = self._seen = 0
        self._expects_slow = False

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
        """Take that no more callbacks come. Never waits."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.leave(self)

    def look(self) -> bool:
        """Have the reading taken over if the callback runs that ran at the last look; True if there was any since then."""
        with self._lock:
            seen, self._seen = self._seen, self._count
            if self._running and self._running == seen:
                try:
                    self._run(self._read_on)
                except RuntimeError:  # no thread can be had: it is read on after the callback
                    return True
                self._running, self._expects_slow = 0, True
            return self._running != 0 or self._count != seen


class _Watch(threading.Thread):
    """The thread that looks. It ends with the last session that it looks after.

    Attributes:
        asleep: True while it looks only when it is rung.
    """

    def __init__(self) -> None:
        super().__init__(name="bridle-relief", daemon=True)
        self.asleep = False
        self._reliefs: set[Relief] = set()
        self._over = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def join_in(self, relief: Relief) -> None:
        """Look after one more."""
        self._reliefs.add(relief)

    def leave(self, relief: Relief) -> None:
        """Look after one less."""
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
        """Let it look now."""
        with _lock:
            if self._bell.locked():
                self._bell.release()

    def run(self) -> None:
        """Look until nobody is left to be looked after."""
        idle = 0
        while not self._over:
            with _lock:
                reliefs = tuple(self._reliefs)
            if sum(_look(relief) for relief in reliefs):  # at each of them
                idle, self.asleep = 0, False
            elif idle == IDLE_TICKS and not self.asleep:
                # Said before the last look: whoever begins after that look sees it, and rings.
                self.asleep = True
                continue
            else:
                idle += 1
            if self._bell.acquire(timeout=SLEEP_SECONDS if self.asleep else TICK_SECONDS):
                idle, self.asleep = 0, False


def _look(relief: Relief) -> bool:
    try:
        return relief.look()
    except Exception:  # no memory, say: the other sessions are looked after all the same
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
    """Begin anew: the thread is not in the copy, and whoever held the lock neither."""
    global _lock, _watch
    _lock, _watch = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)
