"""Methods of shapes: the shapes themselves are generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import msgspec

from hackamore.permissions import PermissionUpdate, UnknownPermissionUpdate


@dataclass
class PermissionRuleValue:
    """A rule: a tool, and what its parentheses contain."""

    tool_name: str
    rule_content: str | None = None


class PermissionUpdateMethods:
    """The way of a permission update to the wire and back."""

    def to_dict(self) -> dict[str, Any]:
        given = {name: value for name, value in vars(self).items() if value is not None}
        given["rules"] = [_rule(rule) for rule in given["rules"]] if "rules" in given else None
        update = PermissionUpdate.from_wire({**given, "destination": given.get("destination") or "session"})
        if isinstance(update, UnknownPermissionUpdate):
            raise ValueError(
                f"{self!r} cannot be sent: its type is unknown, or a field that the type needs is missing."
            )
        wire: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(update))
        return wire

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        fields = {name: data.get(name) for name in ("rules", "behavior", "mode", "directories", "destination")}
        if fields["rules"] is not None:
            fields["rules"] = [
                PermissionRuleValue(rule["toolName"], rule.get("ruleContent")) for rule in fields["rules"]
            ]
        return cls(type=data["type"], **fields)  # type: ignore[call-arg]


def _rule(rule: PermissionRuleValue) -> dict[str, Any]:
    content = {} if rule.rule_content is None else {"ruleContent": rule.rule_content}
    return {"toolName": rule.tool_name, **content}
