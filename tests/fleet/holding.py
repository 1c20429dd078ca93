"""Agents in processes of their own that wait: a script for each session, with a command that lasts until a test lets it end."""

from __future__ import annotations

import gc
import multiprocessing
import os
import select
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import forkserver, resource_tracker
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Options
from hackamore.fleet import Fleet
from hackamore.testing import Script, SimulatedCLI
from tests.fleet.conftest import NOW
from tests.support.leaks import nothing_left, wait_gone
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hackamore.fleet import Answer
    from tests.fleet.conftest import Making

REPLIES = 2
"""Replies of the model for each task."""


class Agents:
    """Simulated CLIs that wait in a command.

    Args:
        folder: an empty folder.

    Attributes:
        cli: the simulated CLI.
        begun: CLI processes whose command has begun.
    """

    def __init__(self, folder: Path) -> None:
        self.begun: list[int] = []
        self._folder = folder
        self._go = folder / "go"
        pipe = folder / "begun"
        os.mkfifo(pipe)
        self._pipe = os.open(pipe, os.O_RDWR)
        command = f"echo $PPID > {pipe}; until [ -e {self._go} ]; do sleep 0.05; done"
        self.cli = SimulatedCLI(Script().user().calls("Bash", {"command": command}).says("Done."), per_session=True)
        self._path = self.cli.install(folder / "cli", real_tools=True)

    def options(self, **more: Any) -> Options:
        """Return the options for a fleet."""
        return Options(cli_path=self._path, cwd=self._folder, permission_mode="bypassPermissions", **more)

    def release(self) -> None:
        """Let all commands end, the next ones immediately."""
        self._go.touch()

    def wait_begun(self, count: int) -> None:
        """Wait until this number of commands has begun."""
        while len(self.begun) < count:
            ready, _, _ = select.select([self._pipe], [], [], patience(30))
            assert ready, f"{len(self.begun)} of {count} commands have begun"
            self.begun += map(int, os.read(self._pipe, 4096).split())

    def close(self) -> None:
        """Let all end, and wait until no CLI is left."""
        self.release()
        while select.select([self._pipe], [], [], 0)[0]:
            self.begun += map(int, os.read(self._pipe, 4096).split())
        os.close(self._pipe)
        assert all(map(wait_gone, self.begun))


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    # These stay until this process ends.
    resource_tracker.ensure_running()
    forkserver.ensure_running()
    with nothing_left():
        yield
        gc.collect()  # a pool that is broken keeps its pipes in circles of references


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    made = Agents(tmp_path)
    yield made
    made.close()


@pytest.fixture
def fleet_on(agents: Agents, tmp_path: Path) -> Iterator[Making]:
    """Return a function of an executor and settings that makes a fleet."""
    made: list[Fleet] = []

    def make(executor: Executor | None = None, **more: Any) -> Fleet:
        settings: dict[str, Any] = {"retry": NOW, "concurrency": 4, "options": agents.options(), **more}
        made.append(Fleet(settings.pop("journal", tmp_path / "journal.db"), executor=executor, **settings))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


def pool(kind: str, count: int = 2) -> Executor:
    if kind == "threads":
        return ThreadPoolExecutor(count)
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context(kind))


def says_done(answer: Answer) -> bool:
    """Check an answer."""
    return answer.text == "Done."


def says_where(answer: Answer) -> str:
    """Refuse each answer with the process that checks it."""
    return f"checked in {os.getpid()}"


def check_once(fleet: Fleet, agents: Agents, count: int) -> None:
    """Each task has its result, and one session, which said each thing once."""
    rows = list(fleet.results())
    assert [row.state for row in rows] == ["succeeded"] * count, [(row.task, row.cause, row.error) for row in rows]
    sessions = agents.cli.sessions()
    assert sorted(session.session_id for session in sessions) == sorted(str(row.session_id) for row in rows)
    assert [session.replies for session in sessions] == [REPLIES] * count
