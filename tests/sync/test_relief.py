"""While the reading thread of a blocking session runs a callback, exactly one thread reads on: itself afterwards, or another one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest

from bridle.sync.relief import TICK_SECONDS, Relief
from tests.support.inside import watch_of
from tests.support.patience import patience

SECONDS = 20


class Reading:
    """Threads, and what they were asked to do."""

    def __init__(self) -> None:
        self.relief = Relief(self.run, self.read_on)
        self.threads: list[threading.Thread] = []
        self.readers: list[threading.Thread | None] = []
        self.begun = threading.Semaphore(0)
        self.refused = False

    def run(self, function: Callable[[], None]) -> None:
        if self.refused:
            raise RuntimeError("can't start new thread")
        thread = threading.Thread(target=function)
        self.threads.append(thread)
        thread.start()

    def read_on(self) -> None:
        self.readers.append(threading.current_thread())
        self.begun.release()

    def wait(self) -> None:
        assert self.begun.acquire(timeout=SECONDS)

    def nothing(self) -> None:
        """Run a quick callback; a machine that is busy elsewhere may make it a slow one."""
        while self.relief.call(lambda: None):
            self.wait()

    def close(self) -> None:
        self.relief.close()
        for thread in (*self.threads, *watching()):
            thread.join(patience(SECONDS))
            assert not thread.is_alive()


def watching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "bridle-relief"]


@pytest.fixture
def reading() -> Reading:
    for thread in watching():  # of a session that has just ended
        thread.join(patience(SECONDS))
    return Reading()


def test_quick_ones_need_nobody(reading: Reading) -> None:
    ran: list[int] = []
    for number in range(1000):
        if reading.relief.call(lambda number=number: ran.append(number)):  # type: ignore[misc]
            reading.wait()
    assert ran == list(range(1000))
    assert len(reading.readers) < 500
    reading.close()


def test_a_slow_one_is_relieved_and_the_next_at_once(reading: Reading) -> None:
    for _ in range(3):
        assert reading.relief.call(reading.wait)  # it waits for whoever reads on
    assert len(set(reading.readers)) == 3
    assert threading.current_thread() not in reading.readers
    reading.nothing()
    reading.close()


def test_whoever_looks_sleeps_when_no_callbacks_come_and_wakes_for_the_next(reading: Reading) -> None:
    clock = threading.Event()
    for _ in range(3):
        reading.nothing()
        watch = watch_of(reading.relief)
        assert watch is not None
        until = time.monotonic() + patience(SECONDS)
        while not watch.asleep and time.monotonic() < until:
            clock.wait(0.01)
        assert watch.asleep
        assert reading.relief.call(reading.wait)
    reading.close()


def test_one_looks_after_all_and_ends_with_the_last(reading: Reading) -> None:
    several = [reading, *(Reading() for _ in range(4))]
    for each in several:
        each.nothing()
    assert len(watching()) == 1
    for each in several[1:]:
        each.relief.close()
    assert several[0].relief.call(several[0].wait)
    several[0].close()
    assert watching() == []
    again = Reading()
    assert again.relief.call(again.wait)
    again.close()


def test_without_a_thread_nothing_is_run_that_may_be_slow(reading: Reading) -> None:
    ran: list[int] = []

    assert reading.relief.call(reading.wait)
    reading.refused = True
    for _ in range(2):
        with pytest.raises(RuntimeError, match="new thread"):
            reading.relief.call(lambda: ran.append(1))
    assert not ran
    reading.refused = False
    reading.nothing()
    # A callback that runs already is not relieved, and is read on after.
    reading.refused = True
    clock = threading.Event()

    def slow() -> None:
        clock.wait(20 * TICK_SECONDS)

    assert not reading.relief.call(slow)
    reading.close()


def test_closing_twice_and_before_anything(reading: Reading) -> None:
    reading.close()
    reading.close()
    assert not reading.threads
    assert not watching()


@pytest.mark.parametrize("seed", range(5))
def test_there_is_always_exactly_one_who_reads_on(reading: Reading, seed: int) -> None:
    choice = random.Random(seed)
    clock = threading.Event()
    relieved = 0

    def take(seconds: float) -> None:
        clock.wait(seconds)

    for _ in range(100):
        seconds = choice.choice([0, 0, 0, choice.uniform(0, 3 * TICK_SECONDS)])
        if reading.relief.call(lambda seconds=seconds: take(seconds)):  # type: ignore[misc]
            relieved += 1
            reading.wait()
        assert len(reading.readers) == relieved
    reading.close()
