"""Threads for the plain callbacks of one session, of either shell.

Each callback has a thread to itself for as long as it runs, so none can keep another one waiting. A few that have become idle are kept for
the next ones: to start one costs more than all the rest of a callback.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Threads"]

_KEPT = 4
IDLE_SECONDS = 2.0


class Threads:
    """Runs functions in threads, until `end`.

    Args:
        idle_seconds: how long a thread waits for more.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._idle: deque[SimpleQueue[Callable[[], None] | None]] = deque()
        self._over = False

    @property
    def idle(self) -> int:
        """How many threads wait for more."""
        return len(self._idle)

    def run(self, work: Callable[[], None]) -> None:
        """Run a function that raises nothing in a thread.

        Raises:
            RuntimeError: there can be no more threads.
        """
        try:
            self._idle.pop().put(work)
        except IndexError:
            self.thread(work).start()

    def thread(self, work: Callable[[], None], name: str = "bridle-callback") -> threading.Thread:
        """Return a new thread, not started, that runs a function that raises nothing and is then one of those that are kept."""
        inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        inbox.put(work)  # an argument would be held for as long as the thread lives
        return threading.Thread(target=self._serve, args=(inbox,), name=name, daemon=True)

    def end(self) -> None:
        """Let threads end: idle ones now, others when their functions return."""
        self._over = True
        with suppress(IndexError):
            while True:
                self._idle.pop().put(None)

    def _serve(self, inbox: SimpleQueue[Callable[[], None] | None]) -> None:
        work = inbox.get()
        while work is not None:
            work()
            work = None  # an idle thread holds on to nothing of the user's
            if self._over or len(self._idle) >= _KEPT:
                return
            self._idle.append(inbox)
            work = self._next(inbox)

    def _next(self, inbox: SimpleQueue[Callable[[], None] | None]) -> Callable[[], None] | None:
        """Wait for more; None if there is none."""
        try:
            return inbox.get(timeout=0 if self._over else self._idle_seconds)
        except Empty:
            try:
                self._idle.remove(inbox)
            except ValueError:  # somebody has taken it in this moment, to put something into it
                with suppress(Empty):
                    return inbox.get(timeout=self._idle_seconds)
        return None
