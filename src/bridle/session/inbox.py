"""Waiting, without waiting: what is there to be read, what has happened, and who is to be woken. No event loop, no threads."""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from bridle.messages import ResultMessage
from bridle.protocol.states.session import TurnState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridle.errors import BridleError
    from bridle.messages import Message
    from bridle.protocol.results import ControlResult

__all__ = ["Answer", "Event", "Flag", "Inbox", "Progress", "TurnBase", "size_of"]


class Event(Protocol):
    """What wakes one waiter: `anyio.Event`, `threading.Event`."""

    def set(self) -> Any:
        """Wake whoever waits."""


class Flag:
    """Something that happens once. Each waiter brings an event of its own.

    Attributes:
        is_set: True once it has happened.
        wakes: how often waiters were woken. A thread that saw this number before it waits misses no wake.
    """

    __slots__ = ("is_set", "waiters", "wakes")

    def __init__(self) -> None:
        self.is_set = False
        self.wakes = 0
        self.waiters: list[Event] = []

    def set(self) -> None:
        """Let it have happened; everybody wakes."""
        self.is_set = True
        self.wake()

    def wake(self) -> None:
        """Wake all current waiters."""
        self.wakes += 1
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.set()

    def leave(self, waiter: Event) -> None:
        """Take a waiter back."""
        if waiter in self.waiters:
            self.waiters.remove(waiter)


def size_of(item: object) -> int:
    """Return how many bytes an item had on the wire."""
    return len(getattr(item, "raw", b"")) or len(getattr(item, "line", b""))


class Inbox:
    """What waits to be read by one reader.

    Attributes:
        items: in order.
        size: their bytes on the wire.
        more: woken when something was added or it is over.
        over: True once nothing will be added.
        error: what is raised when everything has been read.
        turn_began: when its reader last let other tasks run, where there is an event loop.
    """

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        self.size = 0
        self.more = Flag()
        self.over = False
        self.error: BridleError | None = None
        self.keeps = True
        self.turn_began = 0.0

    def add(self, items: Iterable[Any], size: int) -> None:
        """Add items that have `size` bytes together."""
        if not self.over and self.keeps:
            self.items.extend(items)
            self.size += size
            self.more.wake()

    def take(self) -> Any:
        """Return the next item; None if there is none."""
        if not self.items:
            return None
        item = self.items.popleft()
        self.size -= size_of(item)
        return item

    def end(self, error: BridleError | None = None) -> None:
        """Take that nothing more comes."""
        if not self.over:
            self.over = True
            self.error = error
            self.more.wake()

    def clear(self) -> None:
        """Throw away what is unread."""
        self.items.clear()
        self.size = 0

    def skip(self, flag: bool) -> None:
        """Keep nothing while `flag`: its reader wants the end alone."""
        self.keeps = not flag
        if flag:
            self.clear()

    def the_error(self) -> BridleError | None:
        """Return a fresh copy of the error: each raise has a traceback of its own."""
        return copy.copy(self.error) if self.error is not None else None


class Progress:
    """The part of a turn that the core of its session changes; it lives as long as the user's `Turn`.

    Attributes:
        id: the uuid of the prompt.
        state: the state of the turn.
        inbox: its unread messages.
        result: its result, once it came.
        over: set once the turn has ended.
        read: True once a reader has begun to iterate.
    """

    __slots__ = ("__weakref__", "id", "inbox", "over", "read", "result", "state")

    def __init__(self, turn_id: str) -> None:
        self.id = turn_id
        self.state = TurnState.QUEUED
        self.inbox = Inbox()
        self.result: ResultMessage | None = None
        self.over = Flag()
        self.read = False

    def begin_reading(self) -> None:
        """Keep messages from here on, even while another task waits for the result only."""
        self.read = True
        self.inbox.keeps = True

    def deliver(self, messages: list[Message], size: int) -> None:
        """Add messages that have `size` bytes together."""
        if isinstance(messages[-1], ResultMessage):
            self.result = messages[-1]
        self.inbox.add(messages, size)

    def end(self, error: BridleError | None) -> None:
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
        """Where it stands: QUEUED, STARTED, COMPLETED, INTERRUPTED, FAILED."""
        return self._progress.state

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.state.name})"


class Answer:
    """A control operation that waits for its answer."""

    __slots__ = ("error", "flag", "request_id", "result")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.flag = Flag()
        self.result: ControlResult | None = None
        self.error: BridleError | None = None

    def take(self) -> ControlResult:
        """Return the result.

        Raises:
            BridleError: the operation failed.
        """
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # an error and the frame that raises it must not keep each other alive
        assert self.result is not None  # noqa: S101 - for the type checker
        return self.result
