"""Outbound frames: one whole line of compact JSON each.

Rules. A line that is not JSON kills the CLI, so nothing is written that was not encoded here. Payloads of another author
(a tool's input that is echoed, a JSON-RPC id) are given as `bytes` or `msgspec.Raw` and copied, never re-encoded: `1e2` stays `1e2`.
A value that JSON cannot represent, and a payload that is not JSON, is a ValueError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from collections.abc import Mapping

Payload = bytes | Raw | dict[str, Any]
"""An answer: ready JSON, or an object that becomes JSON (and may hold `Raw` parts)."""

_encode = msgspec.json.Encoder().encode
_check = msgspec.json.Decoder(Raw).decode


def encode(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError as error:
        raise ValueError(f"a text holds half a character (a lone surrogate, {error.object[error.start]!r})") from None
    except RecursionError:
        raise ValueError("nested too deep, or holding itself") from None
    except (TypeError, msgspec.MsgspecError) as error:
        raise ValueError(f"JSON cannot hold it: {error}") from None


def verbatim(payload: bytes | Raw) -> Raw:
    """Return JSON that is copied as it is; line ends between its tokens become spaces."""
    data = bytes(payload)
    try:
        data.decode()  # `Raw` is passed over unread: broken UTF-8 would reach the CLI
        _check(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a payload is not JSON: {error}") from None
    # Inside strings JSON has no line ends, so these stand between tokens.
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\n", b" ").replace(b"\r", b" ")
    return Raw(data)


def _ready(payload: Payload) -> Raw:
    return verbatim(payload) if isinstance(payload, (bytes, Raw)) else Raw(encode(payload))


def request_frame(request_id: str, subtype: str, fields: Mapping[str, Any]) -> bytes:
    return (
        encode({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}}) + b"\n"
    )


def success_frame(request_id: str, payload: Payload | None) -> bytes:
    """Return a `control_response` that says yes."""
    response: dict[str, Any] = {"subtype": "success", "request_id": request_id}
    if payload is not None:
        response["response"] = verbatim(payload) if isinstance(payload, (bytes, Raw)) else payload
    return encode({"type": "control_response", "response": response}) + b"\n"


def error_frame(request_id: str, error: str, code: str | None = None) -> bytes:
    """Return a `control_response` that says no."""
    text = error.encode("utf-8", "replace").decode()  # a lone surrogate must not leave a request unanswered
    response = {"subtype": "error", "request_id": request_id, "error": text}
    if code is not None:
        response["error_code"] = code
    return encode({"type": "control_response", "response": response}) + b"\n"


def cancel_frame(request_id: str) -> bytes:
    return encode({"type": "control_cancel_request", "request_id": request_id}) + b"\n"


def user_frame(content: object, uuid: str, fields: Mapping[str, Any] | None = None) -> bytes:
    """Return a prompt: a string, or a list of content blocks. The CLI reports on it by `uuid`. `fields` have their names on the wire."""
    frame: dict[str, Any] = {
        "type": "user",
        "message": {"role": "user", "content": content},  # 2.1.327 does not read a flat `content`
        "parent_tool_use_id": None,
        "session_id": "",
    }
    frame.update(fields or {})
    frame["type"] = "user"  # after `fields`, which a caller may give: these two must stay
    frame["uuid"] = uuid
    return encode(frame) + b"\n"


def message_frame(message: Payload) -> bytes:
    line = bytes(_ready(message)).strip()
    if not line.startswith(b"{"):
        raise ValueError("a frame is an object")
    return line + b"\n"
