"""Fleets on simulated CLIs in memory, and journals in SQLite and Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Retry
from hackamore.fleet import Fleet, FleetRow, Task, TaskFinished
from hackamore.fleet.journal import Journal, open_journal
from hackamore.testing import Script, SimulatedCLI
from tests.fleet.repositories import no_configuration, repo, source, tree

__all__ = ["no_configuration", "repo", "source", "tree"]

if TYPE_CHECKING:
    from pathlib import Path

NOW = Retry(backoff=0, rate_limit_wait=None)
"""Three attempts, one immediately after the other."""

Making = Callable[..., Fleet]


@pytest.fixture
def making(tmp_path: Path) -> Making:
    """Return a function that makes a fleet whose agents all play the same script."""

    def make(script: Script | None = None, **more: Any) -> Fleet:
        cli = SimulatedCLI(script or Script().user().says("Done."), per_session=True)
        settings = {"transport": cli, "retry": NOW, "concurrency": 4, **more}
        return Fleet(settings.pop("journal", tmp_path / "journal.db"), settings.pop("options", None), **settings)

    return make


@pytest.fixture
def journal(address: str) -> Iterator[Journal]:
    """Return a new journal in SQLite, and one in Postgres."""
    journal = open_journal(address)
    yield journal
    journal.close()


def tasks(count: int, **more: Any) -> list[Task]:
    """Return tasks `task-0`, `task-1`, ..."""
    return [Task(f"task-{number}", f"Do the work {number}", **more) for number in range(count)]


def finished(fleet: Fleet, given: list[Task]) -> dict[str, FleetRow]:
    """Run tasks; return their rows. There is exactly one end of each."""
    ends = [event.row for event in fleet.run(given) if isinstance(event, TaskFinished)]
    rows = {row.task: row for row in ends}
    assert len(rows) == len(ends)
    return rows
