"""The work of the pytest plugin's fixtures: loaded when one of them is used."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from hackamore.testing.leaks import Leak, LeakError, Snapshot, TaskWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    import pytest

    from hackamore.testing.cassettes.cassette import Cassette, Mode

RECORD_MODES = ("once", "none", "all", "new")
_LONGEST_NAME = 150
"""File systems take 255 bytes, suffixes included."""
_PLAIN_NAME = re.compile(r"\w+(?:\[\w(?:[\w.-]*\w)?\])?", re.ASCII)
"""Names that still differ when they are names of files; parameters like `<` and `>` would not."""


class LeakCheck:
    """The state before a test, and the parts that may stay after it.

    Args:
        seconds: how long what ends by itself may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._before = Snapshot()
        self._tasks: list[Leak] = []
        self._allowed: list[str] = []

    def allow(self, *parts: str) -> None:
        """Allow leaks that have one of these texts in their names, as failures show them."""
        self._allowed += parts

    def _may_stay(self, leak: Leak) -> bool:
        return any(part in str(leak) for part in self._allowed)

    @contextmanager
    def nobody_blamed(self) -> Iterator[None]:
        """Allow leaks that begin in this block."""
        before = Snapshot()
        try:
            yield
        finally:
            self._before.add_since(before)

    def watch_tasks(self, item: pytest.Item) -> None:
        """Check an async test for tasks at its end, inside its event loop, before that is closed and cancels them."""

        def watched(test: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(test)
            async def checked(*arguments: Any, **named: Any) -> Any:
                watch = TaskWatch()
                try:
                    return await test(*arguments, **named)
                finally:
                    # The tasks of a group that was opened before the test are ended by its owner: no wait for them here.
                    left = await watch.left(
                        self._seconds, lambda leak: self._may_stay(leak) or watch.owner(leak.key) is not None
                    )
                    for leak in [*left, *(leak for leak in watch.in_own_groups() if not self._may_stay(leak))]:
                        self._tasks.append(leak)
                        self._follow(leak)

            return checked

        _wrap(item, watched)

    def _follow(self, leak: Leak) -> None:
        """Forget a task of asyncio if it is a fixture that ends it, and not the event loop when it is closed."""

        def ended(task: Any) -> None:
            # Of two requests to cancel it the first was not the event loop's.
            if task.cancelling() > 1 or not _loop_is_closed():
                self._tasks.remove(leak)

        if hasattr(leak.key, "add_done_callback"):
            leak.key.add_done_callback(ended)

    def report(self, test: str) -> str | None:
        """Return what the test left, as the text of its failure; None if it left nothing."""
        leaks = [*self._tasks, *self._before.left(self._seconds, self._may_stay)]
        return str(LeakError(leaks, test)) if leaks else None


def record_mode(config: pytest.Config) -> Mode:
    """Return the mode of cassettes: the option, else the ini setting, else by whether this is CI; refuse a setting that is not a mode."""
    import pytest

    mode = config.getoption("hackamore_record") or config.getini("hackamore_record")
    if not mode:
        mode = "once" if os.environ.get("CI", "").lower() in ("", "0", "false") else "none"
    if mode not in RECORD_MODES:
        raise pytest.UsageError(
            f"The ini setting hackamore_record must be one of {', '.join(RECORD_MODES)}, not {mode!r}."
        )
    return cast("Mode", mode)


def file_name(item: pytest.Item) -> str:
    """Return a name for files of a test: `<file>.<class>.<test>`."""
    parts = [item.path.stem, *item.nodeid.split("::")[1:]]
    name = re.sub(r"[^A-Za-z0-9_.\-]+", "-", ".".join(parts)).strip("-.")
    if len(name) > _LONGEST_NAME or not all(_PLAIN_NAME.fullmatch(part) for part in parts[1:]):
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256('::'.join(parts).encode()).hexdigest()[:8]}"
    return name


def cassette_of(item: pytest.Item, mode: Mode) -> Cassette:
    """Return the cassette of a test: `cassettes/<file>.<class>.<test>.jsonl` beside the test's file."""
    from hackamore.testing.cassettes.cassette import cassette

    name = file_name(item)
    marker = item.get_closest_marker("hackamore_cassette")
    options = {"mode": mode, **(marker.kwargs if marker is not None else {})}
    return cassette(item.path.parent / "cassettes" / f"{name}.jsonl", **options)


def use_in_task(item: pytest.Item, tape: Cassette) -> None:
    """Use the cassette inside the task of an async test: a fixture and the task need not share a context."""
    from hackamore.transports.opening import recorder

    def wrapped(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        async def recorded(*arguments: Any, **named: Any) -> Any:
            token = recorder.set(tape)
            try:
                return await test(*arguments, **named)
            finally:
                recorder.reset(token)

        return recorded

    _wrap(item, wrapped)


def _wrap(item: pytest.Item, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put something around a test that is a coroutine function."""
    test = getattr(item, "obj", None)
    if not inspect.iscoroutinefunction(test) or hasattr(test, "hypothesis"):
        return
    item.obj = wrapper(test)  # type: ignore[attr-defined]
    case = getattr(item, "instance", None)
    if "unittest" in sys.modules and isinstance(case, sys.modules["unittest"].TestCase):
        setattr(case, item.name, item.obj)  # type: ignore[attr-defined]  # unittest runs its own methods


def _loop_is_closed() -> bool:
    """Return whether this is called while `asyncio.Runner` cancels what is left in its event loop."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_cancel_all_tasks":
        frame = frame.f_back
    return frame is not None
