"""Waiting in a simulated CLI: pauses, their clock, and the interrupt that ends a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Clock", "Interruption", "NotInterrupted", "Pause", "Steps", "never"]


class Pause(NamedTuple):
    """A pause of a task.

    Attributes:
        ready: checked after each event.
        until: the moment at which the task continues anyway, by the simulation's clock.
    """

    ready: Callable[[], bool]
    until: float | None = None


class Interruption(Exception):  # noqa: N818 - nothing went wrong
    """The host interrupts the turn."""


class NotInterrupted(Exception):  # noqa: N818 - it ends a turn, and reaches no caller
    """The host did not interrupt the turn in time."""


T = TypeVar("T")
if TYPE_CHECKING:
    Steps: TypeAlias = Generator[Pause, None, T]
    """A computation that pauses on its way to a value."""
else:
    Steps = "Generator"


def never() -> bool:
    """Return False: only time or an interrupt ends such a pause."""
    return False


class Clock:
    """The time of a simulated CLI.

    Attributes:
        now: returns the time in seconds.
        elapsed: seconds of the script that have passed.
    """

    def __init__(self, now: Callable[[], float], scale: float) -> None:
        self.now = now
        self.elapsed = 0.0
        self._scale = scale

    def sleep(self, seconds: float) -> Pause:
        """Return a pause of so many seconds of the script."""
        self.elapsed += seconds
        return Pause(never, self.now() + seconds * self._scale)
