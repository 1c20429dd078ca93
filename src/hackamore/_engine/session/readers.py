"""The readers of a session: what each has not read yet, what has happened, and who is to be woken. No event loop, no threads.

A session's core has an audience, the object that gets messages, warnings and endings. There are two: `Readers` has the turns and cursors of
a session, `steering.SteeredQuery` the items of a query.
"""

from __future__ import annotations

import copy
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from hackamore._engine.protocol import events
from hackamore._engine.protocol.deadlines import TURN_KINDS
from hackamore._engine.protocol.diagnostics import did_not_exit, incomplete_last_line
from hackamore._engine.protocol.states.session import TurnState
from hackamore._engine.queries.ending import Recent
from hackamore._engine.session.events import (
    BackgroundTasksChanged,
    SessionEvent,
    TurnCompleted,
    TurnStarted,
    WarningRaised,
)
from hackamore.errors import SlowConsumerError
from hackamore.messages import ResultMessage
from hackamore.runtime.flags import Flag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hackamore._engine.protocol.connection import Connection
    from hackamore._engine.protocol.log import SessionLog
    from hackamore._engine.session.stopping import Stopping
    from hackamore._engine.session.users import Warnings
    from hackamore.errors import HackamoreError, StreamWarning
    from hackamore.messages import Message
    from hackamore.options.options import Options

    BrokenLine = events.BadLine | events.LongLine | events.IncompleteLine


_EVENT_BYTES = 250
"""The size of an event, or of a background task in one, as far as the limit is concerned."""


def size_of(item: object) -> int:
    """Return how many bytes an item had on the wire; for an event, which has no line of its own, about what it occupies."""
    size = len(getattr(item, "raw", b"")) or len(getattr(item, "line", b""))
    if size or not isinstance(item, SessionEvent):
        return size
    if isinstance(item, WarningRaised):
        return _EVENT_BYTES + len(item.warning.message)
    return _EVENT_BYTES * (1 + (len(item.tasks) if isinstance(item, BackgroundTasksChanged) else 0))


class Unread:
    """The bytes that some inboxes hold together."""

    __slots__ = ("gone", "size")

    def __init__(self) -> None:
        self.size: int = 0
        # bytes of inboxes that were collected. The garbage collector adds to it, in any thread.
        self.gone: deque[int] = deque()

    def count(self) -> int:
        """Return the bytes of the inboxes that are left."""
        while self.gone:
            self.size -= self.gone.popleft()
        return self.size


class Inbox:
    """Items that wait for one reader."""

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        self.size: int = 0  # their bytes on the wire
        self.unread: Unread = Unread()  # the count of all inboxes
        self.added: int = 0  # the bytes of all that was ever added
        self.more: Flag = Flag()  # woken when something was added or it is over
        self.over: bool = False
        self.error: HackamoreError | None = None  # raised when everything has been read
        self.keeps: bool = True
        self.turn_began: float = 0.0  # when its reader last let other tasks run, where there is an event loop

    def __del__(self) -> None:
        if self.size:
            self.unread.gone.append(self.size)

    def add(self, items: Iterable[Any], size: int) -> None:
        if not self.over and self.keeps:
            self.items.extend(items)
            self.size += size
            self.unread.size += size
            self.added += size
            self.more.wake()

    def take(self) -> Any:
        """Return the next item; None if there is none."""
        if not self.items:
            return None
        item = self.items.popleft()
        size = size_of(item)
        self.size -= size
        self.unread.size -= size
        return item

    def end(self, error: HackamoreError | None = None) -> None:
        """End the inbox."""
        if not self.over:
            self.over = True
            self.error = error
            self.more.wake()

    def clear(self) -> None:
        """Throw away what is unread."""
        self.items.clear()
        self.unread.size -= self.size
        self.size = 0

    def skip(self, flag: bool) -> None:
        """Keep nothing while `flag`: its reader wants the end alone."""
        self.keeps = not flag
        if flag:
            self.clear()

    def the_error(self) -> HackamoreError | None:
        """Return a fresh copy of the error: each raise has a traceback of its own."""
        return copy.copy(self.error) if self.error is not None else None


class Progress:
    """The part of a turn that the core changes; `read` is True once a reader iterates. It lives as long as the user's `Turn`."""

    __slots__ = ("__weakref__", "id", "inbox", "over", "read", "recent", "result", "state")

    def __init__(self, turn_id: str) -> None:
        self.id: str = turn_id
        self.state: TurnState = TurnState.QUEUED
        self.inbox: Inbox = Inbox()
        self.result: ResultMessage | None = None
        self.over: Flag = Flag()
        self.read: bool = False
        self.recent: Recent = Recent()

    def begin_reading(self) -> None:
        """Keep messages from here on, even while another task waits for the result only."""
        self.read = True
        self.inbox.keeps = True

    def deliver(self, messages: list[Message], size: int) -> None:
        """Add messages that have `size` bytes together."""
        if isinstance(messages[-1], ResultMessage):  # a result comes alone
            self.result = messages[-1]
        self.recent.add(messages, size)
        self.inbox.add(messages, size)

    def end(self, error: HackamoreError | None) -> None:
        """End the turn; `error` is raised once its messages are read."""
        self.inbox.end(error)
        self.over.set()


class TurnBase:
    """One prompt, and its answer."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._inbox = progress.inbox

    @property
    def id(self) -> str:
        """The prompt's uuid."""
        return self._progress.id

    @property
    def state(self) -> TurnState:
        """The state: `queued`, `started`, `completed`, `interrupted` or `failed`."""
        return self._progress.state

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.state})"

    def _repr_html_(self) -> str:
        from hackamore.messages.shown import html

        return html(repr(self))


class Audience(Protocol):
    """The methods that a core calls, in the order of the wire."""

    fail_on_bad_lines: ClassVar[bool]  # whether the connection itself decides about bad and long lines
    late_timeouts: ClassVar[tuple[str, ...]]  # the `Timeouts` that a thread may start while another one reads
    in_order: ClassVar[bool]  # whether all messages and turns are one sequence for one reader

    def __init__(self, core: Any) -> None: ...

    def add(self, inbox: Inbox, *, events: bool) -> None:
        """A cursor was made."""

    def sent(self, turn: Progress) -> None:
        """A prompt was sent."""

    def messages(self, messages: list[Message], turn_ids: tuple[str, ...], *, to_cursors: bool = True) -> None:
        """Messages came; `turn_ids` are the prompts that they answer. Without `to_cursors` only their turns get them."""

    def held(self) -> None:
        """Something was added that counts in `Limits.buffered_bytes`: messages, events and open requests."""

    def warned(self, warning: StreamWarning) -> None:
        """Something was degraded."""

    def broken_line(self, line: BrokenLine) -> None:
        """A line cannot be used. `LongLine` does not come if the connection judges lines."""

    def turn_changed(self, event: events.TurnStateChanged) -> None:
        """The state of a turn changed."""

    def turn_given_up(self, turn_id: str, error: HackamoreError) -> None:
        """A turn has no waiter any more: a timeout passed, or an observer ended it."""

    def session_event(self, event: SessionEvent) -> None:
        """The session itself changed."""

    def progress(self) -> tuple[int, int]:
        """How many bytes the readers of the last messages have not taken, and how many they have."""

    def pumped(self) -> None:
        """All events were passed on, or the input was closed."""

    def exit_timeout_expired(self, kind: str, seconds: float, stderr_tail: bytes) -> None:
        """The CLI did not exit in time: `after_result`, `background`, `finish` or `exit`."""

    def ended(self, event: events.Ended) -> None:
        """The session is over."""


class ReadersCore(Protocol):
    """The core of a session, as its readers see it."""

    options: Options
    connection: Connection
    log: SessionLog

    warnings: Warnings
    stop: Stopping


class Readers:
    """The turns and cursors of a session; those without a user are forgotten. `besides` returns the unread bytes of other readers."""

    fail_on_bad_lines: ClassVar[bool] = True
    late_timeouts: ClassVar[tuple[str, ...]] = TURN_KINDS
    in_order: ClassVar[bool] = False

    def __init__(self, core: ReadersCore, besides: Callable[[], int] = lambda: 0) -> None:
        self._core = core
        self._turns: weakref.WeakValueDictionary[str, Progress] = weakref.WeakValueDictionary()
        self._messages: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self._events: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self._lately: tuple[bool, tuple[str, ...]] = False, ()  # the readers of the last messages
        self._besides = besides
        self._limit = core.options.limits.buffered_bytes
        self._unread = Unread()
        self._slow = False
        self.said: bool = False  # a prompt was sent: without one the CLI keeps no transcript

    def add(self, inbox: Inbox, *, events: bool) -> None:
        connection = self._core.connection
        if connection.state.over:
            inbox.end(None if events else connection.state.terminal_error)  # the last event tells how it ended
        else:
            inbox.unread = self._unread
            (self._events if events else self._messages).add(inbox)

    def sent(self, turn: Progress) -> None:
        """Keep a turn, for as long as its user does."""
        self.said = True
        turn.inbox.unread = self._unread
        self._turns[turn.id] = turn

    def messages(self, messages: list[Message], turn_ids: tuple[str, ...], *, to_cursors: bool = True) -> None:
        inboxes = list(self._messages) if to_cursors and self._messages else []
        turns = [turn for turn_id in turn_ids if (turn := self._turns.get(turn_id)) is not None]
        if not inboxes and not turns:
            return
        size = sum([len(message.raw) for message in messages])
        for turn in turns:
            turn.deliver(messages, size)
        for inbox in inboxes:
            inbox.add(messages, size)
        self._lately = to_cursors, turn_ids
        self.held()

    def progress(self) -> tuple[int, int]:
        to_cursors, turn_ids = self._lately
        turns = [turn.inbox for turn_id in turn_ids if (turn := self._turns.get(turn_id)) is not None]
        found = [*self._messages, *turns] if to_cursors else turns
        unread = sum(inbox.size for inbox in found)
        return unread, sum(inbox.added for inbox in found) - unread

    def held(self) -> None:
        """Check the limit of unread messages and open requests: a warning at half of it, failure beyond it."""
        # Requests count as well: a flood of hooks behind a slow callback takes memory like unread messages.
        held = self._unread.count() + self._besides() + self._core.connection.exchanges.in_flight.size
        if held > self._limit:
            self._core.connection.fail(SlowConsumerError(held, self._limit))
        elif held * 2 > self._limit:
            if not self._slow:
                self._slow = True
                text = f"{held:,} bytes of unread messages and open requests are held; at {self._limit:,} the session fails."
                self._core.warnings.add("SLOW_CONSUMER", text, buffered=held, limit=self._limit)
        elif held * 4 < self._limit:  # not at half: a reader that stays near it is warned about once
            self._slow = False

    def warned(self, warning: StreamWarning) -> None:
        """Pass a warning on to `on_warning` and to the event cursors."""
        self._core.warnings.waiting.append(warning)
        self.session_event(WarningRaised(warning))

    def broken_line(self, line: BrokenLine) -> None:
        """Log a bad line, and warn about an incomplete one; about a long one the connection warned."""
        if isinstance(line, events.BadLine):
            self._core.log.warning("%s", line.error, extra={"code": line.error.reason})
        elif isinstance(line, events.IncompleteLine):
            self._core.warnings.add(incomplete_last_line(line.line))

    def turn_changed(self, event: events.TurnStateChanged) -> None:
        turn = self._turns.get(event.turn_id)
        if turn is not None:
            turn.state = event.state
        if event.state is TurnState.STARTED:
            self.session_event(TurnStarted(event.turn_id))
        elif event.state.over:
            if turn is not None:
                turn.end(event.error)
            self.session_event(TurnCompleted(event.turn_id, event.state))

    def turn_given_up(self, turn_id: str, error: HackamoreError) -> None:
        """End the turn with the error, and interrupt it; the session continues."""
        turn = self._turns.get(turn_id)
        if turn is not None:
            turn.end(error)
        self._core.connection.expire_turn(turn_id)

    def session_event(self, event: SessionEvent) -> None:
        if self._events:
            inboxes = list(self._events)
            size = size_of(event)
            for inbox in inboxes:
                inbox.add((event,), size)
            if not self._core.connection.state.over:  # a session that is over has no limit to warn of
                self.held()

    def pumped(self) -> None:
        """Do nothing: nothing depends on it."""

    def exit_timeout_expired(self, kind: str, seconds: float, stderr_tail: bytes) -> None:
        """Warn and stop, if it was `finish` that waited for the exit."""
        if kind == "finish":
            self._core.warnings.add(did_not_exit(seconds, self._core.connection.conversation.background_tasks))
            self._core.stop.ask()

    def dismiss(self, error: HackamoreError) -> None:
        """End all turns and cursors: their holder returned the session. Open ones raise the error."""
        for turn in list(self._turns.values()):
            if not turn.over.is_set:
                turn.end(error)
        for inbox in list(self._messages):
            inbox.end(error)
        for inbox in list(self._events):
            inbox.end()
        self._unread = Unread()
        self._turns.clear()
        self._messages.clear()
        self._events.clear()

    def ended(self, event: events.Ended) -> None:
        for inbox in list(self._messages):
            inbox.end(event.error)
        for inbox in list(self._events):
            inbox.end()
        self._messages.clear()
        self._events.clear()
