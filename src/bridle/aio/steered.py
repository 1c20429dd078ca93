"""Queries that need the bidirectional protocol, for asyncio and trio: the same stream, read from a session.

The session decodes, answers callbacks and keeps deadlines; what it brings goes, in order, through the core of one-shot streams, so that
the same happening gives the same item, whichever way a query is run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from bridle.aio.query import QueryStream
from bridle.aio.session import Session
from bridle.errors import BridleError
from bridle.queries.ending import SessionOver
from bridle.queries.prompts import is_many, one_prompt

if TYPE_CHECKING:
    from bridle.session.inbox import Inbox
    from bridle.session.stream import StreamSide
    from bridle.transports.base import AsyncTransport, TransportSource

__all__ = ["SteeredStream"]

_OVER = SessionOver(None, b"", turn_open=False, stopped=True, error=None)


class _StreamSession(Session):
    """A session that a stream reads from."""

    _for_stream = True


class SteeredStream(QueryStream):
    """The messages of one query that runs over the bidirectional protocol."""

    _session: _StreamSession
    _inbox: Inbox
    _side: StreamSide

    def _checked(self, prompt: object) -> Any:
        if not is_many(prompt):
            one_prompt(prompt)
        return prompt

    def _open(self, transport: AsyncTransport | TransportSource | None) -> tuple[AsyncTransport, bool]:
        session = self._session = _StreamSession(self.options, transport=transport)
        stream = session._core.stream
        assert stream is not None  # noqa: S101 - for the type checker
        self._side, self._inbox = stream, stream.inbox
        return session._transport, session._own_transport

    async def _start(self, *, resumable: bool) -> None:
        self._started = True
        session = self._session
        try:
            if not self._fed:
                self._fed = True
                self._side.send_all(self._prompt, time.monotonic())
            await session._begin(resumable=resumable)
        except BaseException as error:
            if resumable and isinstance(error, anyio.get_cancelled_exc_class()):
                raise
            if isinstance(error, BridleError) and self._side.tells_the_end and not self._closing:
                pass  # how is in the stream
            else:
                self._ended = True
                await session.stop()
                if not (self._closing and isinstance(error, BridleError)):
                    raise
        self._prepared = self._up = True

    async def _stop(self, *, turn_open: bool) -> None:
        # A reader sees at once that the stream is being closed.
        driver, wake = self._session._seam.driver, self._inbox.more.wake
        if driver is None or driver.is_here:
            wake()
        else:
            driver.post(wake)
        await self._session.stop()

    def _abandon(self) -> None:
        self._session._abandon()

    async def _advance(self) -> None:
        inbox = self._inbox
        await anyio.lowlevel.checkpoint()
        if inbox.items:
            self._connection.take(inbox.take_some())
        elif inbox.over:
            self._connection.take([_OVER])  # pragma: no cover - it was the last item
        else:
            await self._session._seam.wait(inbox.more)
