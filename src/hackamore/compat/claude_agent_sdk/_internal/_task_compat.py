"""Tasks that outlive the call that starts them, on asyncio and trio: `spawn_detached`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import anyio
import sniffio

from hackamore.options.observing import logger


class TaskHandle:
    """A task that runs beside its starter."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[TaskHandle], None]] = []
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._error: BaseException | None = None
        self.task: Any = None  # of asyncio, which keeps only a weak reference

    def cancel(self) -> None:
        self._scope.cancel()

    def done(self) -> bool:
        return self._over.is_set()

    def add_done_callback(self, callback: Callable[[TaskHandle], None]) -> None:
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)

    async def wait(self) -> None:
        await self._over.wait()
        if self._error is not None:
            raise self._error

    async def run(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            with self._scope:
                await work
        except BaseException as error:  # a system task of trio must not raise
            if not isinstance(error, anyio.get_cancelled_exc_class()):
                logger.warning("Unhandled exception in a detached task", exc_info=error)
                self._error = error
        finally:
            self._over.set()
            for callback in self._callbacks:
                with suppress(Exception):
                    callback(self)


def spawn_detached(coro: Coroutine[Any, Any, Any]) -> TaskHandle:
    """Start a task that no task group waits for; raise RuntimeError without an event loop of asyncio or trio."""
    library = sniffio.current_async_library()
    if library not in ("asyncio", "trio"):
        coro.close()
        raise RuntimeError(f"Unsupported async backend: {library!r}. Use asyncio or trio.")
    handle = TaskHandle()
    if library == "trio":
        import trio

        trio.lowlevel.spawn_system_task(handle.run, coro, context=copy_context())
    else:
        import asyncio

        handle.task = asyncio.get_running_loop().create_task(handle.run(coro))
    return handle
