"""Files that other programs read while they are written again."""

from __future__ import annotations

import os
import tempfile
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
