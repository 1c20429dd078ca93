"""Programs that are run to their end, which comes soon or is made to come: `claude --version`, a check of an answer, a simulated shell."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hackamore.transports.process.processes import descendants, identity, kill_identity, marked_with
from hackamore.transports.process.reaper import reaper
from hackamore.transports.process.spawn import popen
from hackamore.transports.process.watchdog import watchdog

if TYPE_CHECKING:
    from collections.abc import Sequence


class ShortRun:
    """One such program, which the watchdog knows by `child_id`, if it has one. Of one that is cut short nothing that it started stays."""

    def __init__(self, child_id: str = "") -> None:
        self.child_id = child_id
        self.cancelled: bool = False
        self._lock = threading.RLock()  # a garbage collection inside it may cancel
        self._process: subprocess.Popen[bytes] | None = None
        self._whole_group = False

    def run(
        self, argv: Sequence[str], seconds: float | None, *, tail: int | None = None, **how: Any
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the program to its end, as `subprocess.run` does; `how` is for `subprocess.Popen`. Stdin is empty, stdout is read.

        With `tail` only that many bytes of its end are kept, also in a TimeoutExpired, and nothing stays that the program left running.
        TimeoutExpired is also raised if it was cancelled before it began.
        """
        self._whole_group = tail is not None
        if not self.child_id:
            return self._run(argv, seconds, tail, how)
        reaper.attend()  # it retires the watchdog
        watchdog.add(self.child_id)
        try:
            return self._run(argv, seconds, tail, how)
        finally:
            watchdog.remove(self.child_id)
            reaper.rest()

    def _run(
        self, argv: Sequence[str], seconds: float | None, tail: int | None, how: dict[str, Any]
    ) -> subprocess.CompletedProcess[bytes]:
        with self._lock:
            if self.cancelled:
                raise subprocess.TimeoutExpired(argv, 0)
            process = self._process = popen(argv, **{"stdout": subprocess.PIPE, "stderr": None, **how})
        with process:
            try:
                if self.child_id and (who := identity(process.pid)) is not None:
                    watchdog.started(self.child_id, who)
                if tail is None:
                    output, errors = process.communicate(timeout=seconds)
                else:
                    output, errors = _end_of_output(process, seconds, tail), None
            except BaseException:
                # Not reaped yet, so its pid is not reused. The shells of the real CLI have groups of their own.
                self._kill(process, descendants(process.pid))
                raise
            finally:
                with self._lock:
                    self._process = None
                if tail is not None or self.cancelled:
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
        if self._whole_group:  # also what shows no mark; a group that still has members keeps its number
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        for who in (*started, *marked_with(self.child_id)):
            kill_identity(who)


def _end_of_output(process: subprocess.Popen[bytes], seconds: float | None, size: int) -> bytes:
    assert process.stdout is not None  # noqa: S101
    until = None if seconds is None else time.monotonic() + seconds
    end, descriptor = b"", process.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while selector.select(None if until is None else max(0.0, until - time.monotonic())):
            data = os.read(descriptor, 65_536)
            if not data:
                selector.unregister(descriptor)
                process.wait(None if until is None else max(0.0, until - time.monotonic()))
                return end
            end = (end + data)[-size:]
    raise subprocess.TimeoutExpired(process.args, seconds or 0.0, end)


def run_with_descendants(argv: Sequence[str], seconds: float | None, **how: Any) -> subprocess.CompletedProcess[bytes]:
    return ShortRun().run(argv, seconds, **how)
