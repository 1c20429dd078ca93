"""`Flag`: something that happens once, with the events of those who wait for it."""

from __future__ import annotations

from typing import Any, Protocol


class Event(Protocol):
    """An event that wakes one waiter: `anyio.Event`, `threading.Event`."""

    def set(self) -> Any:
        """Wake the waiter."""


class Flag:
    """Something that happens once; each waiter brings an event. A thread that saw `wakes`, their number, before it waits misses none."""

    __slots__ = ("is_set", "waiters", "wakes")

    def __init__(self) -> None:
        self.is_set: bool = False
        self.wakes: int = 0
        self.waiters: list[Event] = []

    def set(self) -> None:
        """Set the flag and wake all waiters."""
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
