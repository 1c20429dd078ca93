"""The one task of a session: moves bytes, wakes whoever waits, starts callbacks, ends the process.

It belongs to nobody's task group and refers to no `Session`, so a session that is forgotten is collected while its driver still runs.
It never raises: an event loop's internals are above it.
"""

from __future__ import annotations

import contextvars
import logging
import time
from typing import TYPE_CHECKING

import anyio

from bridle.aio.callbacks import Loop, run_in_thread, run_job, wait_served
from bridle.errors import BridleError, SessionClosedError
from bridle.transports.base import AsyncPushTransport
from bridle.waiting.event_loops import context_for_thread
from bridle.waiting.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.answering.routing import Job
    from bridle.launch import LaunchPlan
    from bridle.session.core import SessionCore
    from bridle.transports.base import AsyncTransport

__all__ = ["Driver"]

logger = logging.getLogger("bridle")

_MISSED_READS = 3
"""So often in a row somebody who writes may end a wait for output; then it is read, for this long at least."""
_READ_SECONDS = 0.002


class Driver:
    """Drives one session, from the start of the process to its end."""

    def __init__(self, core: SessionCore, transport: AsyncTransport, plan: LaunchPlan) -> None:
        self._core = core
        self._transport = transport
        self._plan = plan
        self._loop = Loop()
        self._context = context_for_thread()  # of the plain functions among the callbacks; the others do not mind
        self._threads = Threads()
        self._scope: anyio.CancelScope | None = None
        self._woken = False
        self._missed = 0
        self._output_ended = False
        self._until: float | None = None
        self._push = transport if isinstance(transport, AsyncPushTransport) else None

    def start(self) -> None:
        """Begin, in a task of its own."""
        self._loop.spawn(self._run, contextvars.Context(), self._done)

    def _done(self) -> None:
        if not self._core.ended.is_set:  # asyncio cancelled the task before its first step: nothing in it has run
            self._transport.abandon()
            self._core.connection.fail(SessionClosedError(expected=False, reason="its event loop has ended"))
            self._core.pump(time.monotonic())
            self._core.ended.set()

    @property
    def loop(self) -> Loop:
        """The event loop that it runs in."""
        return self._loop

    @property
    def is_here(self) -> bool:
        """True in its own event loop: only there the core may be touched."""
        return self._loop.is_current

    def wake(self) -> None:
        """Look at the core again: something is to be sent, or it is to stop. Only in the loop's thread."""
        self._woken = True
        if self._scope is not None:
            self._scope.cancel()

    def post(self, function: Callable[[], None]) -> None:
        """Run a function in the loop's thread and look at the core afterwards; from any thread."""

        def do() -> None:
            self._core.deadlines.now = time.monotonic()
            function()
            self.wake()

        self._loop.post(do)

    async def _run(self) -> None:
        core, connection = self._core, self._core.connection
        try:
            try:
                await self._transport.start(self._plan)
                core.initialize(self._plan, time.monotonic())
                await self._move()
            except BridleError as error:
                connection.fail(error)
            except Exception as error:
                logger.exception("a session's driver failed")
                connection.fail(SessionClosedError(expected=False, reason=f"{type(error).__name__}: {error}"))
            await self._end()
        except Exception:
            logger.exception("a session's process could not be ended")
            self._transport.abandon()
        except BaseException:
            # The event loop ends: there is no time to wait for anything.
            self._transport.abandon()
            raise
        finally:
            try:
                if not connection.over:
                    connection.fail(SessionClosedError(expected=False, reason="its event loop has ended"))
                core.pump(time.monotonic())
                self._serve_callbacks()
                core.tell()
            except Exception:
                logger.exception("the end of a session could not be told")
            self._threads.end()
            core.ended.set()

    async def _end(self) -> None:
        core, transport = self._core, self._transport
        turn_open = core.turn_open
        if not core.connection.over:
            core.pump(time.monotonic())
            if data := core.connection.data_to_send():
                await transport.send(data)
        await transport.stop(turn_open=turn_open)
        exit_code: int | None = None
        with anyio.move_on_after(1.0):
            exit_code = await transport.wait_exit()
        core.process_gone(exit_code, transport.stderr_tail)
        core.pump(time.monotonic())
        await wait_served(core.callbacks)

    async def _move(self) -> None:
        core, connection, transport = self._core, self._core.connection, self._transport
        while True:
            self._woken = False
            if core.stop_asked:
                core.begin_stop(time.monotonic())
            core.pump(time.monotonic())
            self._serve_callbacks()
            core.tell()
            if data := connection.data_to_send():
                await transport.send(data)
            self._look_at_input()
            if core.may_end or core.abandoned or (core.stop_asked and self._output_ended):
                return
            if connection.input_may_close:
                await transport.end_input()
                connection.input_was_closed()
                core.input_closed(time.monotonic())
            if self._woken and self._missed < _MISSED_READS:
                self._missed += 1
                continue
            await self._advance()

    def _look_at_input(self) -> None:
        if self._push is not None and self._push.input_broken:
            self._core.input_broke(time.monotonic())

    async def _advance(self) -> None:
        """Wait for one happening and tell the core."""
        core, connection, transport = self._core, self._core.connection, self._transport
        data: bytes | None = None
        exit_code: int | None = None
        now = time.monotonic()
        seconds = core.deadlines.wait_seconds(now)
        self._until = None if seconds is None else now + seconds
        deadline = float("inf") if seconds is None else anyio.current_time() + seconds
        hasty = self._missed >= _MISSED_READS
        if hasty:
            deadline = min(deadline, anyio.current_time() + _READ_SECONDS)
        with anyio.CancelScope(deadline=deadline) as scope:
            self._scope = None if hasty else scope
            try:
                if self._output_ended:
                    exit_code = await transport.wait_exit()
                elif self._push is not None and not hasty:
                    data = await self._push.push_to(lambda data: self._take_in(data, scope))
                else:
                    data = await transport.receive()
            finally:
                self._scope = None
        self._missed = self._missed + 1 if scope.cancelled_caught and not hasty else 0
        if data:
            core.received(time.monotonic())
            connection.receive_data(data)
        elif data == b"":
            self._output_ended = True
            if not core.stop_asked:
                connection.receive_eof()
                core.output_ended(now)
        elif self._output_ended and not core.stop_asked and (exit_code is not None or not scope.cancelled_caught):
            # There may be no status: somebody else took it, or the transport has none.
            # Stopped first: then everything that was on stderr has been read, and the diagnosis is complete.
            await transport.stop(turn_open=core.crashed(exit_code))
            connection.process_exited(exit_code, transport.stderr_tail)
        core.expire(time.monotonic(), transport.stderr_tail)

    def _take_in(self, data: bytes, scope: anyio.CancelScope) -> bool:
        """Take output, and begin what it asks for; False if the driver has to look at the core."""
        core = self._core
        self._missed = 0
        now = time.monotonic()
        core.received(now)
        core.connection.receive_data(data)
        core.pump(now)
        self._serve_callbacks()
        return self._may_wait_on(scope)

    def _may_wait_on(self, scope: anyio.CancelScope) -> bool:
        """Return whether more output can be waited for in the same scope: a new one for each question costs more than the rest."""
        core, connection = self._core, self._core.connection
        if core.has_to_tell:
            return False  # in the driver's task, where code of users may be called
        if (outgoing := connection.data_to_send()) and self._push is not None:
            self._push.send_nowait(outgoing)
            self._look_at_input()
        if self._woken or core.stop_asked or core.may_end or core.abandoned or connection.input_may_close:
            return False
        now = time.monotonic()
        seconds = core.deadlines.wait_seconds(now)
        if seconds is not None and (self._until is None or now + seconds < self._until):
            if not seconds:
                return False
            self._until = now + seconds
            scope.deadline = self._loop.time() + seconds
        return True

    def _serve_callbacks(self) -> None:
        for job in self._core.callbacks.take():
            self._start_job(job)

    def _start_job(self, job: Job) -> None:
        context = self._context.copy()
        if job.is_async:
            self._loop.spawn(lambda: run_job(job, self._finish), context)
        else:
            run_in_thread(job, self._finish, self._loop, context, self._threads)

    def _finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        self._core.callback_ended(job, outcome, error, time.monotonic())
        if not self._answered_from_here():
            self.wake()

    def _answered_from_here(self) -> bool:
        """Write an answer while the driver waits for output, and let it wait: to end that wait costs more than the answer itself.

        Returns:
            False if the driver has to look at the core all the same.
        """
        core, connection = self._core, self._core.connection
        if self._push is None or self._scope is None or self._woken:
            return False
        if data := connection.data_to_send():
            self._push.send_nowait(data)
        now = time.monotonic()
        core.pump(now)
        if data := connection.data_to_send():
            self._push.send_nowait(data)
        self._look_at_input()
        if core.stop_asked or core.may_end or core.has_to_tell or connection.input_may_close:
            return False
        if core.callbacks.to_run or core.callbacks.to_stop:
            return False
        seconds = core.deadlines.wait_seconds(now)
        return seconds is None or (self._until is not None and now + seconds >= self._until)
