"""The base of all frames, records and blocks: exact bytes, lazy payloads, equality, `repr` and `str`."""

from __future__ import annotations

import os
import re
from _thread import RLock  # `threading` would be the heaviest import here
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Raw

from hackamore.errors import DecodeError, escape_terminal

__all__ = ["Frame", "Message", "Record"]

_WHEN = """

        Decoded when first read; the bytes that came are in `raw`, or in the attribute of this name with `_raw` at its end.

        Raises:
            DecodeError: if it is nested deeper than the interpreter's recursion limit allows at this place.
        """

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import cached_property
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

    class computed_once(cached_property[T_co]):  # noqa: N801
        """A property that is computed when it is first read."""

    class decoded_once(computed_once[T_co]):  # noqa: N801
        """Such a property of bytes that are kept."""

else:

    class computed_once:  # noqa: N801 - it stands for `cached_property`
        """A property that is computed when it is first read, without the lock that `cached_property` takes in Python 3.11.

        Two threads that read it at the same moment may both compute it; both get the same value.
        """

        def __init__(self, function):
            self.function = function
            self.name = function.__name__
            self.__doc__ = function.__doc__

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = self.function(instance)
            return instance.__dict__.setdefault(self.name, value)

    class decoded_once(computed_once):  # noqa: N801
        """Such a property of bytes that are kept: its documentation says when they are decoded, and what that may raise."""

        def __init__(self, function):
            super().__init__(function)
            self.__doc__ = f"{function.__doc__}{_WHEN}"


# The CLI writes what is larger as 1e+21. No sum, format or column of a host can take an integer of 400 digits.
Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Number = Integer | float
"""A JSON number: an integer stays an integer."""

NO_RAW = Raw()

# Escapes are consumed one after the other, so that the second half of `\\\\` is never taken for the start of one.
_ESCAPES = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_plain = msgspec.json.Decoder().decode

# Two threads that make decoders of one class at the same time crash in msgspec 0.22 (2 to 10 of 120 tries), and so would the child of a
# fork in the middle.
_making = RLock()
os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


@cache
def decoder(kind: Any) -> Callable[[Any], Any]:
    """Return the function that decodes JSON as this type; it is made once."""
    with _making:
        return msgspec.json.Decoder(kind).decode


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
    # Python refuses to read an integer of more than 4300 digits; as a float it is infinity, like every other excess.
    try:
        return int(digits)
    except ValueError:
        return float(digits)


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
        if isinstance(field, Raw):
            text = bytes(field).decode("utf-8", "replace")
            shown.append(f"{name.removesuffix('_raw')}={escape_terminal(text, len(text))}")
        else:
            shown.append(f"{name}={field!r}")
    return f"{type(value).__name__}({', '.join(shown)})"


class Kept(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A part of the CLI's output, with its bytes. Equal if the typed fields are; the bytes they came from do not count.

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

    def __str__(self) -> str:
        from hackamore.messages.shown import line

        return line(self)

    def _repr_markdown_(self) -> str | None:
        from hackamore.messages.shown import markdown

        text = getattr(self, "text", "")
        return markdown(text) if text else None

    def _repr_html_(self) -> str | None:
        from hackamore.messages.shown import html

        return None if getattr(self, "text", "") else html(str(self))


def frame_summary(frame: Frame) -> str:
    """Return what is logged of a frame: its kind and size, and nothing of what is in it."""
    kind = f"{frame.type} {getattr(frame, 'subtype', None) or '-'}"
    return f"frame {escape_terminal(kind, 200)}, {len(frame.raw)} bytes"
