"""Reads the peer's answers to our requests, as far as they can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from bridle.errors import DecodeError
from bridle.messages.base import NO_RAW

if TYPE_CHECKING:
    from bridle.messages.control import ControlResponse

__all__ = ["Answer", "error_text", "read_answer"]


class Answer(msgspec.Struct):
    """The inside of a `control_response`, as far as it could be read."""

    request_id: str | None = None
    subtype: str | None = None
    response: Raw = NO_RAW
    error: Raw = NO_RAW
    error_code: str | None = None
    pending_permission_requests: Raw = NO_RAW
    pending_user_dialog_requests: Raw = NO_RAW


_decode_answer = msgspec.json.Decoder(Answer).decode


def read_answer(frame: ControlResponse) -> Answer:
    """Read as much of an answer as can be read."""
    if not frame.response_raw:
        return Answer()
    try:
        return _decode_answer(frame.response_raw)
    except (ValueError, RecursionError):
        pass
    from bridle.messages import degrade

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


def error_text(error: Raw) -> str:
    """Return the text of an error; its JSON if it is no text."""
    if not error:
        return "no reason given"
    try:
        value = msgspec.json.decode(error)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, str) else bytes(error).decode("utf-8", "replace")
