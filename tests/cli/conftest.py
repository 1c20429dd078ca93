"""Fixtures: the command with the stand-in CLI."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.command import SECONDS, Command
from tests.support import stand_in
from tests.support.patience import patience


@pytest.fixture
def bridle(tmp_path: Path) -> Command:
    """Return the command with the stand-in CLI."""
    path = tmp_path / "claude"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {os.path.abspath(stand_in.__file__)} "$@"\n')
    path.chmod(0o755)
    return Command(tmp_path, str(path))


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
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
