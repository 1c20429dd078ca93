"""Runs of a fleet that meet errors, silence and impatience: the run says what happened, and no task is lost."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Budget, CLINotFoundError, Options, OptionsError, Retry
from hackamore.errors import FleetError, JournalError, TaskChangedError, TaskFailedError
from hackamore.fleet import Answer, ConcurrencyChanged, Task, TaskChanged, driver, remote
from hackamore.fleet import fleet as fleet_module
from hackamore.fleet.worker import Worker
from hackamore.testing import Script, SimulatedCLI
from tests.fleet.conftest import finished, tasks
from tests.support.leaks import join_library_threads
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hackamore.fleet import Fleet
    from tests.fleet.conftest import Making

NEVER = Script().user().slow(100_000).says("Never.")
SECONDS = patience(30)


def states(fleet: Fleet) -> list[str]:
    return [row.state for row in fleet.results()]


def codes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(record)["code"] for record in caplog.records if record.levelno > logging.DEBUG]


# -- the end of a run --------------------------------------------------------------------------------------------------


def test_an_error_is_raised_once(making: Making, tmp_path: Path) -> None:
    run = making(transport=None, options=Options(cli_path=tmp_path / "missing")).run(tasks(2))
    with pytest.raises(CLINotFoundError):
        list(run)
    assert list(run) == []
    run.wait()
    with (
        pytest.raises(ZeroDivisionError),
        making(transport=None, options=Options(cli_path=tmp_path / "no")).run(tasks(2)),
    ):
        raise ZeroDivisionError  # and this one is not hidden


def test_an_error_that_nobody_reads_is_logged(making: Making, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = making(transport=None, options=Options(cli_path=tmp_path / "missing")).run(tasks(1))
    assert run._driver.join(SECONDS)  # noqa: SLF001
    del run
    gc.collect()
    assert codes(caplog)[-1] == "FLEET_FAILED"
    caplog.clear()
    run = making(transport=None, options=Options(cli_path=tmp_path / "missing")).run(tasks(1))
    with pytest.raises(CLINotFoundError):
        run.wait()
    del run
    assert "FLEET_FAILED" not in codes(caplog)


def test_tasks_that_cannot_be_read_end_the_run(making: Making, caplog: pytest.LogCaptureFixture) -> None:
    def given() -> Iterator[Task]:
        yield from tasks(2)
        raise ZeroDivisionError("of the list")

    fleet = making()
    with pytest.raises(ZeroDivisionError, match="of the list"):
        fleet.run(given()).wait()
    assert codes(caplog) == ["DRIVER_FAILED"]
    assert states(fleet) == []
    assert {row.state for row in finished(fleet, tasks(2)).values()} == {"succeeded"}


def test_many_tasks_are_added_in_parts(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_ADDED_AT_ONCE", 2)
    fleet = making()
    assert len(finished(fleet, tasks(5))) == 5
    assert [row.task for row in fleet.results()] == [task.id for task in tasks(5)]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("ends", [True, False])
def test_leaving_the_block_ends_the_agents(
    making: Making, kind: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begun = threading.Event(), threading.Event()

    def verify(_: Answer) -> bool:
        begun.set()
        return go.wait(SECONDS)

    if not ends:
        monkeypatch.setattr(fleet_module, "_STOP_SECONDS", 0.05)
    fleet = making(NEVER) if ends else making()
    given = tasks(2) if ends else tasks(2, verify=verify)
    run = fleet.run(given)

    def ready(event: object) -> bool:
        return isinstance(event, TaskChanged) and event.state == ("running" if ends else "verifying")

    async def leave() -> None:
        async with run:
            async for event in run:
                if ready(event):
                    return

    def use() -> None:
        if kind == "async":
            asyncio.run(leave())
            return
        with run:
            for event in run:
                if ready(event):
                    return

    if ends:
        use()
        assert states(fleet) == ["queued"] * 2
        assert run.progress().draining
        return
    try:
        with pytest.raises(FleetError, match=r"did not end within 0.05 s: .* a time limit of its own"):
            use()
    finally:
        go.set()
    run.wait()
    assert "succeeded" in states(fleet)


def test_progress(making: Making) -> None:
    fleet = making(concurrency=3)
    finished(fleet, tasks(2))
    run = fleet.run([*tasks(2), Task("bad", "No", verify=["false"], retry=Retry(attempts=1))])
    run.wait()
    found = run.progress()
    assert (found.total, found.finished, found.running, found.limit, found.until) == (3, 3, 0, 3, None)
    assert {name: count for name, count in found.states.items() if count} == {"succeeded": 2, "failed": 1}
    assert found.cost == pytest.approx(sum(row.cost for row in fleet.results()))
    assert (found.tokens, found.draining) == (sum(row.tokens for row in fleet.results()), False)
    assert found.seconds_left == 0


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "longest", "seconds"), [(429, 60, 20), (529, 60, 5), (429, 3, 3), (529, 2, 2)])
def test_nothing_starts_for_a_while_after_a_limit_that_names_no_time(
    making: Making, status: int, longest: float, seconds: float
) -> None:
    fleet = making(Script().user().api_error(status), retry=Retry(backoff=0, max_delay=longest), concurrency=4)
    with fleet.run(tasks(1)) as run:
        change = next(event for event in run if isinstance(event, ConcurrencyChanged))
        assert (change.limit, change.most) == (2, 4)
        assert change.until is not None
        assert change.until - change.at == pytest.approx(seconds, abs=0.001)
        assert (run.progress().limit, run.progress().until) == (2, change.until)


# -- a journal that fails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retryable", [True, False])
def test_a_journal_that_fails_once(
    making: Making, retryable: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = making(concurrency=1)
    journal = fleet._journal  # noqa: SLF001
    lease = journal.lease
    error = JournalError("It is locked.")
    error.retryable = retryable

    def failing(_holder: str, _most: int, known: Iterable[str], *_: Any) -> Any:
        list(known)  # what it looked at before it failed is not lost
        monkeypatch.setattr(journal, "lease", lease)
        raise error

    monkeypatch.setattr(journal, "lease", failing)
    monkeypatch.setattr(driver, "_LOOK_SECONDS", 0.01)
    run = fleet.run(tasks(2))
    if retryable:
        run.wait()
        assert states(fleet) == ["succeeded"] * 2
        assert codes(caplog) == ["JOURNAL_FAILED"]
        return
    with pytest.raises(JournalError, match="locked"):
        run.wait()
    assert codes(caplog) == []
    assert states(fleet) == ["queued"] * 2


# -- an executor -------------------------------------------------------------------------------------------------------


class KilledWorker(Exception):
    """An attempt was lost with its worker."""


class Playing(Executor):
    """An executor of workers in other processes, played by threads; some attempts are lost on the way.

    Args:
        lost: what happens to the first attempts: an error before they run, or None for a result that never comes back.
    """

    def __init__(self, *lost: BaseException | None) -> None:
        self._lost = list(lost)
        self.threads: list[threading.Thread] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        error = self._lost.pop(0) if self._lost else future
        if isinstance(error, BaseException):
            future.set_exception(error)
            return future

        def run() -> None:
            found = fn(*args, **kwargs)
            if error is not None:
                future.set_result(found)

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        return future


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCLI]:
    """Return the simulated CLI of the workers."""
    made = SimulatedCLI(Script().user().says("Done."), per_session=True)
    monkeypatch.setattr(remote, "Worker", partial(Worker, transport=made))
    monkeypatch.setattr(remote, "_LINGER_SECONDS", 0.0)
    yield made
    join_library_threads()


def test_attempts_that_an_executor_lost_are_made_again(making: Making, cli: SimulatedCLI) -> None:
    budget = Budget(usd=1)
    executor = Playing(KilledWorker("task-0"), KilledWorker("task-0"))
    fleet = making(transport=None, executor=executor, budget=budget, concurrency=2)
    finished(fleet, tasks(3))
    assert states(fleet) == ["succeeded"] * 3
    causes = [attempt.cause for task in tasks(3) for attempt in fleet.attempts(task.id)]
    assert sorted(map(str, causes)) == ["None"] * 3 + ["lost"] * 2
    assert {row.failures for row in fleet.results()} == {0}
    assert budget.spent.usd == pytest.approx(sum(row.cost for row in fleet.results()))
    assert len(cli.sessions()) == 3


def test_an_executor_that_loses_everything_ends_the_run(making: Making, cli: SimulatedCLI) -> None:
    fleet = making(transport=None, executor=Playing(*[KilledWorker("x")] * 99), concurrency=2)
    with pytest.raises(FleetError, match="The executor could not run task"):
        fleet.run(tasks(3)).wait()
    assert states(fleet) == ["queued"] * 3
    assert sum(row.attempt for row in fleet.results()) in (10, 11)
    assert not cli.sessions()


def test_results_that_an_executor_does_not_return_are_in_the_journal(
    making: Making, cli: SimulatedCLI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_RESULT_SECONDS", 0.01)
    monkeypatch.setattr(driver, "_LOOK_SECONDS", 0.01)
    fleet = making(transport=None, executor=Playing(None, None), concurrency=1)
    rows = finished(fleet, tasks(3))
    assert [(row.state, row.attempt) for row in rows.values()] == [("succeeded", 1)] * 3


# -- futures -----------------------------------------------------------------------------------------------------------


def test_functions_make_tasks(making: Making) -> None:
    with making() as fleet:
        row = fleet.submit(lambda name, *, prompt: Task(name, prompt), "one", prompt="Do it").result(SECONDS)
        assert row.task == "one"
        with pytest.raises(TypeError, match="arguments are for functions"):
            fleet.submit("A prompt", 5)
        with pytest.raises(OptionsError, match="modle"):
            fleet.submit(Task("wrong", "Do it", options={"modle": "x"}))
        with pytest.raises(TypeError, match=r"must be hackamore\.fleet\.Task objects"):
            fleet.submit(5)  # type: ignore[arg-type]
        same = [fleet.submit("Twice") for _ in range(3)]
        names = [future.result(SECONDS).task for future in same]
    assert names[1:] == [f"{names[0]}-2", f"{names[0]}-3"]
    assert len(names[0]) == len("prompt-") + 16


def test_all_who_wait_for_a_task_get_its_row(making: Making) -> None:
    go = threading.Event()
    with making(concurrency=1) as fleet:
        first, *others = [fleet.submit(Task("one", "Do it", verify=lambda _: go.wait(SECONDS))) for _ in range(3)]
        assert others[0].cancel()
        go.set()
        assert first.result(SECONDS) == others[1].result(SECONDS)
        with pytest.raises(OptionsError, match="Two tasks have the id 'one'"):
            fleet.submit(Task("one", "Do more")).result(SECONDS)
        assert fleet.submit("Another").result(SECONDS).state == "succeeded"
    with making() as later:
        with pytest.raises(TaskChangedError):
            later.submit(Task("one", "Do more")).result(SECONDS)
        assert later.submit("Another").result(SECONDS).attempt == 1


def test_what_has_not_started_is_given_back_at_the_shutdown(making: Making) -> None:
    begun, go = threading.Event(), threading.Event()

    def verify(_: Answer) -> bool:
        begun.set()
        return go.wait(SECONDS)

    fleet = making(concurrency=1)
    futures = [fleet.submit(task) for task in tasks(3, verify=verify)]
    assert begun.wait(SECONDS)
    fleet.shutdown(wait=False, cancel_futures=True)
    assert not any(future.done() for future in futures)
    go.set()
    assert futures[0].result(SECONDS).state == "succeeded"
    for future in futures[1:]:
        with pytest.raises(RuntimeError, match="shut down before this task was over; another run continues it"):
            future.result(SECONDS)
    fleet.shutdown()
    assert states(fleet) == ["succeeded", "queued", "queued"]


def test_a_shutdown_waits_for_all_tasks(making: Making) -> None:
    fleet = making(concurrency=1)
    futures = [fleet.submit(task) for task in tasks(3)]
    fleet.shutdown()
    assert [future.result(0).state for future in futures] == ["succeeded"] * 3


def test_futures_get_the_error_of_the_run(making: Making, tmp_path: Path) -> None:
    with making(transport=None, options=Options(cli_path=tmp_path / "missing")) as fleet:
        for future in [fleet.submit("One"), fleet.submit("Two")]:
            with pytest.raises(CLINotFoundError):
                future.result(SECONDS)


def test_tasks_can_be_cancelled_as_soon_as_they_are_submitted(making: Making) -> None:
    fleet = making(NEVER)
    futures = [fleet.submit(task) for task in tasks(3)]
    assert fleet.cancel() == 3
    fleet.shutdown()
    assert {type(future.exception(0)) for future in futures} == {TaskFailedError}


def test_a_callback_of_a_refused_task_can_cancel_the_others(making: Making) -> None:
    fleet = making(NEVER)
    waiting = fleet.submit(tasks(1)[0])
    fleet.submit(Task("odd", "One", output_type=object())).add_done_callback(lambda _: fleet.cancel())
    with pytest.raises(TaskFailedError):
        waiting.result(SECONDS)
    fleet.shutdown()


def test_a_map_has_a_time_limit(making: Making) -> None:
    fleet = making(NEVER)
    with pytest.raises(TimeoutError):
        list(fleet.map(str, ["a", "b"], timeout=0.05))
    fleet.cancel()
    fleet.shutdown()
    assert set(states(fleet)) == {"cancelled"}
