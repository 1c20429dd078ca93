"""Frames of the control protocol. They are decoded like messages and never delivered to users."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from hackamore.messages.base import NO_RAW, Frame, check_shape, decoded_once, plain, plain_object

__all__ = ["ControlCancelRequest", "ControlRequest", "ControlResponse", "KeepAlive", "TranscriptMirror"]


class _Probe(msgspec.Struct):
    subtype: str | None = None


_probe = msgspec.json.Decoder(_Probe).decode


class ControlRequest(Frame, frozen=True, kw_only=True, tag="control_request"):
    """A request of the CLI.

    Attributes:
        request_id: to be repeated in the answer.
        request_raw: the bytes of the request.
    """

    request_id: str | None = None
    request_raw: Raw = msgspec.field(default=NO_RAW, name="request")

    payload_shapes: ClassVar[dict[str, bytes]] = {"request": b"{"}

    def __post_init__(self) -> None:
        check_shape(self.request_raw, b"{")

    @decoded_once
    def request(self) -> dict[str, Any]:
        """The request; empty if it is not an object."""
        return plain_object(self.request_raw)

    @property
    def subtype(self) -> str | None:
        """The subtype of the request."""
        try:
            return _probe(self.request_raw).subtype
        except (ValueError, RecursionError):  # rare, and `request` knows what to say
            subtype = self.request.get("subtype")
            return subtype if isinstance(subtype, str) else None


class ControlResponse(Frame, frozen=True, kw_only=True, tag="control_response"):
    """The CLI's answer to a request of Hackamore.

    Attributes:
        response_raw: the bytes of the answer.
        outer_request_id: the request's id where it stands beside the answer instead of in it.
    """

    response_raw: Raw = msgspec.field(default=NO_RAW, name="response")
    outer_request_id: str | None = msgspec.field(default=None, name="request_id")

    payload_shapes: ClassVar[dict[str, bytes]] = {"response": b"{"}

    def __post_init__(self) -> None:
        check_shape(self.response_raw, b"{")

    @decoded_once
    def response(self) -> dict[str, Any]:
        """The answer; empty if it is not an object."""
        return plain_object(self.response_raw)

    @property
    def request_id(self) -> str | None:
        """The id of the request that is answered."""
        inner = self.response.get("request_id")
        return inner if isinstance(inner, str) else self.outer_request_id

    @property
    def subtype(self) -> str | None:
        """`success` or `error`."""
        subtype = self.response.get("subtype")
        return subtype if isinstance(subtype, str) else None


class ControlCancelRequest(Frame, frozen=True, kw_only=True, tag="control_cancel_request"):
    """The CLI takes one of its requests back; no answer is expected.

    Attributes:
        request_id: the request.
    """

    request_id: str | None = None


class KeepAlive(Frame, frozen=True, kw_only=True, tag="keep_alive"):
    """A sign of life.

    Attributes:
        startup_mark: how far the start has come, if the request asked for it.
    """

    startup_mark: str | None = None


class TranscriptMirror(Frame, frozen=True, kw_only=True, tag="transcript_mirror"):
    """Lines that the CLI wrote to a transcript (`--session-mirror`).

    Attributes:
        file_path: the transcript.
        entries_raw: the bytes of the list of entries.
    """

    file_path: str | None = msgspec.field(default=None, name="filePath")
    entries_raw: Raw = msgspec.field(default=NO_RAW, name="entries")

    payload_shapes: ClassVar[dict[str, bytes]] = {"entries": b"["}

    def __post_init__(self) -> None:
        check_shape(self.entries_raw, b"[")

    @decoded_once
    def entries(self) -> list[Any]:
        """The entries."""
        value = plain(self.entries_raw) if self.entries_raw else []
        return value if isinstance(value, list) else []
