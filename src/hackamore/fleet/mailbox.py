"""A queue that a thread fills, and that one reader empties: a thread, or a task of asyncio or trio."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from hackamore.runtime.threads import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Items in order, and an end. Items are never dropped."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._lock = threading.Lock()
        self._ended = False
        self._wake: Callable[[], object] | None = None

    def put(self, *items: T) -> None:
        """Add items; from any thread."""
        with self._lock:
            self._items.extend(items)
            wake = self._wake
        if wake is not None:
            wake()

    def end(self) -> None:
        """Mark the end: no item follows. Callable from any thread."""
        with self._lock:
            self._ended = True
            wake = self._wake
        if wake is not None:
            wake()

    def take(self, wake: Callable[[], object] | None) -> tuple[T | None, bool]:
        """Return the next item and whether there can be one.

        Args:
            wake: called once something has changed, if there is nothing now; possibly more than once, from any thread.
        """
        with self._lock:
            if self._items:
                self._wake = None
                return self._items.popleft(), True
            self._wake = wake
            return None, not self._ended

    def get(self) -> T | None:
        """Wait for the next item; None at the end."""
        while True:
            changed = threading.Event()
            item, more = self.take(changed.set)
            if item is not None or not more:
                return item
            wait_for(changed)

    async def receive(self) -> T | None:
        """Wait for the next item; None at the end."""
        import anyio

        from hackamore.runtime.event_loops import Loop

        loop = Loop()
        while True:
            changed = anyio.Event()
            item, more = self.take(lambda changed=changed: loop.post(changed.set))  # type: ignore[misc]
            if item is not None or not more:
                await anyio.lowlevel.checkpoint()
                return item
            await changed.wait()
