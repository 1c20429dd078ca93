"""The reading thread of a blocking session: reads, wakes whoever waits, starts callbacks, ends the process.

It runs a plain callback itself, and another thread reads on if that takes its time (`relief.py`). The core is touched under one lock, by
this thread and by those that call the session; nobody waits while holding it. Whoever asks for something writes it at once, so the
thread need not be woken. It refers to no `Session`: one that is forgotten is collected.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

from bridle.answering.servers import CLOSE_SECONDS
from bridle.errors import BridleError, SessionClosedError
from bridle.sync.callbacks import Runner
from bridle.sync.relief import Relief
from bridle.transports.base import SyncPushTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.answering.routing import Job
    from bridle.session.core import SessionCore
    from bridle.session.inbox import Flag
    from bridle.transports.base import SyncTransport

__all__ = ["Driver"]

logger = logging.getLogger("bridle")

TOLD_SECONDS = 1.0
"""How long a stop waits for `on_warning`."""


class Driver:
    """Drives one session.

    Attributes:
        lock: held by whoever touches the core.
    """

    def __init__(self, core: SessionCore, transport: SyncTransport) -> None:
        self.lock = threading.RLock()
        self.running = False
        self._unwritten = False
        self._own: Job | None = None
        self._core = core
        self._transport = transport
        self._push = transport if isinstance(transport, SyncPushTransport) else None
        self._thread: threading.Thread | None = None
        self._runner = Runner(self._finish)
        self._relief = Relief(self._runner.run, self._run)
        self._teller: int | None = None
        self._told = threading.Condition(self.lock)

    def start(self) -> None:
        """Begin, in a thread of its own. The process has been started."""
        self._runner = Runner(self._finish)  # with the context of whoever starts the session
        self._relief = Relief(self._runner.run, self._run)
        self._thread = self._runner.thread(self._run, "bridle-session")
        self._thread.start()  # it waits for the lock, which is held
        self.running = True
        _drivers.add(self)

    def after_fork(self) -> None:
        """End the session in a forked copy of the host, which has no thread that could drive it, and whose process it is not."""
        if not self.running:
            return
        self.lock = threading.RLock()  # the thread that held the old one, if any, is not here to let it go
        self._told = threading.Condition(self.lock)
        self.running = False
        self._teller = None
        core = self._core
        # Another thread may have been at work in the core.
        with contextlib.suppress(Exception):
            core.connection.fail(SessionClosedError(expected=False, reason="this is a forked copy of its process"))
            core.pump(time.monotonic())
        core.ended.set()

    @property
    def is_here(self) -> bool:
        """True in its own thread, and where `on_warning` is called: neither must wait for itself."""
        return self._thread is threading.current_thread() or self._teller == threading.get_ident()

    def tell(self) -> None:
        """Let warnings be told, in order, by a thread that waits for nobody and for which nobody waits; `wait_told` does, not for long."""
        core = self._core
        if core.options.on_warning is None:
            core.tell()
            return
        with self.lock:
            if self._teller is not None or not core.has_to_tell:
                return
            self._teller = 0 if self.running else threading.get_ident()
        try:
            if not self.running:  # nothing is read yet, or any more
                self._tell_all()
                return
            self._runner.run(self._tell_all)
        except RuntimeError:  # no thread can be had
            with self.lock:
                self._teller = None
            core.tell()

    def _tell_all(self) -> None:
        self._teller = threading.get_ident()
        done = False
        try:
            while not done:
                self._core.tell()
                with self.lock:
                    done = not self._core.has_to_tell
                    if done:
                        self._stop_telling()
        finally:
            if not done:  # Ctrl-C, or a callback that raises it
                with self.lock:
                    self._stop_telling()

    def _stop_telling(self) -> None:
        self._teller = None
        self._told.notify_all()

    def wait_told(self) -> None:
        """Wait until every warning was told, `TOLD_SECONDS` at most."""
        self.tell()
        with self.lock:
            if not self.is_here:
                self._told.wait_for(lambda: self._teller is None, TOLD_SECONDS)

    def post(self, function: Callable[[], None]) -> None:
        """Run a function under the lock and send what came of it."""
        with self.lock:
            self._core.deadlines.now = time.monotonic()
            function()
            self.flush()

    def flush(self, *, keeps_one: bool = False) -> None:
        """Take what happened and write what is to be written. Under the lock; blocks nowhere.

        Args:
            keeps_one: a plain callback is left for this thread.
        """
        core, connection = self._core, self._core.connection
        core.pump(time.monotonic())
        if not self.running:
            return
        if data := connection.data_to_send():
            (self._transport.send if self._push is None else self._push.send_nowait)(data)
        if self._push is not None and self._push.input_broken:
            core.input_broke(time.monotonic())
        if connection.input_may_close:
            self._transport.end_input()
            connection.input_was_closed()
            core.input_closed(time.monotonic())
        self._serve_callbacks(keeps_one=keeps_one)
        if self._unwritten:
            self._unwritten = False
            self.flush()

    def wait(self, flag: Flag, seconds: float | None = None) -> bool:
        """Wait until a flag is set, or wakes whoever waits; False if neither was the case in time."""
        with self.lock:
            if flag.is_set:
                return True
            event = threading.Event()
            flag.waiters.append(event)
        return self.wait_for(flag, event, seconds)

    def wait_for(self, flag: Flag, event: threading.Event, seconds: float | None = None) -> bool:
        """Wait for an event that is among the waiters of a flag already."""
        try:
            return event.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        finally:
            with self.lock:
                flag.leave(event)

    def _run(self) -> None:
        core, connection, transport = self._core, self._core.connection, self._transport
        self._thread = threading.current_thread()
        handed_over = False
        try:
            try:
                handed_over = self._move()
                if handed_over:
                    return
            except BridleError as error:
                with self.lock:
                    connection.fail(error)
            except Exception as error:
                logger.exception("a session's driver failed")
                with self.lock:
                    connection.fail(SessionClosedError(expected=False, reason=f"{type(error).__name__}: {error}"))
            with self.lock:
                self.flush()
                turn_open = core.turn_open
            transport.stop(turn_open=turn_open)
            exit_code = transport.wait_exit(1.0)
            with self.lock:
                core.process_gone(exit_code, transport.stderr_tail)
                self.flush()
            self._wait_served()
        except Exception:
            logger.exception("a session's process could not be ended")
            transport.abandon()
        finally:
            if not handed_over:
                self._end()

    def _end(self) -> None:
        core, connection = self._core, self._core.connection
        with self.lock:
            try:
                if not connection.over:
                    connection.fail(SessionClosedError(expected=False, reason="its thread has ended"))
                self.flush()
            except Exception:
                logger.exception("the end of a session could not be told")
            self.running = False
            core.ended.set()
        self.tell()
        self._relief.close()
        self._runner.close()

    def _wait_served(self) -> None:
        """Wait until the server objects have ended; not for long."""
        callbacks = self._core.callbacks
        event = threading.Event()
        with self.lock:
            callbacks.all_served.append(event)
            if not callbacks.serving:
                return
        event.wait(CLOSE_SECONDS)

    def _move(self) -> bool:
        """Read until the end; True if the reading was handed over to another thread before."""
        core, connection, transport = self._core, self._core.connection, self._transport
        while True:
            with self.lock:
                if core.stop_asked:
                    core.begin_stop(time.monotonic())
                self.flush()
                if core.may_end or core.abandoned:
                    return False
                seconds = core.deadlines.wait_seconds(time.monotonic())
                if core.poll is not None:
                    # A prompt that is sent meanwhile, or the end of the input, brings deadlines: none of them can pass before this.
                    seconds = core.poll if seconds is None else min(seconds, core.poll)
            self.tell()
            data = transport.receive(seconds)
            with self.lock:
                if data:
                    core.received(time.monotonic())
                    connection.receive_data(data)
                core.expire(time.monotonic(), transport.stderr_tail)
                # Inside of the same lock: nobody may see a core that is ahead of the handles which tell of it.
                self.flush(keeps_one=bool(data))
            if self._own is not None and self._run_own():
                return True
            if data == b"":
                self._see_the_end()
                return False

    def _run_own(self) -> bool:
        """Run a callback in this thread; True if another one reads on meanwhile."""
        job, self._own = self._own, None
        if job is None or job.over:
            return False
        self._thread = None  # whoever reads on
        try:
            if self._relief.call(lambda: self._call_here(job)):
                return True
        except RuntimeError as error:  # no thread can be had
            self._finish(job, None, error)
        self._thread = threading.current_thread()
        return False

    def _call_here(self, job: Job) -> None:
        try:
            self._runner.call_here(job)
        except Exception:
            logger.exception("a callback could not be finished")

    def _see_the_end(self) -> None:
        """The output has ended: by itself, or because somebody stops the transport."""
        core, connection, transport = self._core, self._core.connection, self._transport
        with self.lock:
            if self._is_over():
                return
            connection.receive_eof()
            core.output_ended(time.monotonic())
        exit_code: int | None = None
        while exit_code is None:
            with self.lock:
                self.flush()
                seconds = core.deadlines.wait_seconds(time.monotonic())
            self.tell()
            exit_code = transport.wait_exit(seconds)
            with self.lock:
                if core.stop_asked:
                    return
                core.expire(time.monotonic(), transport.stderr_tail)
                if connection.over:
                    return
                crashed = core.crashed(exit_code)
        # Stopped first: then everything that was on stderr has been read, and the diagnosis is complete.
        transport.stop(turn_open=crashed)
        with self.lock:
            connection.process_exited(exit_code, transport.stderr_tail)

    def _is_over(self) -> bool:
        return self._core.stop_asked or self._core.connection.over

    def _serve_callbacks(self, *, keeps_one: bool) -> None:
        callbacks = self._core.callbacks
        while callbacks.to_stop:
            job = callbacks.to_stop.popleft()
            if job.stop is not None:
                job.stop()
        while callbacks.to_run:
            job = callbacks.to_run.popleft()
            if not job.over:  # else it was answered while it waited
                if keeps_one and not job.is_async and self._own is None:
                    self._own = job
                    continue
                try:
                    self._runner.start(job)
                except RuntimeError as error:  # no thread can be had
                    self._core.callback_ended(job, None, error, time.monotonic())
                    self._unwritten = True

    def _finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        with self.lock:
            self._core.callback_ended(job, outcome, error, time.monotonic())
            self.flush()
        self.tell()


_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()


def _after_fork() -> None:
    for driver in list(_drivers):
        driver.after_fork()


os.register_at_fork(after_in_child=_after_fork)
