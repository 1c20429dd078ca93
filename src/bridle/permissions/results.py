"""What a permission callback answers, and how the CLI is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Raw

from bridle.checked.functions import AnswerError, json_copy, object_bytes
from bridle.errors import printable
from bridle.permissions.updates import PermissionUpdate, encode_update

if TYPE_CHECKING:
    from bridle.permissions.requests import PermissionRequest

__all__ = ["Allow", "Deny", "PermissionDecisionClassification", "PermissionResult", "PermissionResultError"]

PermissionDecisionClassification: TypeAlias = Literal["user_temporary", "user_permanent", "user_reject"]
_CLASSIFICATIONS = ("user_temporary", "user_permanent", "user_reject")


class PermissionResultError(AnswerError):
    """A permission callback's answer cannot be sent. Never reaches users: the tool is denied, and a warning tells."""


def _check_classification(value: object) -> None:
    if value is not None and value not in _CLASSIFICATIONS:
        raise ValueError(f"`decision_classification` must be one of {', '.join(map(repr, _CLASSIFICATIONS))} or None")


class Allow(msgspec.Struct, frozen=True):
    """The tool may run.

    Attributes:
        updated_input: what it runs with instead; None is the input that the request has.
        updated_permissions: changes that hold from now on, such as `request.suggestions`.
        decision_classification: how the user decided, for the CLI's statistics.
    """

    updated_input: Mapping[str, Any] | None = None
    updated_permissions: Sequence[PermissionUpdate | Mapping[str, Any]] = ()
    decision_classification: PermissionDecisionClassification | None = None

    def __post_init__(self) -> None:
        if self.updated_input is not None and not isinstance(self.updated_input, (Mapping, Raw)):
            raise TypeError(f"`updated_input` must be a dict or None, not {type(self.updated_input).__name__}")
        if not isinstance(self.updated_permissions, (list, tuple)):
            raise TypeError(
                f"`updated_permissions` must be a list of updates, not {type(self.updated_permissions).__name__}"
            )
        _check_classification(self.decision_classification)


class Deny(msgspec.Struct, frozen=True):
    """The tool must not run.

    Attributes:
        message: why; the model reads it.
        interrupt: True also ends the turn.
        decision_classification: how the user decided, for the CLI's statistics.
    """

    message: str
    interrupt: bool = False
    decision_classification: PermissionDecisionClassification | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.message, str):
            raise TypeError(f"`message` must be a str, not {type(self.message).__name__}")
        if not isinstance(self.interrupt, bool):
            raise TypeError(f"`interrupt` must be True or False, not {type(self.interrupt).__name__}")
        _check_classification(self.decision_classification)


PermissionResult: TypeAlias = Allow | Deny


def decision_wire(result: Allow | Deny, path: str = "result") -> dict[str, Any]:
    """Return a decision as the CLI spells it, with what was set and nothing else.

    Raises:
        AnswerError: JSON cannot hold it.
    """
    wire: dict[str, Any]
    if isinstance(result, Deny):
        wire = {"behavior": "deny", "message": json_copy(result.message, f"{path}.message")}
        if result.interrupt:
            wire["interrupt"] = True
    else:
        wire = {"behavior": "allow"}
        if result.updated_input is not None:
            wire["updatedInput"] = object_bytes(result.updated_input, f"{path}.updated_input")
        if result.updated_permissions:
            wire["updatedPermissions"] = [
                encode_update(update, f"{path}.updated_permissions[{index}]")
                for index, update in enumerate(result.updated_permissions)
            ]
    if result.decision_classification is not None:
        wire["decisionClassification"] = result.decision_classification
    return wire


def encode_permission_result(result: object, request: PermissionRequest) -> dict[str, Any]:
    """Return the answer to `request`, for msgspec to encode. An unchanged input goes back as the bytes that came.

    Raises:
        PermissionResultError: it is neither `Allow` nor `Deny`, or JSON cannot hold it.
    """
    if not isinstance(result, (Allow, Deny)):
        raise PermissionResultError(
            f"A permission callback must return Allow() or Deny(message), not {type(result).__name__}."
        )
    try:
        wire = decision_wire(result)
    except AnswerError as error:
        raise PermissionResultError(f"A permission callback's answer cannot be sent: {error}.", error.path) from None
    if isinstance(result, Allow) and result.updated_input is None:
        # The CLI takes an allow without an input for a malformed answer, and denies.
        wire["updatedInput"] = request.input_raw
    if request.tool_use_id:
        wire["toolUseID"] = request.tool_use_id
    return wire


def deny(reason: str) -> dict[str, Any]:
    """Return the answer that denies; it can always be sent, whatever is in `reason`."""
    return {"behavior": "deny", "message": printable(str(reason))}
