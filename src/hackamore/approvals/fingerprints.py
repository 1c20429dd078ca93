"""Fingerprints of calls: the tool, its input, and the files that the input names. An answer counts only for the call that a person saw."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_PLACES = 200
_LONGEST = 4_096
_WHOLE_BYTES = 8 * 1024 * 1024
"""Larger files count by size and time: reading them would hold up the question."""
_NAMED = re.compile(r"(?i)(path|file|dir|cwd|directory|folder)$")
_WORDS = re.compile(r"[^\s'\"|&;<>()$`=,]+")


def fingerprint(tool: str, given: Any, cwd: str) -> str:
    """Return the fingerprint of a call. Files are read: call it in a thread."""
    canonical = msgspec.json.encode([tool, given], order="deterministic")
    digest = hashlib.sha256(canonical)
    for place in sorted(set(_places(given))):
        digest.update(b"\0" + os.fsencode(place) + b"\0" + _identity(os.path.join(cwd, os.path.expanduser(place))))
    return digest.hexdigest()


def _places(value: Any, name: str = "") -> Iterator[str]:
    """Yield texts that may name files: those of fields that are called so, and words of all others that exist are told by `_identity`."""
    waiting, found = [(name, value)], 0
    while waiting and found < _MOST_PLACES:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += ((name, part) for part in value)
        elif isinstance(value, str) and value and "\0" not in value:
            words = [value] if _NAMED.search(name) else []
            words += _WORDS.findall(value[: 16 * _LONGEST]) if name in ("command", "") else []
            for word in words[:_MOST_PLACES]:
                if len(word) <= _LONGEST:
                    found += 1
                    yield word


def _identity(path: str) -> bytes:
    """Return what a path leads to: where its links end, and the content of a file."""
    try:
        real = os.path.realpath(path)
        # Opening a device may do something, and a FIFO would wait for its writer.
        if not stat.S_ISREG(kind := os.lstat(real).st_mode):
            return f"kind {stat.S_IFMT(kind)} ".encode() + os.fsencode(real)
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return b"missing " + os.fsencode(real)
    except (OSError, ValueError) as error:
        return f"closed {getattr(error, 'errno', '')} ".encode() + os.fsencode(path)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _WHOLE_BYTES:
            return f"large {status.st_size} {status.st_mtime_ns} ".encode() + os.fsencode(real)
        with open(descriptor, "rb", closefd=False) as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        return f"file {content} ".encode() + os.fsencode(real)
    except OSError as error:
        return f"closed {error.errno} ".encode() + os.fsencode(real)
    finally:
        os.close(descriptor)
