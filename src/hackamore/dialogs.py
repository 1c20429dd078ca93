"""Dialogs: questions of servers and of the CLI to the user, and the answers. Needs a session, or a query that becomes one.

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

from hackamore.checked.functions import Answer, AnswerError, Around, Question, decode_question, json_copy
from hackamore.messages.base import NO_RAW, decoded_once, plain_object

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

DECLINED = Answer({"action": "decline"}, "decline")
"""The answer to an elicitation without a callback."""
CANCELLED = Answer({"behavior": "cancelled"}, "cancelled")
"""The answer to a dialog without a callback."""


class ElicitationRequest(Question, frozen=True, kw_only=True):
    """An MCP server asks the user for something.

    The server wrote the texts: escape them for a terminal (`hackamore.errors.escape_terminal`), and show which server asks.

    Attributes:
        mcp_server_name: the server that asks, under the name it is registered with.
        message: the text of the question.
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
        """The content of the dialog, by the rules of its kind."""
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
        """Return the answer that sends `content` to the server.

        Args:
            content: values of the form, by field; None if the dialog has no fields, as in mode `url`.

        Returns:
            The answer, to be returned from the callback.
        """
        return cls("accept", content)

    @classmethod
    def decline(cls) -> ElicitationResult:
        """Return the answer that the user refused.

        Returns:
            The answer, to be returned from the callback.
        """
        return cls("decline")

    @classmethod
    def cancel(cls) -> ElicitationResult:
        """Return the answer that the user closed the dialog without a choice.

        Returns:
            The answer, to be returned from the callback.
        """
        return cls("cancel")


class UserDialogResult(msgspec.Struct, frozen=True):
    """The end of a dialog: `UserDialogResult.completed(value)` or `.cancelled()`.

    Attributes:
        behavior: `completed` or `cancelled`.
        result: the result of the dialog, in the form of its kind; any JSON value.
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
        """Return the answer that the dialog was completed.

        Args:
            result: a value that JSON can represent; None if the dialog has no result.

        Returns:
            The answer, to be returned from the callback.
        """
        return cls("completed", result)

    @classmethod
    def cancelled(cls) -> UserDialogResult:
        """Return the answer that the dialog was closed without a result.

        Returns:
            The answer, to be returned from the callback.
        """
        return cls("cancelled")


def decode_elicitation(request: bytes | Raw | Mapping[str, Any], **around: Unpack[Around]) -> ElicitationRequest:
    """Decode an `elicitation` request; fields of the wrong shape are left out.

    Args:
        request: the payload of the control request.
        around: as in `decode_user_dialog`.

    Returns:
        The request as the callback receives it.

    Raises:
        DecodeError, ValueError: it is not a JSON object.
    """
    asked: ElicitationRequest = decode_question(ElicitationRequest, "elicitation", request, around)
    return asked


def decode_user_dialog(request: bytes | Raw | Mapping[str, Any], **around: Unpack[Around]) -> UserDialogRequest:
    """Decode a `request_user_dialog` request; fields of the wrong shape are left out.

    Args:
        request: the payload of the control request.
        around: `request_id`, the id of the control request; `session`, the session of the request; `cancelled`, which
            returns whether the CLI has cancelled the request; `warn`, called for each field that was left out.

    Returns:
        The request as the callback receives it.

    Raises:
        DecodeError, ValueError: it is not a JSON object.
    """
    asked: UserDialogRequest = decode_question(UserDialogRequest, "request_user_dialog", request, around)
    return asked


def encode_elicitation(outcome: object, request: object = None) -> Answer:
    """Return the answer to an elicitation.

    Args:
        outcome: the return value of the callback: an `ElicitationResult`, a dict with the names of the wire, or None
            to decline.
        request: not needed; each kind of question passes it.

    Returns:
        The answer as it is sent.

    Raises:
        AnswerError: the type is unsupported, or JSON cannot represent the value.
    """
    if outcome is None:
        return DECLINED
    if isinstance(outcome, ElicitationResult):
        wire: dict[str, Any] = {"action": outcome.action}
        if outcome.content is not None:
            wire["content"] = json_copy(outcome.content, "content")
        return Answer(wire, outcome.action)
    wire = _checked(outcome, "an ElicitationResult", "action", "accept", "decline", "cancel")
    if not isinstance(wire.get("content"), (dict, type(None))):
        raise AnswerError("`content` must be a dict", "content")
    if wire.get("content") is None:
        wire.pop("content", None)
    return Answer(wire, wire["action"])


def encode_user_dialog(outcome: object, request: object = None) -> Answer:
    """Return the answer to a dialog.

    Args:
        outcome: the return value of the callback: a `UserDialogResult`, a dict with the names of the wire, or None to
            cancel.
        request: not needed; each kind of question passes it.

    Returns:
        The answer as it is sent.

    Raises:
        AnswerError: the type is unsupported, or JSON cannot represent the value.
    """
    if outcome is None or (isinstance(outcome, UserDialogResult) and outcome.behavior == "cancelled"):
        return CANCELLED
    if isinstance(outcome, UserDialogResult):
        return Answer({"behavior": "completed", "result": json_copy(outcome.result, "result")}, "completed")
    wire = _checked(outcome, "a UserDialogResult", "behavior", "completed", "cancelled")
    return Answer(wire, wire["behavior"])


def _checked(outcome: object, kind: str, field: str, *choices: str) -> dict[str, Any]:
    if not isinstance(outcome, Mapping):
        raise AnswerError(f"it must return {kind}, a dict or None, not {type(outcome).__name__}")
    wire: dict[str, Any] = json_copy(outcome, "result")
    if wire.get(field) not in choices:
        raise AnswerError(f"`{field}` must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}", field)
    return wire
