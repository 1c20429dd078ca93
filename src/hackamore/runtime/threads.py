"""Threads, and waiting for them: callbacks of a session, blocking work off the event loop, wake-ups, a limited number of places.

A plain callback has a thread to itself for as long as it runs, so none can keep another one waiting. A few that have become idle are kept
for the next ones: to start one costs more than all the rest of a callback.

Blocking work has threads of Hackamore (`starters`), not of anyio: those are limited in number by other users of the pool, and hold on to
the task that started them (and so to its exception, and so to a stream that should be collected) for as long as they idle.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

from hackamore.runtime.event_loops import context_for_thread, wait_readable

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGNAL_SECONDS = 1.0


def wait_for(event: threading.Event, seconds: float | None = None) -> bool:
    """Wait until an event is set; return False if the time passed. Handlers of signals, such as that of Ctrl-C, run within a second.

    Python calls them in the main thread, between two of its steps. A signal that comes after such a step and before the wait does not end
    the wait: without a limit, Ctrl-C would be lost.
    """
    if threading.current_thread() is not threading.main_thread():
        return event.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        left = _SIGNAL_SECONDS if until is None else min(_SIGNAL_SECONDS, until - time.monotonic())
        if event.wait(max(0.0, left)):
            return True
        if until is not None and time.monotonic() >= until:
            return False


class Wakeup:
    """Readable once `set` was called, until `clear`. Safe from any thread and from signal handlers."""

    __slots__ = ("_lock", "_read", "_write")

    def __init__(self) -> None:
        # Other code may reuse a closed descriptor, and must not get the bytes of `set`. Reentrant: for signal handlers
        # and finalizers in the middle of one of the calls.
        self._lock = threading.RLock()
        if sys.platform == "linux" and hasattr(os, "eventfd"):
            self._read = self._write = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """Return the descriptor to wait for; -1 once closed."""
        return self._read

    def set(self) -> None:
        """Make the descriptor readable. Does nothing once it is closed."""
        with self._lock:
            if self._write >= 0:
                try:
                    os.write(self._write, (1).to_bytes(8, "little"))
                except BlockingIOError:
                    return  # it is raised already

    def clear(self) -> None:
        """Make the descriptor wait again."""
        with self._lock:
            if self._read >= 0:
                try:
                    os.read(self._read, 4096)
                except BlockingIOError:
                    return

    def close(self) -> None:
        """Give the descriptor back."""
        with self._lock:
            read, write, self._read, self._write = self._read, self._write, -1, -1
            for descriptor in {read, write} - {-1}:
                os.close(descriptor)


_KEPT = 4
IDLE_SECONDS = 2.0


class Threads:
    """Runs functions in threads, until `end`. An idle thread ends after `idle_seconds`."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS, name: str = "hackamore-callback") -> None:
        self._idle_seconds = idle_seconds
        self._name = name
        self._idle: deque[SimpleQueue[Callable[[], None] | None]] = deque()
        self._over = False

    @property
    def idle(self) -> int:
        """How many threads wait for more."""
        return len(self._idle)

    def run(self, work: Callable[[], None]) -> None:
        """Run a function that raises nothing in a thread; raise RuntimeError if there can be no more threads."""
        try:
            self._idle.pop().put(work)
        except IndexError:
            inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
            inbox.put(work)  # an argument would be held for as long as the thread lives
            threading.Thread(target=self._serve, args=(inbox,), name=self._name, daemon=True).start()

    def end(self) -> None:
        """Let threads end: idle ones now, others when their functions return."""
        self._over = True
        self.rest()

    def rest(self) -> None:
        """Let idle threads end now."""
        with suppress(IndexError):
            while True:
                self._idle.pop().put(None)

    def after_fork(self) -> None:
        """Forget the threads in a forked copy, which has none of them."""
        self._idle.clear()

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
        try:
            return inbox.get(timeout=0 if self._over else self._idle_seconds)
        except Empty:
            try:
                self._idle.remove(inbox)
            except ValueError:  # another thread has just taken it, to put a call into it
                with suppress(Empty):
                    return inbox.get(timeout=self._idle_seconds)
        return None


starters: Threads = Threads(name="hackamore-start")
"""The threads for blocking work off the event loop: starts, mostly."""
os.register_at_fork(after_in_child=starters.after_fork)

_LOOK_SECONDS = 0.5
"""How often a thread that waits for a place checks whether it still has to."""


class Room:
    """Waits until one of its places is free."""

    def __init__(self, places: int) -> None:
        self._places = threading.Semaphore(places)

    def leave(self) -> None:
        self._places.release()

    def enter(self, given_up: Callable[[], bool]) -> bool:
        """Take a place; block until there is one. Returns False if `given_up` became true first."""
        while not self._places.acquire(timeout=_LOOK_SECONDS):
            if given_up():
                return False
        return True

    async def enter_async(self, given_up: Callable[[], bool]) -> bool:
        if self._places.acquire(blocking=False):
            return True
        waiting = Call(lambda: self.enter(given_up))
        try:
            return await waiting.wait()
        finally:
            waiting.leave()  # now: an exception may keep this frame for a while


class Mark:
    """One holder at a time; others are refused, and never wait."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def taken(self) -> bool:
        return self._lock.locked()

    def take(self) -> bool:
        """Become the holder; return False if there is one."""
        return self._lock.acquire(blocking=False)

    def __enter__(self) -> None:
        """The holder took it when it asked: two threads may ask in the same moment."""

    def __exit__(self, *_: object) -> None:
        self._lock.release()


T = TypeVar("T")


class _Work:
    """One call in a thread, and what came of it."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] | None = function
        self.value: object = None
        self.error: BaseException | None = None
        self.wakeup = Wakeup()
        self.lock = threading.RLock()  # a garbage collection inside it may drop the call
        self.done = False
        self.left = False

    def run(self) -> None:
        assert self.function is not None  # noqa: S101
        try:
            self.value = self.function()
        except BaseException as error:
            self.error = error
        self.function = None
        with self.lock:
            self.done = True
            self.wakeup.set()
            if self.left:
                self.wakeup.close()

    def leave(self) -> None:
        """Stop waiting: the last waiter closes the descriptor."""
        with self.lock:
            self.left = True
            if self.done:
                self.wakeup.close()


class Call(Generic[T]):
    """A call in a thread, with the caller's context variables. Waiting for it may be cancelled and taken up again."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._work = _Work(function)
        context = context_for_thread()
        try:
            starters.run(partial(context.run, self._work.run))
        except BaseException:
            self._work.wakeup.close()
            raise

    async def wait(self) -> T:
        """Return what the function returns, once, or raise its exception."""
        work = self._work
        while not work.done:
            await wait_readable(work.wakeup.fileno())
        work.leave()
        if work.error is not None:
            try:
                raise work.error
            finally:
                work.error = None  # an error and the frame that raises it must not keep each other alive
        return work.value  # type: ignore[return-value]

    def leave(self) -> None:
        """Stop waiting for the call. It continues, and its result is dropped."""
        self._work.leave()

    def __del__(self) -> None:
        work = getattr(self, "_work", None)
        if work is not None:
            work.leave()
