"""Reads the peer's answers to our requests, as far as they can be read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from bridle.errors import DecodeError
from bridle.messages import decode
from bridle.messages.base import NO_RAW
from bridle.messages.control import ControlRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bridle.errors import StreamWarning
    from bridle.messages.control import ControlResponse

__all__ = ["Answer", "error_text", "open_requests", "read_answer"]

logger = logging.getLogger("bridle")


class Answer(msgspec.Struct):
    """The inside of a `control_response`, as far as it could be read."""

    request_id: str | None = None
    subtype: str | None = None
    response: Raw = NO_RAW
    error: Raw = NO_RAW
    error_code: str | None = None
    pending_permission_requests: Raw = NO_RAW
    pending_user_dialog_requests: Raw = NO_RAW

    @property
    def failed(self) -> bool:
        """True if it says no."""
        return self.subtype == "error" or (self.subtype is None and bool(self.error))


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


def open_requests(answer: Answer, warn: Callable[[StreamWarning], None]) -> Iterator[ControlRequest]:
    """Yield the requests that the CLI still wants to have answered when it answers `initialize`."""
    for pending in (answer.pending_permission_requests, answer.pending_user_dialog_requests):
        try:
            for request in msgspec.json.decode(pending, type=list[Raw]) if pending else []:
                frame = decode(bytes(request), warn)
                if isinstance(frame, ControlRequest):
                    yield frame
        except (ValueError, RecursionError, DecodeError):
            logger.debug("pending requests in the answer to `initialize` could not be read")


def error_text(error: Raw) -> str:
    """Return the text of an error; its JSON if it is no text."""
    if not error:
        return "no reason given"
    try:
        value = msgspec.json.decode(error)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, str) else bytes(error).decode("utf-8", "replace")
