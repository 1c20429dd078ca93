"""The functions of `bridle.transcripts`, to await on asyncio and trio: each call runs in a worker thread.

::

    from bridle.transcripts import aio

    for each in await aio.list(limit=10):
        print(each.modified, each.title)

A cancelled call leaves its thread to finish alone. A `Transcript` reads its file when its attributes are used: `stream` yields the messages
without blocking the event loop, and `call` runs any other function of one in a thread.
"""

from __future__ import annotations

import functools
from itertools import islice
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio.to_thread

from bridle import transcripts as _blocking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

__all__ = ["call", "find", "info", "list", "read", "search", "stream", "usage"]

P = ParamSpec("P")
T = TypeVar("T")

AT_A_TIME = 100
"""Messages that `stream` reads in one visit of a thread."""


def _awaited(function: Callable[P, T], name: str) -> Callable[P, Awaitable[T]]:
    @functools.wraps(function)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> T:
        return await call(functools.partial(function, *args, **kwargs))

    awaited.__module__ = __name__
    awaited.__name__ = awaited.__qualname__ = name
    return awaited


async def call(function: Callable[[], T]) -> T:
    """Run a blocking function in a worker thread.

    Args:
        function: the function, for example `lambda: transcript.usage`.

    Returns:
        Its value. Its exceptions are raised.
    """
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)


async def stream(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield messages or entries of a conversation without blocking the event loop.

    Args:
        items: `Transcript.messages`, `Transcript.entries`, or any other iterable that blocks.

    Yields:
        The items, in order.

    Raises:
        TranscriptError: if the file was replaced meanwhile.
    """
    iterator = iter(items)
    while batch := await call(lambda: [*islice(iterator, AT_A_TIME)]):
        for item in batch:
            yield item


list = _awaited(_blocking.list, "list")  # noqa: A001 - the name of the blocking function
info = _awaited(_blocking.info, "info")
find = _awaited(_blocking.find, "find")
read = _awaited(_blocking.read, "read")
search = _awaited(_blocking.search, "search")
usage = _awaited(_blocking.usage, "usage")
