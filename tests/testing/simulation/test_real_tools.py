"""The tools of the simulated CLI that really run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridle.testing.simulation.real_tools import run_tool
from tests.support.leaks import wait_gone


def test_a_shell_that_takes_too_long_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = "sleep 300 & echo $! > pid; wait"
    text, _, failed = run_tool("Bash", {"command": command, "timeout": 2000})
    assert failed
    assert text.startswith("TimeoutExpired")
    assert wait_gone(int(Path("pid").read_text()), 10)


def test_a_shell_says_what_it_printed_and_how_it_ended() -> None:
    text, structured, failed = run_tool("Bash", {"command": "echo out; echo err >&2"})
    assert (text, failed) == ("out\nerr", False)
    assert (structured["stdout"], structured["stderr"]) == ("out", "err")
    assert run_tool("Bash", {"command": "echo no; exit 3"}) == ("Exit code 3\nno", "Error: Exit code 3\nno", True)
    assert run_tool("Bash", {"command": "true"})[0] == "(Bash completed with no output)"
