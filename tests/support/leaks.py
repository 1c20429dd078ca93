"""Nothing may be left: processes, threads, descriptors."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hackamore.transports.process.processes import descendants, identity
from hackamore.transports.process.reaper import reaper
from hackamore.transports.process.watchdog import watchdog
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 15.0
KEPT = "hackamore-stores"
"""The thread with the loop of async stores in blocking programs: it stays for as long as the program runs."""


def open_descriptors() -> dict[int, str]:
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


def join_library_threads() -> list[str]:
    """Wait for the library's own threads, which end when there is nothing to do; return the names of those that did not."""
    left: list[str] = []
    for thread in threading.enumerate():
        if thread.name.startswith("hackamore-") and thread.name != KEPT:
            until = time.monotonic() + patience(SECONDS)
            while thread.is_alive() and time.monotonic() < until:
                reaper.retire()
                thread.join(0.05)
            if thread.is_alive():
                left.append(thread.name)
    return left


@contextmanager
def nothing_left(allowed_processes: int = 0) -> Iterator[None]:
    """Fail if the block leaves a process, a thread or a descriptor."""
    reaper.retire()
    threads = {thread.ident for thread in threading.enumerate()}
    descriptors = open_descriptors()
    processes = {pid for pid, _ in descendants(os.getpid())}
    yield
    assert join_library_threads() == []
    left_processes = {pid for pid, _ in descendants(os.getpid())} - processes
    # A server of the tests that ran before starts processes of its own when it likes; looked for afterwards, or a new one would count.
    left_processes -= {pid for server in processes for pid, _ in descendants(server)}
    left_processes = {
        pid for pid in left_processes if alive(pid) or parent(pid) == os.getpid()
    }  # not a server's that just ends
    assert len(left_processes) <= allowed_processes, [command_line(pid) for pid in left_processes]
    assert watchdog.pid is None
    # Worker threads of anyio and trio are pooled, and belong to them.
    pooled = ("AnyIO worker thread", "Trio thread", "asyncio_")
    left_threads = [
        thread.name
        for thread in threading.enumerate()
        if thread.ident not in threads and not thread.name.startswith(pooled)
    ]
    assert left_threads == []
    left_descriptors = {number: target for number, target in open_descriptors().items() if number not in descriptors}
    assert left_descriptors == {}, str(left_descriptors)


def command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode()
    except OSError:
        return f"{pid} is gone"


def parent(pid: int) -> int:
    """Return the parent of a process, also of a zombie; 0 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def alive(pid: int) -> bool:
    """True if `pid` runs and is no zombie."""
    return identity(pid) is not None


def wait_gone(pid: int, seconds: float = SECONDS) -> bool:
    """Wait until a process that need not be our child has ended; False if it has not."""
    import select

    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(patience(seconds) * 1000)) or not alive(pid)
    finally:
        os.close(descriptor)
