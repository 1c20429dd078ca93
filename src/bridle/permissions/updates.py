"""Permission updates: changes of rules, mode and directories, as the CLI suggests them and as an `Allow` makes them.

Built by hand they are checked at once. Read from the wire nothing is refused: what this version does not know is an
`UnknownPermissionUpdate`, which can be sent back as it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from bridle.checked.fields import suggestion
from bridle.checked.functions import AnswerError, as_bytes, json_copy
from bridle.errors import DecodeError
from bridle.messages.base import plain

__all__ = [
    "AddDirectories",
    "AddRules",
    "PermissionBehavior",
    "PermissionRule",
    "PermissionUpdate",
    "PermissionUpdateDestination",
    "RemoveDirectories",
    "RemoveRules",
    "ReplaceRules",
    "SetMode",
    "UnknownPermissionUpdate",
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
        rule_content: what stands in the parentheses; None is the whole tool.
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
        extra: what the CLI sent along and this version does not know, by wire name.
    """

    extra: ClassVar[Mapping[str, Any]] = {}

    @property
    def type(self) -> str:
        """The update's `type` on the wire."""
        tag = self.__struct_config__.tag
        return tag if isinstance(tag, str) else ""

    def to_wire(self) -> Any:
        """Return the update as the CLI spells it."""
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
        behavior: what they do: allow, deny or ask.
        destination: where they are kept; `session` is for this session only.
    """


class ReplaceRules(_Rules, frozen=True, kw_only=True, tag_field="type", tag="replaceRules"):
    """All rules of one behavior are replaced.

    Attributes:
        rules: the rules.
        behavior: what they do: allow, deny or ask.
        destination: where they are kept; `session` is for this session only.
    """


class RemoveRules(_Rules, frozen=True, kw_only=True, tag_field="type", tag="removeRules"):
    """Rules are removed.

    Attributes:
        rules: the rules.
        behavior: what they do: allow, deny or ask.
        destination: where they are kept; `session` is for this session only.
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
    """An update that this version does not know, or whose fields it does not understand.

    Attributes:
        raw: its bytes; they are sent back as they are.
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
        """Return the bytes that came."""
        return Raw(self.raw)


_TAGS = frozenset(("addRules", "replaceRules", "removeRules", "setMode", "addDirectories", "removeDirectories"))
_decode = msgspec.json.Decoder(
    AddRules | ReplaceRules | RemoveRules | SetMode | AddDirectories | RemoveDirectories
).decode
_split = msgspec.json.Decoder(list[Raw]).decode


def decode_update(payload: bytes | Raw | Mapping[str, Any]) -> PermissionUpdate:
    """Return the update that the CLI sent; never raises for what it sent."""
    content = as_bytes(payload)
    try:
        update: PermissionUpdate = _decode(content)
        known = {"type", *update.__struct_encode_fields__}
        extra = {name: value for name, value in plain(content).items() if name not in known}
    except (ValueError, RecursionError, DecodeError):
        return UnknownPermissionUpdate(raw=content)
    if extra:
        update.__dict__["extra"] = extra
    return update


def decode_updates(payload: bytes | Raw) -> tuple[PermissionUpdate, ...]:
    """Return the updates of a list; no list is no updates."""
    try:
        items = _split(payload)
    except (ValueError, RecursionError):
        return ()
    return tuple(decode_update(item) for item in items)


def encode_update(update: object, path: str) -> Any:
    """Return an update as the CLI spells it: one of the classes, or a dict with wire names.

    Raises:
        AnswerError: it is no update. The CLI would ignore every update of an answer that has one malformed.
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
