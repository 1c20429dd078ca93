"""Queries over the bidirectional launch, for asyncio and trio: a driver feeds the core, and the stream takes its items in portions."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from bridle.aio.life import Life
from bridle.aio.session import QuerySession
from bridle.aio.waits import checkpoint, is_cancellation
from bridle.errors import BridleError
from bridle.session.steering import SteeredQuery

if TYPE_CHECKING:
    from bridle.options.options import Options
    from bridle.queries.ending import Item
    from bridle.transports.base import AsyncTransport, TransportSource

__all__ = ["Steered"]


class Steered:
    """The bidirectional launch, with the methods of `query._Plain`."""

    def __init__(self, prompt: object, options: Options, transport: AsyncTransport | TransportSource | None) -> None:
        self._life = Life(options, transport, SteeredQuery)
        self._session = QuerySession(self._life)  # callbacks find it as long as the stream lives
        self._seam = self._life.seam
        self._audience = self._life.core.audience
        self.transport = self._life.transport
        self.core = self._audience.core
        self.items: deque[Item] = deque()
        self.gone = False
        self._prompt = prompt
        self._fed = False
        self._closed = False

    @property
    def over(self) -> bool:
        """True once no further item can come."""
        return self._audience.over

    async def start(self, *, resumable: bool) -> None:
        """Send the prompt, which waits for the handshake, and start the CLI."""
        if not self._fed:
            self._fed = True
            with self._seam.lock:
                self._audience.send_all(self._prompt, time.monotonic())
        try:
            await self._life.begin(resumable=resumable)
        except BridleError:
            if not self._audience.tells_the_end:
                raise

    def resumes(self, error: BaseException) -> bool:
        """Return whether the next call of `start` can continue after this error."""
        return is_cancellation(error)

    async def advance(self) -> None:
        """Take the next portion of items, or wait for one."""
        await checkpoint()  # before items are taken: a cancellation must not lose them
        audience = self._audience
        with self._seam.lock:
            portion = audience.take()
            done, seen = self._closed or audience.over, audience.more.wakes
        if portion:
            self.items.extend(portion)
        elif not done:
            await self._seam.wait(audience.more, since=seen)

    def close(self) -> None:
        """End a wait that goes on in another task or thread."""
        self._closed = True
        self._seam.post(self._audience.more.wake)

    async def stop(self, *, turn_open: bool | None = None) -> None:
        """Stop the CLI; the core knows whether a turn is open."""
        await self._life.stop()
        self.gone = True

    def abandon(self) -> None:
        """End the CLI without waiting, if it was started."""
        self._life.abandon()
