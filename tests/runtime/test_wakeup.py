"""A flag that wakes a waiter: on Linux a descriptor that counts, elsewhere a pipe. Threads may raise, clear and close it at any moment."""

from __future__ import annotations

import os
import select
import threading

import pytest

from hackamore.runtime.threads import Wakeup
from tests.support.leaks import nothing_left


def raised(wakeup: Wakeup) -> bool:
    return bool(select.select([wakeup], [], [], 0)[0])


@pytest.fixture(params=["eventfd", "pipe"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)


@pytest.mark.usefixtures("kind")
def test_a_flag_stays_raised_until_it_is_cleared_and_never_blocks() -> None:
    with nothing_left():
        wakeup = Wakeup()
        assert not os.get_inheritable(wakeup.fileno())
        for times in (0, 1, 3, 10_000):  # more than a pipe holds
            for _ in range(times):
                wakeup.set()
            assert raised(wakeup) is (times > 0)
            for _ in range(1 + times // 100):
                wakeup.clear()
            assert not raised(wakeup)
        wakeup.close()


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="a pipe has two")
def test_a_flag_takes_one_descriptor() -> None:
    """The limit of descriptors is that of sessions."""
    before = len(os.listdir("/proc/self/fd"))
    wakeups = [Wakeup() for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before + 50
    for wakeup in wakeups:
        wakeup.close()


@pytest.mark.usefixtures("kind")
def test_a_program_without_stdin_has_flags_too() -> None:
    """There the first descriptor that is free is 0."""
    kept = os.dup(0)
    try:
        os.close(0)
        wakeup = Wakeup()
        assert wakeup.fileno() == 0
        wakeup.set()
        assert raised(wakeup)
        wakeup.clear()
        assert not raised(wakeup)
        wakeup.close()
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(0)
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def test_what_is_written_never_goes_to_whoever_has_the_descriptor_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The eight bytes of a flag in the pipe in which `Popen` waits for the error of a start made that wait for ever."""
    wakeup = Wakeup()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    write = os.write
    closer = threading.Thread(target=wakeup.close)
    others: list[int] = []

    def interrupted_write(descriptor: int, data: bytes) -> int:
        closer.start()
        closer.join(0.3)
        others.append(os.dup(writing))  # the lowest number that is free
        return write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted_write)
        wakeup.set()
    closer.join()
    with pytest.raises(BlockingIOError):
        os.read(reading, 100)
    for descriptor in (reading, writing, *others):
        os.close(descriptor)


@pytest.mark.usefixtures("kind")
def test_a_closed_flag_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.clear()
    wakeup.close()
    touched: list[object] = []
    with monkeypatch.context() as patch:
        for name in ("read", "write", "close"):
            patch.setattr(os, name, lambda *given: touched.append(given))
        wakeup.close()
        wakeup.set()
        wakeup.clear()
    assert touched == []
    assert wakeup.fileno() == -1
