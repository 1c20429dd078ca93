"""Programs that are run to their end, which comes soon or is made to come: `claude --version`, the shell of a simulated tool."""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING, Any

from hackamore.transports.process.processes import descendants, identity, kill_identity, marked_with
from hackamore.transports.process.reaper import reaper
from hackamore.transports.process.spawn import popen
from hackamore.transports.process.watchdog import watchdog

if TYPE_CHECKING:
    from collections.abc import Sequence


class ShortRun:
    """One such program. Of one that is cut short nothing that it started stays.

    Args:
        child_id: the mark in its variables, if it has one; the watchdog then knows it.
    """

    def __init__(self, child_id: str = "") -> None:
        self.child_id = child_id
        self.cancelled: bool = False
        self._lock = threading.RLock()  # a garbage collection inside it may cancel
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, argv: Sequence[str], seconds: float | None, **how: Any) -> subprocess.CompletedProcess[bytes]:
        """Run the program to its end, as `subprocess.run` does; `how` is for `subprocess.Popen`. Stdin is empty, stdout is read.

        TimeoutExpired is also raised if it was cancelled before it began.
        """
        if not self.child_id:
            return self._run(argv, seconds, how)
        reaper.attend()  # it retires the watchdog
        watchdog.add(self.child_id)
        try:
            return self._run(argv, seconds, how)
        finally:
            watchdog.remove(self.child_id)
            reaper.rest()

    def _run(
        self, argv: Sequence[str], seconds: float | None, how: dict[str, Any]
    ) -> subprocess.CompletedProcess[bytes]:
        with self._lock:
            if self.cancelled:
                raise subprocess.TimeoutExpired(argv, 0)
            process = self._process = popen(argv, **{"stdout": subprocess.PIPE, "stderr": None, **how})
        with process:
            try:
                if self.child_id and (who := identity(process.pid)) is not None:
                    watchdog.started(self.child_id, who)
                output, errors = process.communicate(timeout=seconds)
            except BaseException:
                # Not reaped yet, so its pid is not reused. The shells of the real CLI have groups of their own.
                self._kill(process, descendants(process.pid))
                raise
            finally:
                with self._lock:
                    self._process = None
                if self.cancelled:
                    self._kill(process)
        return subprocess.CompletedProcess(argv, process.returncode, output, errors)

    def cancel(self) -> None:
        """End a `run` in another thread, or one that comes."""
        with self._lock:
            self.cancelled = True
            if self._process is not None:
                # Its children (the program behind a wrapper script) would keep its output open, and `run` waiting.
                self._kill(self._process)

    def _kill(self, process: subprocess.Popen[bytes], started: Sequence[tuple[int, str]] = ()) -> None:
        process.kill()
        for who in (*started, *marked_with(self.child_id)):
            kill_identity(who)


def run_with_descendants(argv: Sequence[str], seconds: float | None, **how: Any) -> subprocess.CompletedProcess[bytes]:
    return ShortRun().run(argv, seconds, **how)
