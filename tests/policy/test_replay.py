"""Recorded runs, decided again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from hackamore import Policy, Rule, SessionNotFoundError
from tests.contract import shows
from tests.traces.agent import run_agent
from tests.traces.written import Tape, call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI


def policy(*fields: dict[str, Any]) -> Policy:
    return Policy([Rule(**each) for each in fields])


def recorded() -> Tape:
    tape = Tape()
    tape.put("start", arguments=[], cwd="/home/me", one_shot=False)
    tape.prompt("Go.")
    tape.into({"type": "system", "subtype": "init", "model": "m", "session_id": "x", "cwd": "/home/me"})
    tape.reply(1, call("Bash", "t1", command="ls"), call("Bash", "t2", command="git push"))
    tape.result_of("t1", "a")
    tape.asked("p1", "can_use_tool", tool_name="Bash", input={"command": "git push"}, tool_use_id="t2")
    tape.answered("p1", {"behavior": "allow", "updatedInput": {}})
    tape.result_of("t2", "pushed")
    tape.reply(2, call("Write", "t3", file_path="notes.txt", content="x"))
    meta = [{"id": "t3", "permission_decision": {"decision": "reject", "source": "config", "reason_type": "rule"}}]
    tape.result_of("t3", "Denied.", failed=True, tool_result_meta=meta)
    tape.result()
    tape.reply(3, call("Agent", "t4", description="Look", prompt="Look.", subagent_type="reviewer"))
    tape.reply(4, call("Read", "t5", file_path="/etc/hosts"), parent="t4")
    tape.result_of("t5", "hosts", parent_tool_use_id="t4")
    tape.result_of("t4", "Done.")
    tape.reply(5, call("Bash", "t6", command="rm x"))
    return tape


@shows("policy.tools.replay")
def test_the_decisions_that_change_are_marked(tmp_path: Path) -> None:
    path = recorded().write(tmp_path / "run.jsonl")
    now = policy(
        {"name": "look", "program": "ls", "decision": "allow"},
        {"name": "push", "program": "git", "verb": "push", "decision": "deny"},
        {"name": "notes", "tool": "Write", "path": "/home/me/**", "decision": "allow"},
        {"name": "agents", "tool": "Agent", "decision": "allow", "spent_over": 0.2},
        {"name": "reviewer", "tool": "Read", "agent": "reviewer", "decision": "deny"},
    )
    calls = now.replay(path)
    rows = [(each.tool, each.agent, each.recorded, each.verdict.decision, each.changed) for each in calls]
    assert rows == [
        ("Bash", "main", "allow", "allow", False),
        ("Bash", "main", "ask", "deny", True),
        ("Write", "main", "deny", "allow", True),
        ("Agent", "main", "allow", "allow", False),
        ("Read", "reviewer", "allow", "deny", True),
        ("Bash", "main", None, "ask", False),
    ]
    assert [each.verdict.rule for each in calls] == ["look", "push", "notes", "agents", "reviewer", None]
    assert calls[1].text == "git push"
    lines = path.read_text().splitlines()
    assert all(each.text.split()[0] in lines[each.line - 1] for each in calls if each.tool == "Bash")


def test_a_run_that_does_not_exist_is_an_error() -> None:
    with pytest.raises((OSError, SessionNotFoundError)):
        policy().replay("no such run")


@shows("policy.tools.replay")
def test_the_trace_and_the_conversation_of_the_real_cli_have_the_same_calls(real_cli: RealCLI, tmp_path: Path) -> None:
    anyio.run(partial(run_agent, real_cli, tmp_path / "run.jsonl", 8, background=False))
    now = policy({"tool": ["Write", "Edit"], "path": f"{real_cli.cwd.resolve()}/**", "decision": "allow"})
    calls = now.replay(tmp_path / "run.jsonl", cwd=real_cli.cwd)
    tools = [(each.tool, each.recorded, each.verdict.decision) for each in calls]
    assert ("Write", "ask", "allow") in tools, [(each.text, each.verdict.reason) for each in calls]
    assert all(each.recorded is not None for each in calls)
    [kept] = [path for path in tmp_path.rglob("*.jsonl") if "projects" in path.parts and "subagents" not in path.parts]
    again = now.replay(kept, cwd=real_cli.cwd)
    main = [(each.tool, each.text, each.verdict.decision) for each in calls if each.agent == "main"]
    assert [(each.tool, each.text, each.verdict.decision) for each in again if each.agent == "main"] == main
