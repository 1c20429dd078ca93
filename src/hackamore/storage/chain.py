"""Files of lines of JSON that only grow: each line has the hash of the line before, so that a change of an earlier line is found."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hackamore.storage.files import lock_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIRST = "0" * 64
"""The hash before the first line."""
_TAIL = 4_096
_MARK = b',"hash":"'
_END = len(_MARK) + 64 + len(b'"}')


def split_line(line: bytes) -> tuple[bytes, str] | None:
    """Return the part of a line that is hashed, and the hash that it has; None for a line of another form."""
    body, tail = line[:-_END] + b"}", line[-_END:]
    if not (line.startswith(b'{"prev":"') and tail.startswith(_MARK) and tail.endswith(b'"}')):
        return None
    return body, tail[len(_MARK) : -2].decode("ascii", "replace")


class ChainFile:
    """A file that programs may share; only its owner can read it. `patience`: seconds to wait for another program that writes."""

    def __init__(self, path: str | os.PathLike[str], patience: float = 5.0) -> None:
        self.path: str = os.path.abspath(path)
        self._patience = patience
        with self._opened():
            pass

    def append(self, fields: Mapping[str, Any]) -> None:
        """Append a line in one write: the hash of that before, time, fields, own hash. OSError: it cannot be written or locked in time."""
        with self._opened() as descriptor:
            before, begun = _last(descriptor)
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            body = json.dumps({"prev": before, "at": now, **fields}, separators=(",", ":")).encode()
            # A killed program may have left half a line: that stays alone on its line.
            line = b"\n" * begun + body[:-1] + _MARK + hashlib.sha256(body).hexdigest().encode() + b'"}\n'
            written = os.write(descriptor, line)
            if written != len(line):
                raise OSError(f"only {written:,} of {len(line):,} bytes could be written to {self.path}")

    @contextmanager
    def _opened(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self.path, flags, 0o600)
        try:
            if not lock_file(descriptor, self._patience):
                raise TimeoutError(f"another program has locked {self.path} for {self._patience:g} s")
            yield descriptor
        finally:
            os.close(
                descriptor
            )  # ends the lock, unless a forked process has the descriptor: that exits or runs another program


def _last(descriptor: int) -> tuple[str, bool]:
    """Return the hash of the last whole line, and whether half a line follows it."""
    size = os.fstat(descriptor).st_size
    tail, begun = b"", False
    at = size
    while at > 0:
        step = min(max(len(tail), _TAIL), at)
        at -= step
        tail = os.pread(descriptor, step, at) + tail
        begun = not tail.endswith(b"\n")
        lines = tail.split(b"\n")
        for line in reversed(lines[1 if at else 0 : -1]):
            if (found := split_line(line)) is not None:
                return found[1], begun
    return FIRST, begun
