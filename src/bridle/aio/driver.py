"""The task of a session: moves bytes, hands messages out, starts callbacks, ends the process.

The way of one read: `_move` waits in `_advance`. A push transport calls `_take_in` for each read, in the middle of that wait: the bytes go
into the connection, the core hands out what arrived (waking readers), callbacks are started and output is sent, and the same wait goes on
if `_may_wait_on` allows it, because a new wait costs more than all the rest. Other transports return from `receive`, and `_move` does the
same in its next round.

The task belongs to no task group and refers to no `Session`: a session that is no longer referenced is collected while its driver runs.
It never raises: only the internals of the event loop are above it.
"""

from __future__ import annotations

import contextvars
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from bridle.aio.callbacks import run_in_thread, run_job, wait_served
from bridle.session.core import driver_error
from bridle.transports.base import AsyncPushTransport
from bridle.waiting.event_loops import Loop, context_for_thread
from bridle.waiting.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.answering.jobs import Job
    from bridle.launch import LaunchPlan
    from bridle.session.core import SessionCore
    from bridle.transports.base import AsyncTransport

__all__ = ["Driver"]

logger = logging.getLogger("bridle")

_MISSED_READS = 3
"""How often in a row a writer may end the wait for output; then output is read, for `_READ_SECONDS` at least."""
_READ_SECONDS = 0.002


class Driver:
    """Drives one session, from the start of the process to its end.

    Args:
        core: the core of the session.
        transport: the connection to the CLI, not started yet.
        plan: how to start it.
    """

    def __init__(self, core: SessionCore[Any], transport: AsyncTransport, plan: LaunchPlan) -> None:
        self._core = core
        self._transport = transport
        self._push = transport if isinstance(transport, AsyncPushTransport) else None
        self._plan = plan
        self._loop = Loop()
        self._context = context_for_thread()  # for plain callbacks; it suits async ones as well
        self._threads = Threads()
        self._scope: anyio.CancelScope | None = None  # the wait for output
        self._until: float | None = None  # its time limit
        self._woken = False
        self._missed = 0
        self._output_ended = self._exited = False
        self._exit_code: int | None = None

    def start(self) -> None:
        """Start the task."""
        self._loop.spawn(self._run, contextvars.Context(), self._done)

    def _done(self) -> None:
        if not self._core.ended.is_set:  # asyncio cancelled the task before its first step
            self._transport.abandon()
            self._core.lost("its event loop has ended", time.monotonic())
            self._core.ended.set()

    @property
    def loop(self) -> Loop:
        """The event loop of the session."""
        return self._loop

    @property
    def is_here(self) -> bool:
        """True in the event loop of the session: the core may only be touched there."""
        return self._loop.is_current

    def wake(self) -> None:
        """End the wait for output, to look at the core again. Only in the loop's thread."""
        self._woken = True
        if self._scope is not None:
            self._scope.cancel()

    def post(self, function: Callable[[], None]) -> None:
        """Call a function in the loop's thread and look at the core afterwards; from any thread."""

        def do() -> None:
            self._core.deadlines.now = time.monotonic()
            function()
            self.wake()

        self._loop.post(do)

    async def _run(self) -> None:
        core = self._core
        try:
            try:
                await self._transport.start(self._plan)
                core.initialize(self._plan, time.monotonic())
                await self._move()
            except Exception as error:
                core.connection.fail(driver_error(error))
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
                core.lost("its event loop has ended", time.monotonic())
                self._serve_callbacks()
                core.tell()
            except Exception:
                logger.exception("the end of a session could not be told")
            self._threads.end()
            core.ended.set()

    async def _end(self) -> None:
        core, transport = self._core, self._transport
        # Stopped before the exit is reported: then all of stderr has been read, and the diagnosis is complete.
        turn_open = core.crashed(self._exit_code) if self._exited else core.turn_open
        if not (self._exited or core.connection.over):
            core.pump(time.monotonic())
            if data := core.connection.data_to_send():
                await transport.send(data)
        await transport.stop(turn_open=turn_open)
        if not self._exited:
            with anyio.move_on_after(1.0):
                self._exit_code = await transport.wait_exit()
        core.process_gone(self._exit_code, transport.stderr_tail)
        core.pump(time.monotonic())
        await wait_served(core.callbacks)

    async def _move(self) -> None:
        """Move bytes until the session is over, or the CLI has exited."""
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
            if core.may_end or (core.stop_asked and self._output_ended):
                return
            if connection.input_may_close:
                await transport.end_input()
                connection.input_was_closed()
                core.input_closed(time.monotonic())
            if self._woken and self._missed < _MISSED_READS:
                self._missed += 1
                continue
            await self._advance()
            if self._exited:
                return

    def _look_at_input(self) -> None:
        if self._push is not None and self._push.input_broken:
            self._core.input_broke(time.monotonic())

    async def _advance(self) -> None:
        """Wait for output, the exit, a wake or a timeout, and report it to the core."""
        core, transport = self._core, self._transport
        data: bytes | None = None
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
                    self._exit_code = await transport.wait_exit()
                elif self._push is not None and not hasty:
                    data = await self._push.push_to(self._take_in)
                else:
                    data = await transport.receive()
            finally:
                self._scope = None
        self._missed = self._missed + 1 if scope.cancelled_caught and not hasty else 0
        if data:
            core.received(time.monotonic())
            core.connection.receive_data(data)
        elif data == b"":
            self._output_ended = True
            if not core.stop_asked:
                core.connection.receive_eof()
                core.output_ended(now)
        elif self._output_ended and not core.stop_asked and (self._exit_code is not None or not scope.cancelled_caught):
            # There may be no status: another process took it, or the transport has none.
            self._exited = True
            return
        core.expire(time.monotonic(), transport.stderr_tail)

    def _take_in(self, data: bytes) -> bool:
        """Take output in the middle of the wait for it; return whether the wait may go on."""
        self._missed = 0
        now = time.monotonic()
        self._core.received(now)
        self._core.connection.receive_data(data)
        return self._may_wait_on(now)

    def _may_wait_on(self, now: float) -> bool:
        """Have the core hand out what happened, start callbacks and send; return whether the wait for output may go on."""
        core, connection = self._core, self._core.connection
        core.pump(now)
        self._serve_callbacks()
        if (
            self._push is None or self._scope is None or core.has_to_tell
        ):  # user code is called in the driver's task only
            return False
        if data := connection.data_to_send():
            self._push.send_nowait(data)
            self._look_at_input()
        if self._woken or core.stop_asked or core.may_end or connection.input_may_close:
            return False
        seconds = core.deadlines.wait_seconds(now)
        if seconds is not None and (self._until is None or now + seconds < self._until):
            if not seconds:
                return False
            self._until = now + seconds
            self._scope.deadline = self._loop.time() + seconds
        return True

    def _serve_callbacks(self) -> None:
        for job in self._core.callbacks.take():
            context = self._context.copy()
            if job.is_async:
                self._loop.spawn(partial(run_job, job, self._finish), context)
            else:
                run_in_thread(job, self._finish, self._loop, context, self._threads)

    def _finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        """Answer a callback; where it can be sent while the driver waits, the driver is not woken."""
        now = time.monotonic()
        self._core.callback_ended(job, outcome, error, now)
        if self._woken or self._scope is None or not self._may_wait_on(now):
            self.wake()
