"""Queries that need the bidirectional protocol, without an event loop: the same stream, read from a session.

What stands in `bridle.aio.steered` holds here; only the waiting differs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bridle.errors import BridleError
from bridle.queries.ending import SessionOver
from bridle.queries.prompts import is_many, one_prompt
from bridle.sync.query import QueryStream
from bridle.sync.session import Session

if TYPE_CHECKING:
    from bridle.session.inbox import Inbox
    from bridle.session.stream import StreamSide
    from bridle.transports.base import SyncTransport, TransportSource

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

    def _open(self, transport: SyncTransport | TransportSource | None) -> tuple[SyncTransport, bool]:
        session = self._session = _StreamSession(self.options, transport=transport)
        stream = session._core.stream
        assert stream is not None  # noqa: S101 - for the type checker
        self._side, self._inbox = stream, stream.inbox
        return session._transport, session._own_transport

    def _start(self) -> None:
        self._started = True
        session = self._session
        try:
            with session._seam.lock:
                self._side.send_all(self._prompt, time.monotonic())
            session.start()
        except BaseException as error:
            if isinstance(error, BridleError) and self._side.tells_the_end and not self._closing:
                pass  # how is in the stream
            else:
                self._ended = True
                session.stop()
                if not (self._closing and isinstance(error, BridleError)):
                    raise
        self._prepared = True

    def _stop(self, *, turn_open: bool) -> None:
        with self._session._seam.lock:
            self._inbox.more.wake()  # a reader sees at once that the stream is being closed
        self._session.stop()

    def _abandon(self) -> None:
        self._session._abandon()

    def _advance(self) -> None:
        inbox, seam = self._inbox, self._session._seam
        with seam.lock:
            items = inbox.take_some()
            over, seen = inbox.over, inbox.more.wakes
        if items:
            self._connection.take(items)
        elif over:
            self._connection.take([_OVER])  # pragma: no cover - it was the last item
        elif not self._closing:
            seam.wait(inbox.more, since=seen)
