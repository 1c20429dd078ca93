"""Verdicts of a policy: a decision for a call, and one for each part of it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Decision: TypeAlias = Literal["allow", "ask", "deny"]
PartKind: TypeAlias = Literal["program", "redirect", "path", "domain", "tool"]

STRICTNESS: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}


class Part(msgspec.Struct, frozen=True):
    """One part of a tool call with its own decision."""

    kind: PartKind
    """`program`, `redirect`, `path` or `domain` for shell commands, `tool` for every other tool."""
    text: str
    """The part: a program with its arguments, a path, a domain or the name of a tool."""
    decision: Decision
    """The decision on this part alone."""
    rule: str | None
    """The name of the rule that decided; None if no rule matches."""
    reason: str
    """The reason, as a sentence for people."""


class Verdict(msgspec.Struct, frozen=True):
    """The decision of a policy on one tool call."""

    decision: Decision
    """`allow`, `ask` or `deny`: the strictest decision of all parts."""
    rule: str | None
    """The name of the rule that decided; None if no rule matches the strictest part."""
    reason: str
    """The reason, as a sentence for people and for the model."""
    parts: tuple[Part, ...] = ()
    """Every part of the call with its own decision, in the order of the call."""
    cannot_tell: tuple[str, ...] = ()
    """The places of the call that were not understood. If there are any, the decision is never `allow`."""
