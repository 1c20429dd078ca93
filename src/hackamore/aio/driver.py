"""The task of a session: moves bytes, hands messages out, starts callbacks, ends the process.

The way of one read: `_move` waits in `_advance`. A push transport calls `_take_in` for each read, in the middle of that wait: the bytes go
into the connection, the core hands out what arrived (waking readers), callbacks are started and output is sent, and the same wait continues
if `_may_wait_on` allows it, because a new wait costs more than all the rest. Other transports return from `receive`, and `_move` does the
same in its next round.

The task belongs to no task group and refers to no `Session`: a session that is no longer referenced is collected while its driver runs.
It never raises: only the internals of the event loop are above it.
"""

from __future__ import annotations

import contextvars
import inspect
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from hackamore._engine.answering.servers import CLOSE_SECONDS
from hackamore._engine.session.core import ShellStep, driver_error
from hackamore.runtime.event_loops import Loop, context_for_thread, current_task, end_program, run_cancellable
from hackamore.runtime.threads import Threads
from hackamore.transports.base import AsyncPushTransport
from hackamore.transports.recording.masking import Mask

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from hackamore._engine.answering.jobs import Job
    from hackamore._engine.answering.routing import Callbacks
    from hackamore._engine.launch import LaunchPlan
    from hackamore._engine.session.core import SessionCore
    from hackamore.transports.base import AsyncTransport

# Each send ends the wait for output: tasks that send without end kept the driver from its first read.
_MISSED_READS = 3
"""How often in a row a writer may end the wait for output; then output is read, for `_READ_SECONDS` at least."""
_READ_SECONDS = 0.002

_forks = 0


def _after_fork() -> None:
    global _forks  # noqa: PLW0603 - a fact about the process
    _forks += 1


# trio waits for each event once, in an epoll object that a forked copy shares: the copy may have taken the event, so the wait begins again.
os.register_at_fork(after_in_parent=_after_fork)


class Driver:
    """Drives one session, from the start of the process to its end. The transport is not started yet."""

    def __init__(self, core: SessionCore[Any], transport: AsyncTransport, plan: LaunchPlan) -> None:
        self._core = core
        self._transport = transport
        self._push = transport if isinstance(transport, AsyncPushTransport) else None
        self._plan = plan
        self._loop = Loop()
        self._context = context_for_thread()  # for plain callbacks; it suits async ones as well
        self._threads = Threads()
        self._serving = False
        self._scope: anyio.CancelScope | None = None  # the wait for output
        self._until: float | None = None  # its time limit
        self._woken = False
        self._missed, self._forks = 0, _forks
        self._pauses = False  # the store is behind, and no output is read
        self._output_ended = self._exited = False
        self._exit_code: int | None = None

    def start(self) -> None:
        self._loop.spawn(
            self._run, contextvars.Context(), self._done, f"hackamore session, created at {self._core.created_at}"
        )

    def _done(self) -> None:
        if not self._core.ended.is_set:  # asyncio cancelled the task before its first step
            self._transport.abandon()
            self._core.lost("its event loop has ended", time.monotonic())
            self._core.ended.set()

    @property
    def loop(self) -> Loop:
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

    def look(self) -> bool:
        """Look at the core again, in the middle of the wait for output; return False where that wait has to end (see `wake`)."""
        callbacks = self._core.callbacks
        # While callbacks run, their answers are collected: a queue of quick ones would recurse.
        busy = self._serving or callbacks.to_run or callbacks.to_stop or self._woken or self._forks != _forks
        return not busy and self._scope is not None and self._may_wait_on(time.monotonic())

    def post(self, function: Callable[[], None]) -> None:
        """Call a function in the loop's thread and look at the core afterwards; from any thread."""

        def do() -> None:
            self._core.deadlines.now = time.monotonic()  # a new timeout counts from now, not from the last read
            function()
            self.wake()

        self._loop.post(do)

    async def _run(self) -> None:
        core = self._core
        try:
            try:
                await self._transport.start(self._plan)
                core.initialize(self._plan, time.monotonic(), Mask(self._plan))
                await self._move()
            except Exception as error:  # a custom transport may raise anything: callers that wait get it
                core.connection.fail(driver_error(error))
            await self._end()
        except Exception:
            self._core.log.exception("a session's process could not be ended")
            self._transport.abandon()
        except BaseException:
            # The event loop ends: there is no time to wait for anything.
            self._transport.abandon()
            raise
        finally:
            try:
                core.lost("its event loop has ended", time.monotonic())
                self._serve_callbacks()
                core.warnings.deliver()
            except Exception:  # `ended` is set in any case: `stop()` waits for it without a limit
                self._core.log.exception("the end of a session could not be reported")
            self._threads.end()
            core.ended.set()

    async def _end(self) -> None:
        core, transport = self._core, self._transport
        # Stopped before the exit is reported: then all of stderr has been read, and the diagnosis is complete.
        turn_open = core.crashed(self._exit_code) if self._exited else core.turn_open
        await transport.stop(turn_open=turn_open)
        if not self._exited:
            with anyio.move_on_after(1.0):  # a custom transport may never report an exit
                self._exit_code = await transport.wait_exit()
        ends_well = core.ends_well(self._exit_code)
        if ends_well:
            await self._write_last()
        core.process_gone(self._exit_code, transport.stderr_tail)
        core.pump(time.monotonic())
        if not ends_well:  # a crash wakes its callers immediately, also if the store is slow
            await self._write_last()
        await wait_served(core.callbacks)

    async def _write_last(self) -> None:
        core, storing = self._core, self._core.storing
        if storing is None:
            return
        core.begin_last_writes(time.monotonic())
        with anyio.move_on_after(core.options.timeouts.store):
            while not storing.ended:
                event = anyio.Event()
                storing.more.waiters.append(event)
                self._serve_callbacks()
                with anyio.move_on_after(core.deadlines.wait_seconds(time.monotonic())):
                    await event.wait()
                core.expire(time.monotonic(), self._transport.stderr_tail)
        storing.end()
        self._serve_callbacks()
        core.warnings.deliver()

    async def _move(self) -> None:
        """Move bytes until the session is over, or the CLI has exited."""
        core, connection, transport = self._core, self._core.connection, self._transport
        while True:
            self._woken = False
            for step in core.next_steps(time.monotonic()):
                match step:
                    case ShellStep.CALLBACKS:
                        self._serve_callbacks()
                    case ShellStep.WARN:
                        core.warnings.deliver()
                    case ShellStep.WRITE:
                        await transport.send(connection.data_to_send())
                    case ShellStep.CLOSE_INPUT:
                        await transport.end_input()
                        core.input_closed(time.monotonic())
                    case ShellStep.END:
                        return
            self._look_at_input()
            if core.stop.asked and self._output_ended:
                return  # while stopping, the end of the output ends `last_words` early
            # A send during the awaits above had no wait to end: without another round it stays unsent until output comes.
            if self._woken and self._missed < _MISSED_READS:
                self._missed += 1
                continue
            await self._advance()
            if self._exited:
                return

    def _look_at_input(self) -> None:
        # A CLI that closes stdin and stays shows it by a failed write alone: a prompt waited for it forever.
        if self._push is not None and self._push.input_broken:
            self._core.input_broke(time.monotonic())

    async def _advance(self) -> None:
        """Wait for output, the exit, a wake or a timeout, and report it to the core."""
        core, transport = self._core, self._transport
        data: bytes | None = None
        now = time.monotonic()
        seconds = core.deadlines.wait_seconds(now)
        self._until = None if seconds is None else now + seconds
        deadline = float("inf") if seconds is None else anyio.current_time() + seconds  # trio has its own clock
        hasty = self._missed >= _MISSED_READS
        if hasty:
            deadline = min(deadline, anyio.current_time() + _READ_SECONDS)  # no writer ends this wait
        with anyio.CancelScope(deadline=deadline) as scope:
            self._scope, self._forks = (None if hasty else scope), _forks
            self._pauses = core.storing is not None and core.storing.full
            try:
                if self._pauses:
                    await anyio.sleep_forever()
                elif self._output_ended:
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
            core.connection.receive_eof()
            core.output_ended(now)
        elif self._output_ended and not core.stop.asked and (self._exit_code is not None or not scope.cancelled_caught):
            # There may be no status: another process took it, or the transport has none.
            self._exited = True
            return
        core.expire(time.monotonic(), transport.stderr_tail)

    def _take_in(self, data: bytes) -> bool:
        """Take output in the middle of the wait for it; return whether the wait may continue."""
        self._missed = 0
        now = time.monotonic()
        self._core.received(now)
        self._core.connection.receive_data(data)
        return self._may_wait_on(now)

    def _may_wait_on(self, now: float) -> bool:
        """Have the core hand out what happened, start callbacks and send; return whether the wait for output may continue."""
        core = self._core
        for step in core.next_steps(now):
            if step is ShellStep.CALLBACKS:
                self._serve_callbacks()
            elif step is ShellStep.WRITE and self._push is not None and self._scope is not None:
                self._push.send_nowait(core.connection.data_to_send())
                self._look_at_input()
            else:
                return False  # the driver itself calls user code, closes stdin, and stops
        if self._woken or self._pauses or self._push is None or self._scope is None:
            return False
        if core.storing is not None and core.storing.full:
            return False
        seconds = core.deadlines.wait_seconds(now)
        # Only an earlier end is set: a later one moves with each message, and is found when the old one passes.
        if seconds is not None and (self._until is None or now + seconds < self._until):
            if not seconds:
                return False
            self._until = now + seconds
            self._scope.deadline = self._loop.time() + seconds
        return True

    def _serve_callbacks(self) -> None:
        self._serving = True
        try:
            for job in self._core.callbacks.take():
                run_job(job, self._finish, self._loop, self._context, self._threads)
        finally:
            self._serving = False

    def _finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        """Answer a callback; where it can be sent while the driver waits, the driver is not woken."""
        self._core.callback_ended(job, outcome, error, time.monotonic())
        if not self._serving and not self.look():  # else the caller of `_serve_callbacks` sends the answer
            self.wake()


# -- callbacks: each in a task outside all task groups, plain functions in threads -------------------------------------

Finish = Callable[["Job", object, "BaseException | None"], None]


def run_job(job: Job, finish: Finish, loop: Loop, context: contextvars.Context, threads: Threads) -> None:
    """Run a callback, in its context or a copy of the given one."""
    context = (job.state.context or context).copy()
    if job.callee.is_async:
        loop.spawn(partial(_run_in_task, job, finish), context, name="hackamore callback", eager=True)
    else:
        _run_in_thread(job, finish, loop, context, threads)


def _run_in_thread(job: Job, finish: Finish, loop: Loop, context: contextvars.Context, threads: Threads) -> None:
    """Run a plain callback in a thread. The loop gets its outcome, and no task waits for it.

    The outcome of one that is stopped is dropped, and its thread is free when it returns.
    """
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True

    def work() -> None:
        loop.post(partial(end, *_called(context, job.call)))

    def end(outcome: object, error: BaseException | None, more: bool) -> None:
        if stopped:
            if inspect.iscoroutine(outcome):  # else Python warns that it was never awaited
                outcome.close()
        elif more:  # a plain function returned an awaitable: a lambda around an async one, say
            loop.spawn(partial(_run_in_task, job.calling(lambda: outcome), finish), context)
        else:
            finish(job, outcome, error)

    if not job.started(stop):
        return
    try:
        threads.run(work)
    except Exception as problem:  # no thread is available
        loop.post(partial(end, None, problem, False))


def _called(context: contextvars.Context, call: Callable[[], object]) -> tuple[object, BaseException | None, bool]:
    """Call; return the outcome, the exception, and whether the outcome has to be awaited."""
    try:
        outcome = context.run(call)
        return outcome, None, inspect.isawaitable(outcome)
    except BaseException as problem:  # also `SystemExit`: a callback without an end leaves the CLI waiting
        return None, problem, False


def _run_in_task(job: Job, finish: Finish) -> Coroutine[Any, Any, None]:
    """Return a coroutine that runs a callback, in a task of its own; the outcome of one that is stopped is dropped."""
    return run_cancellable(partial(_run, job, finish))


async def _run(job: Job, finish: Finish, cancel: Callable[[], object], task: object, takes_cancellation: bool) -> None:
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            cancel()

    if not job.started(stop):
        return
    outcome: object = None
    error: BaseException | None = None
    try:
        outcome = await job.call()
        if inspect.isawaitable(outcome):
            outcome = await outcome
    except Exception as problem:
        error = problem
    except BaseException as problem:
        cancelled = isinstance(problem, anyio.get_cancelled_exc_class())
        if stopped and takes_cancellation and cancelled:
            return
        if isinstance(problem, GeneratorExit) and current_task() is not task:
            raise  # the event loop drops the task; no callback raised it
        if not stopped:
            finish(job, None, problem)
        if isinstance(problem, KeyboardInterrupt):  # asyncio raises Ctrl-C in the task that runs: this one
            end_program(problem)
        if cancelled:
            raise
        # A callback cannot end the program: `SystemExit` in it is a failure like others. And trio ends the program when a
        # task outside all nurseries raises, so a group of exceptions that holds a cancellation goes no further either.
        return
    if not stopped:
        stopped = True  # `finish` may come across a late stop, which is not to cancel this task
        finish(job, outcome, error)


async def wait_served(callbacks: Callbacks) -> None:
    """Wait until the server objects of a session that is over have ended, `CLOSE_SECONDS` at most."""
    event = anyio.Event()
    if callbacks.mcp.objects.wake_when_ended(event):
        with anyio.move_on_after(CLOSE_SECONDS):
            await event.wait()
