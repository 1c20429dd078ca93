"""Fingerprints of calls: the tool, its input, and the files that the input names. An answer counts only for the call that a person saw."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import Any

import msgspec

_LONGEST = 4_096
_WHOLE_BYTES = 8 * 1024 * 1024
"""Larger files, and those after `_ALL_BYTES`, count by size and times: reading them would hold up the question."""
_ALL_BYTES = 64 * 1024 * 1024
_READERS = ("Glob", "Grep", "Read")
"""Tools that only look: a log that grows is still the file that the person allowed."""
_COMMAND = re.compile(r"(?i)(command|cmd|script|code|args?|argv)$")
_WORDS = re.compile(r"[^\s'\"|&;<>()$`=,]+")
_QUOTED = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'")


def fingerprint(tool: str, given: Any, cwd: str) -> str:
    """Return the fingerprint of a call. Files are read: call it in a thread."""
    canonical = msgspec.json.encode([tool, given], order="deterministic")
    digest = hashlib.sha256(canonical + b"\0" + os.fsencode(os.path.realpath(cwd)))
    left = 0 if tool in _READERS else _ALL_BYTES
    for place in sorted(_places(given)):
        path = os.path.join(cwd, os.path.expanduser(place))
        # A word that is neither a file nor a path counts once a file of that name appears.
        if "/" in place or os.path.lexists(path):
            identity, read = _identity(path, left, content=tool not in _READERS)
            left -= read
            digest.update(b"\0" + os.fsencode(place) + b"\0" + identity)
    return digest.hexdigest()


def _places(given: Any) -> set[str]:
    """Return the texts of an input that may name files: all that are short, and the words and quoted parts of commands."""
    waiting, found = [("", given)], set[str]()
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += ((name, part) for part in value)
        elif isinstance(value, str):
            found.add(value)
            if _COMMAND.search(name):
                found.update(_WORDS.findall(value), *_QUOTED.findall(value))
    return {each for each in found if each and len(each) <= _LONGEST and "\0" not in each and "\n" not in each}


def _identity(path: str, most: int, *, content: bool) -> tuple[bytes, int]:
    """Return what a path leads to: where its links end, and the content of a file; and how many bytes were read."""
    real, read = path, 0
    try:
        real = os.path.realpath(path)
        status = os.lstat(real)
        # Opening a device may do something, a FIFO would wait for its writer, and the system writes its files all the time.
        if not content or not stat.S_ISREG(status.st_mode) or real.startswith(("/proc/", "/sys/")):
            found = f"kind {stat.S_IFMT(status.st_mode)}"
        elif status.st_size > min(_WHOLE_BYTES, most):
            # Programs can set the time of the last change of the content, but not that of the last change of all.
            found = f"large {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        else:
            # One that was put in its place meanwhile is another one when the answer is used.
            with open(os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
                data = file.read(_WHOLE_BYTES + 1)
            found, read = f"file {hashlib.sha256(data).hexdigest()}", len(data)
    except FileNotFoundError:
        found = "missing"
    except (OSError, ValueError) as error:
        found = f"closed {getattr(error, 'errno', '')}"
    return f"{found} ".encode() + os.fsencode(real), read
