"""Server-sent events for any ASGI service: one event as bytes, and an iterator of items as a stream with ids and heartbeats."""

from __future__ import annotations

import contextvars
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import msgspec

from hackamore.runtime.event_loops import Loop, woken
from hackamore.runtime.flags import Flag

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable

__all__ = ["HEADERS", "MEDIA_TYPE", "encode", "events"]

T = TypeVar("T")

MEDIA_TYPE: Final = "text/event-stream"
"""The media type of a stream, for `StreamingResponse(..., media_type=MEDIA_TYPE)`."""
HEADERS: Final = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
"""Headers that keep caches and proxies from holding events back."""
_LINES = re.compile(r"\r\n|\r|\n")
_AHEAD = 16
"""How many items are read before the client has taken the first one."""


def encode(
    data: Any = None,
    *,
    event: str | None = None,
    id: str | int | None = None,  # noqa: A002 - the name of the field
    retry: int | None = None,
    comment: str | None = None,
) -> bytes:
    """Return one server-sent event.

    Args:
        data: a text, which may have several lines, or any value that JSON has. None for an event without data, such as a comment.
        event: its name, for `addEventListener`; None for `message`.
        id: its id: a browser that reconnects sends the last one in the header `Last-Event-ID`.
        retry: milliseconds that a browser waits before it reconnects.
        comment: a text that browsers ignore, such as a heartbeat.

    Returns:
        The event, with the empty line at its end.

    Raises:
        ValueError: `event` or `id` has a line break or NUL, `retry` is negative, or JSON cannot represent `data`.
    """
    lines = [] if comment is None else [f": {line}" for line in _LINES.split(comment)]
    for name, value in (("event", event), ("id", id)):
        if value is not None:
            if _LINES.search(str(value)) or "\0" in str(value):
                raise ValueError(f"`{name}` must be one line without NUL, got {value!r:.100}")
            lines.append(f"{name}: {value}")
    if retry is not None:
        if retry < 0:
            raise ValueError(f"`retry` must be a number of milliseconds, got {retry!r}")
        lines.append(f"retry: {retry}")
    if data is not None:
        try:
            text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        except (TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"`data` cannot be written as JSON: {error}") from error
        lines += [f"data: {line}" for line in _LINES.split(text)]
    return "\n".join([*lines, "", ""]).encode("utf-8", "replace")


async def events(
    items: AsyncIterable[T],
    *,
    to_event: Callable[[T], bytes | None] = encode,
    heartbeat: float = 15.0,
) -> AsyncIterator[bytes]:
    """Return a stream of server-sent events: each item as an event, and a comment when no item came for a while.

    A task of its own reads the items, at most 16 ahead of the client. Frameworks close the stream when a client disconnects: that cancels
    the task, and leaves the `async with` blocks of an async generator, so a turn of a pool is interrupted.

    Args:
        items: an async iterator, such as a `Turn` or your async generator.
        to_event: makes the event of an item: `encode`, or a function that calls it; None or an empty result leaves an item out.
        heartbeat: seconds without an item after which a comment is sent, so that proxies keep the connection.

    Returns:
        The stream, for `StreamingResponse(events(...), media_type=MEDIA_TYPE, headers=HEADERS)`.

    Raises:
        ValueError: `heartbeat` is not a positive number.
        Exception: the exception of `items` or `to_event`.

    Example:
        ::

            async def texts(prompt: str) -> AsyncIterator[str]:
                async with pool.conversation("user-42") as session:
                    async for text in (await session.send(prompt)).text_stream():
                        yield text

            StreamingResponse(events(texts(prompt)), media_type=MEDIA_TYPE, headers=HEADERS)
    """
    if not heartbeat > 0:  # also True for NaN
        raise ValueError(f"`heartbeat` must be a positive number of seconds, got {heartbeat!r}")
    ready: deque[T] = deque()
    more, taken, ended = Flag(), Flag(), Flag()
    scope = anyio.CancelScope()
    failure: list[Exception] = []

    async def read() -> None:
        try:
            with scope:
                iterator = aiter(items)
                try:
                    async for item in iterator:
                        ready.append(item)
                        more.wake()
                        while len(ready) >= _AHEAD:
                            await woken(taken)
                finally:
                    if (close := getattr(iterator, "aclose", None)) is not None:
                        await close()
        except Exception as error:
            failure.append(error)
        finally:
            ended.set()
            more.wake()

    Loop().spawn(read, contextvars.copy_context(), name="hackamore server-sent events")
    try:
        while ready or not ended.is_set:
            if ready:
                chunk = to_event(ready.popleft())
                taken.wake()
                if chunk:
                    yield chunk
            elif not await woken(more, heartbeat):
                yield encode(comment="")
        if failure:
            raise failure[0]
    finally:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            if not ended.is_set:
                await woken(ended)
