"""One line of a session's file, decoded leniently.

The format is private to the CLI and changes with its versions. An unknown type is kept, and an unknown field is kept in the bytes. A field
of the wrong shape counts as absent. A line that is not a JSON object is left out. Nothing here raises for the content of a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from hackamore.errors import DecodeError
from hackamore.messages.base import NO_RAW, plain_object

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from hackamore.storage.places import SubagentFiles

CHUNK_BYTES = 1 << 20
"""Bytes that are read at a time."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, dict=True, rename="camel"):
    """An entry of a session's file: a message, an attachment, a title, or something that this version of Hackamore does not know."""

    type: str = ""  # its type (`user`, `assistant`, `attachment`, `custom-title`, ...); empty if it has none
    uuid: str | None = None  # its id; None for entries outside the conversation
    parent_uuid: str | None = None  # the entry that it follows
    session_id: str | None = None
    timestamp: str | None = None  # when it was written, in ISO 8601
    is_sidechain: bool | None = None  # True in the conversation of a subagent
    is_meta: bool | None = None  # True for input that no user typed
    is_compact_summary: bool | None = None  # True for the summary that replaces earlier messages
    team_name: str | None = None  # the team that the writer belongs to
    agent_id: str | None = None  # the subagent that wrote it
    cwd: str | None = None  # the working directory
    git_branch: str | None = None  # the branch
    version: str | None = None  # the version of the CLI
    subtype: str | None = None  # the kind of a `system` entry
    message_raw: Raw = msgspec.field(default=NO_RAW, name="message")
    # Decoding overwrites both; the odd names keep fields of the file out of them.
    raw: bytes = msgspec.field(default=b"", name="(raw)")  # the exact bytes of the line, without the line end
    offset: int = msgspec.field(default=0, name="(offset)")  # the place of the line in the file, in bytes

    @property
    def data(self) -> dict[str, Any]:
        """Everything as plain Python values, unknown fields included. Decoded at each call.

        Raises:
            DecodeError: if it is nested deeper than the interpreter's recursion limit allows at this place.
        """
        return plain_object(self.raw)

    def __repr__(self) -> str:
        return f"Entry(type={self.type!r}, uuid={self.uuid!r}, {len(self.raw)} bytes)"


class Line(msgspec.Struct, frozen=True, gc=False):
    """The bytes of a line, without the line end, and their place in the file, in bytes."""

    offset: int
    raw: bytes


_decode = msgspec.json.Decoder(Entry).decode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_WIRE_NAMES = {field.encode_name: field for field in msgspec.structs.fields(Entry)}
_force = msgspec.structs.force_setattr


def decode_entry(raw: bytes, offset: int = 0) -> Entry | None:
    """Return the entry on a line; None if the line is not a JSON object, such as the half of a line that is being written."""
    try:
        entry = _decode(raw)
    except (ValueError, RecursionError):
        slow = _decode_slowly(raw)
        if slow is None:
            return None
        entry = slow
    _force(entry, "raw", raw)
    _force(entry, "offset", offset)
    return entry


def _decode_slowly(raw: bytes) -> Entry | None:
    try:
        fields = fields_of(raw)
    except (ValueError, RecursionError):
        return None
    known: dict[str, Any] = {}
    for name, payload in fields.items():
        field = _WIRE_NAMES.get(name)
        if field is None or name.startswith("("):
            continue
        if field.type is Raw:
            known[field.name] = payload
            continue
        try:
            known[field.name] = msgspec.json.decode(payload, type=field.type)
        except (ValueError, RecursionError):
            continue
    return Entry(**known)


def fields_of(raw: bytes | Raw) -> dict[str, Raw]:
    """Return the undecoded fields of a line that is a JSON object, by name. Bytes that are not UTF-8 become U+FFFD."""
    try:
        return _fields(raw)
    except ValueError:
        return _fields(bytes(raw).decode("utf-8", "replace").encode())


def meta_of(files: SubagentFiles) -> dict[str, Any]:
    """Return the notes of the CLI on a subagent; empty if there are none that can be read."""
    try:
        return plain_object(files.read_meta())
    except (OSError, DecodeError):
        return {}


def lines_of(file: BinaryIO, start: int = 0) -> Iterator[Line]:
    """Yield the complete lines of a file, and a last line without its end if it is a JSON object.

    Memory stays flat: one chunk and one line. Empty lines are left out. A file that grows while it is read gives the lines that are
    complete when the end is reached.

    Args:
        file: the file, opened unbuffered for bytes.
        start: the place that it is open at, in bytes.
    """
    offset = start
    parts: list[bytes] = []  # of a line that is longer than a chunk
    while chunk := file.read(CHUNK_BYTES):
        at = 0
        while (end := chunk.find(b"\n", at)) >= 0:
            raw = chunk[at:end]
            if parts:
                raw = b"".join([*parts, raw])
                parts.clear()
            at = end + 1
            length = len(raw) + 1
            if raw and (raw[0] == 0x7B or (raw := raw.strip())):
                yield Line(offset, raw)
            offset += length
        if at < len(chunk):
            parts.append(chunk[at:])
    if parts:
        raw = b"".join(parts)
        if decode_entry(raw) is not None:
            yield Line(offset, raw)
