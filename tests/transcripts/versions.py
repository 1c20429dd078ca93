"""The CLI versions whose conversations the tests read: the pinned one, and one before."""

from __future__ import annotations

import os
import tomllib

import pytest

from tests.conftest import PROJECT, pinned_cli_path

PIN = str(tomllib.loads((PROJECT / "pinned_cli.toml").read_text(encoding="utf-8"))["version"])
VERSIONS = [PIN, "2.1.328"]


def program(version: str) -> str:
    """Return the path of a version; skip the test where it is not installed."""
    path = pinned_cli_path() if version == PIN else PROJECT / ".dev" / "claude" / version / "claude"
    if not os.access(path, os.X_OK):
        pytest.skip(f"Claude Code CLI {version} is not at {path}; `python scripts/install_older.py` installs it")
    return str(path)
