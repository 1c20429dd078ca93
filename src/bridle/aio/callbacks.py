"""Runs callbacks for the asyncio and trio session: each in a task outside all task groups, plain functions in threads."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from bridle.answering.servers import CLOSE_SECONDS
from bridle.waiting.event_loops import Loop, current_task, run_cancellable

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Coroutine

    from bridle.answering.jobs import Job
    from bridle.answering.routing import Callbacks
    from bridle.waiting.threads import Threads

__all__ = ["run_in_thread", "run_job", "wait_served"]

Finish = Callable[["Job", object, "BaseException | None"], None]


def run_in_thread(job: Job, finish: Finish, loop: Loop, context: contextvars.Context, threads: Threads) -> None:
    """Run a plain callback in a thread, in `context`; the loop gets its outcome, and no task waits for it.

    The outcome of one that is stopped is dropped, and its thread is free when it returns.
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
            loop.spawn(partial(run_job, job, finish), context)
        else:
            finish(job, outcome, error)

    job.stop = stop
    if job.cancelled:
        return
    try:
        threads.run(work)
    except Exception as problem:  # no thread is available
        failure = problem
        loop.post(lambda: ended(None, failure, more=False))


def _called(context: contextvars.Context, call: Callable[[], object]) -> tuple[object, BaseException | None, bool]:
    """Call; return the outcome, the exception, and whether the outcome has to be awaited."""
    try:
        outcome = context.run(call)
        return outcome, None, inspect.isawaitable(outcome)
    except BaseException as problem:
        return None, problem, False


def run_job(job: Job, finish: Finish) -> Coroutine[Any, Any, None]:
    """Return a coroutine that runs a callback, in a task of its own; the outcome of one that is stopped is dropped."""
    return run_cancellable(partial(_run, job, finish))


async def _run(job: Job, finish: Finish, cancel: Callable[[], object], task: object, takes_cancellation: bool) -> None:
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
        if stopped and takes_cancellation and cancelled:
            return
        if isinstance(problem, GeneratorExit) and current_task() is not task:
            raise  # the event loop drops the task; no callback raised it
        if not stopped:
            finish(job, None, problem)
        if cancelled:
            raise
        # A callback cannot end the program: `SystemExit` in it is a failure like others. And trio ends the program when a
        # task outside all nurseries raises, so a group of exceptions that holds a cancellation goes no further either.
        return
    job.stop = None
    if not stopped:
        finish(job, outcome, error)


async def wait_served(callbacks: Callbacks) -> None:
    """Wait until the server objects of a session that is over have ended, `CLOSE_SECONDS` at most."""
    event = anyio.Event()
    if callbacks.mcp.objects.wake_when_ended(event):
        with anyio.move_on_after(CLOSE_SECONDS):
            await event.wait()
