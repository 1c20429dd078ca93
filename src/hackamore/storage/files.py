"""Files that other programs read or write at the same time."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_file(path: str | os.PathLike[str], pieces: Iterable[bytes]) -> int:
    """Write a file that only its owner may read, and that replaces an earlier one when all of it is on the disk; return its size.

    Raises:
        OSError: it cannot be written; then the earlier one stays as it was.
    """
    folder, name = os.path.split(os.path.abspath(path))
    descriptor, part = tempfile.mkstemp(dir=folder, prefix=f".{name[:100]}-")
    try:
        with open(descriptor, "wb") as file:
            size = sum(map(file.write, pieces))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    return size


def lock_file(descriptor: int, seconds: float) -> bool:
    """Lock an open file for this descriptor and its copies; return False if others held it for so long."""
    until, pause = time.monotonic() + seconds, 0.001
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
        else:
            return True
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
