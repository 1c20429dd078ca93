"""Attempts on their way to other processes and back: as bytes, through executors that fail, in the worker that makes them."""

from __future__ import annotations

import pickle
import sys
import threading
import types
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from hackamore import Options
from hackamore.errors import CLINotFoundError, FleetError, OptionsError
from hackamore.fleet import Folder, Task, remote
from hackamore.fleet.attempt import AttemptRun
from hackamore.fleet.engines import ExecutorEngine
from hackamore.fleet.orders import Ended, Order
from hackamore.fleet.remote import run_order
from hackamore.fleet.sending import in_process, pack, unpack
from hackamore.fleet.states import Cause
from hackamore.fleet.worker import Worker
from hackamore.testing import Script, SimulatedCLI
from tests.fleet.test_attempts import ME, opened, order_of
from tests.support.patience import patience

if TYPE_CHECKING:
    from hackamore.fleet.journal import Journal

__all__ = ["opened"]

DONE = Ended("a", 1, 5.0, None)


class Later(Executor):
    """An executor of other processes that a test plays itself."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []
        self.parcels: list[bytes] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        assert (fn, kwargs) == (run_order, {})
        self.parcels += args
        self.futures.append(Future())
        return self.futures[-1]


class KilledWorker(Exception):
    """An attempt was lost with its worker."""


class InterpreterPoolExecutor(ThreadPoolExecutor):
    """Its name is that of a class that starts interpreters."""


def order(journal: Journal, **more: Any) -> Order:
    return order_of(journal, Task("a", "Do it", **more))


def test_attempts_of_threads_are_not_sent() -> None:
    assert in_process(ThreadPoolExecutor(1))
    assert not in_process(InterpreterPoolExecutor(1))
    assert not in_process(Later())


# -- executors ---------------------------------------------------------------------------------------------------------


def submitted(journal: Journal) -> tuple[ExecutorEngine, Later, list[Any]]:
    executor, outcomes = Later(), list[Any]()
    engine = ExecutorEngine(executor, Worker(journal))
    engine.submit(order(journal), outcomes.append)
    return engine, executor, outcomes


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CLINotFoundError(), "Claude Code CLI not found"),
        (BrokenExecutor("A child ended"), "the executor is broken: BrokenExecutor: A child ended. Start another one"),
        (ZeroDivisionError(), "could not run task 'a': ZeroDivisionError. Check that its workers can import"),
        (SystemExit("Ended!"), "could not run task 'a': SystemExit: Ended! Check"),
    ],
)
def test_errors_of_an_executor_end_the_run(opened: Journal, error: BaseException, text: str) -> None:
    _, executor, outcomes = submitted(opened)
    assert unpack(executor.parcels[0]).lease.task == "a"
    executor.futures[0].set_exception(error)
    [found] = outcomes
    assert text in str(found)
    assert isinstance(found, FleetError) or found is error


def test_the_end_of_an_attempt_comes_back(opened: Journal) -> None:
    engine, executor, outcomes = submitted(opened)
    assert engine.remote
    executor.futures[0].set_result(DONE)
    assert outcomes == [DONE]
    engine.forget([("a", 1)])  # it is over


def test_what_was_given_back_is_cancelled_and_no_error(opened: Journal) -> None:
    engine, executor, outcomes = submitted(opened)
    engine.submit(order_of(opened, Task("b", "Do it")), outcomes.append)
    engine.forget([("a", 1), ("c", 1)])
    assert [future.cancelled() for future in executor.futures] == [True, False]
    assert [type(found).__name__ for found in outcomes] == ["CancelledError"]
    executor.futures[1].cancel()  # not by the run
    assert str(outcomes[1]).startswith(
        "The executor cancelled task 'b': it was shut down, or is gone. Start another one"
    )


def test_workers_may_be_lost_but_not_all_of_them(opened: Journal) -> None:
    engine, executor, outcomes = submitted(opened)
    again = order_of(opened, Task("b", "Do it"))
    ends: list[Any] = [KilledWorker("b")] * 9 + [DONE] + [KilledWorker("b")] * 10
    for end in ends:
        engine.submit(again, outcomes.append)
        future = executor.futures[-1]
        future.set_exception(end) if isinstance(end, BaseException) else future.set_result(end)
    assert outcomes[:-1] == ends[:-1]  # the driver gives these back, and goes on
    assert isinstance(outcomes[-1], FleetError)
    assert "could not run task 'b': KilledWorker: b." in str(outcomes[-1])


@pytest.mark.parametrize("error", [FleetError("Mine."), RuntimeError("It was shut down")])
def test_an_executor_that_takes_nothing(opened: Journal, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(*_: Any) -> Future[Any]:
        raise error

    engine, executor, outcomes = submitted(opened)
    monkeypatch.setattr(executor, "submit", submit)
    with pytest.raises(FleetError) as caught:
        engine.submit(order_of(opened, Task("b", "Do it")), outcomes.append)
    assert caught.value is error or str(caught.value).startswith(
        "The executor takes no more work: RuntimeError: It was shut down. Start another one"
    )
    assert outcomes == []


# -- bytes -------------------------------------------------------------------------------------------------------------


def test_another_version_is_named_before_the_attempt_is_read(opened: Journal) -> None:
    given = order(opened)
    parcel = pack(given.task, given.options, given, shares_main=False)
    assert unpack(parcel).lease == given.lease
    head, _, _ = parcel.partition(b"\n")
    for part in ("hackamore", "python"):
        other = msgspec.json.encode({**msgspec.json.decode(head), part: "0.9"})
        with pytest.raises(FleetError, match=r"0\.9.* Install the same versions on both"):
            unpack(other + b"\nnot a pickle")


def test_a_module_that_the_worker_does_not_have_is_named(opened: Journal) -> None:
    module = types.ModuleType("only_here")
    exec("def check(answer): return True", module.__dict__)
    sys.modules["only_here"] = module
    given = order(opened, verify=module.check)
    parcel = pack(given.task, given.options, given, shares_main=False)
    assert unpack(parcel).task.id == "a"
    del sys.modules["only_here"]
    with pytest.raises(
        FleetError, match=r"cannot read task 'a': ModuleNotFoundError: .*only_here.* Install the modules"
    ):
        unpack(parcel)


@pytest.mark.parametrize("shares_main", [True, False])
def test_functions_of_the_program_are_sent_to_workers_that_do_not_import_it(
    opened: Journal, shares_main: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    main: Any = sys.modules["__main__"]
    with monkeypatch.context() as patch:
        patch.setitem(main.__dict__, "check_it", None)
        exec("def check_it(answer): return 7", main.__dict__)
        given = order(opened, verify=main.check_it)
        parcel = pack(given.task, given.options, given, shares_main=shares_main)
        with_it: Any = unpack(parcel).task.verify
        assert with_it(None) == 7
    if shares_main:
        with pytest.raises(FleetError, match="check_it"):
            unpack(parcel)
    else:
        without_it: Any = unpack(parcel).task.verify
        assert without_it(None) == 7
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises((pickle.PicklingError, AttributeError, FleetError, ValueError)):
        unpack(pack(given.task, given.options, given, shares_main=False))


class Own:
    """An object of a program that fails when it is sent."""

    def __reduce__(self) -> Any:
        raise ZeroDivisionError("of the object")


def test_what_cannot_be_sent_is_named(opened: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    advice = "Workers are other processes: leave out objects with threads, locks, sockets or open files."
    given = order(opened)
    given = msgspec.structs.replace(given, prices={"model": Own()})
    for module in (sys.modules.get("cloudpickle"), None):
        monkeypatch.setitem(sys.modules, "cloudpickle", module)
        with pytest.raises(OptionsError) as caught:
            pack(given.task, given.options, given, shares_main=True)
        assert str(caught.value) == f"Task 'a' cannot be sent to the executor: of the object. {advice}"
        assert caught.value.field == "executor"
        task = Task("b", "Do it", workspace=Folder("/srv/work"), verify=Own().__eq__)
        with pytest.raises(OptionsError) as caught:
            pack(task, Options(), task, shares_main=True)
        assert str(caught.value) == f"`verify` of task 'b' cannot be sent to the executor: of the object. {advice}"
        assert caught.value.field == "verify"


# -- in the worker -----------------------------------------------------------------------------------------------------


def holders(journal: Journal) -> list[str]:
    return [name for (name,) in journal.store.look(lambda cursor: cursor.rows("SELECT holder FROM holders"))]


def test_a_process_has_one_worker_for_each_journal_and_ends_it_when_nothing_comes(
    opened: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = SimulatedCLI(Script().user().says("Done."), per_session=True)
    monkeypatch.setattr(remote, "Worker", partial(Worker, transport=cli))
    for name in "ab":
        given = order_of(opened, Task(name, "Do it"))
        parcel = pack(given.task, given.options, given, shares_main=False)
        found = run_order(parcel)
        assert (found.task, found.attempt, found.cause) == (name, 1, None)
        assert len(holders(opened)) == 1
        if name == "a":
            monkeypatch.setattr(remote, "_LINGER_SECONDS", 0.0)
    assert [row.state for row in opened.rows()] == ["succeeded"] * 2
    for thread in threading.enumerate():
        if thread.name == "hackamore-fleet-linger":
            thread.join(patience(30))
    assert holders(opened) == []
    assert remote._workers == {}  # noqa: SLF001


def test_a_worker_without_the_journal_says_what_it_needs(opened: Journal) -> None:
    given = msgspec.structs.replace(order(opened), journal="/nowhere/journal.db")
    with pytest.raises(FleetError, match=r"cannot use the journal: There is no journal .* need a journal in Postgres"):
        run_order(pack(given.task, given.options, given, shares_main=False))
    assert opened.held(ME) == {"a": (1, None)}


def test_a_worker_that_has_ended_begins_nothing(opened: Journal) -> None:
    worker = Worker(opened, SimulatedCLI(Script()))
    worker.start()
    given = order(opened)
    assert holders(opened) == [worker.holder]
    worker.end()
    assert worker.run(given) == Ended("a", 1, 0.0, Cause.STOPPED)
    assert holders(opened) == []
    assert opened.held(ME) == {"a": (1, None)}


def test_a_worker_ends_what_was_cancelled_or_given_to_another(opened: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(opened)
    stopped: list[tuple[str, Cause]] = []

    def stop(self: AttemptRun, cause: Cause) -> None:
        stopped.append((self.order.task.id, cause))

    monkeypatch.setattr(AttemptRun, "stop", stop)
    monkeypatch.setattr("hackamore.fleet.worker.starters", types.SimpleNamespace(run=lambda call: call()))
    runs: dict[str, AttemptRun] = {}
    for name in ("runs", "cancelled", "halted", "lost", "elsewhere", "leased", "finished"):
        run = runs[name] = AttemptRun(order_of(opened, Task(name, "Do it")), opened, worker.holder)
        run.begun = opened.begin(run.order.lease, worker.holder, trace=None)
        worker._runs[name, 1] = run  # noqa: SLF001
    opened.cancel(["cancelled"])
    opened.halt(["halted"])
    runs["leased"].begun = False
    runs["finished"].finished = True
    for name in ("lost", "elsewhere", "leased", "finished"):
        change = "attempt = 2" if name == "elsewhere" else "holder = 'other'"
        statement = f"UPDATE tasks SET {change} WHERE id = :task"
        opened.store.transaction(methodcaller("rows", statement, task=name))
    worker._look()  # noqa: SLF001
    assert stopped == [
        ("cancelled", Cause.CANCELLED), ("halted", Cause.STOPPED), ("lost", Cause.LOST), ("elsewhere", Cause.LOST),
    ]  # fmt: skip
    stopped.clear()
    worker.stop()
    assert stopped == [(name, Cause.STOPPED) for name in runs]


def test_options_of_the_task_are_sent(opened: Journal) -> None:
    given = msgspec.structs.replace(
        order(opened), options=Options(model="sonnet"), traces="/t", run={"traceparent": "x"}
    )
    back = unpack(pack(given.task, given.options, given, shares_main=False))
    assert (back.options, back.traces, back.run, back.retry) == (given.options, "/t", {"traceparent": "x"}, given.retry)
