"""Facts of the operating system about processes: descendants, start times, environments.

A pid alone does not identify a process: it is reused. A process is named by its pid *and* its start time, and no signal is sent on a
pid alone.
Only the standard library is used, and nothing of Hackamore, because the watchdog (a separate small process) runs this file too.

Linux reads /proc. Elsewhere `ps` lists descendants, and processes cannot be recognised by their environment.
"""

from __future__ import annotations

import os
import signal
import sys

CHILD_ID_VARIABLE = "HACKAMORE_CHILD_ID"
ON_LINUX = sys.platform.startswith("linux")

Identity = tuple[int, str]
"""A pid and the start time of the process, as the operating system gives it."""


def identity(pid: int, *, linux: bool = ON_LINUX) -> Identity | None:
    """Return who `pid` is now, or None if it is gone or a zombie."""
    if linux:
        status = _linux_status(pid)
        return None if status is None or status[0] in {"Z", "X"} else (pid, status[2])
    for row in _ps_rows():
        if row[0] == pid:
            return (pid, row[2])
    return None


def descendants(pid: int, *, linux: bool = ON_LINUX) -> list[Identity]:
    """Return the children of `pid`, their children, and so on, oldest generation first."""
    if linux:
        return _linux_descendants(pid)
    children: dict[int, list[Identity]] = {}
    for child, parent, started in _ps_rows():
        children.setdefault(parent, []).append((child, started))
    return _walk(pid, lambda parent: children.get(parent, []))


def marked_with(child_id: str, *, linux: bool = ON_LINUX) -> list[Identity]:
    """Return the processes of this user whose environment says that they descend from the child `child_id` (Linux only)."""
    if not linux or not child_id:
        return []
    wanted = f"{CHILD_ID_VARIABLE}={child_id}".encode()
    found: list[Identity] = []
    for name in _proc_names():
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            who = identity(int(name))
            if who is not None and who[0] != os.getpid():
                found.append(who)
    return found


def kill_identity(who: Identity, number: int = signal.SIGKILL) -> bool:
    """Send a signal to a process if it is still the same one; True if it was sent."""
    pid = who[0]
    if pid <= 1 or pid == os.getpid() or identity(pid) != who:
        return False
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _walk(pid: int, children_of: object) -> list[Identity]:
    found: list[Identity] = []
    seen = {pid}
    generation = [pid]
    while generation:
        following: list[int] = []
        for parent in generation:
            for child in children_of(parent):  # type: ignore[operator]
                if child[0] not in seen:
                    seen.add(child[0])
                    found.append(child)
                    following.append(child[0])
        generation = following
    return found


def _proc_names() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # out of descriptors: unseen processes cannot be ended, but the rest continues
        return []


def _linux_status(pid: int) -> tuple[str, int, str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command name is in brackets and may hold brackets and spaces: the fields begin after the last bracket.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 20:
        return None
    return fields[0].decode(), int(fields[1]), fields[19].decode()


def _linux_descendants(pid: int) -> list[Identity]:
    if os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):
        return _walk(pid, _linux_children)
    children: dict[int, list[Identity]] = {}
    for name in _proc_names():
        status = _linux_status(int(name))
        if status is not None and status[0] not in {"Z", "X"}:
            children.setdefault(status[1], []).append((int(name), status[2]))
    return _walk(pid, lambda parent: children.get(parent, []))


def _linux_children(pid: int) -> list[Identity]:
    found: list[Identity] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                pids = file.read().split()
        except OSError:
            continue
        for child in pids:
            who = identity(int(child))
            if who is not None:
                found.append(who)
    return found


def _ps_rows() -> list[tuple[int, int, str]]:
    import subprocess

    try:
        printed = subprocess.run(
            ["/bin/ps", "-axo", "pid=,ppid=,stat=,lstart="],
            capture_output=True,
            check=False,
            timeout=5,
            env={"LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows: list[tuple[int, int, str]] = []
    for line in printed.decode("utf-8", "replace").splitlines():
        fields = line.split(None, 3)
        if len(fields) == 4 and not fields[2].startswith("Z"):
            rows.append((int(fields[0]), int(fields[1]), fields[3].strip().replace(" ", "_")))
    return rows
