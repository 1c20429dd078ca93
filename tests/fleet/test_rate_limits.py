"""A rate limit with a reset time: fewer agents, nothing before the reset, then more again; no attempt counts."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from hackamore import Options, Retry
from hackamore.fleet import ConcurrencyChanged, Fleet, FleetEvent, TaskChanged, TaskFinished
from hackamore.testing import HTTPFailure, Repeat, Reply, Script, ScriptedModel, SimulatedCLI
from tests.contract import shows
from tests.fleet.conftest import NOW, tasks
from tests.real_cli.test_retry import LOGIN, spent
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

    from hackamore.testing.memory import AsyncMemoryTransport, SyncMemoryTransport
    from hackamore.testing.model.requests import ModelRequest
    from tests.conftest import RealCLI
    from tests.fleet.conftest import Making


class Plan:
    """Simulated CLIs with one account: after some agents its limit is used up until a moment.

    Args:
        good: the agents before that.
        seconds: the time from the first agent that meets the limit to the reset.
    """

    def __init__(self, good: int, seconds: float) -> None:
        self.resets_at = 0
        self._left = good
        self._seconds = seconds
        self._before = SimulatedCLI(Script().user().says("Done."), per_session=True)
        self._after: SimulatedCLI | None = None
        self._lock = threading.Lock()

    def _cli(self) -> SimulatedCLI:
        with self._lock:
            if self._left:
                self._left -= 1
                return self._before
            if self._after is None:
                reset = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=self._seconds)
                self.resets_at = int(reset.timestamp())
                self._after = SimulatedCLI(Script().user().usage_limited(reset).says("Done."), per_session=True)
            return self._after

    def for_async(self) -> AsyncMemoryTransport:
        return self._cli().for_async()

    def for_sync(self) -> SyncMemoryTransport:
        return self._cli().for_sync()


def check(events: list[FleetEvent], fleet: Fleet, resets_at: int, most: int) -> None:
    """Do nothing if a fleet followed a limit as it should."""
    changes = [event for event in events if isinstance(event, ConcurrencyChanged)]
    first = changes[0]
    assert (first.limit, first.most, first.cause) == (most // 2, most, "throttled")
    assert first.until is not None
    assert first.until >= resets_at
    # The whole burst was one cut.
    assert min(change.limit for change in changes) == most // 2
    later = [event.at for event in events if isinstance(event, TaskChanged) and event.state == "leased"]
    assert any(at > first.at for at in later)
    assert all(at >= resets_at for at in later if at > first.at)
    assert (changes[-1].limit, changes[-1].until, changes[-1].cause) == (most, None, None)
    rows = list(fleet.results())
    assert {(row.state, row.failures) for row in rows} == {("succeeded", 0)}
    causes = [[attempt.cause for attempt in fleet.attempts(row.task)] for row in rows]
    assert {tuple(found) for found in causes} == {(None,), ("throttled", None)}
    for row in rows:
        if row.attempt == 2:
            before, after = fleet.attempts(row.task)
            assert after.resumed
            assert before.session_id == after.session_id


@shows("fleet.rate-limits")
def test_a_limit_with_a_reset(making: Making) -> None:
    plan = Plan(good=8, seconds=max(2.0, patience(0.3)))
    fleet = making(transport=plan, concurrency=8, retry=NOW)
    check(list(fleet.run(tasks(40))), fleet, plan.resets_at, 8)


@shows("fleet.rate-limits")
def test_a_limit_of_the_real_cli(real_cli: RealCLI, tmp_path: Path) -> None:
    resets_at = 0
    asked: list[float] = []
    lock = threading.Lock()

    def reply(request: ModelRequest) -> Reply | HTTPFailure:
        nonlocal resets_at
        with lock:
            asked.append(time.time())
            if len(asked) <= 2:
                return Reply("Done.")
            if not resets_at:
                resets_at = int(asked[-1] + 4)
            if asked[-1] >= resets_at:
                return Reply("Done.")
            return HTTPFailure(429, headers=spent(datetime.fromtimestamp(resets_at, UTC)))

    with ScriptedModel(Repeat(reply)) as model:
        environment = {**real_cli.env(model), **LOGIN}
        options = Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=environment, inherit_env=False)
        fleet = Fleet(tmp_path / "journal.db", options, concurrency=4, retry=Retry(backoff=0, rate_limit_wait=None))
        check(list(fleet.run(tasks(12))), fleet, resets_at, 4)
    # Each task was asked for once, and once more if it met the limit.
    assert len(asked) == 12 + sum(row.attempt == 2 for row in fleet.results())


@shows("fleet.rate-limits")
def test_the_reset_of_a_limit_that_is_too_late_fails_the_task(making: Making) -> None:
    plan = Plan(good=0, seconds=3600)
    fleet = making(transport=plan, retry=Retry(rate_limit_wait=60))
    [row] = [event.row for event in fleet.run(tasks(1)) if isinstance(event, TaskFinished)]
    assert (row.state, row.cause) == ("failed", "throttled")
    assert row.error is not None
    assert "`Retry.rate_limit_wait` is 60 s" in row.error


def test_a_stop_does_not_wait_for_the_reset(making: Making) -> None:
    plan = Plan(good=0, seconds=3600)
    fleet = making(transport=plan)
    with fleet.run(tasks(3)) as run:
        for event in run:
            if isinstance(event, ConcurrencyChanged):
                assert run.progress().until == plan.resets_at + 1
                break
    assert {row.state for row in fleet.results()} <= {"waiting", "queued"}


@pytest.mark.parametrize(
    "event",
    [
        ConcurrencyChanged(limit=1, most=4, until=9.0, cause="throttled", at=1.0),
        TaskChanged(task="a", attempt=1, state="queued", cause=None, error=None, at=1.0),
    ],
)
def test_a_reader_cannot_change_the_event_of_another_reader(event: FleetEvent) -> None:
    with pytest.raises(AttributeError):
        event.at = 2.0  # type: ignore[misc]
    assert event in {event}
