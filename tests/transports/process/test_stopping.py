"""Which steps a stop takes, in which order, and what the thread that takes them does when one of them fails."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from hackamore.transports.process import reaper as module
from hackamore.transports.process.reaper import Reaper, stop_sequence
from tests.support.leaks import nothing_left
from tests.support.patience import patience

PID = 2**22 + 5  # Linux has no such process


class Mortal:
    """A child that notes what is done to it."""

    def __init__(self, *, exited: bool = False, failing: str = "") -> None:
        self.child_id, self.pid = "mark", PID
        self.stop_grace, self.kill_grace = 3.0, 4.0
        self.exit_descriptor: int | None = None
        self.done, self.killed = threading.Event(), threading.Event()
        self.exited = exited
        self.failing = failing
        self.noted: list[object] = []

    def note(self, what: str, *more: object) -> None:
        self.noted.append((what, *more) if more else what)
        if what == self.failing:
            raise RuntimeError(f"{what} fails")

    def poll_exit(self) -> bool:
        return self.exited

    def close_input(self) -> None:
        self.note("close input")

    def signal(self, number: int, *, group: bool = False) -> None:
        self.note("signal to its group" if group else "signal", number)
        if number == signal.SIGKILL and not group:
            self.killed.set()

    def descriptors(self) -> list[int]:
        return []

    def discard_output(self) -> bool:
        return False

    def stop(self, *, turn_open: bool) -> None:
        self.note("stop", turn_open)

    def kill_now(self) -> None:
        self.note("kill now")
        self.done.set()

    def dispose(self) -> None:
        self.note("dispose")

    def finish(self) -> None:
        self.note("finish")
        self.done.set()

    def disown(self) -> None:
        self.note("disown")


TERM = ("signal", signal.SIGTERM)
KILL = [("signal to its group", signal.SIGKILL), ("signal", signal.SIGKILL)]


@pytest.mark.parametrize(
    ("exited", "turn_open", "answers", "steps", "killed"),
    [
        (True, False, [], ["close input"], set()),
        (True, True, [], ["close input"], {"marked"}),
        (False, False, [True], ["close input", 3.0], set()),
        (False, False, [False, True], ["close input", 3.0, TERM, 4.0], {"first", "second", "marked"}),
        (
            *(False, False, [False, False, True]),
            ["close input", 3.0, TERM, 4.0, *KILL, 5.0],
            {"first", "second", "third", "marked"},
        ),
        (False, True, [True], ["close input", TERM, 4.0], {"first", "second", "marked"}),
        (
            *(False, True, [False, False]),
            ["close input", TERM, 4.0, *KILL, 5.0],
            {"first", "second", "third", "marked"},
        ),
    ],
)
def test_the_steps_of_a_stop(
    monkeypatch: pytest.MonkeyPatch,
    exited: bool,
    turn_open: bool,
    answers: list[bool],
    steps: list[object],
    killed: set[str],
) -> None:
    child = Mortal(exited=exited)
    found = iter([[(11, "first")], [(12, "second")], [(13, "third")]])
    ended: list[object] = []
    monkeypatch.setattr(module, "descendants", lambda pid: next(found) if pid == PID else [])
    monkeypatch.setattr(module, "marked_with", lambda mark: [(14, "marked"), (PID, "own")] if mark == "mark" else [])
    monkeypatch.setattr(module, "identity", lambda pid: (pid, "own") if pid == PID else None)
    monkeypatch.setattr(module, "kill_identity", lambda who, number: ended.append((who[1], number)))
    sequence = stop_sequence(child, turn_open=turn_open, stop_grace=child.stop_grace, kill_grace=child.kill_grace)
    try:
        child.noted.append(next(sequence))
        for answer in answers:
            child.exited = answer
            child.noted.append(sequence.send(answer))
    except StopIteration:
        pass
    else:
        raise AssertionError("it goes on")
    assert child.noted == steps
    assert sorted(ended, key=str) == sorted([(name, signal.SIGKILL) for name in killed], key=str)


@pytest.fixture
def waiting_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no thread start: what is tested here happens in the call."""
    monkeypatch.setattr(Reaper, "attend", lambda self: None)


@pytest.mark.usefixtures("waiting_for_nobody")
def test_at_the_end_of_the_program_all_are_stopped_and_those_that_are_late_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EXIT_SECONDS", 0.01)
    graces: list[object] = []

    def noted(_: Mortal, **how: object) -> Iterator[float]:
        graces.append(how)
        return iter(())

    monkeypatch.setattr(module, "stop_sequence", noted)
    reaper = Reaper()
    prompt, late = Mortal(), Mortal()
    prompt.done.set()
    for child in (prompt, late):
        reaper.register(child)
    assert reaper.count == 2
    reaper.submit(prompt, turn_open=True)
    reaper.at_exit()
    assert prompt.noted == [("stop", True)]
    assert late.noted == [("stop", True), "kill now"]
    reaper.submit(late, turn_open=False)  # what is stopped from now on has less time
    assert graces == [
        {"turn_open": True, "stop_grace": 3.0, "kill_grace": 4.0},
        {"turn_open": False, "stop_grace": 0.0, "kill_grace": 1.5},
    ]


@pytest.mark.usefixtures("waiting_for_nobody")
def test_a_forked_copy_disowns_every_child() -> None:
    reaper = Reaper()
    children = [Mortal(), Mortal()]
    for child in children:
        reaper.register(child)
    reaper.after_fork()
    assert [child.noted for child in children] == [["disown"], ["disown"]]
    assert reaper.count == 0


@pytest.mark.usefixtures("waiting_for_nobody")
@pytest.mark.parametrize("failing", ["", "dispose"])
def test_one_that_has_exited_is_finished_in_the_call(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    reaper = Reaper()
    child = Mortal(exited=True, failing=failing)
    reaper.register(child)
    reaper.submit(child, turn_open=False, here=True)
    assert child.noted == ["close input", "dispose", "finish"]
    assert reaper.count == 0
    said = [(record.levelno, record.getMessage(), vars(record)["pid"]) for record in caplog.records]
    problem = (logging.ERROR, f"giving back what belonged to process {PID} failed", PID)
    assert said == ([problem] if failing else [])


@pytest.mark.usefixtures("waiting_for_nobody")
@pytest.mark.parametrize(
    ("exited", "turn_open", "here"), [(False, False, True), (True, True, True), (True, False, False)]
)
def test_a_stop_that_may_take_time_is_left_to_the_thread(exited: bool, turn_open: bool, here: bool) -> None:
    reaper = Reaper()
    child = Mortal(exited=exited)
    reaper.register(child)
    reaper.submit(child, turn_open=turn_open, here=here)
    assert child.noted == []
    assert reaper.count == 1


def test_the_thread_ends_children_and_then_itself() -> None:
    with nothing_left():
        reaper = Reaper()
        first, second = Mortal(), Mortal()
        for child in (first, second):
            child.stop_grace = child.kill_grace = 0.0
            reaper.register(child)
        first.exited = True
        for child in (first, second):
            reaper.submit(child, turn_open=False)
        assert first.done.wait(patience(30))
        assert second.killed.wait(patience(30))
        assert not second.done.is_set()  # it gets its time after SIGKILL
        assert not reaper.retire()
        second.exited = True
        assert second.done.wait(patience(30))
        while not reaper.retire():
            pass
    assert first.noted == ["close input", "dispose", "finish"]
    assert second.noted == ["close input", TERM, *KILL, "dispose", "finish"]


class Reading:
    """The reading end of a pipe that the thread drains."""

    def __init__(self, reaper: Reaper) -> None:
        self.reaper = reaper
        self.descriptor, self.into = os.pipe()
        self.data = b""
        self.came = threading.Semaphore(0)

    def read(self) -> None:
        data = os.read(self.descriptor, 100)
        self.data += data
        if not data:
            self.reaper.unwatch(self.descriptor)
            os.close(self.descriptor)
        self.came.release()


def test_what_is_watched_is_read_whenever_there_is_something() -> None:
    with nothing_left():
        reaper = Reaper()
        drain = Reading(reaper)
        with pytest.raises(ValueError, match="-5"):
            reaper.watch(-5, drain)
        assert reaper.retire()  # nothing is left of it
        reaper.watch(drain.descriptor, drain)
        assert not reaper.retire()
        for part in (b"one", b"two"):
            os.write(drain.into, part)
            assert drain.came.acquire(timeout=patience(30))
        os.close(drain.into)
        assert drain.came.acquire(timeout=patience(30))
        assert drain.data == b"onetwo"
        while not reaper.retire():
            pass
        reaper.unwatch(drain.descriptor)  # again
