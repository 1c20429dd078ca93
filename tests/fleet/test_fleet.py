"""Fleets: every task gets exactly one result, whatever happens to its attempts."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

import hackamore
from hackamore import Budget, BudgetExceededError, CLINotFoundError, Options, OptionsError, Retry, Timeouts
from hackamore.errors import TaskChangedError, TaskFailedError
from hackamore.fleet import Answer, ConcurrencyChanged, Fleet, FleetRun, Task, TaskChanged, TaskFinished
from hackamore.fleet.journal import open_journal
from hackamore.fleet.task import spec_of
from hackamore.storage.holders import process_name
from hackamore.testing import Script
from tests.contract import shows
from tests.fleet.conftest import NOW, finished, tasks
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.conftest import Making


def states(fleet: Fleet) -> dict[str, str]:
    return {row.task: row.state for row in fleet.results()}


def test_all_tasks_run_and_the_journal_has_their_results(making: Making) -> None:
    fleet = making()
    rows = finished(fleet, tasks(20))
    assert {row.state for row in rows.values()} == {"succeeded"}
    assert [row.task for row in fleet.results()] == [f"task-{number}" for number in range(20)]
    for row in fleet.results():
        assert (row.text, row.attempt, row.failures, row.cause) == ("Done.", 1, 0, None)
        assert row.cost > 0
        assert row.tokens > 0
        assert row.session_id


def test_states_follow_each_other(making: Making) -> None:
    events = list(making().run([Task("only", "Do it")]))
    assert [event.state for event in events if isinstance(event, TaskChanged)] == ["leased", "running", "verifying"]
    assert isinstance(events[-1], TaskFinished)


def test_events_for_async_programs(making: Making) -> None:
    async def main() -> list[str]:
        return [event.row.task async for event in making().run(tasks(3)) if isinstance(event, TaskFinished)]

    assert sorted(asyncio.run(main())) == ["task-0", "task-1", "task-2"]


def test_the_same_call_again_runs_nothing(making: Making) -> None:
    fleet = making()
    finished(fleet, tasks(3))
    assert list(fleet.run(tasks(3))) == []
    assert [row.attempt for row in fleet.results()] == [1, 1, 1]


def test_new_tasks_join_those_that_are_over(making: Making) -> None:
    fleet = making()
    finished(fleet, tasks(3))
    assert set(finished(fleet, tasks(5))) == {"task-3", "task-4"}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (Task("task-0", "Do something else"), "`prompt` was 'Do the work 0', and is 'Do something else'"),
        (Task("task-0", "Do the work 0", options={"model": "sonnet"}), "`options.model` was None, and is 'sonnet'"),
        (Task("task-0", "Do the work 0", verify=["true"]), "`verify` was None"),
        (Task("task-0", "Do the work 0", output_type=int), "`output` was None"),
    ],
)
def test_a_changed_task_is_refused_with_the_difference(making: Making, changed: Task, text: str) -> None:
    fleet = making()
    finished(fleet, tasks(1))
    with pytest.raises(TaskChangedError) as caught:
        fleet.run([changed, Task("new", "Not added")]).wait()
    assert text in str(caught.value)
    assert list(states(fleet)) == ["task-0"]


def test_an_id_that_stands_twice_is_refused(making: Making) -> None:
    with pytest.raises(OptionsError, match="Two tasks have the id 'task-0'"):
        making().run([*tasks(1), *tasks(1)]).wait()


def test_typed_output(making: Making) -> None:
    script = Script().user().calls("StructuredOutput", {"value": 4})
    fleet = making(script)
    rows = finished(fleet, [Task("sum", "What is 2 + 2?", output_type=int)])
    assert rows["sum"].output == 4
    assert [row.output for row in fleet.results()] == [4]


class Even(pydantic.BaseModel):
    """A type that asks for more than its schema says."""

    value: int

    @pydantic.field_validator("value")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("it must be even")
        return value


class TestChecks:
    def test_a_refused_answer_is_corrected_in_the_same_session(self, making: Making) -> None:
        script = Script().user("Do the work 0").says("Wrong.").user(contains="it is not right").says("Right.")
        seen: list[Answer] = []

        def verify(answer: Answer) -> str | None:
            seen.append(answer)
            return None if answer.text == "Right." else "it is not right"

        fleet = making(script)
        row = finished(fleet, tasks(1, verify=verify))["task-0"]
        assert (row.state, row.text, row.attempt, row.failures) == ("succeeded", "Right.", 2, 1)
        first, second = fleet.attempts("task-0")
        assert (first.cause, first.error) == ("verify", "it is not right")
        assert second.resumed
        assert first.session_id == second.session_id
        assert [answer.attempt for answer in seen] == [1, 2]

    def test_output_that_does_not_fit_is_corrected_in_the_same_session(self, making: Making) -> None:
        script = Script().user("What is 2 + 2?").calls("StructuredOutput", {"value": 5})
        fleet = making(script.user(contains="must be even").calls("StructuredOutput", {"value": 4}))
        row = finished(fleet, [Task("sum", "What is 2 + 2?", output_type=Even)])["sum"]
        assert (row.state, row.output, row.attempt, row.failures) == ("succeeded", Even(value=4), 2, 1)
        first, second = fleet.attempts("sum")
        assert (first.cause, second.resumed) == ("output", True)

    @pytest.mark.parametrize("verify", [lambda _: False, lambda _: "no", ["false"]])
    def test_a_task_whose_answers_are_refused_fails(self, making: Making, verify: Any) -> None:
        script = Script().user().says("1").user().says("2").user().says("3")
        row = finished(making(script), tasks(1, verify=verify))["task-0"]
        assert (row.state, row.cause, row.attempt, row.failures, row.text) == ("failed", "verify", 3, 3, "3")

    def test_an_assertion_that_fails_is_a_refusal(self, making: Making) -> None:
        def verify(answer: Answer) -> None:
            assert answer.text == "Right.", "it must be right"

        row = finished(making(), tasks(1, verify=verify, retry=Retry(attempts=1)))["task-0"]
        assert row.cause == "verify"
        assert row.error is not None
        assert "it must be right" in row.error

    def test_a_bug_in_a_check_is_shown_and_not_tried_again(
        self, making: Making, caplog: pytest.LogCaptureFixture
    ) -> None:
        def verify(_: Answer) -> None:
            raise ZeroDivisionError("a bug of mine")

        row = finished(making(), tasks(1, verify=verify))["task-0"]
        assert (row.state, row.cause, row.attempt) == ("failed", "bug", 1)
        assert row.error is not None
        assert "a bug of mine" in row.error
        assert "test_fleet.py" in row.error
        assert [vars(record)["code"] for record in caplog.records] == ["CHECK_FAILED", "ATTEMPT_FAILED"]

    def test_an_async_check(self, making: Making) -> None:
        async def verify(answer: Answer) -> bool:
            await asyncio.sleep(0)
            return answer.text == "Done."

        assert finished(making(), tasks(1, verify=verify))["task-0"].state == "succeeded"

    def test_a_command_runs_in_the_folder_of_the_agent(self, making: Making, tmp_path: Path) -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "there").write_text("yes")
        fleet = making(options=Options(cwd=tmp_path / "work"))
        assert finished(fleet, tasks(1, verify=["test", "-e", "there"]))["task-0"].state == "succeeded"

    def test_a_command_that_takes_too_long_is_ended(self, making: Making) -> None:
        fleet = making(verify_timeout=0.2)
        row = finished(fleet, tasks(1, verify=["sh", "-c", "echo begun; sleep 600"], retry=Retry(attempts=1)))["task-0"]
        assert row.error is not None
        assert "did not end within 0.2 s" in row.error
        assert "begun" in row.error

    def test_a_command_that_does_not_exist_is_no_wrong_answer(self, making: Making) -> None:
        row = finished(making(), tasks(1, verify=["no-such-program"]))["task-0"]
        assert (row.cause, row.attempt) == ("bug", 1)
        assert row.error is not None
        assert row.error.startswith("The check `no-such-program` cannot be run")


class TestFailures:
    def test_an_overload_is_tried_again_and_slows_the_fleet(self, making: Making) -> None:
        script = Script().user().api_error(529).user().says("Done.")
        fleet = making(script, retry=Retry(backoff=0, max_delay=0))
        events = list(fleet.run(tasks(1)))
        [row] = fleet.results()
        assert (row.state, row.attempt, row.failures) == ("succeeded", 2, 1)
        assert fleet.attempts("task-0")[0].cause == "overloaded"
        changes = [event for event in events if isinstance(event, ConcurrencyChanged)]
        assert (changes[0].limit, changes[0].most, changes[0].cause) == (2, 4, "overloaded")

    def test_an_error_that_would_come_again_is_final(self, making: Making) -> None:
        row = finished(making(Script().user().api_error(400)), tasks(1))["task-0"]
        assert (row.state, row.cause, row.attempt) == ("failed", "model", 1)

    def test_a_timeout_is_tried_again(self, making: Making) -> None:
        fleet = making(
            Script().user().slow(1000).says("Never."),
            options=Options(timeouts=Timeouts(turn=0.2)),
            retry=Retry(attempts=2, backoff=0, resume=False),
        )
        row = finished(fleet, tasks(1))["task-0"]
        assert (row.state, row.cause, row.failures) == ("failed", "timeout", 2)

    def test_silence_is_a_stall(self, making: Making) -> None:
        script = Script().user().slow(1000).says("Never.")
        row = finished(making(script, stall=0.2, retry=Retry(attempts=1)), tasks(1))["task-0"]
        assert (row.state, row.cause) == ("failed", "stall")

    def test_a_missing_cli_ends_the_run_and_no_task(self, making: Making, tmp_path: Path) -> None:
        fleet = making(transport=None, options=Options(cli_path=tmp_path / "missing"))
        with pytest.raises(CLINotFoundError):
            fleet.run(tasks(3)).wait()
        assert set(states(fleet).values()) == {"queued"}
        assert [row.failures for row in fleet.results()] == [0, 0, 0]

    def test_fresh_attempts_start_new_sessions(self, making: Making) -> None:
        script = Script().user("Do the work 0").api_error(500)
        fleet = making(script, retry=Retry(attempts=2, backoff=0, max_delay=0, resume=False))
        finished(fleet, tasks(1))
        first, second = fleet.attempts("task-0")
        assert not second.resumed
        assert first.session_id != second.session_id


class TestBudgets:
    def test_a_spent_budget_ends_the_run_and_loses_no_task(self, making: Making) -> None:
        fleet = making(budget=Budget(usd=0.0005), concurrency=1)
        with pytest.raises(BudgetExceededError):
            fleet.run(tasks(10)).wait()
        found = list(states(fleet).values())
        assert 3 <= found.count("succeeded") <= 4
        assert set(found) == {"succeeded", "queued"}

    def test_a_larger_budget_goes_on(self, making: Making) -> None:
        with pytest.raises(BudgetExceededError):
            making(budget=Budget(usd=0.0005), concurrency=1).run(tasks(10)).wait()
        before = making()
        spent = sum(row.cost for row in before.results())
        budget = Budget(usd=1)
        assert {row.state for row in finished(making(budget=budget), tasks(10)).values()} == {"succeeded"}
        assert budget.spent.usd == pytest.approx(sum(row.cost for row in before.results()))
        assert budget.spent.usd > spent

    @pytest.mark.parametrize(
        ("script", "cause"),
        [
            (Script().user().calls("Bash", {"command": "true"}).api_error(400), "model"),
            (Script().user().calls("Bash", {"command": "true"}).crash(), "crash"),
        ],
    )
    def test_the_spending_of_failed_attempts_counts(self, making: Making, script: Script, cause: str) -> None:
        budget = Budget(usd=1)
        fleet = making(script, budget=budget, retry=Retry(attempts=2, backoff=0, max_delay=0, resume=False))
        row = finished(fleet, tasks(1))["task-0"]
        attempts = fleet.attempts("task-0")
        assert (row.state, row.cause, {attempt.cause for attempt in attempts}) == ("failed", cause, {cause})
        assert all(attempt.tokens > 0 for attempt in attempts)
        assert row.tokens == sum(attempt.tokens for attempt in attempts) == budget.spent.tokens
        assert row.cost == pytest.approx(sum(attempt.cost for attempt in attempts))
        assert row.cost == pytest.approx(budget.spent.usd)

    def test_a_run_without_anything_to_do_needs_no_budget(self, making: Making) -> None:
        finished(making(), tasks(10))
        budget = Budget(usd=0.0005)
        fleet = making(budget=budget)
        fleet.run(tasks(10)).wait()
        assert set(states(fleet).values()) == {"succeeded"}
        assert budget.spent.usd > 0.0005

    def test_spending_of_earlier_runs_counts(self, making: Making) -> None:
        finished(making(), tasks(10))
        fleet = making(budget=Budget(usd=0.0005))
        with pytest.raises(BudgetExceededError):
            fleet.run([Task("more", "Too much")]).wait()
        assert states(fleet)["more"] == "queued"


class TestPeople:
    def test_a_cancelled_task_ends(self, making: Making) -> None:
        script = Script().user().slow(100_000).says("Never.")
        fleet = making(script)
        with fleet.run(tasks(1)) as run:
            for event in run:
                if isinstance(event, TaskChanged) and event.state == "running":
                    assert fleet.cancel(["task-0"]) == 1
        assert states(fleet) == {"task-0": "cancelled"}

    def test_tasks_that_wait_are_cancelled_immediately(self, making: Making) -> None:
        fleet = making(Script().user().api_error(400))
        finished(fleet, tasks(2))
        assert fleet.cancel() == 0
        assert fleet.retry(["task-0"]) == 1
        assert fleet.cancel() == 1
        assert states(fleet) == {"task-0": "cancelled", "task-1": "failed"}

    def test_a_failed_task_can_be_tried_again(self, making: Making) -> None:
        finished(making(Script().user().api_error(400)), tasks(1))
        fleet = making()
        assert fleet.retry(fresh=True) == 1
        assert finished(fleet, tasks(1))["task-0"].state == "succeeded"

    def test_an_unknown_task_is_named(self, making: Making) -> None:
        with pytest.raises(hackamore.HackamoreError, match="has no task 'nothing'"):
            making().cancel(["nothing"])

    def test_a_drain_lets_agents_finish(self, making: Making) -> None:
        gate = threading.Event()

        def verify(_: Answer) -> bool:
            return gate.wait(patience(30))

        fleet = making(concurrency=2)
        run = fleet.run(tasks(6, verify=verify))
        begun = 0
        for event in run:
            if isinstance(event, TaskChanged) and event.state == "verifying":
                begun += 1
                if begun == 2:
                    run.drain()
                    gate.set()
        found = list(states(fleet).values())
        assert (found.count("succeeded"), found.count("queued")) == (2, 4)

    def test_a_stop_gives_tasks_back_and_they_go_on(self, making: Making, tmp_path: Path) -> None:
        fleet = making(Script().user().slow(100_000).says("Never."))
        with fleet.run(tasks(2)) as run:
            for event in run:
                if isinstance(event, TaskChanged) and event.state == "running":
                    break
        assert set(states(fleet).values()) == {"queued"}
        assert [row.failures for row in fleet.results()] == [0, 0]
        assert {row.state for row in finished(making(), tasks(2)).values()} == {"succeeded"}


class TestExecutor:
    def test_results_are_futures(self, making: Making) -> None:
        with making() as fleet:
            assert fleet.submit(Task("one", "Do it")).result(patience(30)).text == "Done."
            assert fleet.submit("A prompt").result(patience(30)).state == "succeeded"

    def test_map_keeps_the_order(self, making: Making) -> None:
        with making() as fleet:
            rows = list(fleet.map(lambda number: Task(f"task-{number}", f"Do {number}"), range(10)))
        assert [row.task for row in rows] == [f"task-{number}" for number in range(10)]

    def test_the_same_prompt_is_the_same_task_after_a_restart(self, making: Making) -> None:
        for _ in range(2):
            with making() as fleet:
                rows = [fleet.submit("Twice"), fleet.submit("Twice")]
                assert {row.result(patience(30)).attempt for row in rows} == {1}
        assert len(states(making())) == 2

    def test_a_failed_task_is_an_exception(self, making: Making) -> None:
        with making(Script().user().api_error(400)) as fleet, pytest.raises(TaskFailedError) as caught:
            fleet.submit(Task("bad", "Do it")).result(patience(30))
        assert (caught.value.task, caught.value.state, caught.value.cause) == ("bad", "failed", "model")

    def test_nothing_is_taken_after_the_shutdown(self, making: Making) -> None:
        fleet = making()
        fleet.shutdown()
        with pytest.raises(RuntimeError, match="shut down"):
            fleet.submit("Too late")


class TestArguments:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("concurrency", 0),
            ("budget", 3),
            ("workspace", "here"),
            ("retry", 3),
            ("stall", -1),
            ("verify_timeout", 0),
            ("executor", 4),
            ("transport", 5),
        ],
    )
    def test_wrong_settings_name_the_argument(self, making: Making, name: str, value: object) -> None:
        with pytest.raises(OptionsError, match=name):
            making(**{name: value})

    @pytest.mark.parametrize("name", ["session_id", "resume"])
    def test_options_that_choose_a_session_are_refused(self, making: Making, name: Any) -> None:
        with pytest.raises(OptionsError, match=name):
            making(options=Options().replace(**{name: "6f1f0c55-35b5-4d6b-8d55-2f0c1bdf2e1f"}))

    @pytest.mark.parametrize(
        ("arguments", "field"),
        [
            ({"id": "", "prompt": "x"}, "id"),
            ({"id": "a\nb", "prompt": "x"}, "id"),
            ({"id": "x" * 201, "prompt": "x"}, "id"),
            ({"id": "a", "prompt": ""}, "prompt"),
            ({"id": "a", "prompt": 3}, "prompt"),
            ({"id": "a", "prompt": "x", "options": ["model"]}, "options"),
            ({"id": "a", "prompt": "x", "verify": "pytest -q"}, "verify"),
            ({"id": "a", "prompt": "x", "verify": []}, "verify"),
            ({"id": "a", "prompt": "x", "workspace": "here"}, "workspace"),
            ({"id": "a", "prompt": "x", "retry": 3}, "retry"),
            ({"id": "a", "prompt": "x", "tags": {"n": 1}}, "tags"),
        ],
    )
    def test_wrong_tasks_name_the_argument(self, arguments: dict[str, Any], field: str) -> None:
        with pytest.raises(OptionsError) as caught:
            Task(**arguments)
        assert caught.value.field == field

    def test_wrong_options_of_a_task_name_the_task(self, making: Making) -> None:
        with pytest.raises(OptionsError, match=r"task 'a'.*modle"):
            making().run([Task("a", "x", options={"modle": "sonnet"})]).wait()

    def test_no_list_of_tasks(self, making: Making) -> None:
        with pytest.raises(TypeError, match="list of tasks"):
            making().run("task")  # type: ignore[arg-type]


def test_the_time_left_is_estimated_from_the_tasks_that_ended_in_this_run(making: Making) -> None:
    finished(making(concurrency=1), tasks(2))
    begun = threading.Event()
    found: list[float | None] = []

    def verify(_: Answer) -> bool:
        assert begun.wait(patience(30))
        progress = run.progress()
        found.append(None if progress.seconds_left is None else progress.seconds_left / progress.seconds)
        return True

    more = [Task(f"more-{number}", "Do it", verify=verify) for number in range(4)]
    run = making(concurrency=1).run([*tasks(2), *more])
    begun.set()
    run.wait()
    assert found[0] is None
    assert found[1:] == pytest.approx([3 / 1, 2 / 2, 1 / 3])


def test_two_drivers_run_no_task_twice(making: Making) -> None:
    first, second = making(concurrency=3), making(concurrency=3)
    one, other = first.run(tasks(30)), second.run(tasks(30))
    other.wait()
    one.wait()
    assert {(row.state, row.attempt) for row in first.results()} == {("succeeded", 1)}
    assert NOW.resume


@shows("fleet.journal.reported")
def test_two_drivers_report_each_end_once(making: Making) -> None:
    first, second = making(concurrency=3), making(concurrency=3)
    ends: list[str] = []
    runs = [fleet.run(tasks(30)) for fleet in (first, second)]

    def read(run: FleetRun) -> None:
        ends.extend(event.row.task for event in run if isinstance(event, TaskFinished))

    threads = [threading.Thread(target=read, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == sorted(task.id for task in tasks(30))


def test_a_run_that_is_dropped_warns(making: Making, caplog: pytest.LogCaptureFixture) -> None:
    begun, go = threading.Event(), threading.Event()

    def verify(_: Answer) -> bool:
        begun.set()
        return go.wait(patience(30))

    fleet = making()
    run = fleet.run(tasks(1, verify=verify))
    assert begun.wait(patience(30))
    del run
    assert [record.__dict__["code"] for record in caplog.records] == ["RUN_DROPPED"]
    go.set()
    fleet.run(tasks(1, verify=verify)).wait()
    assert states(fleet) == {"task-0": "succeeded"}


def test_an_answer_is_checked_again_after_a_bug_in_the_check_and_not_paid_again(making: Making) -> None:
    mended = False

    def verify(answer: Answer) -> bool:
        if not mended:
            raise ZeroDivisionError
        return answer.text == "Done."

    fleet = making()
    before = finished(fleet, tasks(1, verify=verify))["task-0"]
    assert before.cause == "bug"
    mended = True
    assert fleet.retry() == 1
    after = finished(fleet, tasks(1, verify=verify))["task-0"]
    assert (after.state, after.text, after.cost) == ("succeeded", "Done.", before.cost)


@pytest.mark.parametrize("place", [process_name(0).rsplit("|", 2)[0], "m|boot|elsewhere"])
def test_a_killed_attempt_without_a_transcript(making: Making, tmp_path: Path, place: str) -> None:
    journal = open_journal(tmp_path / "journal.db")
    journal.add([("task-0", spec_of(tasks(1)[0], Options(), NOW, journal.salt))])
    gone = f"{place}|4194304|1|0000"
    [lease] = journal.lease(gone, 1, {"task-0"}, time.time())
    journal.begin(lease, gone, trace=None)
    journal.note(lease, gone, process=f"{place}|4194304|1", usd=3, tokens=1)
    journal.close()
    fleet = making()
    before = next(iter(fleet.results()))
    finished(fleet, tasks(1))
    [row] = fleet.results()
    # A reply may not have been written, and the next call open, here or on another machine.
    assert (row.state, row.attempt, row.unknown_calls) == ("succeeded", 2, 2)
    assert row.tokens > before.tokens == 1
