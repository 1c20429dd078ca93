"""What the two transports for a local child process share: its settings, its looks, its start, and being forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.transports.process.child import Child
from bridle.transports.process.stderr import LineCallback

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.launch.plan import LaunchPlan

__all__ = ["ChildProcess"]


class ChildProcess:
    """A child process that is started later. It owns the stderr callback, which nothing behind it keeps alive.

    Args:
        stop_grace: seconds for an exit by itself.
        kill_grace: seconds for an exit after SIGTERM.
        stderr_tail_bytes: how much of the end of stderr to keep.
        on_stderr: called with each line of stderr, in a thread of its own.
    """

    def __init__(
        self,
        *,
        stop_grace: float = 5.0,
        kill_grace: float = 5.0,
        stderr_tail_bytes: int = 65_536,
        on_stderr: Callable[[str], object] | None = None,
    ) -> None:
        self._stop_grace = stop_grace
        self._kill_grace = kill_grace
        self._stderr_tail_bytes = stderr_tail_bytes
        self._on_stderr = LineCallback(on_stderr) if on_stderr is not None else None
        self._child: Child | None = None
        self._stopped_early = False
        self._break_was_seen = False

    @property
    def pid(self) -> int | None:
        """The process id once it is started."""
        return (self._child.pid or None) if self._child is not None else None

    @property
    def stderr_tail(self) -> bytes:
        """The last part of stderr."""
        return self._child.stderr_tail if self._child is not None else b""

    def _spawn(self, plan: LaunchPlan) -> None:
        self._child = Child(
            plan,
            stop_grace=self._stop_grace,
            kill_grace=self._kill_grace,
            stderr_tail_bytes=self._stderr_tail_bytes,
            on_stderr=self._on_stderr,
        )
        self._child.start()
        if self._stopped_early:
            self._child.stop(turn_open=True)

    @property
    def input_broken(self) -> bool:
        """True once the process is known not to read any more."""
        return self._child is not None and self._child.input_broken

    def send_nowait(self, data: bytes) -> None:
        """Queue `data` for stdin: reading goes on writing what the pipe does not take immediately."""
        self._started().queue(data)

    def _has_just_broken(self) -> bool:
        """Return True once, when stdin has broken: whoever waits for output has to look at it."""
        news = self.input_broken and not self._break_was_seen
        self._break_was_seen = self._break_was_seen or news
        return news

    def _started(self) -> Child:
        if self._child is None:
            raise RuntimeError("the transport was not started")
        return self._child

    def abandon(self) -> None:
        """End the process without waiting: the reaper sees it through."""
        self._stopped_early = True
        child = self._child
        if child is not None:
            child.stop(turn_open=True)

    def __del__(self) -> None:
        self.abandon()
