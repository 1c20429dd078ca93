"""The script `./dev`, as far as it can be tried without installing anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parents[2]
COMMANDS = (
    "demo",
    "test",
    "mutate",
    "fuzz",
    "soak",
    "matrix",
    "release",
    "lint",
    "format",
    "docs",
    "bench",
    "ci",
    "new-cli",
    "new-official",
    "setup",
    "help",
)


def dev(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROJECT / "dev"), *arguments],
        capture_output=True,
        text=True,
        timeout=patience(50),
        cwd="/",
        env={**os.environ, **environment},
    )


def test_help_names_every_command() -> None:
    done = dev("help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout
    assert dev().stdout == done.stdout


def test_an_unknown_command_is_a_usage_error() -> None:
    done = dev("nonsense")
    assert done.returncode == 2
    assert "there is no command 'nonsense'" in done.stderr


def test_a_cli_that_is_named_and_missing_is_said() -> None:
    done = dev("setup", HACKAMORE_TEST_CLI="/nowhere/claude")
    assert done.returncode == 1
    assert "HACKAMORE_TEST_CLI is not an executable: /nowhere/claude" in done.stderr
