"""The reading thread of a blocking session: reads, hands messages out, starts callbacks, ends the process.

The way of one read: `_move` waits in `transport.receive`; under the lock the bytes go into the connection, timeouts are applied, and
`flush` has the core hand out what arrived (waking readers), sends what is to be sent and starts callbacks in threads of their own, so
that reading never waits for one. The driver refers to no `Session`, so a session that is no longer referenced is collected.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any

from hackamore._engine.answering.servers import CLOSE_SECONDS
from hackamore._engine.session.core import ShellStep, driver_error
from hackamore.options.bounds import LONGEST_SECONDS
from hackamore.runtime.event_loops import context_for_thread
from hackamore.runtime.threads import Threads
from hackamore.transports.base import SyncPushTransport

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from hackamore._engine.answering.jobs import Job
    from hackamore._engine.session.core import SessionCore
    from hackamore.transports.base import SyncTransport

_PAUSE_SECONDS = 0.05
"""The longest wait for the store before the reading thread looks whether the session is being stopped."""
_BEHIND_BYTES, _TAKEN_BYTES = 1024 * 1024, 65_536
"""Readers that take less than the second in all moments are slow: they get no more of them until they have taken as much."""
_MOMENTS, _LAST_MOMENTS = 20, 1000
"""In ms. Near the limit more: a thread can wait 200 ms for a busy machine, in which this one could read what is left."""
_END_SECONDS = 1.0
"""How long cancelled coroutines have to end before the loop stops."""


class Driver:
    """Drives one session, from the start of the process to its end.

    The transport was started. `lock` is held while the core is read or changed, `tell` passes new warnings on to the user, and `running` is
    True until the session has ended: then nothing is sent any more.
    """

    def __init__(
        self, core: SessionCore[Any], transport: SyncTransport, lock: threading.RLock, tell: Callable[[], None]
    ) -> None:
        self.running: bool = False
        self._lock = lock
        self._tell = tell
        self._core = core
        self._transport = transport
        self._push = transport if isinstance(transport, SyncPushTransport) else None
        self._slow_at = self._last_at = -_BEHIND_BYTES
        self._exited = False
        self._exit_code: int | None = None
        self._thread: threading.Thread | None = None
        self._runner = Runner(self._finish)

    def start(self) -> None:
        """Start the thread. The process has been started, and the caller holds the lock."""
        name = f"hackamore-session, created at {self._core.created_at}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self.running = True

    @property
    def is_here(self) -> bool:
        """True in the reading thread, which must not wait for itself."""
        return self._thread is threading.current_thread()

    def run(self, call: Callable[[], None]) -> None:
        """Run a function of the library, which must not raise, in one of the session's threads; raise RuntimeError if there is none."""
        self._runner.run(call)

    def flush(self) -> None:
        """Have the core hand out what happened, send what is to be sent, and start callbacks. Called under the lock; never blocks."""
        core = self._core
        if not self.running:
            core.pump(time.monotonic())
            return
        for step in core.next_steps(time.monotonic()):
            match step:  # warnings wait until the lock is free, and only the reading thread ends the session
                case ShellStep.CALLBACKS:
                    self._serve_callbacks()
                case ShellStep.WRITE:
                    send = self._transport.send if self._push is None else self._push.send_nowait
                    send(core.connection.data_to_send())
                case ShellStep.CLOSE_INPUT:
                    self._transport.end_input()
                    core.input_closed(time.monotonic())
        if self._push is not None and self._push.input_broken:
            core.input_broke(time.monotonic())

    def _run(self) -> None:
        core, transport = self._core, self._transport
        try:
            try:
                self._move()
            except Exception as error:
                failure = driver_error(error)  # before the lock: it may log
                with self._lock:
                    core.connection.fail(failure)
            with self._lock:
                self.flush()
                # Stopped before the exit is reported: then all of stderr has been read, and the diagnosis is complete.
                turn_open = core.crashed(self._exit_code) if self._exited else core.turn_open
            transport.stop(turn_open=turn_open)
            if not self._exited:
                self._exit_code = transport.wait_exit(1.0)
            with self._lock:
                ends_well = core.ends_well(self._exit_code)
            if ends_well:
                self._write_last()
            with self._lock:
                core.process_gone(self._exit_code, transport.stderr_tail)
                self.flush()
            if not ends_well:
                self._write_last()
            self._wait_served()
        except Exception:
            self._core.log.exception("a session's process could not be ended")
            transport.abandon()
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            try:
                self._core.lost("its thread has ended", time.monotonic())
                self.flush()
            except Exception:
                self._core.log.exception("the end of a session could not be reported")
            self.running = False
            self._core.ended.set()
        self._tell()
        self._runner.close()

    def _write_last(self) -> None:
        core, storing = self._core, self._core.storing
        if storing is None:
            return
        limit = core.options.timeouts.store
        until = time.monotonic() + (limit if limit is not None else threading.TIMEOUT_MAX)
        with self._lock:
            core.begin_last_writes(time.monotonic())
            self.flush()
        while True:
            with self._lock:
                now = time.monotonic()
                if storing.ended or now >= until:
                    storing.end()
                    self.flush()
                    break
                event = threading.Event()
                storing.more.waiters.append(event)
                seconds = core.deadlines.wait_seconds(now)
            event.wait(min(until - now, LONGEST_SECONDS if seconds is None else seconds))
            with self._lock:
                core.expire(time.monotonic(), self._transport.stderr_tail)
                self.flush()
        self._tell()

    def _wait_served(self) -> None:
        """Wait until the server objects have ended; not for long."""
        event = threading.Event()
        with self._lock:
            if not self._core.callbacks.mcp.objects.wake_when_ended(event):
                return
        event.wait(CLOSE_SECONDS)

    def _move(self) -> None:
        core, connection, transport = self._core, self._core.connection, self._transport
        while True:
            with self._lock:
                self.flush()
                if core.stop.may_end:
                    return
                seconds = core.deadlines.wait_seconds(time.monotonic())
                if core.poll is not None:
                    # A prompt that is sent meanwhile, or the end of the input, starts timeouts: none of them can expire before this.
                    seconds = core.poll if seconds is None else min(seconds, core.poll)
                pauses = core.storing is not None and core.storing.full
            self._tell()
            data = None
            if pauses:
                self._pause(seconds)
            else:
                self._let_readers_catch_up()
                data = transport.receive(seconds)
            with self._lock:
                if data:
                    core.received(time.monotonic())
                    connection.receive_data(data)
                core.expire(time.monotonic(), transport.stderr_tail)
                # Inside the same lock: no caller may see a core that is ahead of its handles.
                self.flush()
            if data == b"":
                self._see_the_end()
                return

    def _pause(self, seconds: float | None) -> None:
        event = threading.Event()
        with self._lock:
            storing = self._core.storing
            if storing is None or not storing.full:
                return
            storing.more.waiters.append(event)
        event.wait(_PAUSE_SECONDS if seconds is None else min(seconds, _PAUSE_SECONDS))

    def _let_readers_catch_up(self) -> None:
        """Give readers that are behind a moment: on a busy machine this thread can get more of the processor than they do."""
        core = self._core
        with self._lock:
            unread, began = core.audience.progress()
        last = unread > core.options.limits.buffered_bytes * 3 // 4 and abs(began - self._last_at) >= _BEHIND_BYTES
        if unread <= _BEHIND_BYTES or (not last and abs(began - self._slow_at) < _TAKEN_BYTES):
            return
        if last:  # not for each 64 KiB: a reader that is slow for good must not hold up answers to others
            self._last_at = began
        for _ in range(_LAST_MOMENTS if last else _MOMENTS):
            time.sleep(0.001)
            with self._lock:
                unread, _taken = core.audience.progress()
            if unread <= _BEHIND_BYTES or core.stop.asked:
                return
        self._slow_at = began

    def _see_the_end(self) -> None:
        """Wait for the exit. The output has ended: by itself, or because another thread stops the transport."""
        core = self._core
        with self._lock:
            if core.stop.asked or core.connection.state.over:
                return
            core.connection.receive_eof()
            core.output_ended(time.monotonic())
        while not self._exited:
            with self._lock:
                self.flush()
                seconds = core.deadlines.wait_seconds(time.monotonic())
            self._tell()
            self._exit_code = self._transport.wait_exit(seconds)
            with self._lock:
                if core.stop.asked:
                    return
                core.expire(time.monotonic(), self._transport.stderr_tail)
                if core.connection.state.over:
                    return
                self._exited = self._exit_code is not None

    def _serve_callbacks(self) -> None:
        for job in self._core.callbacks.take():
            try:
                self._runner.start(job)
            except RuntimeError as error:  # no thread can be had
                self._core.callback_ended(job, None, error, time.monotonic())

    def _finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        with self._lock:
            self._core.callback_ended(job, outcome, error, time.monotonic())
            self.flush()
        self._tell()


class Runner:
    """Runs the callbacks of one session: plain functions in threads, coroutines on one private event loop.

    The loop starts with the first coroutine and ends with the session. `finish` gets the outcome of a callback, in any thread.
    """

    def __init__(self, finish: Callable[[Job, object, BaseException | None], None]) -> None:
        self._finish = finish
        self._context = context_for_thread()
        self._lock = threading.Lock()
        self._threads = Threads()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def start(self, job: Job) -> None:
        context = (job.state.context or self._context).copy()
        if not job.callee.is_async:
            self._threads.run(lambda: context.run(self._call, job))
            return
        self._begin_soon(job, context)

    def run(self, call: Callable[[], None]) -> None:
        """Run a function of the library in one of the threads; it must not raise."""
        self._threads.run(call)

    def _call(self, job: Job) -> None:
        try:
            outcome = job.call()
        except BaseException as error:
            self._finish(job, None, error)
            return
        if inspect.isawaitable(outcome):
            try:
                self._begin_soon(job.calling(lambda: outcome), contextvars.copy_context())
            except RuntimeError as error:  # no thread is available
                self._finish(job, None, error)
            return
        self._finish(job, outcome, None)

    def _begin_soon(self, job: Job, context: contextvars.Context) -> None:
        with self._lock:
            loop = None if self._closed else self._running_loop()
            if loop is not None:
                loop.call_soon_threadsafe(self._begin, loop, job, context)

    def _begin(self, loop: asyncio.AbstractEventLoop, job: Job, context: contextvars.Context) -> None:
        task = loop.create_task(self._await(job), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def stop() -> None:
            with self._lock:
                if not self._closed:  # else the loop cancels the rest by itself
                    loop.call_soon_threadsafe(task.cancel)

        if not job.started(stop):
            task.cancel()

    async def _await(self, job: Job) -> None:
        import asyncio

        try:
            outcome = await job.call()
        except asyncio.CancelledError as error:
            self._finish(job, None, error)  # dropped, unless the callback cancelled itself
            raise
        except BaseException as error:
            self._finish(job, None, error)
        else:
            self._finish(job, outcome, None)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            import asyncio

            loop = asyncio.new_event_loop()
            try:
                threading.Thread(
                    target=_serve, args=(loop, self._tasks), name="hackamore-callbacks", daemon=True
                ).start()
            except BaseException:
                loop.close()
                raise
            self._loop = loop
        return self._loop

    def close(self) -> None:
        """End the threads and the loop. Never waits."""
        self._threads.end()
        with self._lock:
            self._closed = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)


def _serve(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[Any]]) -> None:
    import asyncio

    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = list(tasks)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_END_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
