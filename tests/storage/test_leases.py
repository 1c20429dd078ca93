"""Signs of holders: the thread that sends them, and how long they are silent for an observer."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from hackamore.storage.holders import holder_name
from hackamore.storage.leases import Heart, Sightings, sign
from tests.support.patience import patience

NAME = "hackamore-heart"
ELSEWHERE = "machine|boot|space|1|1|abc"
SOON = 0.005


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    assert threads() == []
    yield
    assert threads() == []


class Beats:
    """Counts beats.

    Args:
        also: called with the number of each.
    """

    def __init__(self, also: Callable[[int], object] = lambda _: None) -> None:
        self._numbers = count(1)
        self._also = also
        self._come = threading.Semaphore(0)
        self.number = 0
        self.needed = True

    def beat(self) -> None:
        self.number = next(self._numbers)
        self._come.release()
        self._also(self.number)

    def wait(self, more: int) -> None:
        for _ in range(more):
            assert self._come.acquire(timeout=patience(30)), f"no beat after {self.number}"

    def heart(self, seconds: float = SOON) -> Heart:
        return Heart(seconds, self.beat, lambda: self.needed)


@contextmanager
def stopped_in_a_beat() -> Iterator[tuple[Beats, Heart]]:
    """Stop a heart in the middle of its first beat, which then ends, and the thread too."""
    go = threading.Event()

    def wait(_: int) -> None:
        assert go.wait(patience(30))

    beats = Beats(wait)
    heart = beats.heart()
    heart.start()
    beats.wait(1)
    assert heart.stop()
    yield beats, heart
    go.set()
    heart.join()


def end(heart: Heart) -> None:
    assert heart.stop()
    heart.join()


def test_a_heart_beats_in_one_thread_until_it_is_stopped() -> None:
    beats = Beats()
    heart = beats.heart()
    assert threads() == []
    for _ in range(3):
        heart.start()
        assert [thread.daemon for thread in threads()] == [True]  # it keeps no program from ending
    beats.wait(3)
    end(heart)
    assert threads() == []
    number = beats.number
    heart.start()  # after the stop it stays still
    assert threads() == []
    assert not heart.stop()
    heart.join()
    assert beats.number == number


def test_a_stop_is_followed_by_one_more_beat() -> None:
    beats = Beats()
    heart = beats.heart(3600.0)
    heart.start()
    end(heart)
    assert beats.number == 1


def test_a_heart_that_never_began_is_stopped() -> None:
    beats = Beats()
    heart = beats.heart()
    assert not heart.stop()
    heart.start()
    heart.join()
    assert (threads(), beats.number) == ([], 0)


def test_a_heart_that_is_not_needed_rests_and_begins_again() -> None:
    beats = Beats()
    heart = beats.heart()
    for number in (1, 2):
        beats.needed = False
        heart.start()
        heart.join()
        assert (threads(), beats.number) == ([], number)
    beats.needed = True
    heart.start()
    beats.wait(4)
    end(heart)


def test_a_stop_while_it_beats_does_not_wait_and_one_more_beat_follows() -> None:
    with stopped_in_a_beat() as (beats, heart):
        assert heart.stop()
        heart.start()  # the thread of before still runs, and is the only one
        assert len(threads()) == 1
    assert (threads(), beats.number) == ([], 2)


def test_a_stop_inside_a_beat() -> None:
    """As a finalizer calls it, in whatever thread the garbage collector runs."""
    beats = Beats(lambda number: number == 2 and heart.stop())
    heart = beats.heart()
    heart.start()
    heart.join()
    assert (threads(), beats.number) == ([], 3)


@pytest.mark.parametrize("needed", [True, False])
def test_a_heart_that_was_stopped_keeps_nothing_of_its_owner(needed: bool) -> None:
    with stopped_in_a_beat() as (beats, _heart):
        beats.needed = needed  # by the beat that runs
    owner = weakref.ref(beats)
    gc.disable()
    try:
        del beats
        assert owner() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [OSError("no space"), SystemExit(1)])
def test_a_beat_that_fails_is_followed_by_others(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def fail(number: int) -> None:
        if number == 2:
            raise error

    beats = Beats(fail)
    heart = beats.heart()
    heart.start()
    beats.wait(4)
    end(heart)
    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "A heartbeat failed")
    assert vars(record)["code"] == "HEARTBEAT_FAILED"
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_last_beat_that_fails_ends_the_thread() -> None:
    def fail(_: int) -> None:
        raise OSError("no space")

    heart = Beats(fail).heart(3600.0)
    heart.start()
    end(heart)
    assert not heart.stop()


def test_silence_is_counted_from_the_first_look_at_a_sign() -> None:
    now = 1000.0
    sightings = Sightings()
    sightings.clock = lambda: now
    assert sightings.silence("a", 1) == 0.0
    now += 7
    assert sightings.silence("a", 1) == 7.0
    assert sightings.silence("b", None) == 0.0
    now += 3
    assert (sightings.silence("a", 1), sightings.silence("b", None)) == (10.0, 3.0)
    assert sightings.silence("a", 0) == 0.0  # any other sign is a sign, also a smaller one
    now += 2
    assert sightings.silence("a", 0) == 2.0
    sightings.clear()
    assert sightings.silence("a", 0) == 0.0


def test_the_oldest_sightings_are_forgotten_first() -> None:
    now = 0.0
    sightings = Sightings()
    sightings.clock = lambda: now
    names = [f"holder {number}" for number in range(20_000)]
    for name in names:
        sightings.silence(name, 1)
    sightings.silence(names[-2], 2)
    now = 5.0
    assert [sightings.silence(names[-1], 1), sightings.silence(names[-2], 2)] == [5.0, 5.0]
    assert sightings.silence(names[0], 1) == 0.0


def test_only_a_holder_that_cannot_be_looked_at_is_judged_by_its_signs() -> None:
    now = 0.0
    sightings = Sightings()
    sightings.clock = lambda: now
    mine = holder_name()
    assert not sightings.is_gone(mine, None, 15.0)
    assert not sightings.is_gone(ELSEWHERE, 1, 15.0)
    now = 14.9
    assert not sightings.is_gone(ELSEWHERE, 1, 15.0)
    now = 15.0
    assert sightings.is_gone(ELSEWHERE, 1, 15.0)
    assert not sightings.is_gone(ELSEWHERE, 2, 15.0)
    assert sightings.is_gone(ELSEWHERE, None, 15.0)
    now = 1e9
    assert not sightings.is_gone(mine, 1, 15.0)


def test_a_boot_that_is_over_proves_nothing_where_machines_share_a_database() -> None:
    """Copies of one image have the same machine id, and often the same host name: another boot may be that of a copy, which runs."""
    machine, _, *rest = holder_name().split("|")
    before = "|".join((machine, "before", *rest))
    near, far = Sightings(), Sightings(local=False)
    now = 0.0
    near.clock = far.clock = lambda: now
    assert near.is_gone(before, 1, 15.0) is bool(machine)
    assert not far.is_gone(before, 1, 15.0)
    now = 15.0
    assert far.is_gone(before, 1, 15.0)


def test_a_sign_differs_from_those_before() -> None:
    first = sign()
    until = time.monotonic() + patience(5)
    while sign() == first:
        assert time.monotonic() < until
    assert sign() > first
