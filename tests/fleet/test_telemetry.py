"""Spans, metrics and log records of fleets."""

from __future__ import annotations

import json
import logging
import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import baggage, context, trace

import hackamore
from hackamore import CLINotFoundError, Options, Retry
from hackamore.errors import HackamoreError, JournalError
from hackamore.fleet import Answer, Folder, Task, TaskChanged
from hackamore.options.observing import Observation, RunObservation, Subject
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.fleet.conftest import finished, tasks
from tests.fleet.exporting import Sent, export_to
from tests.support.patience import patience
from tests.telemetry.collecting import Collected, attributes, id_of, place_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.conftest import Making

TURN = ("invoke_agent claude-code", ["chat claude-opus-5-5"])
ATTEMPT = ("hackamore.fleet.attempt", [TURN])


@pytest.fixture
def collected() -> Collected:
    return Collected()


def observed(collected: Collected, **more: Any) -> Options:
    return Options(telemetry=collected.telemetry(), **more)


def value(collected: Collected, metric: str) -> Any:
    """The only point of a metric."""
    [(_, found)] = collected.points(metric)
    return found


@shows("telemetry.fleets")
def test_a_run_is_a_tree_below_the_caller(making: Making, collected: Collected) -> None:
    fleet = making(options=observed(collected))
    with collected.tracer.start_as_current_span("caller"):
        run = fleet.run(tasks(3))
    run.wait()
    assert collected.tree() == [("caller", [("hackamore.fleet.run", [ATTEMPT] * 3)])]
    assert attributes(collected.one("hackamore.fleet.run"))["hackamore.fleet.concurrency"] == 4


@shows("telemetry.fleets")
def test_all_that_an_attempt_does_is_inside(making: Making, collected: Collected, tmp_path: Path) -> None:
    async def verify(answer: Answer) -> bool:
        with collected.tracer.start_as_current_span("in the check") as span:
            span.set_attribute("tenant", str(baggage.get_baggage("tenant")))
        return True

    fleet = making(options=observed(collected), workspace=Folder(tmp_path))
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    try:
        run = fleet.run(tasks(1, verify=verify))
    finally:
        context.detach(token)
    run.wait()
    [below] = collected.tree()
    assert below == (
        "hackamore.fleet.run",
        [
            (
                "hackamore.fleet.attempt",
                [
                    "hackamore.fleet.workspace",
                    TURN,
                    ("hackamore.fleet.verify", ["in the check"]),
                    "hackamore.fleet.workspace",
                ],
            )
        ],
    )
    steps = [
        attributes(span)["hackamore.fleet.workspace.step"] for span in collected.named("hackamore.fleet.workspace")
    ]
    assert steps == ["prepare", "finish"]
    assert attributes(collected.one("in the check")) == {"tenant": "acme"}


def test_the_facts_of_an_attempt(making: Making, collected: Collected) -> None:
    fleet = making(Script().user().crash(3).user().says("Done."), options=observed(collected))
    finished(fleet, tasks(1))
    failed, good = collected.named("hackamore.fleet.attempt")
    session = fleet.attempts("task-0")[0].session_id
    common = {"hackamore.fleet.task.id": "task-0", "gen_ai.conversation.id": session}
    assert attributes(failed) == {
        **common,
        "hackamore.fleet.attempt.number": 1,
        "hackamore.fleet.attempt.resumed": False,
        "hackamore.fleet.attempt.cause": "crash",
        "hackamore.fleet.task.state": "waiting",
        "error.type": "crash",
    }
    assert attributes(good) == {
        **common,
        "hackamore.fleet.attempt.number": 2,
        "hackamore.fleet.attempt.resumed": True,
        "hackamore.fleet.task.state": "succeeded",
    }
    assert (failed.status.is_ok, good.status.is_ok) == (False, True)


def test_a_refused_answer_fails_the_check_and_the_attempt(making: Making, collected: Collected) -> None:
    fleet = making(options=observed(collected), retry=Retry(attempts=1))
    finished(fleet, tasks(1, verify=["false"]))
    assert attributes(collected.one("hackamore.fleet.verify"))["error.type"] == "Refused"
    facts = attributes(collected.one("hackamore.fleet.attempt"))
    assert (facts["error.type"], facts["hackamore.fleet.task.state"]) == ("verify", "failed")


@shows("telemetry.fleet-ends")
def test_an_error_of_the_run(making: Making, collected: Collected, tmp_path: Path) -> None:
    fleet = making(transport=None, options=observed(collected, cli_path=tmp_path / "missing"))
    with pytest.raises(CLINotFoundError):
        fleet.run(tasks(1)).wait()
    assert attributes(collected.one("hackamore.fleet.run"))["error.type"] == "CLINotFoundError"
    assert attributes(collected.one("hackamore.fleet.attempt"))["hackamore.fleet.task.state"] == "queued"


@shows("telemetry.fleet-ends")
@pytest.mark.parametrize(
    ("step", "error", "failure", "text"),
    [
        (
            "cause_of",
            RuntimeError("Unforeseen."),
            "error",
            "of task 'task-0' broke off: RuntimeError: Unforeseen. Run the fleet again",
        ),
        ("check", JournalError("Gone."), "JournalError", "Gone."),
    ],
)
def test_nothing_is_open_after_the_end_by_an_error_of_the_fleet_itself(
    making: Making,
    collected: Collected,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    error: Exception,
    failure: str,
    text: str,
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    fleet = making(options=observed(collected))
    monkeypatch.setattr(f"hackamore.fleet.attempt.{step}", fail)
    with pytest.raises(HackamoreError, match=text) as caught:
        fleet.run(tasks(1, verify=lambda _: 1 / 0)).wait()
    assert error in (caught.value, caught.value.__cause__)
    assert [row.state for row in fleet.results()] == ["queued"]
    span = collected.one("hackamore.fleet.attempt")
    assert (attributes(span)["error.type"], span.status.is_ok) == (failure, False)
    assert attributes(collected.one("hackamore.fleet.run"))["error.type"] == type(caught.value).__name__


@shows("telemetry.fleet-ends")
@pytest.mark.parametrize("how", ["stop", "cancel", "leave"])
def test_nothing_is_open_after_the_end(making: Making, collected: Collected, how: str) -> None:
    fleet = making(Script().user().slow(100_000).says("Never."), options=observed(collected))
    with fleet.run(tasks(2)) as run:
        running = 0
        for event in run:
            running += isinstance(event, TaskChanged) and event.state == "running"
            if running == 2:
                running = 0
                if how == "leave":
                    break
                run.stop() if how == "stop" else fleet.cancel()
    found = collected.named("hackamore.fleet.attempt")
    state = "cancelled" if how == "cancel" else "queued"
    assert [attributes(span)["hackamore.fleet.task.state"] for span in found] == [state] * 2
    assert all(span.status.is_ok for span in found)
    assert collected.one("hackamore.fleet.run").status.is_ok


@shows("telemetry.fleet-ends")
def test_nothing_is_open_after_a_drain(making: Making, collected: Collected) -> None:
    gate = threading.Event()
    fleet = making(options=observed(collected), concurrency=1)
    run = fleet.run(tasks(3, verify=lambda _: gate.wait(patience(30))))
    for event in run:
        if isinstance(event, TaskChanged) and event.state == "verifying":
            run.drain()
            gate.set()
    assert len(collected.named("hackamore.fleet.attempt")) == 1


def test_threads_are_used_again_without_the_span_of_before(making: Making, collected: Collected) -> None:
    seen: list[Any] = []

    def verify(_: Answer) -> None:
        seen.append(trace.get_current_span())

    finished(making(options=observed(collected), concurrency=1), tasks(3, verify=verify))
    assert len({place_of(span).span_id for span in seen}) == 3
    assert {span.parent.span_id for span in collected.named("hackamore.fleet.attempt") if span.parent} == {
        id_of(collected.one("hackamore.fleet.run"))
    }


@shows("telemetry.fleet-metrics")
def test_tasks_and_attempts(making: Making, collected: Collected) -> None:
    fleet = making(Script().user().crash(3).user().says("Done."), options=observed(collected))
    fleet.run([*tasks(2), Task("bad", "No", verify=["false"], retry=Retry(attempts=1))]).wait()
    assert sorted(
        (facts["hackamore.fleet.task.state"], n) for facts, n in collected.points("hackamore.fleet.tasks")
    ) == [
        ("failed", 1),
        ("succeeded", 2),
    ]
    assert sorted(
        (facts["hackamore.fleet.attempt.cause"], n) for facts, n in collected.points("hackamore.fleet.attempts")
    ) == [("crash", 3), ("none", 2)]
    counts = {
        facts["hackamore.fleet.task.state"]: found[0]
        for facts, found in collected.points("hackamore.fleet.task.duration")
    }
    assert counts == {"failed": 1, "succeeded": 2}
    assert value(collected, "hackamore.fleet.task.wait")[0] == 5


@shows("telemetry.fleet-metrics")
def test_waits_are_measured(making: Making, collected: Collected) -> None:
    retry = Retry(backoff=0.4, max_delay=0.4)
    fleet = making(Script().user().crash(3).user().says("Done."), options=observed(collected), retry=retry)
    finished(fleet, tasks(1))
    count, seconds = value(collected, "hackamore.fleet.task.wait")
    assert count == 2
    assert seconds >= 0.1  # at least half of the back-off, less what passes until the journal has it


@shows("telemetry.fleet-metrics")
def test_the_limit_follows_the_gate_and_is_gone_after_the_run(making: Making, collected: Collected) -> None:
    seen: list[Any] = []

    class Seeing(hackamore.Telemetry):
        def observe_run(self, fleet: str, concurrency: int) -> RunObservation:
            spans = super().observe_run(fleet, concurrency)

            class Run(RunObservation):
                def limit_changed(self, limit: int) -> None:
                    spans.limit_changed(limit)
                    seen.append((limit, value(collected, "hackamore.fleet.limit")))

                def ended(self, error: BaseException | None) -> None:
                    spans.ended(error)

            return Run()

    options = Options(telemetry=Seeing(collected.provider, collected.meters))
    script = Script().user().api_error(529).user().says("Done.")
    finished(making(script, options=options, concurrency=2, retry=Retry(backoff=0, max_delay=0)), tasks(1))
    assert seen == [(2, 2), (1, 1), (2, 2)]
    assert value(collected, "hackamore.fleet.limit") == 0


@shows("telemetry.fleet-metrics")
def test_two_drivers_count_each_task_once(making: Making, collected: Collected) -> None:
    first, second = (making(options=observed(collected), concurrency=3) for _ in range(2))
    one, other = first.run(tasks(20)), second.run(tasks(20))
    one.wait()
    other.wait()
    assert value(collected, "hackamore.fleet.tasks") == 20
    assert value(collected, "hackamore.fleet.attempts") == 20


def test_an_observer_of_sessions_alone_is_enough(making: Making) -> None:
    class Mine:
        def observe(self, subject: Subject) -> Observation:
            return Observation()

    assert finished(making(options=Options(telemetry=Mine())), tasks(1))["task-0"].state == "succeeded"


def test_an_observer_that_raises_is_logged_and_nothing_else(making: Making, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(hackamore.Telemetry):
        def observe_run(self, fleet: str, concurrency: int) -> Any:
            raise ZeroDivisionError("of the run")

        def observe_attempt(self, facts: Any, run: dict[str, str]) -> Any:
            raise ZeroDivisionError("of the attempt")

    fleet = making(options=Options(telemetry=Broken()))
    assert finished(fleet, tasks(1))["task-0"].state == "succeeded"
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [text.split(" in ")[0] for text in texts] == [
        "`telemetry` (`observe_run`) raised ZeroDivisionError: of the run",
        "`telemetry` (`observe_attempt`) raised ZeroDivisionError: of the attempt",
    ]


@shows("telemetry.fleets")
def test_the_trace_goes_on_in_other_processes(making: Making, collected: Collected, tmp_path: Path) -> None:
    cli = SimulatedCLI(Script().user().says("Done.")).install(tmp_path / "cli")
    spans = tmp_path / "spans.jsonl"
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), initializer=export_to, initargs=(str(spans),)
    ) as pool:
        options = Options(telemetry=Sent(collected.provider, collected.meters), cli_path=cli)
        fleet = making(transport=None, options=options, executor=pool)
        assert finished(fleet, tasks(1))["task-0"].state == "succeeded"
    found = {name: rest for name, *rest in map(json.loads, spans.read_text().splitlines())}
    run = collected.one("hackamore.fleet.run")
    trace_id, attempt, parent = found["hackamore.fleet.attempt"]
    assert (trace_id, parent) == (place_of(run).trace_id, id_of(run))
    assert found["invoke_agent claude-code"][::2] == [trace_id, attempt]
    assert value(collected, "hackamore.fleet.attempts") == 1


def test_records_name_the_attempt(making: Making, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    fleet = making(Script().user().crash(3, stderr="broken\npipe").user().says("Done."))
    finished(fleet, tasks(1))
    records = [vars(record) for record in caplog.records if "task" in vars(record)]
    session = fleet.attempts("task-0")[0].session_id
    assert [(found["levelname"], found["task"], found["attempt"], found["session_id"]) for found in records] == [
        (level, "task-0", attempt, session)
        for level, attempt in (("DEBUG", 1), ("WARNING", 1), ("DEBUG", 1), ("DEBUG", 2), ("DEBUG", 2))
    ]
    assert "attempt 1 failed: crash: " in records[1]["message"]


def test_records_quote_no_answer(making: Making, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    fleet = making(Script().user().says("a secret"), retry=Retry(attempts=1))
    finished(fleet, tasks(1, verify=lambda answer: f"{answer.text} is wrong"))
    assert "attempt 1 failed: verify" in caplog.text
    assert "a secret" not in "".join(record.getMessage() for record in caplog.records)
