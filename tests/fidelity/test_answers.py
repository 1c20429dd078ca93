"""Answers of hosts that the CLI does not accept, or that are for another event: both CLIs do the same with them.

Hackamore refuses such answers before they are sent: a transport puts them in the place of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hackamore.testing import Script
from tests.contract import shows
from tests.fidelity.case import Case
from tests.fidelity.driving import ISOLATED, play, real_options
from tests.fidelity.frames import Rules, compare
from tests.fidelity.hosts import ASK, BYPASS, SHOP, echo, hooks, talk, touch
from tests.fidelity.test_fidelity import RUNS, made

if TYPE_CHECKING:
    from pathlib import Path


def broken(script: Script, folder: Path) -> None:
    script.user("go").calls("mcp__shop__broken").says("Done.")


def compacts(script: Script, folder: Path) -> None:
    script.user("one").says("One.").user("/compact").compacts("all of it").user("two").says("Two.")


def delegates(script: Script, folder: Path) -> None:
    script.user("go").subagent("look", "Seen.").says("Done.")


def named(event: object, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


SITUATIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "UserPromptSubmit": (talk, {}),
    "MessageDisplay": (talk, {}),
    "Stop": (talk, {}),
    "SessionEnd": (talk, {}),
    "PreToolUse": (echo, BYPASS),
    "PostToolUse": (echo, BYPASS),
    "PostToolBatch": (echo, BYPASS),
    "PostToolUseFailure": (broken, {**BYPASS, "mcp_servers": SHOP}),
    "PermissionRequest": (touch, ASK),
    "SubagentStart": (delegates, BYPASS),
    "SubagentStop": (delegates, BYPASS),
    "PreCompact": (compacts, {}),
    "PostCompact": (compacts, {}),
    "SessionStart": (compacts, {}),
}
PRE = "PreToolUse"
WRONG: tuple[Any, ...] = (
    {"continue": "no"},
    {"continue": None},
    {"decision": "allow"},
    {"decision": "block", "reason": 5},
    {"suppressOutput": "x"},
    {"systemMessage": 5},
    {"unknown": 1},
    {"async": True},
    {"async": "yes"},
    {"hookSpecificOutput": None},
    {"hookSpecificOutput": "x"},
    [],
    "text",
    named(PRE, permissionDecision="block"),
    named(PRE, permissionDecision=None),
    named(PRE, permissionDecision="allow", unknown=1),
    named(PRE, permissionDecision="deny", permissionDecisionReason=5),
    named(PRE, updatedInput=[1]),
    named(PRE, updatedInput=None),
    named(PRE, additionalContext=5),
)
DECISIONS: tuple[Any, ...] = (
    {},
    [],
    None,
    {"behavior": "nonsense"},
    {"behavior": "allow"},
    {"behavior": "allow", "updatedInput": "x"},
    {"behavior": "allow", "updatedInput": {}},
    {"behavior": "allow", "updatedInput": {"command": "touch made"}, "updatedPermissions": "x"},
    {"behavior": "deny"},
    {"behavior": "deny", "message": 5},
    {"behavior": "deny", "message": ""},
    {"behavior": "deny", "message": "no", "interrupt": "x"},
)
ANSWERS: list[tuple[str, Any]] = [
    *((event, named("PostToolUse" if event == PRE else PRE, additionalContext="x")) for event in SITUATIONS),
    *((event, named("Nonsense")) for event in SITUATIONS),
    *((PRE, named(event)) for event in ("SessionEnd", "PreCompact", "WorktreeCreate", "Stop", "Elicitation", None, 5)),
    *((PRE, answer) for answer in WRONG),
    *(
        ("PermissionRequest", named("PermissionRequest", decision=decision))
        for decision in (
            {"behavior": "nonsense"},
            {"behavior": "allow", "updatedInput": "x"},
            {"behavior": "allow", "updatedPermissions": "x"},
            {"behavior": "deny", "message": 5},
            {},
            "allow",
        )
    ),
    *(("can_use_tool", answer) for answer in DECISIONS),
]
TEXTS = dict.fromkeys(
    (
        "system/informational.content",
        "system/task_updated.patch.error",
        "system/task_notification.summary",
        "user.message.content[].content",
        "user.tool_use_result",
        "result/error_during_execution.errors",
    ),
    "texts about answers that are not accepted are not copied",
)


def named_case(number: int) -> Case:
    kind, answer = ANSWERS[number]
    write, options = SITUATIONS.get(kind, (touch, ASK))
    if kind in SITUATIONS:
        options = {**options, **hooks(kind)}
    return Case(f"{kind} {answer}", write, options, answers=(kind, answer))


@shows("testing.elsewhere.answers")
@pytest.mark.parametrize("number", range(len(ANSWERS)), ids=[f"{kind}-{str(answer)[:60]}" for kind, answer in ANSWERS])
def test_both_do_the_same_with_an_answer_that_does_not_fit(number: int, claude_path: str, tmp_path: Path) -> None:
    case = named_case(number)
    home = tmp_path / "home"
    simulated = play(case, made(tmp_path / "simulated"), ISOLATED, how="memory", home=made(home))
    for attempt in range(RUNS):
        folder = made(tmp_path / f"real{attempt}")
        real = play(case, folder, real_options(claude_path, home), how="real", home=home)
        differences = compare(real, simulated, Rules(TEXTS, {})).differences
        if case.name.startswith("PermissionRequest"):
            # The CLI runs the hook and asks the callback at the same time: which of the two is reported first is chance.
            differences = [each for each in differences if not each.startswith("turns in another order")]
        if not differences:
            break
    assert differences == []
