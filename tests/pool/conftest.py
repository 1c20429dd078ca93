"""Fixtures for pools on every shell, against a stand-in CLI that keeps transcripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hackamore
from hackamore import Options, sync
from tests.support.patience import patience
from tests.support.query_fixtures import leaves_nothing, shell
from tests.support.shell import Shell
from tests.support.talking import got

__all__ = ["MakePool", "leaves_nothing", "say", "shell", "stand_in"]

MakePool = Callable[..., Any]
TALKER = Path(__file__).with_name("talker.py").resolve()


def stand_in(folder: Path) -> Options:
    """Return the options of a stand-in whose transcripts and log are in a folder."""
    path = folder / "claude"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {TALKER} "$@"\n')
    path.chmod(0o755)
    return Options(
        cli_path=path, cwd=folder, env={"TALKER_HOME": str(folder), "TALKER_NAME": "base"}, version_check="skip"
    )


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """Return the options of a stand-in whose transcripts and log are in `tmp_path`."""
    return stand_in(tmp_path)


@pytest.fixture
def pool_of(shell: Shell, options: Options) -> MakePool:
    """Return a function that makes a pool of the shell."""

    def make(**more: Any) -> Any:
        chosen = more.pop("options", options)
        kind = sync.SessionPool if shell.blocking else hackamore.SessionPool
        return kind(chosen, **{"warm": 0, "timeout": patience(30), **more})

    return make


async def say(session: Any, text: str) -> dict[str, Any]:
    """Send a prompt; return what the stand-in answers."""
    turn = await got(session.send(text))
    result = await got(turn.result())
    answer: dict[str, Any] = json.loads(result.result)
    return answer
