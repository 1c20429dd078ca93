"""A forked copy of the tests' process, which takes turns with it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING

from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Baton", "Fork"]


class Baton:
    """One end between two processes: each waits until the other one passes on."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads = reads
        self._writes = writes

    def pass_on(self) -> None:
        """Let the other process continue."""
        os.write(self._writes, b"x")

    def take(self) -> None:
        """Wait for the other process."""
        assert os.read(self._reads, 1), "the other process is over"

    def close(self) -> None:
        """Close the end."""
        os.close(self._reads)
        os.close(self._writes)


class Fork:
    """Runs a function in a forked copy of this process, which is killed if it takes too long.

    Args:
        work: the function; it gets the end of the child.

    Attributes:
        baton: the end of this process.
    """

    def __init__(self, work: Callable[[Baton], None]) -> None:
        down, up = os.pipe(), os.pipe()
        mine, its = Baton(up[0], down[1]), Baton(down[0], up[1])
        self._pid = os.fork()
        if not self._pid:
            code = 1
            try:
                signal.alarm(int(patience(20)) + 1)
                mine.close()
                work(its)
                code = 0
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
            finally:
                os._exit(code)
        its.close()
        self.baton = mine

    def wait(self) -> None:
        """Wait for the end of the copy; fail if it failed."""
        _, status = os.waitpid(self._pid, 0)
        self.baton.close()
        assert os.waitstatus_to_exitcode(status) == 0
