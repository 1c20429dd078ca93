"""One attempt: what its errors mean, what it writes down, and when another worker has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from hackamore import Budget, Options, Retry, errors
from hackamore.checked.schemas import OutputError
from hackamore.errors import JournalError, TaskFailedError
from hackamore.fleet import Answer, Task
from hackamore.fleet import attempt as module
from hackamore.fleet.attempt import AttemptRun, retry_journal, trace_path
from hackamore.fleet.checking import CommandError, Refused, check
from hackamore.fleet.classify import cause_of
from hackamore.fleet.journal import Journal, Lease, open_journal
from hackamore.fleet.orders import Ended, Order
from hackamore.fleet.states import Cause, Opening
from hackamore.fleet.task import spec_of
from hackamore.messages import AuthenticationError, RateLimitedError, ResultError, ResultMessage
from hackamore.testing import Script, SimulatedCLI
from hackamore.transports.process.short_runs import ShortRun
from tests.contract import shows
from tests.fleet.conftest import NOW, finished, tasks
from tests.support.journals import next_due
from tests.support.leaks import wait_gone
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fleet.conftest import Making

ME, OTHER = "me", "other"
LATER = 1e12


def ended(**facts: Any) -> ResultMessage:
    return ResultMessage(**{"subtype": "success", "is_error": True, **facts})


def again(error: errors.HackamoreError, retryable: bool = True) -> errors.HackamoreError:
    error.retryable = retryable
    return error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (AuthenticationError(401, key_source=None), Cause.CLI),
        (AuthenticationError(403, key_source=None), Cause.MODEL),
        (AuthenticationError(None, key_source=None), Cause.CLI),
        (RateLimitedError(ended(api_error_status=429)), Cause.THROTTLED),
        (again(RateLimitedError(ended(api_error_status=429)), retryable=False), Cause.MODEL),  # it needs credits
        (OutputError(ended(is_error=False), "wrong", b"{}"), Cause.OUTPUT),
        (ResultError(ended(api_error_status=529)), Cause.OVERLOADED),
        (ResultError(ended(api_error_status=400)), Cause.MODEL),
        (ResultError(ended(subtype="error_max_budget_usd")), Cause.BUDGET),
        (ResultError(ended(subtype="error_max_turns")), Cause.MODEL),
        (errors.TurnTimeoutError("turn", 1), Cause.TIMEOUT),
        (errors.TurnTimeoutError("idle", 1), Cause.STALL),
        (errors.TurnTimeoutError("first_message", 1), Cause.STALL),
        (errors.BudgetExceededError(spent=1, limit=1), Cause.SPENT),
        (errors.BudgetExceededError(spent=1, limit=1, key="tenant=a"), Cause.BUDGET),
        (errors.UnknownPriceError("new"), Cause.BUDGET),
        (errors.WorkspaceError("full", retryable=True), Cause.OVERLOADED),
        (errors.WorkspaceError("no folder"), Cause.WORKSPACE),
        (errors.CLINotFoundError(), Cause.CLI),
        (errors.UnknownVersionError("x"), Cause.CLI),
        (errors.VersionDetectionError("x"), Cause.CLI),
        (errors.StartError("x"), Cause.START),
        (again(errors.StartError("x")), Cause.OVERLOADED),
        (again(errors.StoreError("load", "x"), retryable=False), Cause.START),
        (again(errors.StoreError("load", "x")), Cause.OVERLOADED),
        (errors.SlowConsumerError(2, 1), Cause.CRASH),
        (errors.LineTooLongError(2, 1, b""), Cause.CRASH),
        (errors.OptionsError("x"), Cause.START),
        (errors.PoolError("x"), Cause.START),
        (again(errors.PoolError("x")), Cause.OVERLOADED),
        (ZeroDivisionError(), Cause.BUG),
    ],
)
def test_causes_of_errors(error: BaseException, cause: Cause) -> None:
    assert cause_of(error) is cause


@pytest.mark.parametrize(
    ("error", "state", "cause", "failures"),
    [
        (RateLimitedError(ended(api_error_status=429)), "waiting", "throttled", 0),
        (ResultError(ended(api_error_status=529)), "waiting", "overloaded", 1),
        (errors.SlowConsumerError(2, 1), "waiting", "crash", 1),
        (errors.TurnTimeoutError("turn", 1), "waiting", "timeout", 1),
        (errors.TurnTimeoutError("idle", 1), "waiting", "stall", 1),
        (ResultError(ended(api_error_status=400)), "failed", "model", 1),
        (OutputError(ended(is_error=False), "wrong", b"{}"), "waiting", "output", 1),
        (AssertionError("wrong"), "waiting", "verify", 1),
        (errors.UnknownPriceError("new"), "failed", "budget", 1),
        (errors.BudgetExceededError(spent=1, limit=1), "queued", "spent", 0),
        (errors.OptionsError("x"), "failed", "start", 1),
        (errors.CLINotFoundError(), "queued", "cli", 0),
        (errors.WorkspaceError("no folder"), "failed", "workspace", 1),
        (ZeroDivisionError(), "failed", "bug", 1),
    ],
)
def test_what_follows_a_failure(opened: Journal, error: Exception, state: str, cause: str, failures: int) -> None:
    """The next attempt, the end of the task, or the end of the run, with the task in the queue."""

    def verify(_: Answer) -> None:
        raise error

    found = run_of(opened, order_of(opened, Task("a", "Do it", verify=verify))).run()
    assert state_of(opened) == (state, cause, 1, failures)
    assert found.ends_fleet is (error if state == "queued" else None)
    [row] = opened.rows()
    assert (row.text, row.not_before is None) == ("Done.", state != "waiting")
    assert row.not_before is None or row.not_before.utcoffset() == timedelta(0), "a time without its zone"
    if state == "waiting":  # the last of two attempts that count
        last = order_of(
            opened,
            Task("a", "Do it", verify=verify),
            retry=Retry(attempts=failures + 1, backoff=0, rate_limit_wait=None),
        )
        run_of(opened, last).run()
        assert state_of(opened) == ("failed" if failures else "waiting", cause, 2, 2 * failures)


# -- checks ------------------------------------------------------------------------------------------------------------


async def asynchronous(answer: Answer) -> str:
    return f"{answer.text} is wrong"


@pytest.mark.parametrize(
    ("verify", "reason"),
    [
        (lambda _: True, None),
        (lambda _: None, None),
        (lambda _: 1, None),
        (lambda _: False, "the check refused it without a reason"),
        (lambda _: 0, "the check refused it without a reason"),
        (lambda _: "", "the check refused it without a reason"),
        (lambda _: "No.", "No."),
        (asynchronous, "Done. is wrong"),
        (("true",), None),
        (("test", "-e", "there"), None),
        (
            ("sh", "-c", "echo out; echo err >&2; exit 3"),
            "`sh -c echo out; echo err >&2; exit 3` failed with exit code 3.\nout\nerr",
        ),
        (
            ("sh", "-c", "printf 'a\\033[2J'; kill -9 $$"),
            "`sh -c printf 'a\\033[2J'; kill -9 $$` failed with exit code -9.\na\\x1b[2J",
        ),
    ],
)
def test_reasons_of_checks(verify: Any, reason: str | None, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    answer = Answer(task="a", attempt=1, text="Done.", output=None, folder=str(tmp_path), branch=None, session_id="s")
    if reason is None:
        check(verify, answer, 60, ShortRun("check"))
        return
    with pytest.raises(Refused) as caught:
        check(verify, answer, 60, ShortRun("check"))
    assert str(caught.value) == reason


def test_a_command_that_checks_leaves_nothing_behind(tmp_path: Path) -> None:
    answer = Answer(task="a", attempt=1, text="Done.", output=None, folder=str(tmp_path), branch=None, session_id="s")
    check(("sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $! > pid"), answer, 60, ShortRun("check"))
    assert wait_gone(int((tmp_path / "pid").read_text()))
    with pytest.raises(Refused) as caught:
        check(("sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; echo END; exit 1"), answer, 60, ShortRun("check"))
    assert str(caught.value).endswith("xEND")
    assert 4_000 < len(str(caught.value)) < 4_200
    with pytest.raises(
        CommandError, match=r"The check `no-such-program -x` cannot be run in .*: No such file or directory\. Make it"
    ):
        check(("no-such-program", "-x"), answer, 60, ShortRun("check"))


@shows("process.host-ends")
def test_a_command_that_checks_ends_with_its_program(tmp_path: Path) -> None:
    """Also after SIGKILL: it may hold the folder of the agent, which the next attempt is to get."""
    os.mkfifo(tmp_path / "pid")
    code = f"""
from hackamore.fleet import Answer
from hackamore.fleet.checking import check
from hackamore.transports.process.short_runs import ShortRun
answer = Answer(task="a", attempt=1, text="", output=None, folder={str(tmp_path)!r}, branch=None, session_id="s")
check(("sh", "-c", "setsid sleep 600 & echo $! > pid; wait"), answer, 60, ShortRun("a" * 32))
"""
    with subprocess.Popen([sys.executable, "-c", code]) as program:
        pid = int((tmp_path / "pid").read_text())  # waits for the writer
        program.kill()
    assert wait_gone(pid)


def test_a_task_is_cancelled_in_its_check(making: Making, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    fleet = making(options=Options(cwd=tmp_path))
    future = fleet.submit(*tasks(1, verify=["sh", "-c", "echo > begun; sleep 600"]))
    (tmp_path / "begun").read_bytes()
    assert fleet.cancel() == 1
    with pytest.raises(TaskFailedError, match="cancelled"):
        future.result(patience(30))
    fleet.shutdown()


def test_a_command_that_checks_does_not_read_the_input_of_the_program(tmp_path: Path) -> None:
    answer = Answer(task="a", attempt=1, text="Done.", output=None, folder=str(tmp_path), branch=None, session_id="s")
    (tmp_path / "typed").write_text("yes\n")
    before = os.dup(0)
    try:
        with (tmp_path / "typed").open() as file:
            os.dup2(file.fileno(), 0)
        with pytest.raises(Refused, match="exit code 4"):
            check(("sh", "-c", "read x || exit 4"), answer, 60, ShortRun("check"))
    finally:
        os.dup2(before, 0)
        os.close(before)


# -- traces ------------------------------------------------------------------------------------------------------------


def test_traces_stay_in_their_folder_and_each_attempt_has_its_own() -> None:
    names = [
        "fix-101",
        "a/b",
        "a b",
        "../a",
        "..",
        ".a",
        "a.",
        "\ud83c",
        "A",
        "x" * 60,
        "x" * 61,
        "x" * 200,
        "/etc/passwd",
    ]
    paths = [trace_path("/traces", name, number) for name in names for number in (1, 2)]
    assert len(set(paths)) == len(paths)
    for path in paths:
        assert os.path.dirname(path) == "/traces"
        assert not os.path.basename(path).startswith(".")
        assert len(os.path.basename(path)) <= 80
    assert paths[:2] == ["/traces/fix-101.1.jsonl", "/traces/fix-101.2.jsonl"]
    shown = [re.sub("-[0-9a-f]{8}[.]1[.]", "*", os.path.basename(path)) for path in paths[2::2]]
    assert shown[:7] == ["a_b*jsonl", "a_b*jsonl", "a*jsonl", "task*jsonl", "a*jsonl", "a*jsonl", "task*jsonl"]
    assert shown[7:] == ["A.1.jsonl", "x" * 60 + ".1.jsonl", *["x" * 60 + "*jsonl"] * 2, "etc_passwd*jsonl"]


def test_each_attempt_leaves_a_trace(making: Making, tmp_path: Path) -> None:
    folder, mine = tmp_path / "traces", tmp_path / "mine.jsonl"
    fleet = making(Script().user().crash(3).user().says("Done."), traces=folder)
    finished(fleet, [*tasks(1), Task("own", "Do it", options={"trace": str(mine)})])
    assert [attempt.trace for attempt in fleet.attempts("task-0")] == [
        str(folder / "task-0.1.jsonl"),
        str(folder / "task-0.2.jsonl"),
    ]
    assert sorted(os.listdir(folder)) == ["task-0.1.jsonl", "task-0.2.jsonl"]
    assert "Do the work 0" in (folder / "task-0.1.jsonl").read_text()
    assert folder.stat().st_mode & 0o077 == 0  # they hold what the agents read
    assert mine.exists()
    assert [attempt.trace for attempt in fleet.attempts("own")] == [None, None]


# -- a journal that fails ----------------------------------------------------------------------------------------------


class Clock(threading.Event):
    """A time that passes while something waits."""

    def __init__(self, stop_after: float = 1e9) -> None:
        super().__init__()
        self.now = 100.0
        self.pauses: list[float] = []
        self._stop_at = self.now + stop_after

    def monotonic(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        self.now += timeout
        return self.now >= self._stop_at


def failing(times: int, *, retryable: bool = True) -> Callable[[], str]:
    left = iter(range(times))

    def call() -> str:
        if next(left, None) is not None:
            error = JournalError("It is locked.")
            error.retryable = retryable
            raise error
        return "written"

    return call


def test_a_journal_that_fails_for_a_while_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    assert retry_journal(failing(8), clock) == "written"
    assert clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    with pytest.raises(JournalError, match="locked"):
        retry_journal(failing(1_000), clock)
    assert 30 <= clock.now - 100 <= 33
    clock = Clock()
    with pytest.raises(JournalError, match="locked"):
        retry_journal(failing(1, retryable=False), clock)
    assert clock.pauses == []


@pytest.mark.parametrize(("fails", "expected"), [(1, "written"), (2, None)])
def test_a_worker_that_is_stopped_tries_once_more(
    fails: int, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(stop_after=0.0)
    monkeypatch.setattr(module, "time", clock)
    try:
        found: str | None = retry_journal(failing(fails), clock)
    except JournalError:
        found = None
    assert (found, clock.pauses) == (expected, [0.05])


# -- one attempt -------------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Journal]:
    journal = open_journal(tmp_path / "journal.db")
    yield journal
    journal.close()


def order_of(journal: Journal, task: Task, **more: Any) -> Order:
    settings: dict[str, Any] = {
        "task": task, "options": Options(), "workspace": None, "retry": NOW, "prices": {}, "traces": None,
        "verify_seconds": 30.0, "journal": journal.store.address, **more,
    }  # fmt: skip
    journal.add([(task.id, spec_of(task, settings["options"], settings["retry"], journal.salt))])
    [lease] = journal.lease(ME, 1, {task.id}, LATER)
    return Order(lease=lease, **settings)


def run_of(journal: Journal, order: Order, script: Script | None = None) -> AttemptRun:
    return AttemptRun(order, journal, ME, SimulatedCLI(script or Script().user().says("Done."), per_session=True))


def state_of(journal: Journal) -> tuple[str, str | None, int, int]:
    [row] = journal.rows()
    return row.state, row.cause, row.attempt, row.failures


def test_an_attempt_writes_little_beside_many_tasks(opened: Journal, tmp_path: Path) -> None:
    given = [Task(f"task-{number}", "Do it. " * 30) for number in range(2_000)]
    opened.add([(task.id, spec_of(task, Options(), NOW, opened.salt)) for task in given])
    opened.store.look(lambda cursor: cursor.rows("PRAGMA wal_checkpoint(TRUNCATE)"))
    log = tmp_path / "journal.db-wal"
    assert log.stat().st_size == 0
    for task in given[500:510]:
        assert run_of(opened, order_of(opened, task)).run().cause is None
    assert log.stat().st_size < 10 * 35_000


def test_waits_grow_until_the_longest(opened: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    spread: list[tuple[float, float]] = []

    def uniform(least: float, most: float) -> float:
        spread.append((least, most))
        return most

    monkeypatch.setattr(module, "uniform", uniform)
    retry = Retry(attempts=6, backoff=2, max_delay=10)
    for number, seconds in enumerate((2, 4, 8, 10, 10), 1):
        order = order_of(opened, Task("a", "Do it"), retry=retry)
        before = time.time()
        found = run_of(opened, order, Script().user().crash(3)).run()
        assert (found.cause, found.until, found.ends_fleet) == (Cause.CRASH, None, None)
        due = next_due(opened)
        assert due is not None
        assert before + seconds <= due <= time.time() + seconds
        assert state_of(opened) == ("waiting", "crash", number, number)
    assert spread == [(1, 2), (2, 4), (4, 8), (5, 10), (5, 10)]
    run_of(opened, order_of(opened, Task("a", "Do it"), retry=retry), Script().user().crash(3)).run()
    assert state_of(opened) == ("failed", "crash", 6, 6)
    assert next_due(opened) is None


def test_an_attempt_waits_for_room_in_a_budget_that_others_have_reserved(opened: Journal) -> None:
    """The budget is not spent: the run goes on."""
    error = errors.BudgetExceededError(spent=0.5, limit=1.0, reserved=0.5)

    def verify(_: Answer) -> None:
        raise error

    before = time.time()
    found = run_of(opened, order_of(opened, Task("a", "Do it", verify=verify))).run()
    assert (found.cause, found.ends_fleet) == (Cause.SPENT, None)
    assert state_of(opened) == ("waiting", "spent", 1, 0)
    due = next_due(opened)
    assert due is not None
    assert before + 1 <= due <= time.time() + 1
    error = errors.BudgetExceededError(spent=1.0, limit=1.0)
    found = run_of(opened, order_of(opened, Task("a", "Do it", verify=verify))).run()
    assert (found.cause, found.ends_fleet) == (Cause.SPENT, error)
    assert state_of(opened) == ("queued", "spent", 2, 0)


def test_the_budget_of_a_task_ends_this_task_alone(making: Making) -> None:
    spent = Budget(usd=1)
    spent.charge(2, 1, check=False)
    rows = finished(making(), [Task("own", "Do it", options={"budget": spent}), *tasks(1)])
    assert (rows["own"].state, rows["own"].cause, rows["own"].attempt) == ("failed", "budget", 1)
    assert rows["task-0"].state == "succeeded"


@pytest.mark.parametrize("first", [Cause.CANCELLED, Cause.STOPPED])
def test_an_attempt_that_was_stopped_before_its_cli_starts_none(opened: Journal, first: Cause) -> None:
    run = run_of(opened, order_of(opened, Task("a", "Do it"), options=Options(cli_path="/nowhere")), Script())
    run.stop(first)
    run.stop(Cause.LOST)  # too late: the first reason counts
    found = run.run()
    assert (found.cause, found.ends_fleet, run.begun, run.finished) == (first, None, True, True)
    assert state_of(opened)[:2] == ("cancelled" if first is Cause.CANCELLED else "queued", first.word)


@pytest.mark.parametrize("step", ["begin", "note", "answer", "finish"])
def test_an_attempt_that_another_worker_got_writes_nothing_more(
    opened: Journal, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = order_of(opened, Task("a", "Do it", verify=None if step == "answer" else lambda _: None))
    run = run_of(opened, order)
    method = getattr(opened, step)

    def after_another(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(opened, step, method)
        opened.leave(ME)
        assert [lease.task for lease in opened.lease(OTHER, 1, {"a"}, LATER)] == ["a"]
        return method(*arguments, **more)

    monkeypatch.setattr(opened, step, after_another)
    found = run.run()
    assert (found.cause, found.ends_fleet) == (None if step == "finish" else Cause.LOST, None)
    assert (found.begun > 0) == (step != "begin") == run.begun
    [row] = opened.rows()
    assert (row.state, row.attempt) == ("leased", 2)
    assert opened.held(OTHER) == {"a": (2, None)}


@pytest.mark.parametrize("step", ["begin", "answer", "finish"])
def test_a_journal_that_cannot_be_used_ends_the_run(
    opened: Journal, step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    error = JournalError("It is gone.")
    error.retryable = False

    def gone(*_: Any, **__: Any) -> Any:
        raise error

    run = run_of(opened, order_of(opened, Task("a", "Do it", verify=lambda _: None)))
    monkeypatch.setattr(opened, step, gone)
    found = run.run()
    assert (found.cause, found.ends_fleet, found.task, found.attempt) == (Cause.STOPPED, error, "a", 1)
    codes = [vars(record).get("code") for record in caplog.records]
    assert codes == ([] if step == "begin" else ["JOURNAL_FAILED"])


def test_reasons_of_checks_are_short_and_plain(opened: Journal) -> None:
    task = Task("a", "Do it", verify=lambda _: "x" * 10_000 + "\x1b[2J")
    found = run_of(opened, order_of(opened, task)).run()
    assert found.cause is Cause.VERIFY
    [row] = opened.rows()
    assert row.error is not None
    assert row.error.endswith("xxx\\x1b[2J")
    assert len(row.error) < 4_100
    [lease] = opened.lease(ME, 1, {"a"}, LATER)
    assert lease.prompt is not None
    assert lease.prompt.startswith("Your last answer was checked and not accepted:\n\n[")
    assert lease.prompt.endswith("xxx\\x1b[2J\n\nCorrect the work, and answer my first request again.")
    assert len(lease.prompt) < 4_300


def test_a_check_gets_the_answer_and_its_place(opened: Journal, tmp_path: Path) -> None:
    seen: list[Answer] = []
    task = Task("a", "Do it", verify=seen.append, output_type=int)
    script = Script().user().calls("StructuredOutput", {"value": 4})
    order = order_of(opened, task, options=Options(cwd=tmp_path))
    before = time.time()
    found = run_of(opened, order, script).run()
    assert found == Ended("a", 1, found.begun, None)
    assert before <= found.begun <= time.time()
    [answer] = seen
    assert (answer.task, answer.attempt, answer.output, answer.folder) == ("a", 1, 4, str(tmp_path))
    assert (answer.branch, answer.session_id) == (None, order.lease.session_id)
    [row] = opened.rows()
    assert (row.state, row.output, row.folder) == ("succeeded", {"value": 4}, str(tmp_path))


@pytest.mark.parametrize("answered", [True, False])
def test_an_answer_that_no_longer_fits_its_type_is_refused(opened: Journal, answered: bool) -> None:
    """It was kept by an earlier attempt; a lease that has none asks for it."""
    task = Task("a", "Do it", verify=lambda _: True, output_type=int)
    order = order_of(opened, task)
    opening = Opening.CHECK if answered else Opening.NEW
    lease: Lease = msgspec.structs.replace(order.lease, opening=opening, text="four", output='{"value":"four"}')
    script = Script().user().calls("StructuredOutput", {"value": 4})
    found = run_of(opened, msgspec.structs.replace(order, lease=lease), script).run()
    assert found.cause is (Cause.VERIFY if answered else None)
    [row] = opened.rows()
    assert (row.error or "").startswith("The output does not fit: ") == answered
