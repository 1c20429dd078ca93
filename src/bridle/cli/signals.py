"""Signals that ask the command to end, without tearing the library apart in the middle of a step."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from bridle.sync import QueryStream

__all__ = ["Signals", "Stopped", "signals"]

T = TypeVar("T")

_START_SECONDS = 2.0
"""A start that takes longer waits for the answer to `--version`, which may be interrupted."""


class Stopped(BaseException):
    """A signal other than that of Ctrl-C asked this process to end."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class Signals:
    """Raises for the first signal that asks for an end, and ignores later ones, because stopping takes a limited time.

    While the library runs, the stream is closed first and the exception is raised afterwards: between the start of a process and
    the note about it, an exception would lose the process.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._stream: QueryStream | None = None
        self._left = threading.Event()
        self._forced = False
        self._listener: Callable[[int], bool] | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch for SIGINT, SIGTERM and SIGHUP: `KeyboardInterrupt` or `Stopped` is raised."""
        # What is ignored (nohup, jobs in the background) stays ignored.
        usual = (signal.SIG_DFL, signal.default_int_handler)
        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {
            number: signal.signal(number, self._arrived) for number in wanted if signal.getsignal(number) in usual
        }
        try:
            yield
        finally:
            # After a signal the rest of the process is its end, and stays undisturbed.
            for number, handler in before.items():
                signal.signal(number, handler if self._number is None else signal.SIG_IGN)

    def during(self, stream: QueryStream, call: Callable[[], T]) -> T:
        """Return what a call of the library returns; a signal ends the call and is raised afterwards."""
        self._left.clear()
        self._stream = stream
        try:
            return call()
        finally:
            self._stream = None
            self._left.set()
            self._raise()

    @contextmanager
    def handed_to(self, listener: Callable[[int], bool]) -> Iterator[None]:
        """Call the listener instead of raising, between any two steps of the main thread; raise if it returns True."""
        self._listener = listener
        try:
            yield
        finally:
            self._listener = None

    def end(self, number: int) -> NoReturn:
        """Raise what a signal raises, and ignore those that follow."""
        self._number = number
        self._raise()
        raise Stopped(number)

    def _arrived(self, number: int, _: FrameType | None) -> None:
        if self._listener is not None:
            if self._number is None and self._listener(number):
                self.end(number)
            return
        if self._forced:
            self._forced = False
            self._raise()
        if self._number is not None:
            return
        self._number = number
        if self._stream is None:
            self._raise()
        else:
            # Not here: the thread that is interrupted may hold the locks that closing takes.
            threading.Thread(target=self._close, args=(self._stream,), name="bridle-stop", daemon=True).start()

    def _close(self, stream: QueryStream) -> None:
        stream.close()
        if not self._left.wait(_START_SECONDS) and stream.pid is None and self._number is not None:
            self._forced = True
            signal.pthread_kill(threading.main_thread().ident or 0, self._number)

    def _raise(self) -> None:
        if self._number == signal.SIGINT:
            raise KeyboardInterrupt
        if self._number is not None:
            raise Stopped(self._number)


signals = Signals()
"""Those of this process."""
