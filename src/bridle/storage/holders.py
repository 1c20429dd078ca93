"""Which processes run: the ids of processes are used again, so the start time of a process belongs to its id."""

from __future__ import annotations

import os
import secrets
import sys
import time
from contextlib import suppress

__all__ = ["holder_name", "is_alive", "is_running", "process_domain", "start_time"]


def holder_name(pid: int | None = None) -> str:
    """Return a name for a process that shares a database with others: `is_alive` tells from it whether the process still runs.

    Args:
        pid: the process; None for this one.
    """
    pid = os.getpid() if pid is None else pid
    return f"{process_domain() or ''}|{pid}|{start_time(pid) or ''}|{secrets.token_hex(4)}"


def is_alive(holder: str, seen: float, seconds: float) -> bool:
    """Return whether a process that shares a database still runs.

    Args:
        holder: its name, as `holder_name` made it.
        seen: when it last gave a sign, in seconds since 1970. It counts where the process cannot be looked at: on another machine.
        seconds: how long such a sign counts.
    """
    domain, pid, started, _ = holder.rsplit("|", 3)
    if domain != (process_domain() or ""):
        return abs(time.time() - seen) < seconds
    return is_running(int(pid), started or None)


def process_domain(machine_id: str = "/etc/machine-id") -> str | None:
    """Return the name of the space that process ids of this program are valid in, as the CLI writes it; None if it has none.

    Args:
        machine_id: the file with the id of the machine.

    Returns:
        Machine and namespace of process ids, on Linux. In a container without a machine id the machine is empty.
    """
    machine = ""
    with suppress(OSError), open(machine_id, encoding="ascii", errors="replace") as file:
        machine = file.read().strip()
    with suppress(OSError):
        return f"linux:{machine}:{os.readlink('/proc/self/ns/pid')}"
    return None


def start_time(pid: int) -> str | None:
    """Return the start time of a process in ticks since the machine started; None if it is gone, or cannot be known.

    Args:
        pid: the process.
    """
    status = _status(pid)
    return None if status is None or status[0] in ("Z", "X") else status[1]


def is_running(pid: int, started: str | None) -> bool:
    """Return whether a process runs.

    Args:
        pid: its id.
        started: its start time; None if that is not known.

    Returns:
        True if it runs, as far as that can be seen. A process that has exited and was not waited for does not run.
    """
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    if started is None or not sys.platform.startswith("linux"):
        return True
    return start_time(pid) == started


def _status(pid: int) -> tuple[str, str] | None:
    """Return state and start time, on Linux."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program comes second, in parentheses, and may hold anything.
            rest = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return (rest[0].decode(), rest[19].decode()) if len(rest) > 19 else None
