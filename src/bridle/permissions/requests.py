"""What the CLI asks before it runs a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec import Raw

from bridle.checked.functions import Around, Question, check_callback, decode_question
from bridle.errors import DecodeError
from bridle.messages.base import NO_RAW, Record, plain_object
from bridle.messages.lazy import computed_once, decoded_once
from bridle.permissions.updates import PermissionUpdate, decode_updates

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "MatchedAskRule",
    "McpServerProvenance",
    "PermissionRequest",
    "PermissionRequestError",
    "decode_permission_request",
]


class PermissionRequestError(ValueError):
    """A permission request cannot be read. Never reaches users: its text is the reason of the denial."""


class McpServerProvenance(Record, frozen=True, kw_only=True):
    """Where an MCP tool comes from.

    Attributes:
        name: the server's name; whoever wrote the server chose it, so trust `source` instead.
        source: who configured the server.
    """

    name: str = ""
    source: str = ""


class MatchedAskRule(Record, frozen=True, kw_only=True):
    """A rule of the user's that forced the question.

    Attributes:
        source: the settings it stands in.
        tool_name: the tool.
        rule_content: what stands in the parentheses.
    """

    source: str = ""
    tool_name: str = ""
    rule_content: str | None = None


class PermissionRequest(Question, frozen=True, kw_only=True):
    """The CLI asks whether a tool may run.

    Texts were written by the model or by a server: escape them before they reach a terminal (`bridle.errors.printable`).

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        agent_id: the subagent that calls; None in the main conversation.
        mcp_server: where the tool comes from, if a server has it.
        title: a whole sentence that asks.
        display_name: a short label of the tool.
        description: a subtitle.
        blocked_path: the path that made the CLI ask.
        decision_reason: why it asks, as text.
        decision_reason_type: why it asks: `rule`, `mode`, `workingDir`, `safetyCheck`, `classifier`, `hook`, ...
        decision_reason_code: a finer code of the same.
        classifier_approvable: False if only a person may approve; None if no safety check is involved.
        requires_user_interaction: True if one tap must not approve.
        default_to_no: True if approval must not be preselected.
        suppress_always_allow_rule: True if "do not ask again" must not be offered.
        server_policy_ask_only: True if the server's policy demands the question.
        matched_ask_rule: the user's rule that forced the question.
        request_id: the control request.
        input_raw: the exact bytes of the tool's input.
        suggestions_raw: the exact bytes of the suggested updates.
    """

    tool_name: str = ""
    tool_use_id: str = ""
    agent_id: str | None = None
    mcp_server: McpServerProvenance | None = None
    title: str | None = None
    display_name: str | None = None
    description: str | None = None
    blocked_path: str | None = None
    decision_reason: str | None = None
    decision_reason_type: str | None = None
    decision_reason_code: str | None = None
    classifier_approvable: bool | None = None
    requires_user_interaction: bool | None = None
    default_to_no: bool | None = None
    suppress_always_allow_rule: bool | None = None
    server_policy_ask_only: bool | None = None
    matched_ask_rule: MatchedAskRule | None = None
    input_raw: Raw = msgspec.field(default=NO_RAW, name="input")
    suggestions_raw: Raw = msgspec.field(default=NO_RAW, name="permission_suggestions")

    @decoded_once
    def input(self) -> dict[str, Any]:
        """The tool's input. Changing it changes nothing: use `Allow(updated_input=...)`."""
        return plain_object(self.input_raw)

    @computed_once
    def suggestions(self) -> tuple[PermissionUpdate, ...]:
        """What the CLI would offer as "do not ask again": for `Allow(updated_permissions=request.suggestions)`."""
        return decode_updates(self.suggestions_raw) if self.suggestions_raw else ()


def decode_permission_request(request: bytes | Raw | Mapping[str, Any], **around: Unpack[Around]) -> PermissionRequest:
    """Return what a `can_use_tool` request asks; fields of the wrong shape are left out.

    Args:
        request: the payload of the control request; as bytes, so that the input can be sent back as it came.
        around: `request_id`, the id of the control request; `session`, the session that asks; `cancelled`, which tells whether the CLI
            has taken the request back; `warn`, called for each field that was left out.

    Raises:
        PermissionRequestError: it does not say which tool would run with which input: there is nothing to allow.
    """
    try:
        asked: PermissionRequest = decode_question(PermissionRequest, "can_use_tool", request, around)
    except (DecodeError, ValueError) as error:
        detail = getattr(error, "detail", None) or error
        raise PermissionRequestError(f"The permission request cannot be read: {detail}") from None
    if not asked.tool_name:
        raise PermissionRequestError("The permission request names no tool.")
    if bytes(memoryview(asked.input_raw)[:1]) != b"{":
        raise PermissionRequestError(f"The permission request for {asked.tool_name} has no input object.")
    return asked


def check_can_use_tool(value: object, path: str) -> object:
    """Accept a permission callback; see `bridle.checked.functions.check_callback`."""
    return check_callback(value, path, ("request",))
