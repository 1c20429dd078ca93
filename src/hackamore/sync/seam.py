"""The seam between a session and threads: how it enters the core, sends, waits and gives way.

`hackamore.aio.seam` has the same methods for event loops. Code over a seam is written once, in `hackamore.aio`, and generated for
`hackamore.sync`. The core is touched under one lock, by the reading thread and by those that call the session; no thread waits while it
holds the lock. A caller writes what it sends itself, so the reading thread need not be woken.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from hackamore.runtime.threads import wait_for
from hackamore.sync.driver import Driver
from hackamore.transports.process.spawn import spawn_error
from hackamore.transports.recording.masking import Mask

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.launch import LaunchPlan
    from hackamore._engine.protocol.connection import Connection
    from hackamore._engine.session.core import SessionCore
    from hackamore._engine.session.readers import Inbox
    from hackamore.runtime.flags import Flag
    from hackamore.transports.base import SyncTransport

S = TypeVar("S")

DELIVERY_SECONDS = 1.0
"""How long a stop waits for `on_warning`."""


class Seam:
    """The means by which a session waits in threads."""

    def __init__(self) -> None:
        self.lock: threading.RLock = threading.RLock()  # held while the core is read or changed
        self.driver: Driver | None = None  # the driver of a session; None before its launch
        self._core: SessionCore[Any]
        self.connection: Connection
        self._transport: SyncTransport
        self._warner: Warner
        self._changes = threading.Lock()

    def connect(self, core: SessionCore[Any], transport: SyncTransport) -> None:
        self._core = core
        self.connection = core.connection
        self._transport = transport
        self._warner = Warner(core, self.lock)

    def reach(self, session: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that finds the session for a callback: in threads it is the session itself."""
        return session

    @property
    def launched(self) -> bool:
        """True once a driver works for the session."""
        return self.driver is not None

    # -- enter the core ------------------------------------------------------------------------------------------------

    def check(self, flag: Flag | None = None) -> None:
        """Do nothing: a session may be called from any thread."""

    def entered(self) -> threading.RLock:
        """Return the lock, for a caller that is going to change the core."""
        return self.lock

    def one_at_a_time(self) -> threading.Lock:
        """Return the lock for operations that must not overlap and wait while they hold it."""
        return self._changes

    def take(self, inbox: Inbox) -> Any:
        """Return the next item of an inbox; None if there is none."""
        with self.lock:
            return inbox.take()

    # -- send ----------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Send what the core has to send. Called under the lock; never blocks."""
        if self.driver is not None:
            self.driver.flush()
        else:
            self._core.pump(time.monotonic())

    def post(self, function: Callable[[], None]) -> None:
        """Call a function that changes the core, and send what comes of it."""
        with self.lock:
            self._core.deadlines.now = time.monotonic()
            function()
            self.wake()

    def deliver_warnings(self) -> None:
        """Pass new warnings on to the user, in a thread for which the caller does not wait."""
        self._warner.deliver_warnings(self.driver.run if self.driver is not None and self.driver.running else None)

    # -- wait ----------------------------------------------------------------------------------------------------------

    def wait(self, flag: Flag, seconds: float | None = None, *, since: int | None = None) -> bool:
        """Wait until a flag is set, or woken since it had `since` wakes; return False if the time limit passed."""
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

    def wait_at_most(self, flag: Flag, seconds: float | None, *, since: int | None = None) -> bool:
        """Wait until a flag is set or woken, `seconds` at most; None waits without limit. Return False if the time passed."""
        return self.wait(flag, seconds, since=since)

    def wait_ended(self, seconds: float | None) -> None:
        """Wait until the session has ended or is being stopped, or the time limit has passed."""
        core = self._core
        until = None if seconds is None else time.monotonic() + seconds
        while self.launched and not core.stop.asked:
            now = time.monotonic()
            if until is not None and now >= until:
                return
            # The reader may have begun to wait before the input was closed, so timeouts that began since then are applied here. None of
            # them can pass sooner than `after_result`.
            with self.lock:
                limits = [core.deadlines.wait_seconds(now), core.options.timeouts.after_result]
            if until is not None:
                limits.append(until - now)
            if self.wait(core.ended, min((limit for limit in limits if limit is not None), default=None)):
                return
            with self.lock:
                core.expire(time.monotonic(), self._transport.stderr_tail)
                self.wake()
            self.deliver_warnings()

    # -- give way ------------------------------------------------------------------------------------------------------

    def give_way(self) -> None:
        """Do nothing: threads share the processor by themselves."""

    def pause(self, inbox: Inbox) -> None:
        """Do nothing: a reader keeps no other thread waiting."""

    # -- start and stop ------------------------------------------------------------------------------------------------

    def launch(self, plan: LaunchPlan) -> None:
        """Start the CLI in the caller's thread, then the reading thread. Raise SessionClosedError if the session was stopped meanwhile."""
        core = self._core
        self._transport.start(plan)
        try:
            with self.lock:
                if core.stop.asked:
                    raise core.connection.state.closed_error()
                core.initialize(plan, time.monotonic(), Mask(plan))
                driver = Driver(core, self._transport, self.lock, self.deliver_warnings)
                driver.start()
                self.driver = driver  # after it: without its thread nothing would report the end
                _launched.add(self)
                driver.flush()
        except RuntimeError as error:
            if self.driver is not None:
                raise
            self._transport.stop(turn_open=True)  # no thread is available: nothing would read from the process
            raise spawn_error(plan.argv[0], plan.cwd, error) from error

    def stop(self) -> None:
        """Interrupt a running turn, end the process, and wait for the driver."""
        core, driver = self._core, self.driver
        with self.lock:
            core.stop.begin(time.monotonic())
            self.wake()
        self.deliver_warnings()
        until = time.monotonic() + core.stop.seconds
        while True:
            with self.lock:
                if core.stop.may_end or core.ended.is_set:
                    break
                seen = core.settled.wakes
            if not self.wait(core.settled, max(0.0, until - time.monotonic()), since=seen):
                break
        self._transport.stop(turn_open=core.turn_open)
        if not (self._warner.is_here or (driver is not None and driver.is_here)):  # neither waits for itself
            self.wait(core.ended)
            self.deliver_warnings()
            self._warner.wait()

    def after_fork(self) -> None:
        """End the session in a forked copy of the program: it has no reading thread there, and the process is not its child."""
        if self.driver is None or not self.driver.running:
            return
        # Threads that held the old locks are not in the copy.
        self.lock = threading.RLock()
        self._changes = threading.Lock()
        self.driver.running = False
        core = self._core
        self._warner = Warner(core, self.lock)
        # Another thread may have been at work in the core.
        with contextlib.suppress(Exception):
            core.lost("this is a forked copy of its process", time.monotonic())
        core.ended.set()


class Warner:
    """Passes warnings of one session on: `on_warning` may take its time, and is called in order, in one thread at a time."""

    def __init__(self, core: SessionCore[Any], lock: threading.RLock) -> None:
        self._core = core
        self._lock = lock
        self._thread: int | None = None
        self._done = threading.Condition(lock)

    @property
    def is_here(self) -> bool:
        """True in the thread that calls `on_warning`."""
        return self._thread == threading.get_ident()

    def deliver_warnings(self, run: Callable[[Callable[[], None]], None] | None) -> None:
        """Pass new warnings on, by `run` in another thread (None: in this one); a thread that does this already continues with them."""
        core = self._core
        if core.options.on_warning is None:
            core.warnings.deliver()
            return
        with self._lock:
            if self._thread is not None or not core.warnings.waiting:
                return
            self._thread = threading.get_ident() if run is None else 0
        if run is None:
            self._deliver_all()
            return
        try:
            run(self._deliver_all)
        except RuntimeError:  # no thread is available
            with self._lock:
                self._thread = None
            core.warnings.deliver()

    def wait(self) -> None:
        """Wait until all warnings were passed on, `DELIVERY_SECONDS` at most."""
        with self._lock:
            self._done.wait_for(lambda: self._thread is None, DELIVERY_SECONDS)

    def _deliver_all(self) -> None:
        self._thread = threading.get_ident()
        done = False
        try:
            while not done:
                self._core.warnings.deliver()
                with self._lock:
                    done = not self._core.warnings.waiting
                    if done:
                        self._stop()
        finally:
            if not done:  # Ctrl-C, or a callback that raises it
                with self._lock:
                    self._stop()

    def _stop(self) -> None:
        self._thread = None
        self._done.notify_all()


def starting(_session: object, start: Callable[[], S]) -> S:
    return start()


_launched: weakref.WeakSet[Seam] = weakref.WeakSet()


def _after_fork() -> None:
    for seam in list(_launched):
        seam.after_fork()


os.register_at_fork(after_in_child=_after_fork)
