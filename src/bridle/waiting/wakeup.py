"""A flag that another thread can raise and any event loop can wait for, because it is a file descriptor."""

from __future__ import annotations

import os
import sys
import threading

__all__ = ["Wakeup"]


class Wakeup:
    """Readable once `set` was called, until `clear`. Safe from any thread and from signal handlers."""

    __slots__ = ("_lock", "_read", "_write")

    def __init__(self) -> None:
        # A descriptor that is closed here is soon somebody else's, who must not get what `set` writes. Reentrant: for signal handlers
        # and finalizers in the middle of one of the calls.
        self._lock = threading.RLock()
        if sys.platform == "linux" and hasattr(os, "eventfd"):
            self._read = self._write = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """Return the descriptor to wait for; -1 once closed."""
        return self._read

    def set(self) -> None:
        """Make the descriptor readable. Does nothing once it is closed."""
        with self._lock:
            if self._write >= 0:
                try:
                    os.write(self._write, (1).to_bytes(8, "little"))
                except BlockingIOError:
                    return  # it is raised already

    def clear(self) -> None:
        """Make the descriptor wait again."""
        with self._lock:
            if self._read >= 0:
                try:
                    os.read(self._read, 4096)
                except BlockingIOError:
                    return

    def close(self) -> None:
        """Give the descriptor back."""
        with self._lock:
            read, write, self._read, self._write = self._read, self._write, -1, -1
            for descriptor in {read, write} - {-1}:
                os.close(descriptor)
