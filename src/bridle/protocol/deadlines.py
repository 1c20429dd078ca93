"""The table of timeouts that run: which one passes when.

No clock is read here: `now` is the time that a shell gave last, and the shell asks how long it may wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.options.bounds import LONGEST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TURN_KINDS", "Deadlines"]

TURN_KINDS = ("first_message", "idle", "turn")
"""The kinds of timeout that a turn can have, as `Timeouts` names them."""


class Deadlines:
    """The running timeouts, by kind and name.

    Attributes:
        now: the time from which a new timeout counts.
    """

    __slots__ = ("_ends", "now")

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._ends: dict[tuple[str, str], tuple[float, float]] = {}

    def arm(self, kind: str, name: str, seconds: float | None) -> None:
        """Start a timeout, or start it again; None removes it."""
        if seconds is None:
            self._ends.pop((kind, name), None)
        else:
            self._ends[kind, name] = (self.now + seconds, seconds)

    def disarm(self, kind: str, name: str) -> None:
        """Remove a timeout, if it runs."""
        self._ends.pop((kind, name), None)

    def clear(self) -> None:
        """Remove all timeouts."""
        self._ends.clear()

    def is_armed(self, kind: str, name: str) -> bool:
        """True while that timeout runs."""
        return (kind, name) in self._ends

    def seconds_of(self, kind: str, name: str) -> float | None:
        """Return the length of a running timeout; None if it does not run."""
        end = self._ends.get((kind, name))
        return end[1] if end is not None else None

    def names(self, kind: str) -> list[str]:
        """Return the names with a running timeout of that kind."""
        return [name for each, name in self._ends if each == kind]

    def wait_seconds(self, now: float) -> float | None:
        """Return how long the shell may wait until the next timeout passes; None without limit."""
        if not self._ends:
            return None
        first = min(when for when, _ in self._ends.values())
        return min(max(0.0, first - now), LONGEST_SECONDS)  # the rest of a longer wait comes with the next call

    def passed(self, now: float) -> Iterator[tuple[str, str, float]]:
        """Remove the timeouts that have passed, one at a time: kind, name, seconds. Handling one may remove others."""
        self.now = now
        for key, (when, seconds) in list(self._ends.items()):
            if when <= now and key in self._ends:
                del self._ends[key]
                yield *key, seconds
