"""Kills of drivers and agents at random moments, on simulated CLIs: one end of each task, nothing left, nothing redone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hackamore.testing import Script, SimulatedCLI
from tests.fleet.storming import REPLY_TOKENS, Storm
from tests.support.patience import patience
from tests.support.sizes import size

if TYPE_CHECKING:
    from pathlib import Path

REPLIES = 3


def script() -> Script:
    """Return two commands and an answer, and the answers to those who ask again what it was."""
    work = Script().user(contains="<task")
    for command in ("make", "make test"):
        work = work.calls("Bash", {"command": command}, result="ok").slow(20)
    work = work.says("done")
    for _ in range(10):
        work = work.user(contains="Continue where it stopped").says("done")
    return work


def storm(folder: Path, tasks: int, kills: int, seed: int) -> Storm:
    """Blow a storm and check what is left."""
    for name in ("work", "config"):
        (folder / name).mkdir()
    cli = SimulatedCLI(script(), per_session=True)
    environment = {"CLAUDE_CONFIG_DIR": str(folder / "config"), "HOME": str(folder)}
    options = {"cli_path": str(cli.install(folder / "cli")), "env": environment, "version_check": "skip"}
    settings = {"options": options, "tasks": tasks, "concurrency": 8, "folder": str(folder / "work"), "verify": False}
    blown = Storm(folder, settings, kills, seed)
    blown.blow(tasks * REPLIES)
    blown.check(patience(15))
    sessions = {session.session_id: session for session in cli.sessions()}
    rows = list(blown.journal.rows())
    # Resumed and not redone: the prompt of each task arrived once.
    assert {row.task: sum("<task" in prompt for prompt in sessions[row.session_id or ""].prompts) for row in rows} == {
        row.task: 1 for row in rows
    }
    # A simulated CLI keeps no transcript: a reply that was on its way to a driver or agent that was killed is an unknown call.
    counted = {row.task: sessions[row.session_id or ""].replies for row in rows}
    known = {row.task: row.tokens // REPLY_TOKENS for row in rows}
    unknown = {row.task: row.unknown_calls for row in rows}
    numbers = {
        "replies": counted,
        "known": known,
        "unknown": unknown,
        "attempts": {row.task: row.attempt for row in rows},
    }
    blown.facts |= {name: sum(each.values()) for name, each in numbers.items()}
    print(blown.facts)
    for task, replies in counted.items():
        assert known[task] <= replies <= known[task] + unknown[task], (task, numbers)
    return blown


def test_a_storm(tmp_path: Path) -> None:
    """Exactly one result for each task."""
    kills = size("kills of a fleet")
    storm(tmp_path, tasks=2 * kills, kills=kills, seed=3)
