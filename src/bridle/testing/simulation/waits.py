"""What a simulated CLI waits for, and what stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Interruption", "Pause", "Steps"]


class Pause(NamedTuple):
    """What a task waits for.

    Attributes:
        ready: asked after everything that happens.
        until: the moment at which it goes on anyway, by the simulation's clock.
    """

    ready: Callable[[], bool]
    until: float | None = None


class Interruption(Exception):  # noqa: N818 - nothing went wrong
    """The host interrupts the turn."""


T = TypeVar("T")
if TYPE_CHECKING:
    Steps: TypeAlias = Generator[Pause, None, T]
    """Something that waits on its way to a value."""
else:
    Steps = "Generator"


def never() -> bool:
    """Return False: for what only an interruption ends."""
    return False
