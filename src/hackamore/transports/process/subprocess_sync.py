"""A local child process without an event loop: for scripts, notebooks and threads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hackamore.runtime.threads import wait_for
from hackamore.transports.process.child import ChildProcess

if TYPE_CHECKING:
    from hackamore._engine.launch.plan import LaunchPlan


class SyncChildProcess(ChildProcess):
    """Runs the CLI as a child process; a `SyncPushTransport`. Arguments: those of `ChildProcess`."""

    def start(self, plan: LaunchPlan) -> None:
        """Start the process; raise SpawnError if the operating system refuses."""
        self._spawn(plan)

    def send(self, data: bytes) -> None:
        """Queue `data` for stdin; reading writes the part that the pipe does not take immediately."""
        self.send_nowait(data)

    def end_input(self) -> None:
        self._started().end_input()

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next bytes of stdout; b"" at their end, or half a second after the exit; None after `timeout`, or if stdin broke."""
        child = self._started()
        data = child.take()
        until = None if timeout is None else time.monotonic() + timeout
        while data is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            child.wait(left)
            data = child.take()
            if data is None and self._has_just_broken():
                return None
        return data

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Wait for the exit status, `timeout` seconds at most; None if it did not come, or the process is being stopped."""
        if self._child is None and self._stopped_early:
            return None
        child = self._started()
        until = None if timeout is None else time.monotonic() + timeout
        while not child.poll_exit() and not child.stopping:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            child.wait(left)
        return child.exit_code

    def stop(self, *, turn_open: bool) -> None:
        child = self._stop_early()
        if child is not None:
            child.stop(turn_open=turn_open, here=True)
            if not child.busy_in_this_thread:  # in a signal handler: the read that it interrupted has to continue first
                wait_for(child.done, self.seconds_left())
