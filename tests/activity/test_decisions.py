"""Decisions in answers of callbacks, as the CLI gets them."""

from __future__ import annotations

from typing import Any

import pytest

from hackamore.activity.decisions import decision


@pytest.mark.parametrize(
    ("answer", "name", "against", "reason"),
    [
        ({}, "", False, ""),
        (None, "", False, ""),
        ({"behavior": "allow", "updatedInput": {}}, "allow", False, ""),
        ({"behavior": "deny", "message": "No."}, "deny", True, "No."),
        ({"action": "accept", "content": {}}, "accept", False, ""),
        ({"decision": "block", "reason": "Not yet."}, "block", True, "Not yet."),
        ({"hookSpecificOutput": {"permissionDecision": "ask"}}, "ask", False, ""),
        (
            {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "No."}, "reason": "x"},
            "deny",
            True,
            "No.",
        ),
        ({"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "No."}}}, "deny", True, "No."),
        ({"continue": False, "stopReason": "Enough."}, "stop", True, "Enough."),
        ({"continue": False, "hookSpecificOutput": {"permissionDecision": "allow"}}, "stop", True, ""),
        ({"continue": True}, "", False, ""),
        ({"mcp_response": {"result": {"content": []}}}, "answered", False, ""),
        ({"mcp_response": {"result": {"isError": True}}}, "failed", False, ""),
        ({"mcp_response": {"error": {"message": "x"}}}, "failed", False, ""),
        ({"mcp_response": 7}, "answered", False, ""),
        ({"hookSpecificOutput": [], "behavior": 7, "decision": {}}, "", False, ""),
    ],
)
def test_an_answer_has_one_decision(answer: dict[str, Any] | None, name: str, against: bool, reason: str) -> None:
    made = decision(answer)
    assert (made.name, made.against, made.reason) == (name, against, reason)


def test_a_stop_keeps_the_verdict_about_the_call() -> None:
    """`continue: false` of a PreToolUse hook lets the tool run (2.1.330)."""
    assert decision({"continue": False, "hookSpecificOutput": {"permissionDecision": "allow"}}).verdict == "allow"
