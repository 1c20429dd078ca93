"""What all frames, records and blocks share: exact bytes, lazy payloads, equality and a short `repr`."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bridle.errors import DecodeError, printable
from bridle.messages.lazy import decoded_once

__all__ = ["Frame", "Message", "Record"]

Number = int | float
"""A JSON number: an integer stays an integer."""

NO_RAW = Raw()

# Escapes are consumed one after the other, so that the second half of `\\\\` is never taken for the start of one.
_ESCAPES = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_plain = msgspec.json.Decoder().decode


def repair_surrogates(line: bytes) -> bytes:
    """Return `line` with every lone surrogate escape replaced by `\\ufffd`.

    JavaScript emits them where it cuts a string between the halves of a pair.
    """
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    return _ESCAPES.sub(lambda found: b"\\ufffd" if found[2] else found[0], line)


def plain(payload: bytes | Raw) -> Any:
    """Return the plain Python value of JSON that was already found to be well formed.

    Lone surrogates become U+FFFD; a number beyond what a float holds becomes infinity.

    Raises:
        DecodeError: if it is nested deeper than the interpreter's recursion limit allows at this place.
    """
    try:
        return _plain(payload)
    except RecursionError:
        raise DecodeError(bytes(payload), "too-deep", "nested too deep to be decoded here") from None
    except ValueError:
        pass
    import json

    text = repair_surrogates(bytes(payload)).decode("utf-8", "replace")
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise DecodeError(bytes(payload), "too-deep", "nested too deep to be decoded here") from None
    except ValueError as error:
        raise DecodeError(bytes(payload), "not-json", str(error)) from None


def plain_object(payload: bytes | Raw) -> dict[str, Any]:
    """Return a JSON object as `plain` does; empty if there is none."""
    value = plain(payload) if payload else {}
    return value if isinstance(value, dict) else {}


def _integer(digits: str) -> Number:
    # Python refuses to read more than 4300 digits at once; as a float they are infinity, like every other excess.
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _short(value: Any, room: int = 80) -> str:
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= room else f"{value[:room]!r}..."
    if isinstance(value, Raw):
        start = memoryview(value)[: room + 1].tobytes().decode("utf-8", "replace")
        return start if len(start) <= room else f"{start[:room]}..."
    if isinstance(value, list):
        return "[" + ", ".join([_short(item, room) for item in value[:5]] + ["..."] * (len(value) > 5)) + "]"
    if isinstance(value, dict):
        items = [f"{_short(name, room)}: {_short(item, room)}" for name, item in list(value.items())[:5]]
        return "{" + ", ".join(items + ["..."] * (len(value) > 5)) + "}"
    return repr(value)


def check_shape(payload: Raw, starts: bytes) -> None:
    """Do nothing if `payload` is absent or begins with one of the bytes `starts`.

    Raises:
        ValueError: otherwise. While msgspec decodes this sends the line to the slow path, which names the field.
    """
    if payload and memoryview(payload)[0] not in starts:
        raise ValueError("a payload has the wrong shape")


# A reply has several of these, and they never hold what could refer back to them: the garbage collector need not look at them. It would
# be a sixth of the time of a stream. A class that caches what it decodes takes part again, because it has a `__dict__`.
class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A typed part of a message. Frozen; compared by its fields; what it does not name is in the message's `data`."""

    # The bytes that an undecoded field may begin with, by wire name.
    payload_shapes: ClassVar[dict[str, bytes]] = {}

    def __repr__(self) -> str:
        return _represent(self)


def _represent(value: msgspec.Struct) -> str:
    shown = []
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if name == "raw" or field is None or (isinstance(field, (str, list, dict, Raw)) and not field):
            continue
        shown.append(f"{name.removesuffix('_raw')}={_short(field)}")
    return f"{type(value).__name__}({', '.join(shown)})"


class Kept(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the CLI sent, with its bytes. Equal if the typed fields are; the bytes they came from do not count.

    Attributes:
        raw: the exact bytes.
    """

    # Decoding always overwrites it, so the wire cannot set it; the odd name keeps a wire field called `raw` out of it.
    raw: bytes = msgspec.field(default=b"", name="(raw)")

    payload_shapes: ClassVar[dict[str, bytes]] = {}

    @decoded_once
    def data(self) -> dict[str, Any]:
        """Everything as plain Python values, wire names and unknown fields included."""
        return plain_object(self.raw)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__struct_fields__ if name != "raw")

    def __hash__(self) -> int:
        return hash((self.__class__, getattr(self, "uuid", None), getattr(self, "tool_use_id", None)))

    def __repr__(self) -> str:
        return _represent(self)


class Frame(Kept, frozen=True, kw_only=True, tag_field="type", tag=None):
    """One line of the CLI's output, decoded.

    Frames are equal if their typed fields are; the bytes they came from do not count.

    Attributes:
        raw: the exact bytes of the line, without the line end.
    """

    @property
    def type(self) -> str:
        """The frame's `type` on the wire."""
        tag = self.__struct_config__.tag
        return tag if isinstance(tag, str) else ""

    @property
    def raw_json(self) -> str:
        """The line as text."""
        return self.raw.decode("utf-8", "replace")


class Message(Frame, frozen=True, kw_only=True):
    """A frame that is delivered to users: the base of all message classes.

    Attributes:
        uuid: the frame's id.
        session_id: the session it belongs to.
    """

    wire_subtype: ClassVar[str | None] = None

    uuid: str | None = None
    session_id: str | None = None


def frame_summary(frame: Frame) -> str:
    """Return what is logged of a frame: its kind and size, and nothing of what is in it."""
    kind = f"{frame.type} {getattr(frame, 'subtype', None) or '-'}"
    return f"frame {printable(kind, 200)}, {len(frame.raw)} bytes"
