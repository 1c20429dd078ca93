"""Fleets on Dask whose workers, scheduler or driver are killed: no task is lost, none is made twice, and no process is left."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.errors import FleetError
from hackamore.fleet import TaskChanged, dask_executor
from hackamore.testing import Script, SimulatedCLI
from hackamore.transports.process.processes import descendants
from tests.fleet import program
from tests.fleet.cluster import THREADS, Cluster
from tests.fleet.conftest import finished, tasks
from tests.fleet.holding import Agents, agents, check_once, fleet_on
from tests.fleet.storming import Storm
from tests.support.leaks import wait_gone
from tests.support.patience import patience
from tests.support.servers import Postgres
from tests.support.servers import running as running_server
from tests.support.sizes import size

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from tests.fleet.conftest import Making

__all__ = ["agents", "fleet_on"]

pytestmark = pytest.mark.timeout(300)
STORM_KILLS = size("kills of a cluster")


@pytest.fixture(scope="module")
def postgres_server() -> Generator[Postgres, None, None]:
    yield from running_server(Postgres)


@pytest.fixture(params=["sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a journal."""
    if request.param == "sqlite":
        return str(tmp_path / "journal.db")
    server: Postgres = request.getfixturevalue("postgres_server")
    return f"{server.url}?schema={tmp_path.name}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(folder)
    made.start_worker()
    made.start_worker()
    yield made
    made.close()


def test_a_killed_worker(cluster: Cluster, agents: Agents, fleet_on: Making, journal: str) -> None:
    with dask_executor(cluster.wait()) as executor:
        fleet = fleet_on(executor, journal=journal)
        run = fleet.run(tasks(6))
        agents.wait_begun(2 * THREADS)
        orphans = {pid for pid, _ in descendants(cluster.workers[0].pid)} & set(agents.begun)
        assert len(orphans) == THREADS
        cluster.kill_worker()
        assert all(map(wait_gone, orphans))
        lost = {event.task for event in run if isinstance(event, TaskChanged) and released(event, agents)}
    assert len(lost) == THREADS
    check_once(fleet, agents, 6)
    assert {row.task for row in fleet.results() if row.attempt == 2} == lost
    assert {row.failures for row in fleet.results()} == {0}


def released(event: TaskChanged, agents: Agents) -> bool:
    """Let agents end once a task was lost; return whether this one was."""
    if event.cause == "lost":
        agents.release()
    return event.cause == "lost"


def test_a_killed_scheduler(cluster: Cluster, agents: Agents, fleet_on: Making) -> None:
    with dask_executor(cluster.wait()) as executor:
        fleet = fleet_on(executor)
        run = fleet.run(tasks(6))
        agents.wait_begun(2 * THREADS)
        cluster.kill_scheduler()
        with pytest.raises(
            FleetError, match=r"The executor cancelled task .* Start another one, and run the fleet again"
        ):
            run.wait()
    cluster.kill_worker()
    cluster.kill_worker()
    assert all(map(wait_gone, agents.begun))
    cluster.start_scheduler()
    cluster.start_worker()
    agents.release()
    with dask_executor(cluster.wait()) as executor:
        again = fleet_on(executor)
        finished(again, tasks(6))
    check_once(again, agents, 6)


def test_a_killed_driver(cluster: Cluster, agents: Agents, fleet_on: Making, journal: str, tmp_path: Path) -> None:
    address = cluster.wait()
    with program.start(tmp_path, address, journal) as first:
        agents.wait_begun(2 * THREADS)
        first.kill()
    with program.start(tmp_path, address, journal) as second:
        agents.release()
        assert second.wait(patience(60)) == 0
    fleet = fleet_on(journal=journal)
    check_once(fleet, agents, 4)
    # Workers went on with what they had.
    assert {row.attempt for row in fleet.results()} == {1}
    assert {session.processes for session in agents.cli.sessions()} == {1}


def test_a_storm(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster", port)
    # A CLI may end its answer after its worker was killed: it has no transcript, so it is told to continue.
    script = Script(forever=True).user().calls("Bash", {"command": "true"}, result="").slow(20).says("Done.")
    cli = SimulatedCLI(script, per_session=True)
    options: dict[str, Any] = {"cli_path": str(cli.install(tmp_path / "cli")), "permission_mode": "bypassPermissions"}
    count, kills = 5 * STORM_KILLS, STORM_KILLS

    def kill_worker() -> bool:
        cluster.kill_worker()
        cluster.start_worker()
        return True

    def kill_scheduler() -> bool:
        cluster.kill_scheduler()
        cluster.kill_worker()
        cluster.kill_worker()
        cluster.start_scheduler()
        cluster.start_worker()
        cluster.start_worker()
        return True

    try:
        cluster.start_worker()
        cluster.start_worker()
        settings = {"options": options, "tasks": count, "concurrency": 4, "folder": str(tmp_path), "verify": False}
        storm = Storm(
            tmp_path,
            {**settings, "scheduler": cluster.wait()},
            kills,
            seed=1,
            others={"worker": kill_worker, "scheduler": kill_scheduler},
        )
        storm.blow(2 * count)
        storm.check(patience(15))
        # No task was begun again: each has one session that said anything.
        answered = [session for session in cli.sessions() if session.replies]
        assert len(answered) == count
    finally:
        cluster.close()
