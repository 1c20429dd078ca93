"""The standard streams of this process as a connection: user code gets others, and a thread moves the bytes.

A thread does it and not the event loop: stdin may be a file, which event loops cannot watch. Other processes may hold the same pipes, so
they stay blocking.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import threading
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from hackamore.runtime.log import logger
from hackamore.runtime.threads import Mark, Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.runtime.event_loops import Loop

_READ_BYTES = 65_536
_taken = Mark()


@contextmanager
def standard_streams() -> Iterator[tuple[int, int]]:
    """Take stdin and stdout away from everything else in this process and its children.

    Meanwhile `print`, and writing to descriptor 1, goes to stderr, and stdin is empty.

    Yields:
        Descriptors of stdin and stdout, which the caller closes.

    Raises:
        RuntimeError: they are taken already.
        OSError: stdin or stdout is closed.
    """
    if not _taken.take():
        raise RuntimeError("The standard streams of this process serve another tool server already.")
    with _taken, ExitStack() as stack:
        stdin = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)  # `dup` would take the number of a stream that is closed
        stack.callback(os.close, stdin)
        stdout = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        stack.callback(os.close, stdout)
        empty = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, empty)
        stack.callback(os.dup2, stdin, 0)
        os.dup2(empty, 0)
        stack.callback(os.dup2, stdout, 1)
        # Text that `print` buffered before goes to stderr as well: the client reads messages from the first byte on.
        os.dup2(2, 1)  # where stderr was closed, `empty` has its number
        stack.callback(_flush)
        stack.enter_context(redirect_stdout(sys.stderr))
        yield os.dup(stdin), os.dup(stdout)


def _flush() -> None:
    try:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
    except (OSError, ValueError) as error:
        logger.debug("stdout could not be flushed: %s", error)


class Pipes:
    """Reads one descriptor and writes another, in a thread that closes both at its end.

    Args:
        received: takes each read in the event loop; no bytes are the end. The next read waits for `read_on`.
        written: called in the event loop when everything was written.
        lost: called in the event loop when the reader of `target` is gone.
    """

    def __init__(
        self,
        source: int,
        target: int,
        loop: Loop,
        *,
        received: Callable[[bytes], None],
        written: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._source, self._target = source, target
        self._loop = loop
        self._received, self._written, self._lost = received, written, lost
        self._wakeup = Wakeup()
        self._reads = True
        self._closing = self._broken = False
        self._data: memoryview = memoryview(b"")
        threading.Thread(target=self._run, name="hackamore-stdio", daemon=True).start()

    @property
    def writing(self) -> bool:
        """True while bytes wait to be written."""
        return bool(self._data) and not self._broken

    def read_on(self) -> None:
        if not self._reads:
            self._reads = True
            self._wakeup.set()

    def write(self, data: bytes) -> None:
        """Write bytes; only when nothing is being written."""
        self._data = memoryview(data)
        self._wakeup.set()

    def close(self) -> None:
        self._closing = True
        self._wakeup.set()

    def _run(self) -> None:
        try:
            while not self._closing:
                if not self._step():
                    return
        finally:
            os.close(self._source)
            os.close(self._target)
            self._wakeup.close()

    def _step(self) -> bool:
        """Wait, then read and write what can be; return False if the event loop has ended."""
        poll = select.poll()
        poll.register(self._wakeup.fileno(), select.POLLIN)
        if self._reads:
            poll.register(self._source, select.POLLIN)
        if self.writing:
            poll.register(self._target, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll()}
        self._wakeup.clear()
        alive = True
        if self._target in ready:
            alive = self._write()
        if self._source in ready and alive:
            alive = self._read()
        return alive

    def _read(self) -> bool:
        try:
            data = os.read(self._source, _READ_BYTES)
        except OSError as error:
            logger.debug("stdin cannot be read: %s", error)
            data = b""
        self._reads = False
        return self._loop.post(lambda: self._received(data))

    def _write(self) -> bool:
        try:
            # So much never blocks a pipe that is writable.
            rest = self._data[os.write(self._target, self._data[: select.PIPE_BUF]) :]
        except OSError as error:
            logger.debug("stdout cannot be written: %s", error)
            self._broken = True
            return self._loop.post(self._lost)
        self._data = rest
        return bool(rest) or self._loop.post(self._written)
