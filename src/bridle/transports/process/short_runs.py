"""Programs that are run to their end, which comes soon or is made to come: `claude --version`, the shell of a simulated tool."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from bridle.transports.process.processes import descendants, kill_identity
from bridle.transports.process.spawn import popen

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run_with_descendants"]


def run_with_descendants(argv: Sequence[str], seconds: float | None, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, as `subprocess.run` does; of one that does not end in time nothing that it started stays.

    Args:
        argv: the program and its arguments.
        seconds: how long it may take; None for any time.
        how: further arguments of `subprocess.Popen`; standard input is empty, and standard output is read.

    Raises:
        subprocess.TimeoutExpired: it took longer.
        OSError: it could not be started.
    """
    with popen(argv, **{"stdout": subprocess.PIPE, "stderr": None, **how}) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException:
            # Not reaped yet, so its pid is nobody else's. The shells of the real CLI have groups of their own.
            started = descendants(process.pid)
            process.kill()
            for who in started:
                kill_identity(who)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, output, errors)
