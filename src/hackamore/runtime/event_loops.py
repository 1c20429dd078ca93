"""The only file that goes past anyio: to asyncio and trio themselves, for speed and for tasks without a group, and to sniffio.

asyncio and trio are imported where they run already, and not before.
"""

from __future__ import annotations

import contextvars
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from hackamore.runtime.flags import Flag

T = TypeVar("T")

_tasks: set[asyncio.Task[Any]] = set()
"""asyncio itself refers to its tasks only weakly."""


def _on_trio() -> bool:
    # Another thread may be importing trio right now: then it has no `lowlevel`, or that one has no content, and no task of trio runs here.
    lowlevel = getattr(sys.modules.get("trio"), "lowlevel", None)
    in_trio_task = getattr(lowlevel, "in_trio_task", None)
    return in_trio_task is not None and bool(in_trio_task())


class Loop:
    """The running event loop: starts tasks, and takes functions from other threads."""

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
        """True inside the loop; False inside another one, even in the same thread, and where none runs."""
        try:
            if _on_trio():
                import trio

                return self._token is trio.lowlevel.current_trio_token()
            import asyncio

            return self._loop is asyncio.get_running_loop()
        except RuntimeError:
            return False

    def time(self) -> float:
        """Return the clock of the event loop; unlike anyio's it may also be read outside tasks."""
        if self._loop is None:
            import trio

            return trio.current_time()
        return self._loop.time()

    async def turn(self) -> None:
        """Let other tasks run once: `anyio.lowlevel.checkpoint` in a fifth of the time."""
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
        name: str = "hackamore session",
        *,
        eager: bool = False,
    ) -> None:
        """Start a task outside all task groups, so that no cancel scope of the user holds it.

        Args:
            function: the task; it must not raise.
            done: called at its end on asyncio, which may cancel a task before its first step.
            eager: True to take the first step of the task in this call, where asyncio can (Python 3.12), and no task factory is set.
        """
        if self._loop is None:
            import trio

            trio.lowlevel.spawn_system_task(function, context=context, name=name)
            return
        if sys.version_info >= (3, 12) and eager and self._loop.get_task_factory() is None:
            from asyncio import Task

            task = Task(function(), loop=self._loop, name=name, context=context, eager_start=True)
        else:
            task = self._loop.create_task(function(), name=name, context=context)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
        if done is not None:
            task.add_done_callback(lambda _: done())

    def post(self, function: Callable[[], None]) -> bool:
        """Call a function in the loop's thread, soon; from any thread. Return False if the loop has ended."""
        try:
            if self._loop is None:
                self._token.run_sync_soon(function)
            else:
                self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return False
        return True


async def run_cancellable(run: Callable[[Callable[[], object], object, bool], Coroutine[Any, Any, None]]) -> None:
    """Run a function with a way to cancel it: it gets a function that does, the task, and True if a cancellation is to end in it.

    On asyncio that is the task's own cancellation, once: a scope would cancel again in every round of the loop for as long as the function
    continues, and one that ignores it would keep a processor busy. On trio a scope takes the cancellation.
    """
    if _on_trio():
        import trio

        with trio.CancelScope() as scope:  # the scope that anyio's would wrap, once for each callback
            await run(scope.cancel, trio.lowlevel.current_task(), False)
    else:
        import asyncio

        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker
        await run(task.cancel, task, True)


def end_program(error: KeyboardInterrupt) -> None:
    """Let a Ctrl-C that came out of a task end the program, unless the loop runs outside the main thread, where none comes."""
    if threading.current_thread() is not threading.main_thread():
        return
    if not _on_trio():
        raise error
    # Trio gives the signal to the main task. An exception of a system task would be reported as an internal error of trio.
    signal.raise_signal(signal.SIGINT)


def current_task() -> object:
    """Return the running task; None outside an event loop."""
    if _on_trio():
        import trio

        return trio.lowlevel.current_task()
    import asyncio

    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


async def woken(flag: Flag, seconds: float | None = None) -> bool:
    """Wait until a flag is woken, `seconds` at most; return False if the time passed."""
    import anyio

    event = anyio.Event()
    flag.waiters.append(event)
    try:
        with anyio.move_on_after(seconds):
            await event.wait()
        return event.is_set()
    finally:
        flag.leave(event)


async def wait_readable(descriptor: int) -> None:
    """Wait until something can be read: `anyio.wait_readable` without a turn of the loop beforehand, for which answers would wait."""
    await call_when_readable(descriptor, lambda: True)


async def call_when_readable(descriptor: int, call: Callable[[], T | None]) -> T:
    """Call a function each time a descriptor is readable, until it returns something else than None; return that.

    On asyncio the event loop itself makes the calls, and no task is woken for one. trio wakes the task for each.
    """
    if _on_trio():
        import trio

        value = None
        while value is None:
            await trio.lowlevel.wait_readable(descriptor)
            value = call()
        return value
    import asyncio

    loop = asyncio.get_running_loop()
    over: asyncio.Future[T] = loop.create_future()

    def ready() -> None:
        if over.done():
            return
        try:
            if (value := call()) is not None:
                over.set_result(value)
        except BaseException as error:
            if not over.done():
                over.set_exception(error)

    loop.add_reader(descriptor, ready)
    try:
        return await over
    finally:
        loop.remove_reader(descriptor)


def context_for_thread() -> contextvars.Context:
    """Return a copy of the context variables here, for another thread, in which the event loop of this one does not run."""
    context = contextvars.copy_context()
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, None)
    return context
