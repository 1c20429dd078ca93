"""Repositories and folders that tests of workspaces start from, without the settings of the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hackamore.fleet.workspaces import Worktree

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org")
CLEAN = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def git(where: Path | str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | CLEAN
    return subprocess.run(
        ["git", *IDENTITY, "-C", str(where), *arguments], check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


def branches(repo: Path) -> list[str]:
    return git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/fleet").split()


def worktrees(repo: Path) -> int:
    return git(repo, "worktree", "list", "--porcelain").count("worktree ")


def admin(repo: Path) -> list[str]:
    folder = repo / ".git" / "worktrees"
    return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.fixture
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CLEAN.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repo(tmp_path: Path, no_configuration: None) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main")
    (path / "a.txt").write_text("a")
    (path / ".gitignore").write_text("*.log\n")
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message=First")
    return path


@pytest.fixture
def tree(repo: Path, tmp_path: Path) -> Worktree:
    return Worktree(repo).under(str(tmp_path / "work"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    (path / "inner").mkdir(parents=True)
    (path / "a.txt").write_text("a")
    (path / "inner" / "b.txt").write_text("b")
    (path / "link").symlink_to("a.txt")
    return path
