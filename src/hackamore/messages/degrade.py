"""The slow path: reads what the fast path refuses, field by field, and says what had to be left out.

It works on bytes, not on values: an object is split into its fields, each field is decoded as its type, and only a
field that cannot be is taken apart further or dropped. So payloads keep their exact bytes here too.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec
from msgspec import Raw

from hackamore.errors import DecodeError, StreamWarning, escape_terminal
from hackamore.messages.base import Frame, decoder, plain, repair_surrogates
from hackamore.messages.content import Block, UnknownBlock

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_WARNINGS = 20
"""Of one line. A line full of wrong fields says enough with that many."""

_KINDS = {b"{": "object", b"[": "array", b'"': "string", b"t": "boolean", b"f": "boolean", b"n": "null", b"": "nothing"}
_DROPPED: Any = object()
_split_object = msgspec.json.Decoder(dict[str, Raw]).decode
_split_array = msgspec.json.Decoder(list[Raw]).decode


def split_line(line: bytes) -> dict[str, Raw]:
    """Return the fields of the object on `line`, undecoded.

    Raises:
        DecodeError: if the line is not UTF-8, not JSON, not an object, or nested too deep.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(line, "not-utf8", str(error)) from None
    try:
        return _split_object(repair_surrogates(line))
    except RecursionError:
        raise DecodeError(line, "too-deep", "nested deeper than the interpreter's recursion limit") from None
    except ValueError as error:
        detail = str(error)
    import json

    try:
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except RecursionError:
        raise DecodeError(line, "too-deep", "nested deeper than the interpreter's recursion limit") from None
    except ValueError as error:
        raise DecodeError(line, "not-json", str(error)) from None
    if isinstance(value, dict):
        raise DecodeError(line, "not-json", detail)
    raise DecodeError(line, "not-an-object", f"expected an object, got {_kind(line)}")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


class Report:
    """Turns fields that were left out into warnings, a bounded number for each line."""

    def __init__(self, kind: str, warn: Callable[[StreamWarning], None]) -> None:
        self.kind = kind
        self.warn = warn
        self.count: int = 0

    def dropped(self, path: str, reason: str) -> None:
        """Warn that the field at `path` was left out."""
        self.count += 1
        if self.count <= _MOST_WARNINGS:
            self._warn(path, reason, f"the field `{path}` of a `{self.kind}` frame was left out: {reason}")

    def finish(self) -> None:
        """Warn once about all fields beyond the limit."""
        if self.count > _MOST_WARNINGS:
            more = self.count - _MOST_WARNINGS
            self._warn("", f"{more} more fields", f"{more} more fields of a `{self.kind}` frame were left out")

    def _warn(self, path: str, reason: str, message: str) -> None:
        context = {"field": path, "type": self.kind, "reason": reason}
        self.warn(StreamWarning("FIELD_DROPPED", escape_terminal(message, 500), context))


def build(kind: type[Any], fields: dict[str, Raw], path: str, report: Report) -> Any:
    """Return an instance of `kind` made of those `fields` that fit; `report` hears of the others."""
    values = {}
    for name, wire_name, wanted in _plan(kind):
        payload = fields.get(wire_name)
        if payload is None:
            continue
        where = f"{path}.{wire_name}" if path else wire_name
        starts = kind.payload_shapes.get(wire_name)
        if starts is not None and memoryview(payload)[0] not in starts:
            report.dropped(where, f"{_kind(payload)} is not expected here")
            continue
        value = _value(payload, wanted, where, report)
        if value is not _DROPPED:
            values[name] = value
    return kind(**values)


_plans: dict[type[Any], tuple[tuple[str, str, Any], ...]] = {}


def _plan(kind: type[Any]) -> tuple[tuple[str, str, Any], ...]:
    plan = _plans.get(kind)
    if plan is None:
        hidden = ("raw", "type") if issubclass(kind, Frame) else ()
        fields = [field for field in msgspec.structs.fields(kind) if field.name not in hidden]
        plan = _plans[kind] = tuple((field.name, field.encode_name, field.type) for field in fields)
    return plan


def _value(payload: Raw, wanted: Any, path: str, report: Report) -> Any:
    if wanted is Raw:
        return payload
    try:
        return decoder(wanted)(payload)
    except RecursionError:
        report.dropped(path, "nested too deep")
        return _DROPPED
    except ValueError as error:
        reason = str(error).partition(" - at `")[0]
    choices = get_args(wanted) if get_origin(wanted) in (Union, types.UnionType) else (wanted,)
    kind = _kind(payload)
    if kind == "object":
        blocks = [choice for choice in choices if _is_block(choice)]
        if blocks:
            return _block(payload, path, report, {choice.__struct_config__.tag: choice for choice in blocks})
        for choice in choices:
            if isinstance(choice, type) and issubclass(choice, msgspec.Struct):
                return build(choice, _split_object(payload), path, report)
            if get_origin(choice) is dict:
                return _mapping(payload, get_args(choice)[1], path, report)
    if kind == "array":
        for choice in choices:
            if get_origin(choice) is list:
                return _items(payload, get_args(choice)[0], path, report)
    if any(_is_block(choice) for choice in choices):
        report.dropped(path, reason)
        return UnknownBlock(raw=bytes(payload))
    try:
        # Numbers beyond the decoder's range; everything else fails again, for the reason already known.
        return msgspec.convert(plain(payload), wanted)
    except (ValueError, RecursionError, DecodeError):
        report.dropped(path, reason)
        return _DROPPED


def _is_block(choice: Any) -> bool:
    return isinstance(choice, type) and issubclass(choice, Block)


def _block(payload: Raw, path: str, report: Report, choices: dict[Any, type[Any]]) -> Any:
    fields = _split_object(payload)
    try:
        tag = decoder(str)(fields["type"]) if "type" in fields else ""
    except ValueError:
        report.dropped(f"{path}.type", f"Expected `str`, got `{_kind(fields['type'])}`")
        tag = ""
    chosen = choices.get(tag)
    return UnknownBlock(type=tag, raw=bytes(payload)) if chosen is None else build(chosen, fields, path, report)


def _items(payload: Raw, wanted: Any, path: str, report: Report) -> list[Any]:
    values = [_value(item, wanted, f"{path}[{index}]", report) for index, item in enumerate(_split_array(payload))]
    return [value for value in values if value is not _DROPPED]


def _mapping(payload: Raw, wanted: Any, path: str, report: Report) -> dict[str, Any]:
    values = {name: _value(item, wanted, f"{path}.{name}", report) for name, item in _split_object(payload).items()}
    return {name: value for name, value in values.items() if value is not _DROPPED}


def _kind(payload: bytes | Raw) -> str:
    first = bytes(memoryview(payload)[:64]).lstrip(b" \t\r\n")[:1]
    return _KINDS.get(first, "number")
