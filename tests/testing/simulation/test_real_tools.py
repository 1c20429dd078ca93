"""The tools of the simulated CLI that really run."""

from __future__ import annotations

from pathlib import Path

import pytest

from hackamore.testing.simulation.real_tools import run_tool
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


def test_files_are_written_and_edited(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "a.txt")
    text, structured, failed = run_tool("Write", {"file_path": path, "content": "one two one"})
    assert (text.startswith(f"File created successfully at: {path}"), structured["type"], failed) == (
        True,
        "create",
        False,
    )
    refused = run_tool("Edit", {"file_path": path, "old_string": "one", "new_string": "1"})
    assert (refused[2], Path(path).read_text()) == (True, "one two one")
    assert "Found 2 matches" in refused[0]
    text, structured, failed = run_tool("Edit", {"file_path": path, "old_string": "two", "new_string": "2"})
    assert (structured["originalFile"], structured["oldString"], failed) == ("one two one", "two", False)
    assert Path(path).read_text() == "one 2 one"
    run_tool("Edit", {"file_path": path, "old_string": "one", "new_string": "1", "replace_all": True})
    assert Path(path).read_text() == "1 2 1"
    text, structured, _ = run_tool("Write", {"file_path": path, "content": "new"})
    assert (text.startswith(f"The file {path} has been updated"), structured["type"]) == (True, "update")
    assert Path(path).read_text() == "new"
