"""Methods of shapes: the shapes themselves are generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self


@dataclass
class PermissionRuleValue:
    """A rule: a tool, and what its parentheses contain."""

    tool_name: str
    rule_content: str | None = None


# The field that each type of update needs, and that the CLI reads.
_NEEDED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("addRules", "replaceRules", "removeRules"), ("rules", "behavior")),
    "setMode": ("mode",),
    **dict.fromkeys(("addDirectories", "removeDirectories"), ("directories",)),
}


class PermissionUpdateMethods:
    """The way of a permission update to the wire and back."""

    def to_dict(self) -> dict[str, Any]:
        kind: Any = getattr(self, "type", None)
        if kind not in _NEEDED:
            known = ", ".join(_NEEDED)
            raise ValueError(f"PermissionUpdate has type {kind!r}, which this version cannot send. Use one of {known}.")
        wire: dict[str, Any] = {"type": kind, "destination": getattr(self, "destination", None) or "session"}
        for name in _NEEDED[kind]:
            value = getattr(self, name)
            if value is None:
                raise ValueError(f"PermissionUpdate(type={kind!r}) has no {name}. Set `{name}`: the CLI needs it.")
            wire[name] = [_rule(rule) for rule in value] if name == "rules" else value
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
