"""Blocking functions in worker threads, for asyncio and trio."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar, cast

import anyio.to_thread

from hackamore.transcripts.stored import called

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

T = TypeVar("T")

AT_A_TIME = 100
"""Items that `stream` reads in one visit of a thread."""


async def call(function: Callable[[], T]) -> T:
    """Run a blocking function in a worker thread; return its value, or raise its exception."""
    token = called.set("call")
    try:
        return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)
    finally:
        called.reset(token)


async def direct(function: Callable[[], T]) -> T:
    """Run a function that ends with a call of `wait`, which is then awaited here: without a thread."""
    token = called.set("direct")
    try:
        waiting = cast("Awaitable[T]", function())
    finally:
        called.reset(token)
    return await waiting


async def stream(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield messages or entries of a conversation without blocking the event loop.

    Args:
        items: `Transcript.messages`, `Transcript.entries`, or any other iterable that blocks.

    Raises:
        TranscriptError: if the file was replaced meanwhile.
    """
    iterator = iter(items)
    while batch := await call(lambda: [*islice(iterator, AT_A_TIME)]):
        for item in batch:
            yield item
