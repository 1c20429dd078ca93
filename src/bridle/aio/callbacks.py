"""Runs callbacks for the asyncio and trio session: each in a task of its own, plain functions in threads.

Tasks are made outside of the user's task groups, so that no cancel scope of theirs is held; how depends on the event loop.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio

from bridle.answering.servers import CLOSE_SECONDS

if TYPE_CHECKING:
    import asyncio
    import contextvars
    from collections.abc import Coroutine

    from bridle.answering.routing import Callbacks, Job
    from bridle.waiting.threads import Threads

__all__ = ["Loop", "run_in_thread", "run_job", "wait_served"]

_tasks: set[asyncio.Task[Any]] = set()
"""asyncio itself refers to its tasks only weakly."""


class Loop:
    """The event loop that runs: where tasks are made, and where other threads hand functions in."""

    def __init__(self) -> None:
        self._token: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        if _on_trio():
            import trio

            self._token = trio.lowlevel.current_trio_token()
        else:
            import asyncio

            self._loop = asyncio.get_running_loop()

    @property
    def is_current(self) -> bool:
        """True in the loop itself; False in another one, whose thread may be the same, and where there is none."""
        try:
            here = Loop()
        except RuntimeError:
            return False
        return here._token is self._token and here._loop is self._loop

    def time(self) -> float:
        """Return what the clock of the event loop says; callbacks of asyncio, which are in no task, may ask it too."""
        if self._loop is None:
            import trio

            return trio.current_time()
        return self._loop.time()

    async def turn(self) -> None:
        """Give other tasks their turn; what `anyio.lowlevel.checkpoint` does, for a fifth of the time."""
        if self._loop is None:
            import trio

            await trio.lowlevel.checkpoint()
        else:
            import asyncio

            await asyncio.sleep(0)

    def spawn(
        self,
        function: Callable[[], Coroutine[Any, Any, None]],
        context: contextvars.Context,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Start a task that nobody waits for. It must not raise. `done` is called when asyncio cancels it before its first step, too."""
        if self._loop is None:
            import trio

            trio.lowlevel.spawn_system_task(function, context=context, name="bridle session")
            return
        task = self._loop.create_task(_held(function), context=context)
        if done is not None:
            task.add_done_callback(lambda _: done())

    def post(self, function: Callable[[], None]) -> bool:
        """Run a function in the loop's thread, soon; from any thread. Does nothing once the loop has ended, and returns False."""
        try:
            if self._loop is None:
                self._token.run_sync_soon(function)
            else:
                self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return False  # the loop has ended, and the session with it
        return True


async def _held(function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it; nobody else may hold its task."""
    import asyncio

    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - for the type checker
    _tasks.add(task)
    try:
        await function()
    finally:
        _tasks.discard(task)


Finish = Callable[["Job", object, "BaseException | None"], None]


def run_in_thread(job: Job, finish: Finish, loop: Loop, context: contextvars.Context, threads: Threads) -> None:
    """Run one plain callback in a thread, in `context`. No task waits for it: the loop is told how it ended.

    One that is stopped hands in nothing more, and its thread is free when it returns.
    """
    call = job.take()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True

    def work() -> None:
        outcome, error, more = _called(context, call)
        loop.post(lambda: ended(outcome, error, more))

    def ended(outcome: object, error: BaseException | None, more: bool) -> None:
        job.stop = None
        if stopped:
            if inspect.iscoroutine(outcome):
                outcome.close()
        elif more:
            job.call = lambda: outcome
            loop.spawn(lambda: run_job(job, finish), context)
        else:
            finish(job, outcome, error)

    job.stop = stop
    if job.cancelled:
        return
    try:
        threads.run(work)
    except Exception as problem:  # no more threads, say
        failure = problem
        loop.post(lambda: ended(None, failure, more=False))


def _called(context: contextvars.Context, call: Callable[[], object]) -> tuple[object, BaseException | None, bool]:
    """Call; return what was returned, what was raised, and whether more is to be awaited."""
    try:
        outcome = context.run(call)
        return outcome, None, inspect.isawaitable(outcome)
    except BaseException as problem:
        return None, problem, False


async def run_job(job: Job, finish: Finish) -> None:
    """Run one callback, in a task of its own, and hand in how it ended; one that is stopped hands in nothing more."""
    if _on_trio():
        import trio

        with trio.CancelScope() as scope:  # what anyio's would wrap, once for each callback
            await _run(job, finish, scope.cancel, trio.lowlevel.current_task(), stops_itself=False)
    else:
        import asyncio

        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker
        await _run(job, finish, task.cancel, task, stops_itself=True)


async def _run(job: Job, finish: Finish, cancel: Callable[[], object], task: object, *, stops_itself: bool) -> None:
    """Run a callback.

    Args:
        job: which.
        finish: takes how it ended.
        cancel: ends it. On asyncio that cancels the task, once: a scope cancels again in every turn of the loop for as long as the
            callback does not end, and one that does not obey would keep a processor busy.
        task: in which it runs.
        stops_itself: the cancellation ends here, and is not taken by a scope.
    """
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            cancel()

    job.stop = stop
    if job.cancelled:
        return
    outcome: object = None
    error: BaseException | None = None
    try:
        outcome = await job.take()()
        if inspect.isawaitable(outcome):
            outcome = await outcome
    except Exception as problem:
        error = problem
    except BaseException as problem:
        cancelled = isinstance(problem, anyio.get_cancelled_exc_class())
        if stopped and stops_itself and cancelled:
            return
        if isinstance(problem, GeneratorExit) and _current_task() is not task:
            raise  # it is the event loop that drops the task, and no callback that raised it
        if not stopped:
            finish(job, None, problem)
        if cancelled:
            raise
        # A callback cannot end the program: `SystemExit` in it is a failure like others. And trio ends the program when a
        # task outside of all nurseries raises, so a group of exceptions that holds a cancellation goes no further either.
        return
    job.stop = None
    if not stopped:
        finish(job, outcome, error)


def _current_task() -> object:
    """Return the task that runs; None where there is no event loop."""
    if _on_trio():
        import trio

        return trio.lowlevel.current_task()
    import asyncio

    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _on_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


async def wait_served(callbacks: Callbacks) -> None:
    """Wait until the server objects of a session that is over have ended; not for long."""
    event = anyio.Event()
    if callbacks.mcp.objects.wake_when_ended(event):
        with anyio.move_on_after(CLOSE_SECONDS):
            await event.wait()
