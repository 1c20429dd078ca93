"""Two runs compared."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import anyio
import pytest

from hackamore.traces.compare import block_at, difference, outline
from hackamore.traces.reading import read_trace
from tests.conftest import RealCLI
from tests.contract import shows
from tests.traces.agent import run_agent
from tests.traces.written import Tape, call, everything, text


def diff(tmp_path: Path, one: Tape, other: Tape, *, results: bool = True, full: bool = False) -> list[str]:
    outlines = [
        outline(read_trace(tape.write(tmp_path / f"{number}.jsonl")), results=results, full=full)
        for number, tape in enumerate((one, other))
    ]
    found = difference(outlines[0], outlines[1], ("A", "B"))
    return [line for line in found[2:] if line[0] in "+-"]


def renamed(tape: Tape) -> Tape:
    """Return the same run with other ids and times."""
    for old, new in (
        ("msg_", "msg_other_"),
        ('"t1"', '"toolu_9"'),
        ('"p1"', '"q9"'),
        ('"s":"s1"', '"s":"zz"'),
        ('"b1"', '"b7"'),
    ):
        tape.lines = [line.replace(old, new) for line in tape.lines]
    lines = []
    for line in tape.lines:
        fields = json.loads(line)
        if "t" in fields:
            fields["t"] = round(fields["t"] * 3.7, 4)
        lines.append(json.dumps(fields, separators=(",", ":")))
    tape.lines = lines
    return tape


def test_ids_and_times_do_not_count(tmp_path: Path) -> None:
    one, other = everything(), renamed(everything())
    assert one.lines != other.lines
    assert diff(tmp_path, one, other) == []


def test_prompts_replies_tools_decisions_and_results_count(tmp_path: Path) -> None:
    def run(prompt: str, words: str, command: str, behavior: str, result: str) -> Tape:
        tape = Tape()
        tape.prompt(prompt)
        tape.reply(1, text(words), call("Bash", "t1", command=command))
        tape.asked("p1", "can_use_tool", tool_name="Bash", input={}, tool_use_id="t1")
        tape.answered("p1", {"behavior": behavior})
        tape.result_of("t1", result)
        tape.result()
        return tape

    long = "Go. " * 80 + "\n"
    same = (long, "I go.", "ls", "allow", "a.txt")
    changes = {
        (f"{long}Stop.", *same[1:]): ["+    Stop."],
        (*same[:1], "I run.", *same[2:]): ["-reply: I go.", "+reply: I run."],
        (*same[:2], "pwd", *same[3:]): ["-    command: ls", "+    command: pwd"],
        (*same[:4], "b.txt"): ["-  result: a.txt", "+  result: b.txt"],
        (*same[:4], "a.txt "): ["-  result: a.txt", "+  result: a.txt "],
        (*same[:4], "a.txt\n\n"): [],
        (*same[:4], "in 20 ms"): ["-  result: a.txt", "+  result: in <time>"],
    }
    for changed, expected in changes.items():
        assert diff(tmp_path, run(*same), run(*changed)) == expected
    denied = diff(tmp_path, run(*same), run(*same[:3], "deny", "a.txt"))
    assert denied[0] == "-  decision: allowed by the permission callback"
    assert "+  decision: denied by the permission callback" in denied
    assert diff(tmp_path, run(*same), run(*same[:4], "b.txt"), results=False) == []


def test_the_outline_of_a_run(tmp_path: Path) -> None:
    tape = everything(said="x")
    tape.out({"type": "control_request", "request_id": "o1", "request": {"subtype": "set_model", "model": "m2"}})
    tape.out({"type": "control_request", "request_id": "o2", "request": {"subtype": "initialize"}})
    tape.out({"type": "control_request", "request_id": "o3", "request": {"subtype": "interrupt"}})
    tape.into(
        {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto", "pre_tokens": 5}}
    )
    tape.into({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 3})
    tape.into({"type": "user", "message": {"content": "a note"}, "isSynthetic": True})
    hook = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm"}}
    tape.asked("h2", "hook_callback", input=hook)
    tape.answered("h2", {"decision": "block", "reason": "no"})
    tape.reply(9, call("Bash", "t9", command="ls", timeout=5, background=False))
    tape.put("prompt", text="of one shot")
    tape.put("prompt")
    for line in everything(Tape("s2"), said="y").lines[2:3]:
        tape.lines.append(line)
    trace = read_trace(tape.write(tmp_path / "run.jsonl"))
    assert [block_at(trace, 2, place) for place in (0, 1, -1)] == [text("x"), {}, {}]
    assert outline(trace) == [
        "session 0 session",
        "prompt: x",
        "reply: I say x",
        *("tool: Bash", "    command: echo x", "  decision: allowed by the permission callback", "  result: it said x"),
        *(
            "tool: Edit",
            "    file_path: /home/me/a.py",
            "    new_string: one",
            "    three",
            "    ",
            "    old_string: one",
        ),
        *("    two", "  decision: denied by the permission callback: No: x", "  failed: No: x"),
        *("subagent: Agent", "    description: Count", "    prompt: Count it.", "    subagent_type: general-purpose"),
        "  result: There are 12.",
        *("  tool: Bash", "      command: wc", "    result: 12"),
        "reply: All is done.",
        *("outcome: success", "exit: exit code 0"),
        'operation: set_model {"model": "m2"}',
        "interrupt: ",
        *("compaction: auto 5", "retry: try 1 of 3", "message: a note"),
        "hook: PreToolUse block: no",
        *("tool: Bash", "    background: false", "    command: ls", "    timeout: 5", "  no result: "),
        *("prompt: of one shot", "prompt: "),
        "session 1 session",
        "prompt: y",
    ]
    assert [line for line in outline(trace, results=False) if "result:" in line or "failed:" in line] == [
        "  no result: "
    ]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("x" * 200, ["x" * 200]),
        ("x" * 201, [f"{'x' * 200} ... [hash]"]),
        ("\n".join("x" * 40), ["x"] * 40),
        ("\n".join("x" * 42), [*["x"] * 40, "... 2 more lines [hash]"]),
    ],
    ids=["longest line", "long line", "most lines", "many lines"],
)
def test_long_texts_are_cut(tmp_path: Path, said: str, shown: list[str]) -> None:
    tape = Tape()
    tape.prompt(said)
    trace = read_trace(tape.write(tmp_path / "run.jsonl"))
    found = [re.sub(r"\[[0-9a-f]{8}\]$", "[hash]", line) for line in outline(trace)]
    assert found == [f"prompt: {shown[0]}", *(f"    {line}" for line in shown[1:])]
    assert len(outline(trace, full=True)) == len(said.split("\n"))


def test_what_is_not_shown_is_compared(tmp_path: Path) -> None:
    def run(end: str) -> Tape:
        tape = Tape()
        tape.reply(1, text("x" * 5000 + end + "\nline" * 500 + end))
        return tape

    found = diff(tmp_path, run("1"), run("2"))
    assert len(found) == 4
    assert all(len(line) < 300 for line in found)
    assert any(line.endswith("2") and len(line) > 5000 for line in diff(tmp_path, run("1"), run("2"), full=True))


@shows("traces.diff")
@pytest.mark.timeout(120)
def test_two_real_runs_are_the_same(real_cli: RealCLI, tmp_path: Path) -> None:
    outlines = []
    for name in ("one", "other"):
        anyio.run(partial(run_agent, real_cli, tmp_path / f"{name}.jsonl", 9, background=False))
        outlines.append(outline(read_trace(tmp_path / f"{name}.jsonl")))
        for path in real_cli.cwd.iterdir():
            path.unlink()
    assert difference(outlines[0], outlines[1], ("one", "other")) == []
    assert len(outlines[0]) > 50
