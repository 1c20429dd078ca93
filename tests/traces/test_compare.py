"""Two runs compared."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from bridle.traces.compare import difference, outline
from bridle.traces.reading import read_trace
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

    same = ("Go.", "I go.", "ls", "allow", "a.txt")
    changes = {
        ("Stop.", *same[1:]): ["-prompt: Go.", "+prompt: Stop."],
        (*same[:1], "I run.", *same[2:]): ["-reply: I go.", "+reply: I run."],
        (*same[:2], "pwd", *same[3:]): ["-    command: ls", "+    command: pwd"],
        (*same[:4], "b.txt"): ["-  result: a.txt", "+  result: b.txt"],
    }
    for changed, expected in changes.items():
        assert diff(tmp_path, run(*same), run(*changed)) == expected
    denied = diff(tmp_path, run(*same), run(*same[:3], "deny", "a.txt"))
    assert denied[0] == "-  decision: allowed by the permission callback"
    assert "+  decision: denied by the permission callback" in denied
    assert diff(tmp_path, run(*same), run(*same[:4], "b.txt"), results=False) == []


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
