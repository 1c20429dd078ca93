"""Fleets on Dask."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Budget
from hackamore.errors import FleetError
from hackamore.fleet import Task, TaskChanged, dask_executor
from hackamore.testing import Repeat, ScriptedModel
from hackamore.transports.process.processes import descendants
from tests.cli.command import Command
from tests.fleet.cluster import Cluster
from tests.fleet.conftest import finished, tasks
from tests.fleet.holding import Agents, agents, check_once, fleet_on, says_done
from tests.support.leaks import wait_gone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import RealCLI
    from tests.fleet.conftest import Making

__all__ = ["agents", "fleet_on"]

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.start_worker()
    made.start_worker()
    yield made
    made.close()


def test_tasks_run_on_workers(cluster: Cluster, agents: Agents, fleet_on: Making) -> None:
    agents.release()
    budget = Budget(usd=10)
    with dask_executor(cluster.wait()) as executor:
        fleet = fleet_on(executor, budget=budget)
        finished(fleet, tasks(6, verify=says_done))
    check_once(fleet, agents, 6)
    assert budget.spent.usd == pytest.approx(sum(session.cost_usd for session in agents.cli.sessions()))


def test_the_command_runs_tasks_on_workers(cluster: Cluster, agents: Agents, fleet_on: Making, tmp_path: Path) -> None:
    agents.release()
    file, journal = tmp_path / "tasks.jsonl", tmp_path / "journal.db"
    file.write_text("".join(json.dumps({"id": f"task-{number}", "prompt": "Do it."}) + "\n" for number in range(4)))
    flags = ["-j", str(journal), "--engine", "dask", "--scheduler", cluster.wait(), "--cwd", str(tmp_path)]
    more = ["--cli-path", str(agents.options().cli_path), "--permission-mode", "bypassPermissions"]
    ran = Command(tmp_path, "")("fleet", "run", str(file), *flags, *more)
    assert ran.code == 0, ran
    assert "4 tasks: 4 succeeded" in ran.errors
    check_once(fleet_on(journal=str(journal)), agents, 4)


def test_a_client_and_its_local_cluster(agents: Agents, fleet_on: Making) -> None:
    import distributed

    dask: Any = distributed
    wanted = "Done."
    with (
        dask.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as local,
        dask.Client(local, set_as_default=False) as client,
    ):
        fleet = fleet_on(client.get_executor())
        # A function of the program itself, with what it refers to.
        run = fleet.run(tasks(6, verify=lambda answer: answer.text == wanted))
        agents.wait_begun(4)
        workers = client.run(os.getpid).values()
        assert [len({pid for pid, _ in descendants(worker)} & set(agents.begun)) for worker in workers] == [2, 2]
        agents.release()
        run.wait()
    check_once(fleet, agents, 6)


def test_a_stop_ends_agents_on_workers(cluster: Cluster, agents: Agents, fleet_on: Making) -> None:
    with dask_executor(cluster.wait()) as executor:
        fleet = fleet_on(executor, concurrency=6)
        run = fleet.run(tasks(8))
        agents.wait_begun(4)
        run.stop()
        run.wait()
        assert all(map(wait_gone, agents.begun))
        assert {row.state for row in fleet.results()} == {"queued"}
        agents.release()
        finished(fleet, tasks(8))
    check_once(fleet, agents, 8)


def test_a_drain_waits_for_what_runs_on_workers(cluster: Cluster, agents: Agents, fleet_on: Making) -> None:
    with dask_executor(cluster.wait()) as executor:
        fleet = fleet_on(executor, concurrency=6)
        run = fleet.run(tasks(8))
        agents.wait_begun(4)
        run.drain()
        for event in run:
            # Workers begin nothing more once those that wait on the cluster are given back.
            if isinstance(event, TaskChanged) and event.state == "queued" and run.progress().running == 4:
                agents.release()
    assert sorted(row.state for row in fleet.results()) == ["queued"] * 4 + ["succeeded"] * 4


def test_a_worker_with_another_version(cluster: Cluster, agents: Agents, fleet_on: Making, tmp_path: Path) -> None:
    (tmp_path / "older.py").write_text(
        "import hackamore.fleet.sending\nhackamore.fleet.sending.__version__ = '0.0.9'\n"
    )
    made = Cluster(tmp_path)
    try:
        made.start_worker("--preload", str(tmp_path / "older.py"))
        with dask_executor(made.wait()) as executor:
            fleet = fleet_on(executor)
            with pytest.raises(
                FleetError, match=r"has Hackamore 0\.0\.9 on Python 3.* Install the same versions on both"
            ):
                fleet.run(tasks(3)).wait()
        assert {row.state for row in fleet.results()} == {"queued"}
    finally:
        made.close()


def test_a_module_that_workers_do_not_have(
    cluster: Cluster, fleet_on: Making, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def check(answer):\n    return True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]

    monkeypatch.delitem(sys.modules, "only_here", raising=False)
    with dask_executor(cluster.wait()) as executor:
        fleet = fleet_on(executor)
        monkeypatch.setitem(sys.modules, "only_here", only_here)
        with pytest.raises(
            FleetError, match="cannot read task 'checked': ModuleNotFoundError: No module named 'only_here'"
        ):
            fleet.run([Task("checked", "Do it", verify=only_here.check)]).wait()


def test_a_scheduler_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(FleetError, match=f"The Dask scheduler '{address}' cannot be reached"):
            dask_executor(address, timeout=0.2)


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'hackamore\[dask\]'"):
        dask_executor("tcp://127.0.0.1:1")


def test_the_real_cli(cluster: Cluster, real_cli: RealCLI, fleet_on: Making) -> None:
    from hackamore import Options

    place: dict[str, Any] = {"cli_path": real_cli.cli_path, "cwd": real_cli.cwd}
    with ScriptedModel(Repeat("Done.")) as model, dask_executor(cluster.wait()) as executor:
        options = Options(**place, env=real_cli.env(model), inherit_env=False)
        fleet = fleet_on(executor, options=options, concurrency=2)
        finished(fleet, tasks(4, verify=says_done))
        assert [(row.state, row.attempt, row.text) for row in fleet.results()] == [("succeeded", 1, "Done.")] * 4
        assert len(model.requests) == 4
