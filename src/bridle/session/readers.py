"""Who reads a session, what each of them gets, and how much is unread."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from bridle.errors import SlowConsumerError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bridle.errors import BridleError
    from bridle.messages import Message
    from bridle.session.events import SessionEvent
    from bridle.session.inbox import Inbox, Progress

__all__ = ["Readers"]


class Readers:
    """The turns and cursors of a session, and the stream of a query; those that nobody holds any more are forgotten.

    Args:
        limit: as many bytes may be unread, over all readers.
        stream: what a query reads, if one does.
        warn: called once when half of the limit is unread, and again after it was read.
        fail: called when the limit is passed.
    """

    def __init__(
        self,
        limit: int,
        stream: Inbox | None,
        *,
        warn: Callable[[str, int, int], None],
        fail: Callable[[SlowConsumerError], object],
    ) -> None:
        self.turns: weakref.WeakValueDictionary[str, Progress] = weakref.WeakValueDictionary()
        self._messages: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self._events: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self._stream = stream
        self._limit = limit
        self._warn = warn
        self._fail = fail
        self._slow_was_said = False
        self._held_at_most = 0

    def add(self, inbox: Inbox, *, events: bool) -> None:
        """Give a cursor what happens from now on."""
        (self._events if events else self._messages).add(inbox)

    def happened(self, event: SessionEvent) -> None:
        """Tell what happened to those who read events."""
        for inbox in list(self._events):
            inbox.add((event,), 0)

    def deliver(self, messages: list[Message], turn_ids: Collection[str]) -> None:
        """Hand out what was said: to the turns it belongs to, and to all who read everything."""
        inboxes = list(self._messages)
        if self._stream is not None:
            inboxes.append(self._stream)
        turns = [turn for turn_id in turn_ids if (turn := self.turns.get(turn_id)) is not None]
        if not inboxes and not turns:
            return
        size = sum(len(message.raw) for message in messages)
        for turn in turns:
            turn.deliver(messages, size)
        for inbox in inboxes:
            inbox.add(messages, size)
        self._look_at_buffers(size * (len(inboxes) + len(turns)))

    def end(self, error: BridleError | None) -> None:
        """End all cursors; those of messages with `error`."""
        for inbox in list(self._messages):
            inbox.end(error)
        for inbox in list(self._events):
            inbox.end()
        self._messages.clear()
        self._events.clear()

    def _look_at_buffers(self, added: int) -> None:
        self._held_at_most += added
        if self._held_at_most * 2 <= self._limit and not self._slow_was_said:
            return  # counted only where it may matter: a program may hold all turns of weeks
        held = sum(inbox.size for inbox in self._messages)
        held += self._stream.size if self._stream is not None else 0
        held += sum(turn.inbox.size for turn in self.turns.values())
        self._held_at_most = held
        if held > self._limit:
            self._fail(SlowConsumerError(held, self._limit))
        elif held * 2 > self._limit:
            if not self._slow_was_said:
                self._slow_was_said = True
                self._warn(
                    f"{held:,} bytes of messages wait unread; at {self._limit:,} the session fails.", held, self._limit
                )
        elif held * 4 < self._limit:
            self._slow_was_said = False
