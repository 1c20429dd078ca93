"""Fleets whose pool of processes is killed, or their program: no task is lost, none is made twice, and no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.errors import FleetError
from tests.fleet import program
from tests.fleet.conftest import finished, tasks
from tests.fleet.holding import Agents, agents, check_once, fleet_on, leaves_nothing, pool
from tests.support.leaks import wait_gone
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor
    from pathlib import Path

    from tests.fleet.conftest import Making

__all__ = ["agents", "fleet_on", "leaves_nothing"]

pytestmark = pytest.mark.timeout(180)


def test_a_pool_whose_worker_was_killed_ends_the_run_and_another_continues(agents: Agents, fleet_on: Making) -> None:
    with pool("spawn") as executor:
        fleet = fleet_on(executor)
        run = fleet.run(tasks(4))
        agents.wait_begun(2)
        os.kill(next(iter(workers(executor))), signal.SIGKILL)
        with pytest.raises(FleetError, match=r"the executor is broken: .* Start another one, and run the fleet again"):
            run.wait()
        assert all(map(wait_gone, agents.begun))
        with pytest.raises(FleetError, match="The executor takes no more work: BrokenProcessPool"):
            fleet.run(tasks(4)).wait()
    agents.release()
    with pool("spawn") as executor:
        again = fleet_on(executor)
        rows = finished(again, tasks(4))
    assert len(rows) == 4
    check_once(again, agents, 4)
    assert {row.failures for row in rows.values()} == {0}


def workers(executor: Executor) -> dict[int, Any]:
    processes: dict[int, Any] = executor._processes  # type: ignore[attr-defined]  # noqa: SLF001
    return processes


@pytest.fixture
def running(agents: Agents, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with program.start(tmp_path, "spawn") as process:
        yield process
        process.kill()


def test_checks_of_the_program_itself(running: subprocess.Popen[bytes], agents: Agents, fleet_on: Making) -> None:
    agents.release()
    assert running.wait(patience(60)) == 0
    check_once(fleet_on(), agents, 4)


def test_a_program_that_is_killed_leaves_no_process(
    running: subprocess.Popen[bytes], agents: Agents, fleet_on: Making
) -> None:
    agents.wait_begun(2)
    group = [int(name) for name in os.listdir("/proc") if name.isdigit() and in_session(int(name), running.pid)]
    running.kill()
    agents.release()
    # Workers finish what they have, and end.
    assert all(wait_gone(pid) for pid in group)
    rows = list(fleet_on().results())
    assert sum(row.state == "succeeded" for row in rows) >= 2
    assert "running" not in {row.state for row in rows}


def in_session(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session
    except OSError:
        return False


def test_ctrl_c_ends_no_worker(running: subprocess.Popen[bytes], agents: Agents) -> None:
    agents.wait_begun(2)
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid != running.pid and in_session(pid, running.pid):
            os.kill(pid, signal.SIGINT)
    agents.release()
    assert running.wait(patience(60)) == 0
