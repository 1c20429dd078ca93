"""The host's side of the watchdog: one small process for a host, there only while the host has children.

When a host is killed outright (SIGKILL, out of memory) it can stop nothing, and the CLI would finish its turn, its tools included,
with nobody watching. The watchdog holds the other end of a pipe; the pipe's end is the host's end. A parent-death signal is no
substitute: it follows the *thread* that spawned, and would kill healthy children.

The pipe is written without waiting, and a watchdog that cannot be started or has died costs its protection and nothing else.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

    from bridle.transports.process.processes import Identity

__all__ = ["Watchdog", "watchdog"]

logger = logging.getLogger("bridle")

_LOADER_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What a Python built with a shared library may need to start at all."""


class Watchdog:
    """Starts, feeds and retires the watchdog process. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: dict[str, Identity | None] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, child_id: str) -> None:
        """Expect a child: to be called before it is started, so that no moment is unguarded."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                # It was killed (for want of memory, say): those who are there already get a new one, too.
                _close(self._process)
                self._process = None
            self._children[child_id] = None
            if self._process is None:
                self._process = _start()
                for known, who in self._children.items():
                    self._write(f"add {known}\n")
                    if who is not None:
                        self._write(f"started {known} {who[0]} {who[1]}\n")
                return
            self._write(f"add {child_id}\n")

    def started(self, child_id: str, who: Identity) -> None:
        """Tell who the child is, now that it runs."""
        with self._lock:
            if child_id in self._children:
                self._children[child_id] = who
                self._write(f"started {child_id} {who[0]} {who[1]}\n")

    def remove(self, child_id: str) -> None:
        """Forget a child that has ended. With the last one the watchdog ends too; this waits for that, some milliseconds."""
        with self._lock:
            self._children.pop(child_id, None)
            self._write(f"remove {child_id}\n")
            if self._children or self._process is None:
                return
            process, self._process = self._process, None
        _retire(process)

    @property
    def pid(self) -> int | None:
        """The watchdog's pid while there is one."""
        process = self._process
        return process.pid if process is not None else None

    def after_fork(self) -> None:
        """Let go of the parent's watchdog in a forked copy, so that the copy does not hold the pipe open."""
        process, self._process = self._process, None
        self._children = {}
        self._lock = threading.Lock()
        if process is not None:
            _close(process)
            process.returncode = 0  # it is not ours to wait for

    def _write(self, line: str) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        try:
            os.write(process.stdin.fileno(), line.encode())
        except (OSError, ValueError) as error:
            logger.debug("the watchdog is gone: %s", error)


def _start() -> subprocess.Popen[bytes] | None:
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "watchdog_main.py")
    if not sys.executable or not os.path.isfile(script):
        logger.debug("no watchdog: this Python has no executable or is packed into an archive")
        return None
    import subprocess

    from bridle.transports.process.spawn import popen

    environment = {name: os.environ[name] for name in _LOADER_VARIABLES if name in os.environ}
    try:
        process = popen([sys.executable, "-I", "-S", script], stdin=subprocess.PIPE, cwd="/", env=environment)
    except OSError as error:
        logger.debug("no watchdog: %s", error)
        return None
    assert process.stdin is not None  # noqa: S101
    os.set_blocking(process.stdin.fileno(), False)
    return process


def _retire(process: subprocess.Popen[bytes]) -> None:
    # It has nothing on its list, so there is nothing that it could still do; and if it was stopped (SIGSTOP) it would not end by itself.
    process.kill()
    _close(process)
    process.wait()


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        try:
            process.stdin.close()
        except OSError:
            logger.debug("the watchdog's pipe was broken already")


watchdog = Watchdog()
os.register_at_fork(after_in_child=watchdog.after_fork)
