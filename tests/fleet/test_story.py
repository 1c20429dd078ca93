"""The claims of the example `fleet_lint.py` and of its section in the guide, on the real CLI."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hackamore.fleet import Fleet
from hackamore.fleet.journal import open_journal
from hackamore.storage.holders import is_running

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "fleet_lint.py"


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.mark.timeout(300)
def test_thirty_findings(tmp_path: Path, claude_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("fleet_lint", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    model = example.Model()
    project, journal = tmp_path / "project", tmp_path / "fleet.db"

    runs = example.story(tmp_path, claude_path, model)
    assert (runs, model.kills) == (2, 1)
    assert model.limited > 0
    assert len(git(project, "worktree", "list").splitlines()) == 1
    rows = example.report(project, journal)
    assert "succeeded" in capsys.readouterr().out

    # One result for each task, and a branch that is merged.
    assert {row.task for row in rows} == set(example.LINES)
    assert {row.state for row in rows} == {"succeeded"}
    merged = git(project, "branch", "--format=%(refname:short)", "--merged").split()
    assert {row.branch for row in rows} <= set(merged)
    files = {"__init__.py", *(f"part_{number}.py" for number in range(5))}
    assert {path.name for path in (project / "shop").iterdir() if path.is_file()} == files, "a killed CLI left a file"
    text = "".join(path.read_text() for path in (project / "shop").iterdir() if path.is_file())
    assert all(line.good in text and line.bad not in text for line in example.LINES.values())

    # The kill and the limit cost no attempt; the check cost one. What was interrupted was resumed.
    assert {row.task: row.failures for row in rows if row.failures} == {"label_3": 1}
    with_fleet = Fleet(journal)
    attempts = [attempt for row in rows for attempt in with_fleet.attempts(row.task)]
    with_fleet.close()
    assert {attempt.cause for attempt in attempts} == {None, "lost", "throttled", "verify"}
    assert any(attempt.resumed for attempt in attempts)

    # The journal counts what the model counts, but for calls that a kill left open.
    counted, unknown = sum(row.tokens for row in rows), sum(row.unknown_calls for row in rows)
    assert counted <= model.tokens <= counted + unknown * sum(example.USAGE.values())

    opened = open_journal(journal)
    found = opened.store.look(
        lambda cursor: (
            cursor.rows("SELECT task FROM changes WHERE state IN ('succeeded', 'failed', 'cancelled')"),
            cursor.rows("SELECT process FROM attempts WHERE process IS NOT NULL"),
        )
    )
    opened.close()
    ends, processes = found
    assert sorted(task for (task,) in ends) == sorted(example.LINES)
    names = [name.rsplit("|", 2) for (name,) in processes]
    assert not [pid for _, pid, started in names if is_running(int(pid), started)]
