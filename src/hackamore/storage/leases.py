"""Leases on things in a database that programs share: signs that their holders send from a thread, and the judgement of others on them.

No clock of a wall takes part: it may be set while programs run. A sign is any value that changes. An observer remembers when it first saw
the present one, by its own monotonic clock, and a new observer waits a full time.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from hackamore.runtime.log import logger
from hackamore.storage.holders import runs

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_SIGHTINGS = 10_000


def sign() -> int:
    """Return a value that differs from all that this process has sent before."""
    return time.monotonic_ns()


class Sightings:
    """The signs of others, as an observer has seen them, and who is gone. Safe from any thread.

    Args:
        local: False if several machines share the database.

    Attributes:
        clock: returns seconds of a clock that is never set.
    """

    def __init__(self, *, local: bool = True) -> None:
        self._local = local
        self.clock: Callable[[], float] = time.monotonic
        self._seen: dict[str, tuple[object, float]] = {}
        self._lock = threading.Lock()

    def silence(self, name: str, sign: object) -> float:
        """Return for how many seconds a sign has not changed; 0 if it is new here."""
        now = self.clock()
        with self._lock:
            known, since = self._seen.get(name, (None, now))
            if name not in self._seen or known != sign:
                self._seen.pop(name, None)
                self._seen[name] = sign, now
                if len(self._seen) > _MOST_SIGHTINGS:
                    del self._seen[next(iter(self._seen))]  # a later look begins again
                return 0.0
            return now - since

    def is_gone(self, holder: str, sign: object, seconds: float) -> bool:
        """Return whether a holder is gone.

        Args:
            sign: its present sign; None if the database has none. It counts where the process cannot be looked at: on another machine.
            seconds: how long a sign counts.
        """
        running = runs(holder, local=self._local)
        if running is None:
            return sign is None or self.silence(holder, sign) >= seconds
        return not running

    def clear(self) -> None:
        """Begin again: the database failed, and signs could not arrive."""
        with self._lock:
            self._seen.clear()


class Heart:
    """Calls a function at regular times, in a thread: an event loop that is blocked does not stop it.

    Args:
        beat: the function. An error is logged, and the next call follows: without signs others would take what is held here.
        needed: returns False if there is nothing to send signs for: the thread ends, and `start` starts another one.
    """

    def __init__(self, seconds: float, beat: Callable[[], None], needed: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._calls: tuple[Callable[[], None], Callable[[], bool]] | None = (beat, needed)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs, or `stop` was called. Raise RuntimeError if there can be no more threads."""
        with self._lock:
            calls = self._calls
            if self._thread is None and calls is not None and not self._stopped.is_set():
                thread = threading.Thread(target=self._run, args=calls, name="hackamore-heart", daemon=True)
                thread.start()
                self._thread = thread

    def stop(self) -> bool:
        """Let the thread end, after one more call; return whether there is one. Does not wait, and takes no lock: for finalizers."""
        self._stopped.set()
        if self._thread is None:
            self._calls = None  # they may refer to the owner of this object, which would wait for the garbage collector
            return False
        return True

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, after `stop`; at most for `seconds`."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _run(self, beat: Callable[[], None], needed: Callable[[], bool]) -> None:
        while True:
            last = self._stopped.wait(self._seconds)
            try:
                beat()
            except BaseException as error:  # also the `SystemExit` of a foreign registry
                logger.error("A heartbeat failed", exc_info=error, extra={"code": "HEARTBEAT_FAILED"})
            with self._lock:
                if last or not needed():
                    self._thread = None
                    if self._stopped.is_set():  # if it is set later, `stop` finds no thread
                        self._calls = None
                    return
