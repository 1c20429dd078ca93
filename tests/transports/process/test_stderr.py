"""Stderr is drained whatever its callback does."""

from __future__ import annotations

import contextvars
import gc
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from hackamore.transports.process.reaper import Reaper, reaper
from hackamore.transports.process.stderr import LineCallback, StderrDrain
from tests.contract import shows
from tests.support.leaks import nothing_left
from tests.support.patience import patience

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="nothing")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    with nothing_left():
        reading, writing = os.pipe()
        yield reading, writing


def test_a_callback_that_blocks_holds_up_nobody_else(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    entered, go_on = threading.Event(), threading.Event()
    lines: list[str] = []

    def callback(line: str) -> None:
        lines.append(line)
        entered.set()
        assert go_on.wait(patience(20))

    kept = LineCallback(callback)
    drain = StderrDrain(reading, tail_bytes=10, on_line=kept, name="hackamore-test")
    drain.start()
    os.write(writing, b"first\n")
    assert entered.wait(patience(10))
    for _ in range(40):
        os.write(writing, b"x" * 99_999 + b"\n")  # far more than a pipe holds
    os.write(writing, b"last one")
    drain.finish()
    assert drain.tail == b"x\nlast one"
    assert not drain.calls_done(0)
    go_on.set()
    assert drain.calls_done(10)
    assert lines[0] == "first"
    assert lines[-1] == "last one"
    os.close(writing)


def test_a_callback_far_behind_gets_the_first_lines_and_the_log_the_number(
    pipe: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    reading, writing = pipe
    go_on = threading.Event()
    lines: list[str] = []

    def callback(line: str) -> None:
        assert go_on.wait(patience(20))
        lines.append(line)

    kept = LineCallback(callback)
    drain = StderrDrain(reading, tail_bytes=10, on_line=kept, name="hackamore-test", waiting_lines=5)
    os.write(writing, b"".join(b"%d\n" % number for number in range(100)))
    drain.start()
    drain.finish()
    go_on.set()
    assert drain.calls_done(10)
    assert lines[:5] == ["0", "1", "2", "3", "4"]
    assert len(lines) < 10
    assert f"{100 - len(lines)} lines of stderr did not reach the callback" in caplog.text
    os.close(writing)


def test_a_line_that_never_ends_is_passed_on_in_parts(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    lines: list[str] = []
    kept = LineCallback(lines.append)
    drain = StderrDrain(reading, tail_bytes=10, on_line=kept, name="hackamore-test")
    drain.start()
    for number in range(5):
        os.write(writing, b"%d" % number * 60_000)
    os.write(writing, b"\nlast\r\n")
    os.close(writing)
    drain.finish()
    assert drain.calls_done(10)
    assert "".join(lines) == "".join(str(number) * 60_000 for number in range(5)) + "last"
    assert lines[-1] == "last"
    assert all(len(line) < 140_000 for line in lines)


def test_it_runs_with_the_variables_of_its_maker(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    seen: list[str] = []
    VARIABLE.set("mine")
    kept = LineCallback(lambda line: seen.append(VARIABLE.get()))
    VARIABLE.set("later")
    drain = StderrDrain(reading, tail_bytes=10, on_line=kept, name="hackamore-test")
    drain.start()
    os.write(writing, b"line\n")
    os.close(writing)
    drain.finish()
    assert drain.calls_done(10)
    assert seen == ["mine"]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_lines_follow_whatever_the_callback_raises(
    pipe: tuple[int, int], caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    reading, writing = pipe
    lines: list[str] = []

    def callback(line: str) -> None:
        lines.append(line)
        raise error

    kept = LineCallback(callback)
    drain = StderrDrain(reading, tail_bytes=10, on_line=kept, name="hackamore-test")
    drain.start()
    os.write(writing, b"one\ntwo\n")
    os.close(writing)
    drain.finish()
    assert drain.calls_done(10)
    assert lines == ["one", "two"]
    assert caplog.text.count("the stderr callback raised") == 2


def test_nothing_here_keeps_the_callback_alive(pipe: tuple[int, int]) -> None:
    reading, writing = pipe

    class Owner:
        def log(self, line: str) -> None:
            raise AssertionError

    owner = Owner()
    kept = LineCallback(owner.log)
    drain = StderrDrain(reading, tail_bytes=10, on_line=kept, name="hackamore-test")
    drain.start()
    gone = weakref.ref(owner)
    del owner, kept
    gc.collect()
    assert gone() is None
    os.write(writing, b"line\n")
    os.close(writing)
    drain.finish()
    assert drain.calls_done(10)
    assert drain.tail == b"line\n"


@shows("process.stderr-drained")
def test_a_flood_does_not_keep_it_from_ending(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    stop = threading.Event()

    def flood() -> None:
        os.set_blocking(writing, False)
        while not stop.is_set():
            try:
                os.write(writing, b"y" * 65_536)
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return

    thread = threading.Thread(target=flood)
    drain = StderrDrain(reading, tail_bytes=10, on_line=None, name="hackamore-test")
    os.write(writing, b"y" * 10)
    thread.start()
    drain.start()
    drain.finish()
    stop.set()
    thread.join(patience(10))
    assert drain.tail == b"y" * 10
    os.close(writing)


def test_a_stderr_that_ends_while_its_start_goes_on_is_forgotten() -> None:
    class Ending:
        def __init__(self) -> None:
            self.over = threading.Event()
            self.descriptor, writing = os.pipe()
            os.close(writing)

        def read(self) -> None:
            reaper.unwatch(self.descriptor)
            os.close(self.descriptor)
            self.over.set()

    first, second = Ending(), Ending()

    def slowly(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is Reaper.watch.__code__ and event == "line":
            second.over.wait(0.05)
        return slowly

    with nothing_left():
        reaper.watch(first.descriptor, first)
        assert first.over.wait(patience(10))  # the thread waits in its selector from now on
        before = sys.gettrace()
        sys.settrace(slowly)
        try:
            reaper.watch(second.descriptor, second)
        finally:
            sys.settrace(before)
        assert second.over.wait(patience(10))
