"""The audience of a session: its turns and cursors, and how much of their messages is unread."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from bridle.errors import SlowConsumerError
from bridle.protocol import events
from bridle.protocol.deadlines import TURN_KINDS
from bridle.protocol.diagnostics import did_not_exit, incomplete_last_line
from bridle.protocol.states.session import Ending, TurnState
from bridle.session.events import TurnCompleted, TurnStarted, Warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.errors import StreamWarning, TurnTimeoutError
    from bridle.messages import Message
    from bridle.session.audience import BrokenLine
    from bridle.session.core import SessionCore
    from bridle.session.events import SessionEvent
    from bridle.session.inbox import Inbox, Progress

__all__ = ["Readers"]

logger = logging.getLogger("bridle")


class Readers:
    """The turns and cursors of a session; those without a user are forgotten.

    Args:
        core: the core of the session.
        besides: returns how many bytes other readers have not read.
    """

    judges_lines: ClassVar[bool] = True
    late_timeouts: ClassVar[tuple[str, ...]] = TURN_KINDS

    def __init__(self, core: SessionCore[Any], besides: Callable[[], int] = lambda: 0) -> None:
        self._core = core
        self._turns: weakref.WeakValueDictionary[str, Progress] = weakref.WeakValueDictionary()
        self._messages: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self._events: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self._besides = besides
        self._limit = core.options.limits.buffered_bytes
        self._held_at_most = 0
        self._slow = False

    def add(self, inbox: Inbox, *, events: bool) -> None:
        """Give a cursor everything from now on."""
        connection = self._core.connection
        if connection.over:
            inbox.end(None if events else connection.terminal_error)
        else:
            (self._events if events else self._messages).add(inbox)

    def sent(self, turn: Progress) -> None:
        """Keep a turn, for as long as its user does."""
        self._turns[turn.id] = turn

    def messages(self, messages: list[Message], turn_ids: tuple[str, ...]) -> None:
        """Give messages to their turns, and to all message cursors."""
        inboxes = list(self._messages)
        turns = [turn for turn_id in turn_ids if (turn := self._turns.get(turn_id)) is not None]
        if not inboxes and not turns:
            return
        size = sum(len(message.raw) for message in messages)
        for turn in turns:
            turn.deliver(messages, size)
        for inbox in inboxes:
            inbox.add(messages, size)
        self.unread(size * (len(inboxes) + len(turns)))

    def unread(self, size: int) -> None:
        """Check the limit of unread messages, after `size` bytes more: a warning at half of it, failure beyond it."""
        self._held_at_most += size
        if self._held_at_most * 2 <= self._limit and not self._slow:
            return  # counted only where it may matter: a program may hold all turns of weeks
        held = sum(inbox.size for inbox in self._messages) + sum(turn.inbox.size for turn in self._turns.values())
        held = self._held_at_most = held + self._besides()
        if held > self._limit:
            self._core.connection.fail(SlowConsumerError(held, self._limit))
        elif held * 2 > self._limit:
            if not self._slow:
                self._slow = True
                text = f"{held:,} bytes of messages wait unread; at {self._limit:,} the session fails."
                self._core.warn("SLOW_CONSUMER", text, buffered=held, limit=self._limit)
        elif held * 4 < self._limit:
            self._slow = False

    def warned(self, warning: StreamWarning) -> None:
        """Pass a warning on to `on_warning` and to the event cursors."""
        self._core.tell_later(warning)
        self.happened(Warned(warning))

    def broken_line(self, line: BrokenLine) -> None:
        """Log a bad line, and warn about an incomplete one; about a long one the connection warned."""
        if isinstance(line, events.BadLine):
            logger.warning("%s", line.error)
        elif isinstance(line, events.IncompleteLine):
            self._core.warn(incomplete_last_line(line.line))

    def turn_changed(self, event: events.TurnStateChanged) -> None:
        """Move the turn on, and tell the event cursors."""
        turn = self._turns.get(event.turn_id)
        if turn is not None:
            turn.state = event.state
        if event.state is TurnState.STARTED:
            self.happened(TurnStarted(event.turn_id))
        elif event.state.over:
            if turn is not None:
                turn.end(event.error)
            self.happened(TurnCompleted(event.turn_id, event.state))

    def turn_timed_out(self, turn_id: str, error: TurnTimeoutError) -> None:
        """End the turn with the error, and interrupt it; the session goes on."""
        turn = self._turns.get(turn_id)
        if turn is not None:
            turn.end(error)
        self._core.connection.expire_turn(turn_id)

    def happened(self, event: SessionEvent) -> None:
        """Tell the event cursors."""
        for inbox in list(self._events):
            inbox.add((event,), 0)

    def pumped(self) -> None:
        """Do nothing: nothing depends on it."""

    def overstayed(self, kind: str, seconds: float, stderr_tail: bytes) -> None:
        """Warn and stop, if it was `finish` that waited for the exit."""
        if kind == "finish":
            self._core.warn(did_not_exit(seconds, self._core.connection.background_tasks))
            self._core.ask_stop()

    def ended(self, event: events.Ended) -> None:
        """End all cursors; those of messages with the error."""
        for inbox in list(self._messages):
            inbox.end(event.error if event.ending is Ending.FAILED else None)
        for inbox in list(self._events):
            inbox.end()
        self._messages.clear()
        self._events.clear()
