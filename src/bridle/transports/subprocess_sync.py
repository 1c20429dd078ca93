"""A local child process without an event loop: for scripts, notebooks and threads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bridle.transports.child import Child
from bridle.transports.stderr import LineCallback

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.launch.plan import LaunchPlan

__all__ = ["SyncChildProcess"]


class SyncChildProcess:
    """Runs the CLI as a child process; a `SyncTransport`.

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

    @property
    def pid(self) -> int | None:
        """The process id once it is started."""
        return (self._child.pid or None) if self._child is not None else None

    @property
    def stderr_tail(self) -> bytes:
        """The last part of stderr."""
        return self._child.stderr_tail if self._child is not None else b""

    def start(self, plan: LaunchPlan) -> None:
        """Start the process.

        Raises:
            SpawnError: the operating system refused.
        """
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

    def _started(self) -> Child:
        if self._child is None:
            raise RuntimeError("the transport was not started")
        return self._child

    def send(self, data: bytes) -> None:
        """Queue `data` for stdin; reading goes on writing what the pipe does not take at once."""
        self._started().queue(data)

    def end_input(self) -> None:
        """Close stdin after everything queued."""
        self._started().end_input()

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next bytes of stdout; b"" at their end, or half a second after the exit; None after `timeout` seconds."""
        child = self._started()
        data = child.take()
        until = None if timeout is None else time.monotonic() + timeout
        while data is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            child.wait(left)
            data = child.take()
        return data

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Wait for the exit status, `timeout` seconds at most; None if it did not come, or the process is being stopped."""
        child = self._started()
        until = None if timeout is None else time.monotonic() + timeout
        while not child.poll_exit() and not child.stopping:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            child.wait(left)
        return child.exit_code

    def stop(self, *, turn_open: bool) -> None:
        """End the process and all that it started; returns when it is gone. Goes on even if this call is interrupted."""
        self._stopped_early = True
        child = self._child
        if child is not None:
            child.stop(turn_open=turn_open)
            if not child.busy_in_this_thread:  # in a signal handler: the read that it interrupted has to go on first
                child.done.wait()

    def abandon(self) -> None:
        """End the process without waiting: the reaper sees it through."""
        self._stopped_early = True
        child = self._child
        if child is not None:
            child.stop(turn_open=True)

    def __del__(self) -> None:
        self.abandon()
