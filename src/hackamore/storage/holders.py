"""Names of processes and of holders, which are parts of processes, and whether a process still runs.

The id of a process is used again, also after the machine has started again. So a name has the machine, the boot, the space of process ids,
the id and the start time. On one machine this decides alone: a holder is gone when its process is gone, and not before, also if
the process is stopped. A process of another machine or container cannot be looked at; `Sightings` of `leases` judges it by its signs.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple


class _Place(NamedTuple):
    """Where this process runs: the machine or container, the start of its kernel, the space of process ids. Unknown parts are empty."""

    machine: str
    boot: str
    space: str


def holder_name() -> str:
    """Return a new name for a part of this process that shares a database with others."""
    return f"{process_name(os.getpid())}|{secrets.token_hex(4)}"


def process_name(pid: int) -> str:
    """Return a name for a process that no other process ever has."""
    return "|".join((*_here(os.getpid()), str(pid), start_time(pid) or ""))


def runs(name: str, *, local: bool = True) -> bool | None:
    """Return whether a process runs, by its name or that of a holder in it; None if it cannot be looked at from here.

    Args:
        local: False if machines share the place of the name: copies of one image have one name, and each its own boot.
    """
    place, pid, started = _parts(name)
    here = _here(os.getpid())
    if place.space and place[1:] == here[1:]:
        return is_running(pid, started or None)
    restarted = place.boot and here.boot and place.boot != here.boot
    if local and restarted and place.machine and place.machine == here.machine:
        return False
    return None


def describe(name: str) -> str:
    """Return the name of a holder for people."""
    place, pid, _ = _parts(name)
    if not pid:
        return f"{name!r:.100}"
    return f"process {pid}" + (
        "" if place[1:] == _here(os.getpid())[1:] else f" of {place.machine or 'another machine'}"
    )


def identity_in(name: str) -> tuple[int, str]:
    """Return the id and the start time of a process from its name."""
    _, pid, started = _parts(name)
    return pid, started


def _parts(name: str) -> tuple[_Place, int, str]:
    parts = name.split("|")
    if len(parts) < 5 or not parts[3].isdecimal():
        return _Place("", "", ""), 0, ""
    return _Place(*parts[:3]), int(parts[3]), parts[4]


@lru_cache(1)
def _here(_pid: int) -> _Place:
    """Return the place of this process. A fork may have been into another space: the id is the key of the cache."""
    machine = _text("/etc/machine-id")
    # Images with a machine id are copied; the name of the host tells the copies apart.
    machine = f"{machine}@{os.uname().nodename}".replace("|", "_") if machine else ""
    if not sys.platform.startswith("linux"):
        import uuid

        node = uuid.getnode()
        made_up = node >> 40 & 1  # another one in each process
        return _Place(machine, "", "" if made_up else f"{sys.platform}:{node:x}")
    with suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):  # else it shows the processes of another space
            paths = (f"/proc/self/ns/{kind}" for kind in ("pid", "time"))
            spaces = [os.readlink(path) for path in paths if os.path.lexists(path)]
            boot = _text("/proc/sys/kernel/random/boot_id")
            return _Place(machine, boot, ",".join(spaces) if boot else "")
    return _Place(machine, "", "")


def boot() -> str:
    """Return a name for the start of this machine, after which its monotonic clock began; empty if it is not known."""
    return _here(os.getpid()).boot


def _text(path: str) -> str:
    with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()
    return ""


def process_domain(machine_id: str = "/etc/machine-id") -> str | None:
    """Return the name of the space that process ids of this program are valid in, as the CLI writes it; None if it has none.

    Returns:
        Machine and namespace of process ids, on Linux. In a container without a machine id the machine is empty.
    """
    with suppress(OSError):
        return f"linux:{_text(machine_id)}:{os.readlink('/proc/self/ns/pid')}"
    return None


def start_time(pid: int) -> str | None:
    """Return the start time of a process, in ticks since the machine started on Linux; None if it is gone, or cannot be known."""
    with suppress(OSError):
        return _started(pid)
    return None


def is_running(pid: int, started: str | None) -> bool | None:
    """Return whether a process runs, or may run; None if only its user can see it. One that exited and was not waited for does not run."""
    if pid <= 0:
        return False
    foreign = False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        foreign = True
    if started is None:
        return True
    try:
        found = _started(pid)
    except OSError:
        # Too many open files, for example. It may be the same one, which must not lose what it holds.
        return None if foreign else True
    # The processes of others may be hidden.
    return None if found is None and foreign else found == started


def _started(pid: int) -> str | None:
    """Return the start time of a process; None if it has ended. Raise OSError if it cannot be read."""
    if not sys.platform.startswith("linux"):
        return _started_by_ps(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program comes second, in parentheses, and may hold anything.
            rest = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The first thread of a process that runs may have ended.
    ended = rest[0] in (b"Z", b"X") and rest[17] in (b"0", b"1")
    return None if ended else rest[19].decode()


def _started_by_ps(pid: int) -> str | None:
    import subprocess

    command = ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=5, env={"LC_ALL": "C"})
    except subprocess.TimeoutExpired as error:
        raise OSError("`ps` does not answer") from error
    state, _, started = done.stdout.decode("utf-8", "replace").strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip().replace(" ", "_")
