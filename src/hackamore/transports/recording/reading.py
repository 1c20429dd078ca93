"""Reads what `hackamore.transports.recording.recorder` wrote: cassettes and wire traces, whole, interrupted or damaged.

Nothing here raises for what is in a file: `problems` names each unreadable part, and everything around it is kept.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import Any

import msgspec

from hackamore.transports.recording.recorder import FORMAT, VERSION

_FRAME = b',"f":'
_MOST_PROBLEMS = 50
_MOST_SECONDS = 1e9

_check_frame = msgspec.json.Decoder(msgspec.Raw).decode


class Entry(msgspec.Struct):
    """One event."""

    # `start`, `prompt`, `out`, `in`, `end_input`, `eof`, `exit`, `stop`, `abandon`, `start_error`, `stderr` or `end`
    kind: str
    seconds: float  # when, since the start of its session
    line: int  # its line in the file, counted from 1
    data: bytes = b""  # the bytes of a frame or of another line, without a line end
    is_json: bool = False  # True if they are a frame
    fields: dict[str, Any] = {}  # everything else that was noted


class RecordedSession(msgspec.Struct):
    """One session of a recording.

    Attributes:
        index: its place in the file, counted from 0.
        key: its name there.
        entries: its entries, in order.
        complete: False if the recording was interrupted.
    """

    index: int
    key: int | str
    entries: list[Entry]
    complete: bool = False

    def first(self, kind: str) -> Entry | None:
        """Return the first entry of this kind."""
        return next((entry for entry in self.entries if entry.kind == kind), None)

    def start_field(self, name: str, default: Any = None) -> Any:
        """Return what was noted at the start."""
        start = self.first("start")
        return default if start is None else start.fields.get(name, default)


class Recording(msgspec.Struct):
    """A file that was read."""

    path: str  # where it is
    header: dict[str, Any]  # its first line; empty if it has none
    sessions: list[RecordedSession]  # in order of their starts
    problems: list[str]  # the unreadable parts, with line numbers
    newer: bool = False  # True if it was written by a later version, which may mean other things
    cut: bool = False  # True if the last of the problems is that the file ends in the middle of a line


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Return what is in a file.

    Raises:
        OSError: it cannot be read.
    """
    recording = Recording(os.fspath(path), {}, [], [])
    known: dict[int | str, RecordedSession] = {}
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                before = len(recording.problems)
                _take(recording, known, number, line)
                recording.cut = not line.endswith(b"\n") and len(recording.problems) > before
    if not recording.header:
        recording.problems.insert(0, "it has no header: it is neither a cassette nor a trace, or its beginning is lost")
    return recording


def entry_of(number: int, line: bytes) -> tuple[int | str, Entry] | dict[str, Any]:
    """Return the session and the event of a line, or the fields of a header; raise ValueError, with the reason, if it cannot be read.

    `number` is its number in the file, counted from 1.
    """
    try:
        fields, frame = _parts(line)
        if "format" in fields:
            if fields["format"] != FORMAT:
                raise ValueError("it is the header of something else")
            return fields
        key, seconds, kind = fields.pop("s"), float(fields.pop("t")), fields.pop("k")
        if not isinstance(key, (int, str)) or not isinstance(kind, str):
            raise ValueError("its marks have wrong types")
        if not 0 <= seconds < _MOST_SECONDS:  # nor NaN
            raise ValueError("its time is out of range")
        entry = Entry(kind, seconds, number, fields=fields)
        if frame is not None:
            entry.data, entry.is_json = frame, True
        elif "text" in fields and kind in ("in", "out"):
            entry.data = str(fields.pop("text")).encode("utf-8", "surrogatepass")
        elif "base64" in fields:
            entry.data = base64.b64decode(str(fields.pop("base64")))
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error, OverflowError, MemoryError) as error:
        raise ValueError(f"{error} is missing" if isinstance(error, KeyError) else str(error)) from None
    return key, entry


def _take(recording: Recording, known: dict[int | str, RecordedSession], number: int, line: bytes) -> None:
    try:
        found = entry_of(number, line)
    except ValueError as error:
        if len(recording.problems) < _MOST_PROBLEMS:
            recording.problems.append(f"line {number} cannot be read: {error}")
        return
    if isinstance(found, dict):
        _take_header(recording, number, found)
        return
    key, entry = found
    session = known.get(key)
    if session is None or entry.kind == "start":
        session = known[key] = RecordedSession(len(recording.sessions), key, [])
        recording.sessions.append(session)
    if entry.kind == "end":
        session.complete = True
    session.entries.append(entry)


def _take_header(recording: Recording, number: int, fields: dict[str, Any]) -> None:
    recording.header = recording.header or fields
    if problem := version_problem(number, fields):
        recording.newer = True
        recording.problems.append(problem)


def version_problem(number: int, fields: dict[str, Any]) -> str | None:
    """Return a problem if a header is of a later version of the format, or of none.

    Args:
        number: the number of its line, counted from 1.
        fields: the header.
    """
    version = fields.get("version")
    if isinstance(version, int) and version <= VERSION:
        return None
    return f"line {number}: format version {repr(version)[:40]}, and {VERSION} is known here"


def _parts(line: bytes) -> tuple[dict[str, Any], bytes | None]:
    """Return what is noted in a line, and the bytes of its frame, if any; raise ValueError or RecursionError if it cannot be read."""
    head, cut, frame = line.rstrip(b"\r\n").partition(_FRAME)
    if cut and frame.endswith(b"}"):
        # As it is written: the frame is the last part, and its bytes are kept.
        try:
            fields = json.loads(head + b"}")
            if isinstance(fields, dict):
                return fields, _checked(frame[:-1])
        except ValueError:
            pass
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError("it is not an object")
    if "f" not in fields:
        return fields, None
    # Another tool has rewritten the line.
    return fields, json.dumps(fields.pop("f"), separators=(",", ":")).encode()


def _checked(frame: bytes) -> bytes:
    if not frame.isascii():
        frame.decode("utf-8", "surrogatepass")
    try:
        _check_frame(frame)
    except (ValueError, RecursionError):
        json.loads(frame)  # lone surrogates
    return frame


def frame_of(entry: Entry) -> dict[str, Any]:
    """Return the frame of an entry as an object; an empty one if it is none."""
    return object_of(entry.data) if entry.is_json else {}


def object_of(line: bytes) -> dict[str, Any]:
    """Return a line as an object; an empty one if it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
