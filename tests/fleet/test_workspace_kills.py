"""Programs with workspaces are killed at random moments, and many share a repository: no work is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from hackamore.fleet.sites import safe_name
from hackamore.fleet.workspaces import Copy, Workspace, Worktree
from tests.fleet import attempts, crowd
from tests.fleet.repositories import admin, branches, git
from tests.support.examples import examples
from tests.support.patience import patience
from tests.support.seeds import seeded

PROJECT = Path(__file__).resolve().parents[2]


def kill(process: subprocess.Popen[bytes], *, with_git: bool) -> None:
    """Kill a program; `with_git` ends the git that it runs at the same moment, as a full memory or a power cut does."""
    family = [psutil.Process(process.pid)]
    if with_git:
        process.send_signal(signal.SIGSTOP)
        family += family[0].children(recursive=True)
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait(patience(30))


def attempt_and_kill(
    kind: str, source: Path, to: Path, first: int, chance: random.Random, *, with_git: bool
) -> list[int]:
    """Run the program until a random moment; return the lines that it had written."""
    argv = [sys.executable, "-m", attempts.__name__, kind, str(source), str(to), "Task/1", str(first), str(first)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=PROJECT) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline()]
        try:
            process.wait(chance.uniform(0, 0.4))
        except subprocess.TimeoutExpired:
            kill(process, with_git=with_git)
        seen += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return [int(line) for line in seen]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", ["worktree", "worktree with its git", "copy"])
def test_a_kill_at_any_moment_loses_nothing(case: str, repo: Path, source: Path, tmp_path: Path) -> None:
    chance = random.Random(seeded(11))
    kind, with_git = case.partition(" ")[0], "git" in case
    origin, to = (repo if kind == "worktree" else source), tmp_path / "work"
    workspace: Workspace = Worktree(repo, to) if kind == "worktree" else Copy(source, to, keep="all")
    written: list[int] = []
    for _ in range(examples(25 if kind == "worktree" else 10)):
        written += attempt_and_kill(kind, origin, to, len(written) * 10, chance, with_git=with_git)
        place = workspace.prepare("Task/1", fresh=False)
        reported = set(written)
        kept = [int(line) for line in Path(place.folder, "work.txt").read_text().split()]
        # The line that it was writing may be there, unreported.
        assert [line for line in kept if line in reported] == written
        assert len(os.listdir(to)) == (2 if kind == "copy" else 3)
    place = workspace.prepare("Task/1", fresh=False)
    if kind == "worktree":
        assert admin(repo) == [safe_name("Task/1")]
        assert git(repo, "fsck", "--connectivity-only") is not None
        result = workspace.finish("Task/1", place, succeeded=True, message="The end")
        assert result is not None
        assert result.branch is not None
        assert admin(repo) == []
    place = workspace.prepare("Task/1", fresh=True)
    assert not Path(place.folder, "work.txt").exists()
    assert not list((to / ".hackamore").glob("*.parts"))


@pytest.mark.timeout(300)
def test_a_crowd_shares_a_repository(repo: Path, tmp_path: Path) -> None:
    programs = [
        # Two drivers with two processes each.
        subprocess.Popen(
            [sys.executable, "-m", crowd.__name__, str(repo), str(tmp_path / f"driver-{number % 2}"), f"p{number}"],
            stdout=subprocess.PIPE,
            cwd=PROJECT,
            text=True,
        )
        for number in range(4)
    ]
    done = [line.split() for program in programs for line in program.communicate(timeout=patience(120))[0].splitlines()]
    assert [program.returncode for program in programs] == [0] * 4
    assert len(done) == 4 * crowd.THREADS
    for task, branch in done:
        assert git(repo, "show", f"{branch}:answer") == task
    assert len(branches(repo)) == len(done)
    assert admin(repo) == []
