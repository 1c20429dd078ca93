"""A driver that is stopped keeps its tasks, and goes on with them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from hackamore.fleet import TaskFinished
from hackamore.fleet.journal import open_journal
from hackamore.storage.holders import holder_name
from tests.contract import shows
from tests.fleet import program
from tests.fleet.conftest import tasks
from tests.fleet.holding import Agents, agents, check_once, fleet_on, leaves_nothing
from tests.support.patience import patience
from tests.support.stopping import stop_between_transactions

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.conftest import Making

__all__ = ["agents", "fleet_on", "leaves_nothing"]

FIRST, ALL = 4, 5


@shows("fleet.journal.stopped")
@pytest.mark.timeout(180)
def test_a_stopped_driver_keeps_its_tasks(agents: Agents, fleet_on: Making, tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    with program.start(tmp_path, "here") as first:
        try:
            agents.wait_begun(FIRST)
            stop_between_transactions(first, path)
            fleet = fleet_on()
            run = fleet.run(tasks(ALL, verify=program.check))
            agents.wait_begun(ALL)  # the second driver takes what is free
            journal = open_journal(path)
            for later in (0.0, 100.0, 86_400.0):
                journal.sightings.clock = lambda later=later: time.monotonic() + later  # type: ignore[misc]
                assert journal.reclaim(holder_name()) == 0
            journal.close()
            agents.release()
            finished = [next(event.row.task for event in run if isinstance(event, TaskFinished))]
            assert {row.task: (row.state, row.attempt) for row in fleet.results()} == {
                **{f"task-{number}": ("running", 1) for number in range(FIRST)},
                f"task-{FIRST}": ("succeeded", 1),
            }
            first.send_signal(signal.SIGCONT)
            finished += [event.row.task for event in run if isinstance(event, TaskFinished)]
            assert first.wait(patience(60)) == 0
        finally:
            first.kill()
    assert finished == [f"task-{FIRST}"]  # the first driver reported the others
    check_once(fleet, agents, ALL)
    assert {row.attempt for row in fleet.results()} == {1}
    assert {session.processes for session in agents.cli.sessions()} == {1}


PROGRAM = """
import sys
from hackamore import Options
from hackamore.fleet import Fleet, Task, TaskChanged
from hackamore.testing import Script, SimulatedCLI

command = ["sh", "-c", f"until test -e {sys.argv[1]}/over; do sleep 0.05; done"]
fleet = Fleet(sys.argv[1] + "/journal.db", Options(cwd=sys.argv[1]), transport=SimulatedCLI(Script().user().says("Done.")))
for event in fleet.run([Task("a", "x", verify=command)]):
    if isinstance(event, TaskChanged) and event.state == "verifying":
        sys.exit(7)
"""


def test_a_check_holds_up_no_program_that_ends(tmp_path: Path) -> None:
    try:
        done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=False, timeout=patience(30))
    finally:
        (tmp_path / "over").touch()
    assert done.returncode == 7
