"""The decision in the answer of a callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Decision(NamedTuple):
    """A decision.

    Attributes:
        verdict: the decision about a call: `allow`, `deny`, `ask`, `block`, ...; `failed` or `answered` for a tool; empty for none.
        stops: True if the turn stops.
        reason: the reason that the callback gives.
    """

    verdict: str
    stops: bool = False
    reason: str = ""

    @property
    def name(self) -> str:
        """`stop`, or the verdict: `continue: false` ends the turn even if it allows the call (2.1.330)."""
        return "stop" if self.stops else self.verdict

    @property
    def against(self) -> bool:
        """True if the call is not made, or if nothing follows it."""
        return self.stops or self.verdict in ("deny", "block")


def decision(answer: Mapping[str, Any] | None) -> Decision:
    """Return the decision of an answer, as the CLI gets it: of a hook, a permission callback, a dialog, or a tool of this process."""
    answer = answer or {}
    if "mcp_response" in answer:
        response = _object(answer["mcp_response"])
        failed = "error" in response or bool(_object(response.get("result")).get("isError"))
        return Decision("failed" if failed else "answered")
    specific = _object(answer.get("hookSpecificOutput"))
    request = _object(specific.get("decision"))  # of the event PermissionRequest
    made = specific.get("permissionDecision") or request.get("behavior") or answer.get("decision")
    made = made or answer.get("behavior") or answer.get("action")
    reason = specific.get("permissionDecisionReason") or request.get("message") or answer.get("reason")
    reason = reason or answer.get("stopReason") or answer.get("message")
    verdict, why = (value if isinstance(value, str) else "" for value in (made, reason))
    return Decision(verdict, answer.get("continue") is False, why)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
