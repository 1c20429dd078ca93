"""The child's stderr: always drained, kept as a bounded tail, given line by line to whoever asked.

A thread of its own does that, so that a child that writes megabytes to stderr never waits for the reader of stdout, nor for an event
loop that is busy. The callback runs in that thread, with the context variables of the caller; what it raises is logged.
"""

from __future__ import annotations

import contextvars
import logging
import os
import select
import threading
from typing import TYPE_CHECKING

from bridle.transports.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StderrDrain"]

logger = logging.getLogger("bridle")

_READ_BYTES = 65_536
_LONGEST_LINE = 65_536
"""A line for the callback is cut here: a child that never ends a line must not fill the memory."""


class StderrDrain:
    """Reads one descriptor to its end.

    Args:
        descriptor: the read end of the pipe; owned from here on.
        tail_bytes: how much of the end to keep.
        on_line: called with each line, without its line end.
        name: for the thread.
    """

    def __init__(self, descriptor: int, *, tail_bytes: int, on_line: Callable[[str], object] | None, name: str) -> None:
        self._descriptor = descriptor
        self._tail_bytes = tail_bytes
        self._tail = bytearray()
        self._lock = threading.Lock()
        self._on_line = on_line
        self._partial = b""
        self._stop = Wakeup()  # what can fail comes before the descriptor is ours
        os.set_blocking(descriptor, False)
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name=name, daemon=True)

    def start(self) -> None:
        """Begin to drain."""
        self._thread.start()

    @property
    def tail(self) -> bytes:
        """What is kept of the end."""
        with self._lock:
            return bytes(self._tail)

    def finish(self, seconds: float) -> None:
        """Read what is there without waiting for the pipe's end (a grandchild may hold it), and end; wait `seconds` at most."""
        if self._thread.ident is None:
            self._close()  # it was never started
            return
        self._stop.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            poll.register(self._stop.fileno(), select.POLLIN)
            while True:
                stopping = any(descriptor == self._stop.fileno() for descriptor, _ in poll.poll())
                if not self._read_available() or stopping:
                    break
            if self._partial:
                self._give(self._partial)
        finally:
            self._close()

    def _close(self) -> None:
        os.close(self._descriptor)
        self._stop.close()

    def _read_available(self) -> bool:
        """Read until it would wait; False at the end."""
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            with self._lock:
                self._tail += data
                if len(self._tail) > self._tail_bytes:
                    del self._tail[: len(self._tail) - self._tail_bytes]
            if self._on_line is not None:
                self._split(data)

    def _split(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._give(line)
        if len(self._partial) > _LONGEST_LINE:
            self._give(self._partial)
            self._partial = b""

    def _give(self, line: bytes) -> None:
        assert self._on_line is not None  # noqa: S101
        try:
            self._on_line(line.decode("utf-8", "replace").rstrip("\r"))
        except Exception:
            logger.exception("the stderr callback raised; reading goes on")
