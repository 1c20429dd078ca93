"""Requests of the control protocol, encoded and checked by their rows in `control_rows.py`, and the answers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from hackamore._engine.protocol.control_rows import ROWS
from hackamore._engine.protocol.control_table import ControlRow, FailPolicy
from hackamore.checked.fields import shown
from hackamore.errors import DecodeError
from hackamore.messages import decode
from hackamore.messages.base import NO_RAW
from hackamore.messages.control import ControlRequest
from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.errors import StreamWarning
    from hackamore.messages.control import ControlResponse


_BY_SUBTYPE = {row.subtype: row for row in ROWS}


def row_for(subtype: str | None) -> ControlRow | None:
    return _BY_SUBTYPE.get(subtype or "")


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "object": (dict,),
    "array": (list, tuple),
}


_IN_WORDS = {
    f"{kind}{mark}": f"{words}{' or None' if mark else ''}"
    for kind, words in {
        "string": "a str",
        "boolean": "True or False",
        "number": "a number",
        "object": "a dict",
        "array": "a list",
    }.items()
    for mark in ("", "?")
}


def _fits(value: object, kind: str) -> bool:
    if kind == "any" or (value is None and kind.endswith("?")) or isinstance(value, Raw):
        return True
    kind = kind.removesuffix("?")
    # True is an int in Python, and no number on the wire.
    return isinstance(value, _JSON_TYPES[kind]) and not (kind == "number" and isinstance(value, bool))


def encode_request(subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request by their names on the wire; raise TypeError if a required one is missing or one has the wrong type."""
    row = row_for(subtype)
    if "subtype" in fields:
        raise TypeError(f"`{subtype}`: `subtype` is not a field of a request")
    if row is None:
        return dict(fields)  # a request of a newer CLI
    by_name = {field.name: field for field in row.fields} | {field.wire: field for field in row.fields}
    wire = {}
    for name, value in fields.items():
        field = by_name.get(name)
        if field is not None and not _fits(value, field.kind):
            fix = (
                f"Write `{row.example}`." if row.example else f"Pass {field.doc}" if field.doc else "Correct the value."
            )
            raise TypeError(f"`{subtype}`: `{name}` must be {_IN_WORDS[field.kind]}, got {shown(value)}. {fix}")
        wire[field.wire if field is not None else name] = value  # a newer CLI may have more fields
    for field in row.fields:
        if field.required and field.wire not in wire:
            raise TypeError(f"`{subtype}`: `{field.name}` is missing")
    return wire


_split = msgspec.json.Decoder(dict[str, Raw]).decode
# Without decoding the field: the callback decodes it, and a hook should not pay twice.
_STARTS = {"string": b'"', "boolean": b"tf", "number": b"-0123456789", "object": b"{", "array": b"["}


def _starts(kind: str) -> bytes | None:
    """Return the first bytes that the JSON of a field can have; None if any can be."""
    return None if kind == "any" else _STARTS[kind.removesuffix("?")] + (b"n" if kind.endswith("?") else b"")


_SHAPES = {
    row.subtype: [(field.wire, field.kind, field.required, _starts(field.kind)) for field in row.fields] for row in ROWS
}


def malformed(row: ControlRow, request: Raw) -> str | None:
    """Return the problem of a received request; None if it can be handled."""
    try:
        fields = _split(request)
    except (ValueError, RecursionError) as error:  # too deep a nesting is malformed, and no crash
        return str(error)
    for wire, kind, required, starts in _SHAPES[row.subtype]:
        payload = fields.get(wire)
        if payload is None:
            if required:
                return f"`{wire}` is missing"
        elif starts is not None and memoryview(payload)[0] not in starts:
            return f"`{wire}` is not {kind}"
    return None


class _MessageId(msgspec.Struct):
    # Bytes, because it is repeated as it came; `Raw | None` would refuse everything but null.
    id: Raw = NO_RAW


class _McpRequest(msgspec.Struct):
    message: _MessageId


_mcp_id = msgspec.json.Decoder(_McpRequest).decode
_MCP_INTERNAL_ERROR = -32603


def fail_answer(row: ControlRow, frame: ControlRequest, reason: str) -> dict[str, Any] | None:
    """Return the payload that says "no" safely; None if the request gets an error response."""
    reason = reason.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent
    match row.fail:
        case FailPolicy.HOOK_CONTINUES:
            return {}  # hooks fail open; what a guard answers is in `answering.routing`
        case FailPolicy.PERMISSION_DENIED:
            return {"behavior": "deny", "message": reason}
        case FailPolicy.MCP_ERROR:
            message_id = _id_of_message(frame)
            if not message_id:
                # A notification: the CLI waits for an empty result, as after a request (2.1.327).
                return {"mcp_response": {"jsonrpc": "2.0", "id": 0, "result": {}}}
            error = {"code": _MCP_INTERNAL_ERROR, "message": reason}
            return {"mcp_response": {"jsonrpc": "2.0", "id": message_id, "error": error}}
        case FailPolicy.DECLINED:
            return {"action": "decline"}
        case FailPolicy.CANCELLED:
            return {"behavior": "cancelled"}
        case _:
            return None


def _id_of_message(frame: ControlRequest) -> Raw:
    try:
        return _mcp_id(frame.request_raw).message.id
    except (ValueError, RecursionError):
        return NO_RAW


# -- answers ----------------------------------------------------------------------------------------------------------


class Answer(msgspec.Struct):
    """The content of a `control_response`, as far as it could be read."""

    request_id: str | None = None
    subtype: str | None = None
    response: Raw = NO_RAW
    error: Raw = NO_RAW
    error_code: str | None = None
    pending_permission_requests: Raw = NO_RAW
    pending_user_dialog_requests: Raw = NO_RAW

    @property
    def failed(self) -> bool:
        return self.subtype == "error" or (self.subtype is None and bool(self.error))


_decode_answer = msgspec.json.Decoder(Answer).decode


def read_answer(frame: ControlResponse) -> Answer:
    if not frame.response_raw:
        return Answer()
    try:
        return _decode_answer(frame.response_raw)
    except (ValueError, RecursionError):
        pass  # below each field for itself: a bad one costs no other
    from hackamore.messages import degrade

    try:
        fields = degrade.split_line(bytes(frame.response_raw))
    except DecodeError:
        return Answer()
    values: dict[str, Any] = {}
    for name in Answer.__struct_fields__:
        payload = fields.get(name)
        if payload is None:
            continue
        wanted = Raw if name in ("response", "error") or name.startswith("pending") else str
        try:
            values[name] = msgspec.json.decode(payload, type=wanted)
        except (ValueError, RecursionError):
            continue
    return Answer(**values)


def open_requests(answer: Answer, warn: Callable[[StreamWarning], None]) -> Iterator[ControlRequest]:
    """Yield the requests that the CLI still wants to have answered when it answers `initialize`."""
    for pending in (answer.pending_permission_requests, answer.pending_user_dialog_requests):
        try:  # for each list: a bad one costs no other kind
            for request in msgspec.json.decode(pending, type=list[Raw]) if pending else []:
                frame = decode(bytes(request), warn)
                if isinstance(frame, ControlRequest):
                    yield frame
        except (ValueError, RecursionError, DecodeError):
            logger.debug("pending requests in the answer to `initialize` could not be read")


def error_text(error: Raw) -> str:
    if not error:
        return "no reason given"
    try:
        value = msgspec.json.decode(error)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, str) else bytes(error).decode("utf-8", "replace")
