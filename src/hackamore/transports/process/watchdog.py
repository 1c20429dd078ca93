"""The host's side of the watchdog: one small process for a host, there while the host has children and some seconds longer.

When a host is killed outright (SIGKILL, out of memory) it can stop nothing, and the CLI would finish its turn, its tools included,
unobserved. The watchdog holds the other end of a pipe; the pipe's end is the host's end. A parent-death signal is no
substitute: it follows the *thread* that spawned, and would kill healthy children.

The children stand in a file without a name that both have open: the host appends to it, and the watchdog reads it at the end of the
pipe. So a note about a child wakes no process. A watchdog that cannot be started or has died costs its protection and nothing else.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from hackamore.runtime.log import logger

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable

    from hackamore.transports.process.processes import Identity


_LOADER_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables that a Python with a shared library may need to start."""
_LONGEST_LIST = 1_000_000
"""Bytes after which the list is written again without the children that have ended."""


class Watchdog:
    """Starts, feeds and retires the watchdog process. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may close a stream in the middle of a start
        self._children: dict[str, Identity | None] = {}
        self._folders: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._list: int | None = None
        self._size = 0

    def add(self, child_id: str) -> None:
        """Expect a child: to be called before it is started, so that no moment is unguarded."""
        with self._lock:
            self._children[child_id] = None
            self._add(f"add {child_id}\n")

    def add_folder(self, folder: str) -> None:
        """Expect a private folder: to be called before it has secrets in it."""
        with self._lock:
            self._folders.add(folder)
            self._add(_folder_line(folder))

    def remove_folder(self, folder: str) -> None:
        """Forget a private folder that was removed."""
        with self._lock:
            self._folders.discard(folder)
            self._note(f"gone {os.fsencode(folder).hex()}\n")

    def _add(self, line: str) -> None:
        if self._process is not None and self._process.poll() is not None:
            # It was killed (for lack of memory, say): running children get a new one.
            _close(self._process)
            self._process = None
        self._note(line)
        if self._process is None and self._list is not None:
            self._process = _start(self._list)

    def started(self, child_id: str, who: Identity) -> None:
        """Record the identity of a child that now runs."""
        with self._lock:
            if child_id in self._children:
                self._children[child_id] = who
                self._note(f"started {child_id} {who[0]} {who[1]}\n")

    def remove(self, child_id: str) -> None:
        """Forget a child that has ended. The watchdog stays until `retire`."""
        with self._lock:
            self._children.pop(child_id, None)
            self._note(f"remove {child_id}\n")

    def retire(self) -> None:
        """End the watchdog if it has no children: a matter of milliseconds."""
        with self._lock:
            if self._children or self._folders:
                return
            process, self._process = self._process, None
            self._close_list()
        if process is not None:
            _retire(process)

    @property
    def count(self) -> int:
        """The number of children and private folders on its list."""
        return len(self._children) + len(self._folders)

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None else None

    def after_fork(self) -> None:
        """Let go of the parent's watchdog in a forked copy, so that the copy does not hold the pipe open."""
        process, self._process = self._process, None
        self._children = {}
        self._folders = set()
        self._lock = threading.RLock()
        self._close_list()
        if process is not None:
            _close(process)
            process.returncode = 0  # only the parent can wait for it

    def _note(self, line: str) -> None:
        """Append a line; begin again when no child is left, or with the present ones when the list has become long."""
        try:
            if self._list is None:
                if not (self._children or self._folders):
                    return
                self._list, self._size = _open_list(), 0
            if not (self._children or self._folders):
                line, self._size = "", 0
            elif self._size > _LONGEST_LIST:
                # One write, then the rest is cut off: a host that is killed between the two leaves old lines, which change nothing.
                line, self._size = _lines(list(self._children.items()), list(self._folders)), 0
            self._size += os.pwrite(self._list, line.encode(), self._size)
            if not (self._children or self._folders) or len(line) == self._size:
                os.ftruncate(self._list, self._size)
        except OSError as error:
            logger.debug("the list of the watchdog cannot be written: %s", error)

    def _close_list(self) -> None:
        descriptor, self._list = self._list, None
        if descriptor is not None:
            os.close(descriptor)


def _folder_line(folder: str) -> str:
    return f"folder {os.fsencode(folder).hex()}\n"


def _lines(children: Iterable[tuple[str, Identity | None]], folders: Iterable[str]) -> str:
    added = (
        f"add {child_id}\n" + (f"started {child_id} {who[0]} {who[1]}\n" if who else "") for child_id, who in children
    )
    return "".join((*added, *map(_folder_line, folders)))


def _open_list() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("hackamore-watchdog", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _start(children: int) -> subprocess.Popen[bytes] | None:
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "watchdog_main.py")
    if not sys.executable or not os.path.isfile(script):
        logger.debug("no watchdog: this Python has no executable or is packed into an archive")
        return None
    import subprocess

    from hackamore.transports.process.spawn import popen

    environment = {name: os.environ[name] for name in _LOADER_VARIABLES if name in os.environ}
    try:
        argv = [sys.executable, "-I", "-S", script, str(children)]  # nothing of the user's Python runs in it
        return popen(argv, stdin=subprocess.PIPE, cwd="/", env=environment, pass_fds=(children,))
    except OSError as error:
        logger.debug("no watchdog: %s", error)
        return None


def _retire(process: subprocess.Popen[bytes]) -> None:
    # Its list is empty, so it has nothing left to do; and if it was stopped (SIGSTOP) it would not exit by itself.
    process.kill()
    _close(process)
    process.wait()


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        try:
            process.stdin.close()
        except OSError:
            logger.debug("the watchdog's pipe was broken already")


watchdog: Watchdog = Watchdog()
os.register_at_fork(after_in_child=watchdog.after_fork)
