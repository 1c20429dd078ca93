"""Runs callbacks for the blocking session: plain functions in threads, coroutines on one private event loop.

The loop starts with the first coroutine and ends with the session.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from typing import TYPE_CHECKING, Any

from bridle.waiting.event_loops import context_for_thread
from bridle.waiting.threads import Threads

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from bridle.answering.routing import Job

__all__ = ["Runner"]

_END_SECONDS = 1.0
"""How long cancelled coroutines have to end before the loop stops."""


class Runner:
    """Runs the callbacks of one session.

    Args:
        finish: gets the outcome of a callback; called in any thread.
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
        """Start a callback."""
        context = self._context.copy()
        if not job.is_async:
            self._threads.run(lambda: context.run(self._call, job))
            return
        self._begin_soon(job, context)

    def run(self, call: Callable[[], None]) -> None:
        """Run a function of the library in one of the threads; it must not raise."""
        self._threads.run(call)

    def thread(self, call: Callable[[], None], name: str) -> threading.Thread:
        """Return a new thread, not started, that runs a function of the library and then is one of the threads."""
        return self._threads.thread(call, name)

    def call_here(self, job: Job) -> None:
        """Run a plain callback in this thread."""
        self._context.copy().run(self._call, job)

    def _call(self, job: Job) -> None:
        try:
            outcome = job.take()()
        except BaseException as error:
            self._finish(job, None, error)
            return
        if inspect.isawaitable(outcome):
            awaitable = outcome
            job.call = lambda: awaitable
            try:
                self._begin_soon(job, contextvars.copy_context())
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

        job.stop = stop
        if job.cancelled:
            task.cancel()

    async def _await(self, job: Job) -> None:
        import asyncio

        try:
            outcome = await job.take()()
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
                threading.Thread(target=_serve, args=(loop, self._tasks), name="bridle-callbacks", daemon=True).start()
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
