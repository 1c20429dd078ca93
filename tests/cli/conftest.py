"""Fixtures: the command with the stand-in CLI."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cli.command import SECONDS, Command
from tests.support import stand_in
from tests.support.patience import patience
from tests.support.programs import program

Started: TypeAlias = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def hackamore(tmp_path: Path) -> Command:
    """Return the command with the stand-in CLI."""
    return Command(tmp_path, str(program(tmp_path / "claude", stand_in)))


@pytest.fixture
def started() -> Iterator[Started]:
    """Return a function that takes a process and makes sure that it is gone at the end of the test."""
    processes: list[subprocess.Popen[bytes]] = []

    def keep(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        processes.append(process)
        return process

    yield keep
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait(patience(SECONDS))
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
