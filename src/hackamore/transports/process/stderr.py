"""The child's stderr: always drained, kept as a bounded tail, passed line by line to the callback.

The reaper's thread drains it, for all children, so that a child that writes megabytes to stderr never waits for the reader of stdout, nor
for an event loop that is busy. That thread runs no code of the user: a second one, only there with a callback, makes the calls, so that a
callback that blocks delays only itself. An exception of the callback is logged.

Neither thread keeps the callback alive: it may belong to the object that holds the stream, which then must be collectable. Its owner
(the transport) holds a `LineCallback`, and what is here refers to it weakly.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING

from hackamore.runtime.event_loops import context_for_thread
from hackamore.runtime.log import logger
from hackamore.transports.process.reaper import reaper

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_BYTES = 65_536
_LONGEST_LINE = 65_536
"""A line for the callback is cut here: a child that never ends a line must not fill the memory."""
WAITING_LINES = 10_000
"""So many lines wait for a callback that is slower than the child; of those that come then, the number is logged."""


class LineCallback:
    """A callback for lines, with the context variables of the place where it was made."""

    def __init__(self, function: Callable[[str], object]) -> None:
        self._function = function
        self._context = context_for_thread()

    def __call__(self, line: str) -> None:
        try:
            self._context.run(self._function, line)
        except BaseException:  # `SystemExit` ends nothing in this thread, and more lines are to come
            logger.exception("the stderr callback raised; reading continues")


class _Lines:
    """Splits what comes into lines and calls back from a thread of its own, which ends with the last line."""

    def __init__(self, callback: LineCallback, name: str, most: int) -> None:
        self._callback = weakref.ref(callback)
        self._partial = b""
        self._waiting: deque[bytes] = deque()
        self._most = most
        self._left_out = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def feed(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _LONGEST_LINE:
            lines.append(self._partial)
            self._partial = b""
        with self._changed:
            room = max(0, self._most - len(self._waiting))
            self._waiting.extend(lines[:room])
            self._left_out += len(lines[room:])
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            if self._partial:
                self._waiting.append(self._partial)
            self._closed = True
            self._changed.notify()

    def join(self, seconds: float) -> bool:
        """Wait for the last call; True if it is over."""
        if self._thread.ident is not None:  # not started: no thread was available
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (line := self._next()) is not None:
            callback = self._callback()
            if callback is None:
                return
            callback(line.decode("utf-8", "replace").rstrip("\r"))
            del callback  # during the wait for the next line it must not keep the session alive
        if self._left_out:
            logger.warning("%d lines of stderr did not reach the callback: it was too slow", self._left_out)

    def _next(self) -> bytes | None:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            return self._waiting.popleft()


class StderrDrain:
    """Reads one descriptor to its end.

    The descriptor is owned from here on, if this does not raise. `on_line` is called with each line, without its line end, in a thread of
    that `name`, and referred to weakly. Of a child that is faster than it `waiting_lines` lines wait.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        tail_bytes: int,
        on_line: LineCallback | None,
        name: str,
        waiting_lines: int = WAITING_LINES,
    ) -> None:
        self._tail_bytes = tail_bytes
        self._tail = bytearray()
        self._lock = threading.RLock()  # a signal handler may close the stream while its tail is read
        self._lines = _Lines(on_line, f"{name}-lines", waiting_lines) if on_line is not None else None
        self._descriptor: int | None = descriptor
        os.set_blocking(descriptor, False)

    def start(self) -> None:
        """Begin to drain; raise OSError or RuntimeError if no descriptor or no thread is available."""
        assert self._descriptor is not None  # noqa: S101
        reaper.watch(self._descriptor, self)
        if self._lines is not None:
            self._lines.start()

    @property
    def tail(self) -> bytes:
        with self._lock:
            return bytes(self._tail)

    def finish(self) -> None:
        """Read what is there without waiting for the pipe's end (a grandchild may hold it), and end: a matter of moments."""
        with self._lock:
            if self._descriptor is not None and self._read_available(_LAST_READS):
                self._close()

    def calls_done(self, seconds: float) -> bool:
        """Wait until the callback has had every line, for `seconds` at most; True if it has. To be called after `finish`."""
        return self._lines is None or self._lines.join(seconds)

    def read(self) -> None:
        """Read what is there without waiting. The reaper's thread calls this."""
        with self._lock:
            if self._descriptor is not None:
                self._read_available(_READS)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            reaper.unwatch(descriptor)
            os.close(descriptor)
            if self._lines is not None:
                self._lines.close()

    def _read_available(self, reads: int) -> bool:
        """Read until it would wait, `reads` times at most: the writer may be a flood. Close it at its end, and return False."""
        assert self._descriptor is not None  # noqa: S101
        for _ in range(reads):
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                self._close()
                return False
            self._tail += data
            if len(self._tail) > self._tail_bytes:
                del self._tail[: len(self._tail) - self._tail_bytes]
            if self._lines is not None:
                self._lines.feed(data)
        return True


_LAST_READS = 32  # 2 MiB: a flood must not keep a process from ending
_READS = 64  # 4 MiB, then the other children have their turn
