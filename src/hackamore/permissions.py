"""Permissions: the requests that the CLI sends before it runs a tool, and the answers. They need the session protocol.

::

    async def can_use_tool(request: PermissionRequest) -> Allow | Deny:
        if request.tool_name == "Bash" and "rm" in request.input["command"]:
            return Deny("Deleting is not allowed.")
        return Allow()

Updates are checked when you build them. An update from the CLI is never refused: one that this version does not know is an
`UnknownPermissionUpdate`, which can be sent back unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypeAlias, Unpack

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from hackamore.checked.fields import suggestion
from hackamore.checked.functions import (
    Answer,
    AnswerError,
    Around,
    Question,
    as_bytes,
    decode_question,
    json_copy,
    object_bytes,
)
from hackamore.errors import DecodeError, escape_terminal
from hackamore.messages.base import NO_RAW, Record, computed_once, decoded_once, plain, plain_object

__all__ = [
    "AddDirectories",
    "AddRules",
    "Allow",
    "Deny",
    "MatchedAskRule",
    "McpServerProvenance",
    "PermissionBehavior",
    "PermissionDecisionClassification",
    "PermissionRequest",
    "PermissionRequestError",
    "PermissionResult",
    "PermissionResultError",
    "PermissionRule",
    "PermissionUpdate",
    "PermissionUpdateDestination",
    "RemoveDirectories",
    "RemoveRules",
    "ReplaceRules",
    "SetMode",
    "UnknownPermissionUpdate",
    "decode_permission_request",
]

PermissionBehavior: TypeAlias = Literal["allow", "deny", "ask"]
PermissionUpdateDestination: TypeAlias = Literal[
    "userSettings", "projectSettings", "localSettings", "session", "cliArg"
]

_BEHAVIORS = ("allow", "deny", "ask")
_DESTINATIONS = ("userSettings", "projectSettings", "localSettings", "session", "cliArg")
_MODES = ("default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto", "manual")


def _text(value: object, name: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"`{name}` must be a str, not {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"`{name}` must not be empty")


def _choice(value: object, name: str, values: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in values:
        hint = suggestion(value, values) if isinstance(value, str) else ""
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, values))}.{hint}")


class PermissionRule(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A rule, such as `PermissionRule("Bash", "git status:*")`.

    Attributes:
        tool_name: the tool.
        rule_content: the text in the parentheses; None means the whole tool.
    """

    tool_name: str
    rule_content: str | None = None

    def __post_init__(self) -> None:
        _text(self.tool_name, "tool_name")
        if self.rule_content is not None and not isinstance(self.rule_content, str):
            raise TypeError(f"`rule_content` must be a str or None, not {type(self.rule_content).__name__}")


class PermissionUpdate(msgspec.Struct, frozen=True, kw_only=True, dict=True, rename="camel"):
    """The base of all permission updates.

    Attributes:
        extra: fields that the CLI sent and this version does not know, by wire name.
    """

    extra: ClassVar[Mapping[str, Any]] = {}

    @property
    def type(self) -> str:
        """The update's `type` on the wire."""
        tag = self.__struct_config__.tag
        return tag if isinstance(tag, str) else ""

    @classmethod
    def from_wire(cls, data: bytes | Raw | Mapping[str, Any]) -> PermissionUpdate:
        """Read an update as the CLI spells it: `PermissionUpdate.from_wire({"type": "setMode", "mode": "plan"})`.

        Args:
            data: the update, as a dict or as JSON.

        Returns:
            An object of the class for its type, which keeps unknown fields in `extra`; an `UnknownPermissionUpdate` for an update that
            this version does not know, or that is malformed.
        """
        content = as_bytes(data)
        try:
            update: PermissionUpdate = _decode(content)
            known = {"type", *update.__struct_encode_fields__}
            extra = {name: value for name, value in plain(content).items() if name not in known}
        except (ValueError, RecursionError, DecodeError):
            return UnknownPermissionUpdate(raw=content)
        if extra:
            update.__dict__["extra"] = extra
        return update

    def to_wire(self) -> Any:
        """Return the update in wire format.

        Returns:
            A dict that JSON can represent.
        """
        return {**self.extra, **msgspec.to_builtins(self)}


class _Rules(PermissionUpdate, frozen=True, kw_only=True):
    rules: Sequence[PermissionRule]
    behavior: PermissionBehavior
    destination: PermissionUpdateDestination = "session"

    def __post_init__(self) -> None:
        rules: Any = self.rules  # a caller without a type checker passes anything
        if not isinstance(rules, (list, tuple)) or not all(isinstance(rule, PermissionRule) for rule in rules):
            raise TypeError('`rules` must be a list of PermissionRule: [PermissionRule("Bash", "ls:*")]')
        force_setattr(self, "rules", tuple(self.rules))
        _choice(self.behavior, "behavior", _BEHAVIORS)
        _choice(self.destination, "destination", _DESTINATIONS)


class AddRules(_Rules, frozen=True, kw_only=True, tag_field="type", tag="addRules"):
    """Rules are added.

    Attributes:
        rules: the rules.
        behavior: the effect of the rules: allow, deny or ask.
        destination: the place that stores them; `session` (default) means this session only.
    """


class ReplaceRules(_Rules, frozen=True, kw_only=True, tag_field="type", tag="replaceRules"):
    """All rules of one behavior are replaced.

    Attributes:
        rules: the rules.
        behavior: the effect of the rules: allow, deny or ask.
        destination: the place that stores them; `session` (default) means this session only.
    """


class RemoveRules(_Rules, frozen=True, kw_only=True, tag_field="type", tag="removeRules"):
    """Rules are removed.

    Attributes:
        rules: the rules.
        behavior: the effect of the rules: allow, deny or ask.
        destination: the place that stores them; `session` (default) means this session only.
    """


class SetMode(PermissionUpdate, frozen=True, kw_only=True, tag_field="type", tag="setMode"):
    """The permission mode changes.

    Attributes:
        mode: the new mode.
        destination: where it is kept; `session` is for this session only.
    """

    mode: str
    destination: PermissionUpdateDestination = "session"

    def __post_init__(self) -> None:
        _choice(self.mode, "mode", _MODES)
        _choice(self.destination, "destination", _DESTINATIONS)


class _Directories(PermissionUpdate, frozen=True, kw_only=True):
    directories: Sequence[str]
    destination: PermissionUpdateDestination = "session"

    def __post_init__(self) -> None:
        if not isinstance(self.directories, (list, tuple)):
            raise TypeError(f"`directories` must be a list of str, not {type(self.directories).__name__}")
        for directory in self.directories:
            _text(directory, "directories")
        force_setattr(self, "directories", tuple(self.directories))
        _choice(self.destination, "destination", _DESTINATIONS)


class AddDirectories(_Directories, frozen=True, kw_only=True, tag_field="type", tag="addDirectories"):
    """Directories are added to those the CLI may work in.

    Attributes:
        directories: absolute paths.
        destination: where they are kept; `session` is for this session only.
    """


class RemoveDirectories(_Directories, frozen=True, kw_only=True, tag_field="type", tag="removeDirectories"):
    """Directories are removed from those the CLI may work in.

    Attributes:
        directories: absolute paths.
        destination: where they are kept; `session` is for this session only.
    """


class UnknownPermissionUpdate(PermissionUpdate, frozen=True, kw_only=True):
    """An update that this version does not know, or that has malformed fields.

    Attributes:
        raw: the original bytes; they are sent back unchanged.
    """

    raw: bytes

    @property
    def type(self) -> str:
        """The update's `type` on the wire; empty if it has none."""
        kind = self.data.get("type") if isinstance(self.data, dict) else None
        return kind if isinstance(kind, str) else ""

    @property
    def data(self) -> Any:
        """The update as plain Python values."""
        return plain(self.raw)

    def to_wire(self) -> Any:
        """Return the original bytes.

        Returns:
            The JSON that the CLI sent.
        """
        return Raw(self.raw)


_TAGS = frozenset(("addRules", "replaceRules", "removeRules", "setMode", "addDirectories", "removeDirectories"))
_decode = msgspec.json.Decoder(
    AddRules | ReplaceRules | RemoveRules | SetMode | AddDirectories | RemoveDirectories
).decode
_split = msgspec.json.Decoder(list[Raw]).decode


def decode_updates(payload: bytes | Raw) -> tuple[PermissionUpdate, ...]:
    """Return the updates of a list; an empty tuple if `payload` is not a list."""
    try:
        items = _split(payload)
    except (ValueError, RecursionError):
        return ()
    return tuple(map(PermissionUpdate.from_wire, items))


def encode_update(update: object, path: str) -> Any:
    """Return an update in wire format.

    Args:
        update: a `PermissionUpdate`, or a dict with wire names.
        path: the place of the update, for the error.

    Raises:
        AnswerError: `update` is malformed. The CLI would ignore every update of an answer with a malformed one.
    """
    if isinstance(update, PermissionUpdate):
        return json_copy(update.to_wire(), path)
    if not isinstance(update, Mapping):
        raise AnswerError(f"`{path}` must be a permission update, not {type(update).__name__}", path)
    wire = json_copy(update, path)
    kind = wire.get("type")
    if not isinstance(kind, str):
        raise AnswerError(f"`{path}` needs `type`, a str", path)
    if kind in _TAGS:
        try:
            _decode(msgspec.json.encode(wire))
        except ValueError as error:
            raise AnswerError(f"`{path}` is a malformed {kind}: {error}", path) from None
    return wire


PermissionDecisionClassification: TypeAlias = Literal["user_temporary", "user_permanent", "user_reject"]
_CLASSIFICATIONS = ("user_temporary", "user_permanent", "user_reject")


class PermissionResultError(AnswerError):
    """The answer of a permission callback cannot be sent. Not raised to users: the tool is denied, with a warning."""


def _check_classification(value: object) -> None:
    if value is not None and value not in _CLASSIFICATIONS:
        raise ValueError(f"`decision_classification` must be one of {', '.join(map(repr, _CLASSIFICATIONS))} or None")


class Allow(msgspec.Struct, frozen=True):
    """Allow the tool call.

    Attributes:
        updated_input: the input that replaces the one of the request; None keeps that input.
        updated_permissions: updates that hold from now on; see `Allow.always` for "do not ask again".
        decision_classification: the kind of decision, for the statistics of the CLI; None sends none.

    Example:
        ::

            def permit(request: PermissionRequest) -> Allow | Deny:
                return Allow() if request.tool_name == "Read" else Deny("only reading is allowed")
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

    @classmethod
    def always(cls, request: PermissionRequest, destination: PermissionUpdateDestination = "session") -> Self:
        """Allow this call, and add the permission rules that the CLI suggests for it.

        Only suggested rules that allow something are added. Suggested modes, such as `acceptEdits`, and suggested directories are left
        out; pass those as `updated_permissions` after asking for each. If the CLI suggests no rule, or the request has
        `suppress_always_allow_rule`, only this call is allowed, and `updated_permissions` is empty.

        Args:
            request: the request to answer.
            destination: where the CLI keeps the rules. `session`, the default, writes no file; `userSettings`, `projectSettings` and
                `localSettings` name the settings file that the CLI writes.

        Returns:
            The answer, for the permission callback to return.

        Raises:
            ValueError: `destination` is unknown.

        Example::

            def can_use_tool(request: PermissionRequest) -> Allow | Deny:
                if input(f"Always allow {request.tool_name}? [y/N] ") == "y":
                    return Allow.always(request)
                return Deny("The user refused.")
        """
        _choice(destination, "destination", _DESTINATIONS)
        suggested = () if request.suppress_always_allow_rule else request.suggestions
        rules = dict.fromkeys(
            rule
            for update in suggested
            if isinstance(update, AddRules) and update.behavior == "allow"
            for rule in update.rules
        )
        if not rules:
            return cls()
        return cls(updated_permissions=(AddRules(rules=tuple(rules), behavior="allow", destination=destination),))


class Deny(msgspec.Struct, frozen=True):
    """Deny the tool call.

    Attributes:
        message: the reason; the model reads it.
        interrupt: True also ends the turn.
        decision_classification: the kind of decision, for the statistics of the CLI; None sends none.

    Example:
        ::

            Deny("Ask the user first.", interrupt=True)
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
    """Return a decision in wire format, with the fields that are set.

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


def encode_permission_result(result: object, request: PermissionRequest) -> Answer:
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
    return Answer(wire, "allow" if isinstance(result, Allow) else "deny")


def deny(reason: str) -> Answer:
    """Return the answer that denies; it can always be sent, with any text in `reason`."""
    return Answer({"behavior": "deny", "message": escape_terminal(str(reason))}, "deny")


class PermissionRequestError(ValueError):
    """A permission request is malformed. Not raised to users: its text is the reason of the denial."""


class McpServerProvenance(Record, frozen=True, kw_only=True):
    """Where an MCP tool comes from.

    Attributes:
        name: the name of the server. The author of the server chose it; trust `source` instead.
        source: the settings that configure the server.
    """

    name: str = ""
    source: str = ""


class MatchedAskRule(Record, frozen=True, kw_only=True):
    """A permission rule that forced the request.

    Attributes:
        source: the settings that contain the rule.
        tool_name: the tool.
        rule_content: the text in the parentheses; None for a rule for the whole tool.
    """

    source: str = ""
    tool_name: str = ""
    rule_content: str | None = None


class PermissionRequest(Question, frozen=True, kw_only=True):
    """The request of the CLI to allow a tool call.

    Texts were written by the model or by a server: escape them before they reach a terminal (`hackamore.errors.escape_terminal`).

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        agent_id: the subagent that calls; None in the main conversation.
        mcp_server: where the tool comes from, if a server has it.
        title: the request as a sentence.
        display_name: a short label of the tool.
        description: a subtitle.
        blocked_path: the path that caused the request.
        decision_reason: the reason for the request, as text.
        decision_reason_type: the kind of reason: `rule`, `mode`, `workingDir`, `safetyCheck`, `classifier`, `hook`, ...
        decision_reason_code: a more specific code of the reason.
        classifier_approvable: False if only a person may approve; None if no safety check is involved.
        requires_user_interaction: True if one tap must not approve.
        default_to_no: True if approval must not be preselected.
        suppress_always_allow_rule: True if "do not ask again" must not be offered.
        server_policy_ask_only: True if the policy of the server demands the request.
        matched_ask_rule: the permission rule that forced the request.
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
        """The updates that the CLI suggests: rules, modes and directories. `Allow.always(request)` takes only the rules."""
        return decode_updates(self.suggestions_raw) if self.suggestions_raw else ()


def decode_permission_request(request: bytes | Raw | Mapping[str, Any], **around: Unpack[Around]) -> PermissionRequest:
    """Decode a `can_use_tool` request; fields of the wrong shape are left out.

    Args:
        request: the payload of the control request; pass bytes to send the input back unchanged.
        around: `request_id`, the id of the control request; `session`, the session of the request; `cancelled`, which returns whether
            the CLI has cancelled the request; `warn`, called for each field that was left out.

    Returns:
        The request as `can_use_tool` receives it.

    Raises:
        PermissionRequestError: the tool or its input is missing.
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
