"""When a pool starts warm processes, and when it says that it is too small."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hackamore.errors import StreamWarning
from hackamore.options.retry import back_off
from hackamore.pool.events import PoolWarned

if TYPE_CHECKING:
    from hackamore.options.retry import Uniform
    from hackamore.pool.members import PoolLimits

BACK_OFF_SECONDS = (0.5, 30.0)
"""The first and the longest pause after failed starts; it doubles in between."""
CROWD = 20
"""The number of check-outs that are looked at for the warning that a pool is too small."""


class Pace:
    """The times before which no warm process is started.

    Attributes:
        start_at: none is started before.
        spare_at: none that replaces one in use is started before, unless a caller waits for it.
    """

    def __init__(self, limits: PoolLimits, uniform: Uniform) -> None:
        self._limits = limits
        self._uniform = uniform
        self._failures = 0
        self.start_at: float = 0.0
        self.spare_at: float = 0.0

    def failed(self, now: float) -> None:
        self._failures += 1
        self.start_at = now + back_off(self._failures, *BACK_OFF_SECONDS, self._uniform)

    def granted(self) -> None:
        self._failures = 0

    def used(self, now: float, spares: int) -> None:
        """Leave the processor to the process that is about to be used; further ones do not put the next start off again."""
        if spares >= self._limits.warm:
            self.spare_at = now + self._limits.refill

    def hurry(self) -> None:
        """Replace warm processes immediately: a caller waits until all are ready."""
        self.spare_at = 0.0


class Crowd:
    """The last check-outs of a pool: how many of them waited for a place."""

    def __init__(self) -> None:
        self._waited: deque[bool] = deque(maxlen=CROWD)
        self._warned = False

    def note(self, limit: str, max_live: int) -> PoolWarned | None:
        """Record a check-out; return a warning, once, if every second one of the last callers waited because of a limit."""
        self._waited.append(bool(limit))
        waited = sum(self._waited)
        if self._warned or not limit or len(self._waited) < CROWD or waited * 2 < CROWD:
            return None
        self._warned = True
        text = (
            f"{waited} of the last {CROWD} callers of a session pool waited for a place, while processes ended and started. "
            f"Raise `{limit}` (`max_live` is {max_live}), or return sessions sooner."
        )
        context = {"limit": limit, "waited": waited, "of": CROWD, "max_live": max_live}
        return PoolWarned(None, None, StreamWarning("POOL_TOO_SMALL", text, context))
