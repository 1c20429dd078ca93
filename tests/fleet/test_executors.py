"""Fleets on executors of `concurrent.futures`."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Budget, BudgetExceededError, Options, OptionsError, Telemetry
from hackamore.errors import FleetError
from hackamore.fleet import Fleet, Task, TaskChanged, TaskFinished
from hackamore.testing import Repeat, Script, ScriptedModel, SimulatedCLI
from tests.fleet.conftest import NOW, finished, tasks
from tests.fleet.holding import (
    REPLIES,
    Agents,
    agents,
    check_once,
    fleet_on,
    leaves_nothing,
    pool,
    says_done,
    says_where,
)
from tests.support.leaks import wait_gone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import RealCLI
    from tests.fleet.conftest import Making

__all__ = ["agents", "fleet_on", "leaves_nothing"]

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("kind", ["threads", "spawn", "forkserver"])
def test_tasks_run_once_and_the_budget_has_what_they_cost(kind: str, agents: Agents, fleet_on: Making) -> None:
    agents.release()
    budget = Budget(usd=10)
    with pool(kind) as executor:
        fleet = fleet_on(executor, budget=budget)
        finished(fleet, tasks(6, verify=says_done))
    check_once(fleet, agents, 6)
    cost = sum(session.cost_usd for session in agents.cli.sessions())
    assert budget.spent.usd == pytest.approx(cost)
    assert sum(row.cost for row in fleet.results()) == pytest.approx(cost)


def test_a_pool_of_threads_runs_attempts_of_a_transport(fleet_on: Making) -> None:
    cli = SimulatedCLI(Script().user().says("Done."), per_session=True)
    with ThreadPoolExecutor(2) as executor:
        fleet = fleet_on(executor, transport=cli, options=None)
        finished(fleet, tasks(5, verify=lambda answer: answer.text == "Done."))
    assert {row.state for row in fleet.results()} == {"succeeded"}


def test_answers_are_checked_in_the_worker(agents: Agents, fleet_on: Making) -> None:
    agents.release()
    with pool("spawn", 1) as executor:
        fleet = fleet_on(executor, retry=NOW.replace(attempts=1))
        [row] = finished(fleet, [Task("only", "Do it", verify=says_where)]).values()
    assert (row.state, row.cause) == ("failed", "verify")
    assert row.error is not None
    assert row.error.startswith("checked in ")
    assert row.error != f"checked in {os.getpid()}"


def test_a_stop_ends_agents_in_workers(agents: Agents, fleet_on: Making) -> None:
    with pool("spawn") as executor:
        fleet = fleet_on(executor)
        run = fleet.run(tasks(5))
        agents.wait_begun(2)
        run.stop()
        run.wait()
        assert all(map(wait_gone, agents.begun))
        assert {row.state for row in fleet.results()} == {"queued"}
        agents.release()
        finished(fleet, tasks(5))
    check_once(fleet, agents, 5)


def test_a_drain_gives_back_what_waits_in_the_executor(agents: Agents, fleet_on: Making) -> None:
    with pool("spawn") as executor:
        fleet = fleet_on(executor, concurrency=6)
        run = fleet.run(tasks(6))
        agents.wait_begun(2)
        run.drain()
        given_back = [event.task for event in run if isinstance(event, TaskChanged) and released(event, agents)]
    assert len(given_back) == 4
    assert sorted(row.state for row in fleet.results()) == ["queued"] * 4 + ["succeeded"] * 2


def released(event: TaskChanged, agents: Agents) -> bool:
    """Let agents end once a task was given back; return whether this one was."""
    if event.cause == "stopped":
        agents.release()
    return event.cause == "stopped"


def test_a_task_is_cancelled_in_its_worker(agents: Agents, fleet_on: Making) -> None:
    with pool("spawn") as executor:
        fleet = fleet_on(executor)
        run = fleet.run(tasks(2))
        agents.wait_begun(2)
        fleet.cancel(["task-1"])
        for event in run:
            if isinstance(event, TaskFinished):
                agents.release()
    assert [row.state for row in fleet.results()] == ["succeeded", "cancelled"]


def test_a_budget_in_memory_stops_workers(agents: Agents, fleet_on: Making, tmp_path: Path) -> None:
    agents.release()
    price = price_of_a_task(tmp_path)
    with pool("spawn") as executor:
        budget = Budget(usd=price * 2.5)
        fleet = fleet_on(executor, options=agents.options(budget=budget), concurrency=2)
        with pytest.raises(BudgetExceededError):
            fleet.run(tasks(30)).wait()
        rows = list(fleet.results())
    assert sum(row.state == "queued" for row in rows) >= 20
    assert budget.spent.usd <= sum(row.cost for row in rows) * 1.001  # beyond the limit nothing is charged twice
    # What an interrupted agent wrote counts by its size; each of the two may have been at a reply that it had not written yet.
    unwritten = 2 * price / REPLIES
    assert sum(row.cost for row in rows) + unwritten >= sum(each.cost_usd for each in agents.cli.sessions())


def price_of_a_task(folder: Path) -> float:
    """Return what the two replies of an agent cost."""
    script = Script().user().calls("Bash", {"command": "true"}, result="").says("Done.")
    cli = SimulatedCLI(script, per_session=True)
    fleet = Fleet(folder / "price.db", transport=cli)
    [row] = finished(fleet, tasks(1)).values()
    fleet.close()
    assert cli.sessions()[0].replies == REPLIES
    return row.cost


# -- refused before anything starts ------------------------------------------------------------------------------------


class Never(ProcessPoolExecutor):
    """A pool that gets nothing."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        raise AssertionError("something was submitted")


@pytest.fixture
def never() -> Iterator[Never]:
    with Never(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


def test_functions_that_cannot_be_sent(never: Never, fleet_on: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    fleet = fleet_on(never)
    wrong = Task("wrong", "Do it", verify=lambda answer: answer is not None)
    with pytest.raises(
        OptionsError, match=r"`verify` of task 'wrong' cannot be sent to the executor: .*lambda"
    ) as caught:
        fleet.run([*tasks(3), wrong]).wait()
    assert caught.value.field == "verify"
    assert str(caught.value).endswith(
        "Define the function at the top of a module that the workers can import, or install `cloudpickle`."
    )
    assert list(fleet.results()) == []


class Locked:
    """An object of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def on_stop(self, event: Any, context: Any) -> None:
        """Do nothing."""


def test_objects_that_cannot_be_sent(never: Never, agents: Agents, fleet_on: Making) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    telemetry = Telemetry(tracer_provider=TracerProvider())
    fleet = fleet_on(never, options=agents.options(telemetry=telemetry))
    with pytest.raises(OptionsError, match=r"`options.telemetry` of task 'task-0' .* Leave the providers out"):
        fleet.run(tasks(1)).wait()
    fleet = fleet_on(never)
    hooks = {"Stop": [Locked().on_stop]}
    with pytest.raises(OptionsError, match=r"`options.hooks` of task 'hooked' .* leave out objects with threads"):
        fleet.run([Task("hooked", "Do it", options={"hooks": hooks})]).wait()


def test_budgets_that_cannot_be_sent(never: Never, agents: Agents, fleet_on: Making) -> None:
    budget = Budget(usd=1, per={"tenant": 1})
    with pytest.raises(OptionsError, match="Give the fleet a `Budget` without keys"):
        fleet_on(never, options=agents.options(budget=budget.keyed(tenant="a")))
    fleet = fleet_on(never)
    with pytest.raises(OptionsError, match="`options` of task 'own': a budget cannot be sent") as caught:
        fleet.run([Task("own", "Do it", options={"budget": budget})]).wait()
    assert caught.value.field == "budget"


def test_a_transport_belongs_to_this_process(never: Never, tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="`transport` works in this process only"):
        Fleet(tmp_path / "journal.db", executor=never, transport=SimulatedCLI(Script()))


def test_an_executor_that_was_shut_down(agents: Agents, fleet_on: Making) -> None:
    executor = pool("threads")
    executor.shutdown()
    fleet = fleet_on(executor)
    with pytest.raises(FleetError, match="The executor takes no more work: RuntimeError"):
        fleet.run(tasks(2)).wait()
    assert {row.state for row in fleet.results()} == {"queued"}


def test_the_real_cli(real_cli: RealCLI, tmp_path: Path) -> None:
    with ScriptedModel(Repeat("Done.")) as model, pool("spawn") as executor:
        options = Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=real_cli.env(model), inherit_env=False)
        fleet = Fleet(tmp_path / "journal.db", options, executor=executor, concurrency=2, retry=NOW)
        finished(fleet, tasks(4, verify=says_done))
        assert [(row.state, row.attempt, row.text) for row in fleet.results()] == [("succeeded", 1, "Done.")] * 4
        assert len(model.requests) == 4
