"""Calls `on_warning` for a blocking session, where user code may take its time: in order, in one thread at a time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.session.core import SessionCore

__all__ = ["Teller"]

TOLD_SECONDS = 1.0
"""How long a stop waits for `on_warning`."""


class Teller:
    """Passes warnings of one session on.

    Args:
        core: the core, which keeps new warnings.
        lock: the lock of the core.
    """

    def __init__(self, core: SessionCore[Any], lock: threading.RLock) -> None:
        self._core = core
        self._lock = lock
        self._thread: int | None = None
        self._done = threading.Condition(lock)

    @property
    def is_here(self) -> bool:
        """True in the thread that calls `on_warning`."""
        return self._thread == threading.get_ident()

    def tell(self, run: Callable[[Callable[[], None]], None] | None) -> None:
        """Pass new warnings on; another thread that does this already goes on with them.

        Args:
            run: runs a function in another thread; None if the caller's thread may call user code.
        """
        core = self._core
        if core.options.on_warning is None:
            core.tell()
            return
        with self._lock:
            if self._thread is not None or not core.has_to_tell:
                return
            self._thread = threading.get_ident() if run is None else 0
        if run is None:
            self._tell_all()
            return
        try:
            run(self._tell_all)
        except RuntimeError:  # no thread is available
            with self._lock:
                self._thread = None
            core.tell()

    def wait(self) -> None:
        """Wait until all warnings were passed on, `TOLD_SECONDS` at most."""
        with self._lock:
            self._done.wait_for(lambda: self._thread is None, TOLD_SECONDS)

    def _tell_all(self) -> None:
        self._thread = threading.get_ident()
        done = False
        try:
            while not done:
                self._core.tell()
                with self._lock:
                    done = not self._core.has_to_tell
                    if done:
                        self._stop()
        finally:
            if not done:  # Ctrl-C, or a callback that raises it
                with self._lock:
                    self._stop()

    def _stop(self) -> None:
        self._thread = None
        self._done.notify_all()
