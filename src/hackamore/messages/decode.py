"""Turns one line of the CLI's output into a typed frame, for any output of the CLI.

The tables of types are made of the classes: a class with a new `tag` is in them, and so is a new `SystemMessage`.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING, Any, Union

import msgspec
from msgspec.structs import force_setattr

from hackamore.errors import DecodeError
from hackamore.messages import control, conversation  # noqa: F401 - their classes are found below
from hackamore.messages.base import Frame, Message, check_shape, decoder
from hackamore.messages.stream import StreamEvent
from hackamore.messages.system import SystemMessage, UnknownMessage, UnknownSystemMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.errors import StreamWarning

__all__ = ["CONTROL_TYPES", "MESSAGE_TYPES", "decode", "decode_all", "decode_run", "from_data", "prepare"]


class _SystemProbe(msgspec.Struct, frozen=True, tag_field="type", tag="system"):
    subtype: str | None = None


def _below(base: type[Frame]) -> Iterator[type[Frame]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _below(kind)


def _subtype(kind: type[Frame]) -> str | None:
    return kind.wire_subtype if issubclass(kind, Message) else None


# A class with a `tag` is a type of frame, a `SystemMessage` one for each `wire_subtype`. Base classes have their name for a tag.
_KNOWN = [
    (str(kind.__struct_config__.tag), _subtype(kind), kind)
    for kind in _below(Frame)
    if kind.__struct_config__.tag != kind.__name__ and (_subtype(kind) or not issubclass(kind, SystemMessage))
]

MESSAGE_TYPES: dict[tuple[str, str | None], type[Message]] = {
    (tag, subtype): kind for tag, subtype, kind in _KNOWN if issubclass(kind, Message)
}
"""The class of every message type and subtype that is known."""

CONTROL_TYPES: dict[str, type[Frame]] = {tag: kind for tag, _, kind in _KNOWN if not issubclass(kind, Message)}
"""The class of every frame type that is not delivered."""

_SYSTEM: dict[str | None, type[Message]] = {
    subtype: kind for (_, subtype), kind in MESSAGE_TYPES.items() if subtype is not None
}
_TOP_LEVEL = {tag: kind for tag, subtype, kind in _KNOWN if subtype is None}


def _decode_first(line: bytes) -> Any:
    prepare()
    return decode_typed(line)


decode_typed: Callable[[bytes], Any] = _decode_first


def prepare() -> None:
    """Make the decoder. It takes as long as all other imports of a query, so it is made while the CLI starts."""
    global decode_typed  # noqa: PLW0603 - looked up for each line
    if decode_typed is _decode_first:
        decode_typed = decoder(Union[(*_TOP_LEVEL.values(), _SystemProbe)])


# The usual order of keys saves looking into the payload: there is one of these lines for every token. The CLI writes no blanks.
_USUAL_EVENT = (b'{"type":"stream_event","event":{', b'{"type": "stream_event", "event": {')


def decode(line: bytes, warn: Callable[[StreamWarning], Any]) -> Frame:
    """Return the frame on `line`: a `Message`, or a control frame (see `hackamore.messages.control`).

    An unreadable part costs as little as possible: an unknown type becomes an `UnknownMessage`, an unknown block an
    `UnknownBlock`, and a field of the wrong shape is left out and named in a `FIELD_DROPPED` warning.

    Args:
        line: the bytes between two line ends.
        warn: called for each field that was left out.

    Returns:
        The frame.

    Raises:
        DecodeError: if the line is not JSON, not UTF-8, not an object, or nested too deep.
    """
    try:
        frame = decode_typed(line)
        if frame.__class__ is _SystemProbe:
            frame = _decode_system(line, frame.subtype)
        elif frame.__class__ is StreamEvent and not line.startswith(_USUAL_EVENT):
            check_shape(frame.event_raw, b"{")
        # The decoder does not look at the bytes of fields that it skips.
        if not line.isascii():
            line.decode()
    except (ValueError, RecursionError):
        pass
    else:
        force_setattr(frame, "raw", line)
        return frame  # type: ignore[no-any-return]
    return _decode_slowly(line, warn)


def decode_run(
    lines: Iterator[Any],
    kinds: frozenset[type[Frame]],
    take: Callable[[Any], object],
    complete: frozenset[type[Frame]] = frozenset(),
) -> tuple[int, Any | None]:
    """Decode lines for as long as nothing needs a closer look: the same frames as from `decode`, for less.

    `take` gets each frame of a class in `kinds`. Frames of classes in `complete` end the run.

    Returns:
        How many frames `take` got, and the line that was not decoded, or the frame of a class in `complete`; None if there was none.
    """
    count = 0
    line = None
    try:
        for line in lines:
            frame = decode_typed(line)
            kind = frame.__class__
            if kind not in kinds and kind not in complete:
                return count, line
            if kind is StreamEvent and not line.startswith(_USUAL_EVENT):
                check_shape(frame.event_raw, b"{")
            if not line.isascii():
                line.decode()
            force_setattr(frame, "raw", line)
            if kind not in kinds:
                return count, frame
            take(frame)
            count += 1
    except (ValueError, RecursionError, TypeError):
        # TypeError: no bytes at all, but what stands in for a line that is too long.
        return count, line
    return count, None


def decode_all(lines: list[Any], kinds: frozenset[type[Frame]]) -> list[Any] | None:
    """Decode lines as `decode_run` does, in steps that each take all of them; return None if a line needs a closer look."""
    try:
        frames = list(map(decode_typed, lines))
        found = set(map(type, frames))
        if not found <= kinds:
            return None
        for line in lines if not all(map(bytes.isascii, lines)) else ():
            line.decode()
        if StreamEvent in found and not all(map(bytes.startswith, lines, repeat(_USUAL_EVENT))):
            for frame, line in zip(frames, lines, strict=True):
                if frame.__class__ is StreamEvent and not line.startswith(_USUAL_EVENT):
                    check_shape(frame.event_raw, b"{")
    except (ValueError, RecursionError, TypeError):
        return None
    deque(map(force_setattr, frames, repeat("raw"), lines), maxlen=0)
    return frames


def _decode_system(line: bytes, subtype: str | None) -> Message:
    kind = _SYSTEM.get(subtype)
    if kind is None:
        frame = _unknown_system(line)
        # A wire field could have the name that keeps `type` out of the way.
        force_setattr(frame, "type", "system")
        return frame
    message: Message = decoder(kind)(line)
    return message


_unknown_system = msgspec.json.Decoder(UnknownSystemMessage).decode


def _decode_slowly(line: bytes, warn: Callable[[StreamWarning], Any]) -> Frame:
    from hackamore.messages import degrade

    fields = degrade.split_line(line)
    report = degrade.Report("?", warn)
    kind = _text(fields, "type", report) or ""
    report.kind = kind
    frame_class: type[Frame] | None = _TOP_LEVEL.get(kind)
    if frame_class is None and kind == "system":
        frame_class = _SYSTEM.get(_text(fields, "subtype", report))
    if frame_class is None:
        frame_class = UnknownSystemMessage if kind == "system" else UnknownMessage
    try:
        frame = degrade.build(frame_class, fields, "", report)
    except RecursionError:
        raise DecodeError(line, "too-deep", "nested deeper than the interpreter's recursion limit") from None
    if frame_class is UnknownMessage:
        force_setattr(frame, "type", kind)
    report.finish()
    force_setattr(frame, "raw", line)
    return frame  # type: ignore[no-any-return]


def _text(fields: dict[str, msgspec.Raw], name: str, report: Any) -> str | None:
    payload = fields.get(name)
    if payload is None:
        return None
    try:
        return msgspec.json.decode(payload, type=str)
    except ValueError as error:
        report.dropped(name, str(error))
        return None


def from_data(data: dict[str, Any], warn: Callable[[StreamWarning], None] | None = None) -> Frame:
    """Return the frame that a dict describes, for tests of code that reads messages.

    Args:
        data: a frame with its names on the wire, `{"type": "assistant", "message": {...}}`.
        warn: called for each field that was left out; None to drop the warnings.

    Returns:
        The message, as a session would give it.

    Example:
        ::

            message = from_data({"type": "assistant", "message": {"content": [{"type": "text", "text": "Hello"}]}})
    """
    return decode(msgspec.json.encode(data), warn or (lambda warning: None))
