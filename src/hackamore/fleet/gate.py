"""The number of agents that may run at the same time: fewer after a rate limit, more again while all goes well. Nothing here waits."""

from __future__ import annotations

LATE_SECONDS = 1.0
"""How long after the reset of a limit the next agents start: resets are whole seconds, and clocks differ."""
_WELL = 4
"""The agents that have to end well before one more may run: about a quarter more with each round, for any number of agents."""


class Gate:
    """The concurrency of one driver.

    A rate limit halves the number, and nothing starts until the limit resets. Failures of one burst count once: an agent
    that began before the gate opened again was let through before the cut, and says nothing new, whether it fails or ends well. Of the
    agents after it, each fourth that ends well lets one more run: the number is back after about three rounds, be it 4 or 400.

    Attributes:
        limit: the number that may run now.
        opens_at: nothing starts before this time; 0 if nothing is in the way.
    """

    def __init__(self, most: int) -> None:
        self.most: int = most
        self.limit: int = most
        self.opens_at: float = 0.0
        self._well = 0

    def free(self, running: int, now: float) -> int:
        """Return how many agents may be started at `now`, in seconds, while `running` others run."""
        return 0 if now < self.opens_at else max(0, self.limit - running)

    def slow_down(self, started: float, now: float, *, pause: float, resets_at: float | None) -> None:
        """Apply a rate limit or an overload.

        Args:
            started: when the agent that met it began.
            pause: for how long nothing starts if the reset is unknown, or should have been already.
            resets_at: when the limit resets; None if that is unknown.
        """
        if started >= self.opens_at:
            self._well = 0
            self.limit = max(1, self.limit // 2)
        opens_at = now + pause if resets_at is None or resets_at <= now else resets_at + LATE_SECONDS
        self.opens_at = max(self.opens_at, opens_at)

    def went_well(self, started: float) -> None:
        """Apply that an agent, which began at `started`, has ended well."""
        if self.limit >= self.most or started < self.opens_at:
            return
        self._well += 1
        if self._well >= min(self.limit, _WELL):
            self._well = 0
            self.limit += 1
