"""The reaper, where a step of the stop fails."""

from __future__ import annotations

import logging
import os
import signal
from typing import Any

import pytest

from hackamore.transports.process.child import Child
from tests.support.leaks import nothing_left, wait_gone
from tests.support.patience import patience
from tests.transports.process.test_child import plan

STUBBORN = "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.write(1, b'ready'); time.sleep(60)"


class FailingChild(Child):
    """A child some of whose steps raise."""

    failing: tuple[str, ...] = ()

    def close_input(self) -> None:
        if "close_input" in self.failing:
            raise RuntimeError("close_input fails")
        super().close_input()

    def signal(self, number: int, *, group: bool = False) -> None:
        if f"signal {number}" in self.failing:
            raise RuntimeError(f"signal {number} fails")
        super().signal(number, group=group)


def started(*failing: str, **more: Any) -> FailingChild:
    child = FailingChild(plan(STUBBORN), **{"stop_grace": 0.1, "kill_grace": 0.1, "stderr_tail_bytes": 100, **more})
    child.failing = failing
    child.start()
    while child.take() is None:
        child.wait(patience(10))
    return child


@pytest.mark.parametrize(
    ("failing", "turn_open"), [("close_input", False), ("close_input", True), ("signal 15", False), ("signal 15", True)]
)
def test_a_step_that_fails_is_followed_by_the_last_resort(
    failing: str, turn_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with nothing_left():
        child = started(failing)
        pid = child.pid
        with caplog.at_level(logging.ERROR, "hackamore"):
            child.stop(turn_open=turn_open)
            assert child.done.wait(patience(30))
        assert wait_gone(pid)
        assert child.exit_code == -signal.SIGKILL
    assert [(record.message, vars(record)["pid"]) for record in caplog.records] == [
        (f"a step of stopping process {pid} failed", pid)
    ]


def test_a_last_resort_that_fails_as_well_ends_the_stop_and_gives_everything_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with nothing_left(allowed_processes=1):
        child = started("close_input", "signal 9")
        pid = child.pid
        with caplog.at_level(logging.WARNING, "hackamore"):
            child.stop(turn_open=True)
            assert child.done.wait(patience(30))
    said = [record.message for record in caplog.records]
    assert {vars(record)["pid"] for record in caplog.records} == {pid}
    assert said.count(f"a step of stopping process {pid} failed") == 2
    assert f"process {pid} did not end after SIGKILL" in said
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_the_stop_of_one_child_that_fails_does_not_keep_others_waiting() -> None:
    with nothing_left():
        failing, well = started("signal 15"), started()
        for child in (failing, well):
            child.stop(turn_open=True)
        assert failing.done.wait(patience(30))
        assert well.done.wait(patience(30))
        assert {failing.exit_code, well.exit_code} == {-signal.SIGKILL}
