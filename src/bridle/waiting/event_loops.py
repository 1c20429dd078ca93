"""The only file of `waiting` and `transports` that goes past anyio: to the event loops themselves, for speed, and to sniffio.

asyncio and trio are imported where they run already, and not before.
"""

from __future__ import annotations

import contextvars
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["call_when_readable", "context_for_thread", "wait_readable"]

T = TypeVar("T")


async def wait_readable(descriptor: int) -> None:
    """Wait until something can be read: `anyio.wait_readable` without a turn of the loop beforehand, for which answers would wait."""
    await call_when_readable(descriptor, lambda: True)


async def call_when_readable(descriptor: int, call: Callable[[], T | None]) -> T:
    """Call a function each time a descriptor is readable, until it returns something else than None; return that.

    On asyncio the event loop itself makes the calls, and no task is woken for one. trio wakes the task for each.
    """
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
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
