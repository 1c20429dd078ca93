"""Dialogs: what servers and the CLI ask the user, and the answers. Needs a session, or a query that becomes one.

::

    async def on_elicitation(request: ElicitationRequest) -> ElicitationResult:
        if request.mode == "form":
            return ElicitationResult.accept({"name": "Ann"})
        return ElicitationResult.decline()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, Unpack

import msgspec
from msgspec import Raw

from bridle.checked.functions import AnswerError, Around, Question, decode_question, json_copy
from bridle.messages.base import NO_RAW, plain_object
from bridle.messages.lazy import decoded_once

__all__ = [
    "CANCELLED",
    "DECLINED",
    "ElicitationAction",
    "ElicitationRequest",
    "ElicitationResult",
    "UserDialogRequest",
    "UserDialogResult",
    "decode_elicitation",
    "decode_user_dialog",
    "encode_elicitation",
    "encode_user_dialog",
]

ElicitationAction: TypeAlias = Literal["accept", "decline", "cancel"]

DECLINED: Mapping[str, Any] = {"action": "decline"}
"""The answer to an elicitation that nobody answers."""
CANCELLED: Mapping[str, Any] = {"behavior": "cancelled"}
"""The answer to a dialog that nobody answers."""


class ElicitationRequest(Question, frozen=True, kw_only=True):
    """An MCP server asks the user for something.

    Texts were written by the server: escape them before they reach a terminal (`bridle.errors.printable`), and show which server asks.

    Attributes:
        mcp_server_name: the server that asks, under the name it is registered with.
        message: what it asks.
        mode: `form`: fields to be filled in (`requested_schema`); `url`: a page to be opened (`url`). The CLI may add others.
        url: the page, in mode `url`. Where it leads is the server's choice: ask before it is opened.
        elicitation_id: the question, in mode `url`; an `ElicitationCompleteMessage` with it tells that the page was done with.
        property_order: the fields of the form in the order in which the server wrote them.
        title: a whole sentence that asks.
        display_name: a short label of the server.
        description: a subtitle.
        request_id: the control request.
        requested_schema_raw: the exact bytes of the schema.
    """

    mcp_server_name: str = ""
    message: str = ""
    mode: str = "form"
    url: str | None = None
    elicitation_id: str | None = None
    property_order: tuple[str, ...] = ()
    title: str | None = None
    display_name: str | None = None
    description: str | None = None
    requested_schema_raw: Raw = msgspec.field(default=NO_RAW, name="requested_schema")

    @decoded_once
    def requested_schema(self) -> dict[str, Any]:
        """The JSON schema of the form; empty if there is none."""
        return plain_object(self.requested_schema_raw)


class UserDialogRequest(Question, frozen=True, kw_only=True):
    """The CLI wants a dialog of a kind that `supported_dialog_kinds` named to be shown, and waits for its end.

    Attributes:
        dialog_kind: which dialog.
        tool_use_id: the tool call it is about, if it is about one.
        request_id: the control request.
        payload_raw: the exact bytes of what the dialog is to show.
    """

    dialog_kind: str = ""
    tool_use_id: str | None = None
    payload_raw: Raw = msgspec.field(default=NO_RAW, name="payload")

    @decoded_once
    def payload(self) -> dict[str, Any]:
        """What the dialog is to show, by its kind's own rules."""
        return plain_object(self.payload_raw)


class ElicitationResult(msgspec.Struct, frozen=True):
    """The answer to an elicitation: `ElicitationResult.accept({...})`, `.decline()`, `.cancel()`.

    Attributes:
        action: `accept`: the user answered. `decline`: the user refused. `cancel`: the user closed the dialog without a choice.
        content: the fields of the form, for `accept`; they are to fit the request's schema, which the server checks.
    """

    action: ElicitationAction
    content: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.action not in ("accept", "decline", "cancel"):
            raise ValueError("`action` must be 'accept', 'decline' or 'cancel'")
        if self.content is not None and not isinstance(self.content, Mapping):
            raise TypeError(f"`content` must be a dict or None, not {type(self.content).__name__}")
        if self.content is not None and self.action != "accept":
            raise ValueError(f"`content` is for 'accept' only, not for {self.action!r}")

    @classmethod
    def accept(cls, content: Mapping[str, Any] | None = None) -> ElicitationResult:
        """Return the answer that hands `content` to the server; None where there is nothing to fill in, as in mode `url`."""
        return cls("accept", content)

    @classmethod
    def decline(cls) -> ElicitationResult:
        """Return the answer that the user refused."""
        return cls("decline")

    @classmethod
    def cancel(cls) -> ElicitationResult:
        """Return the answer that the user closed the dialog without a choice."""
        return cls("cancel")


class UserDialogResult(msgspec.Struct, frozen=True):
    """The end of a dialog: `UserDialogResult.completed(value)` or `.cancelled()`.

    Attributes:
        behavior: `completed` or `cancelled`.
        result: what the dialog gave, in the form that its kind wants; any JSON value.
    """

    behavior: Literal["completed", "cancelled"]
    result: Any = None

    def __post_init__(self) -> None:
        if self.behavior not in ("completed", "cancelled"):
            raise ValueError("`behavior` must be 'completed' or 'cancelled'")
        if self.result is not None and self.behavior == "cancelled":
            raise ValueError("`result` is for 'completed' only")

    @classmethod
    def completed(cls, result: Any = None) -> UserDialogResult:
        """Return the end of a dialog that gave `result`."""
        return cls("completed", result)

    @classmethod
    def cancelled(cls) -> UserDialogResult:
        """Return the end of a dialog that was closed."""
        return cls("cancelled")


def decode_elicitation(request: bytes | Raw | Mapping[str, Any], **around: Unpack[Around]) -> ElicitationRequest:
    """Return what an `elicitation` request asks; fields of the wrong shape are left out. See `decode_user_dialog`."""
    asked: ElicitationRequest = decode_question(ElicitationRequest, "elicitation", request, around)
    return asked


def decode_user_dialog(request: bytes | Raw | Mapping[str, Any], **around: Unpack[Around]) -> UserDialogRequest:
    """Return what a `request_user_dialog` request asks; fields of the wrong shape are left out.

    Args:
        request: the payload of the control request.
        around: `request_id`; `session`, the session that asks; `cancelled`, which tells whether anybody still waits;
            `warn`, called for each field that was left out.

    Raises:
        DecodeError, ValueError: it is no JSON object.
    """
    asked: UserDialogRequest = decode_question(UserDialogRequest, "request_user_dialog", request, around)
    return asked


def encode_elicitation(outcome: object) -> dict[str, Any]:
    """Return the answer to an elicitation; None declines, and a dict has the names of the wire.

    Raises:
        AnswerError: it is nothing that can be an answer, or JSON cannot hold it.
    """
    if outcome is None:
        return dict(DECLINED)
    if isinstance(outcome, ElicitationResult):
        wire: dict[str, Any] = {"action": outcome.action}
        if outcome.content is not None:
            wire["content"] = json_copy(outcome.content, "content")
        return wire
    if not isinstance(outcome, Mapping):
        raise AnswerError(f"it must return an ElicitationResult, a dict or None, not {type(outcome).__name__}")
    wire = json_copy(outcome, "result")
    if wire.get("action") not in ("accept", "decline", "cancel"):
        raise AnswerError("`action` must be 'accept', 'decline' or 'cancel'", "action")
    if not isinstance(wire.get("content"), (dict, type(None))):
        raise AnswerError("`content` must be a dict", "content")
    if wire.get("content") is None:
        wire.pop("content", None)
    return wire


def encode_user_dialog(outcome: object) -> dict[str, Any]:
    """Return the answer to a dialog; None is cancelled, and a dict has the names of the wire.

    Raises:
        AnswerError: it is nothing that can be an answer, or JSON cannot hold it.
    """
    if outcome is None:
        return dict(CANCELLED)
    if isinstance(outcome, UserDialogResult):
        if outcome.behavior == "cancelled":
            return dict(CANCELLED)
        return {"behavior": "completed", "result": json_copy(outcome.result, "result")}
    if not isinstance(outcome, Mapping):
        raise AnswerError(f"it must return a UserDialogResult, a dict or None, not {type(outcome).__name__}")
    wire: dict[str, Any] = json_copy(outcome, "result")
    if wire.get("behavior") not in ("completed", "cancelled"):
        raise AnswerError("`behavior` must be 'completed' or 'cancelled'", "behavior")
    return wire
