"""Tasks that outlive the call that starts them, on asyncio and trio: `spawn_detached`."""

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import anyio
import sniffio

from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class TaskHandle:
    """A task that runs beside its starter."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[TaskHandle], None]] = []
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._task: Any = None  # of asyncio
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """Cancel the task."""
        (self._scope if self._task is None else self._task).cancel()

    def done(self) -> bool:
        """Return whether the task is over."""
        return self._over.is_set() if self._task is None else bool(self._task.done())

    def add_done_callback(self, callback: Callable[[TaskHandle], None]) -> None:
        """Call a function once the task is over; immediately if it is over already."""
        if self._task is not None:
            self._task.add_done_callback(lambda _: callback(self))
        elif self.done():
            callback(self)
        else:
            self._callbacks.append(callback)

    async def wait(self) -> None:
        """Wait for the end of the task; raise its exception. Cancelling the waiter leaves the task alone."""
        if self._task is not None and not self._task.done():
            over = anyio.Event()
            self._task.add_done_callback(lambda _: over.set())
            await over.wait()
        elif self._task is None:
            await self._over.wait()
        error = self._error
        if self._task is not None:
            error = None if self._task.cancelled() else self._task.exception()
        if error is not None:
            raise error

    async def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            with self._scope:
                await work
        except BaseException as error:
            if not isinstance(error, anyio.get_cancelled_exc_class()):
                logger.warning("A detached task failed", exc_info=error)
                self._error = error
        finally:
            self._over.set()
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                with suppress(Exception):
                    callback(self)


def spawn_detached(coro: Coroutine[Any, Any, Any]) -> TaskHandle:
    """Start a task that no task group waits for.

    Raises:
        RuntimeError: no event loop of asyncio or trio runs here.
    """
    library = sniffio.current_async_library()
    if library == "trio":
        import trio

        handle = TaskHandle()
        trio.lowlevel.spawn_system_task(handle._run, coro, context=copy_context())  # noqa: SLF001 - the same file
        return handle
    if library != "asyncio":
        coro.close()
        raise RuntimeError(f"Unsupported async backend: {library!r}. Use asyncio or trio.")
    import asyncio

    handle = TaskHandle()
    handle._task = asyncio.get_running_loop().create_task(coro)  # noqa: SLF001 - the same file
    return handle
