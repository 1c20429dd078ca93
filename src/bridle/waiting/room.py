"""A limited number of places, for threads and tasks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Mark", "Room"]

_LOOK_SECONDS = 0.5
"""How often a thread that waits for a place checks whether it still has to."""


class Room:
    """Waits until one of its places is free.

    Args:
        places: the number of places.
    """

    def __init__(self, places: int) -> None:
        self._places = threading.Semaphore(places)

    def leave(self) -> None:
        """Free a place."""
        self._places.release()

    def enter(self, given_up: Callable[[], bool]) -> bool:
        """Take a place; block until there is one. Returns False if `given_up` became true first."""
        while not self._places.acquire(timeout=_LOOK_SECONDS):
            if given_up():
                return False
        return True

    async def enter_async(self, given_up: Callable[[], bool]) -> bool:
        """Do the same in a task."""
        if self._places.acquire(blocking=False):
            return True
        from bridle.waiting.offload import Call

        waiting = Call(lambda: self.enter(given_up))
        try:
            return await waiting.wait()
        finally:
            waiting.leave()  # now: an exception may keep this frame for a while


class Mark:
    """One holder at a time; others are refused, and never wait."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def taken(self) -> bool:
        """True while it has a holder."""
        return self._lock.locked()

    def take(self) -> bool:
        """Become the holder; return False if there is one."""
        return self._lock.acquire(blocking=False)

    def __enter__(self) -> None:
        """The holder took it when it asked: two threads may ask in the same moment."""

    def __exit__(self, *_: object) -> None:
        self._lock.release()
