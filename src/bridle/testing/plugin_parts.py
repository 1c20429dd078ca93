"""What the pytest plugin's fixtures do: loaded when one of them is used."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from bridle.testing.leaks import Leak, LeakError, Snapshot, TaskWatch

if TYPE_CHECKING:
    import pytest

__all__ = ["LeakCheck"]


class LeakCheck:
    """What there was before a test, and what may stay after it.

    Args:
        seconds: how long what ends by itself may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._before = Snapshot()
        self._tasks: list[Leak] = []
        self._allowed: list[str] = []

    def allow(self, *parts: str) -> None:
        """Let stay what has one of these texts in its name, as a failure shows it."""
        self._allowed += parts

    def _may_stay(self, leak: Leak) -> bool:
        return any(part in str(leak) for part in self._allowed)

    def watch_tasks(self, item: pytest.Item) -> None:
        """Let an async test look for tasks at its end, inside of its event loop, before that is closed and cancels them."""
        test = getattr(item, "obj", None)
        if not inspect.iscoroutinefunction(test) or hasattr(test, "hypothesis"):
            return

        @functools.wraps(test)
        async def checked(*arguments: Any, **named: Any) -> Any:
            watch = TaskWatch()
            try:
                return await test(*arguments, **named)
            finally:
                self._tasks += await watch.left(self._seconds, self._may_stay)

        item.obj = checked  # type: ignore[attr-defined]

    def report(self, test: str) -> str | None:
        """Return what the test left, as the text of its failure; None if it left nothing."""
        leaks = [*self._tasks, *self._before.left(self._seconds, self._may_stay)]
        return str(LeakError(leaks, test)) if leaks else None
