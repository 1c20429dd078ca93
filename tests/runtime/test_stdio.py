"""The standard streams as a connection: what is read and written, and when; nothing is lost, and nothing stays open."""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from hackamore.runtime.stdio import Pipes, standard_streams
from tests.support.leaks import nothing_left
from tests.support.patience import patience


class Peer:
    """The other ends of two pipes, and an event loop that a test turns by hand."""

    def __init__(self, source: int | None = None) -> None:
        reading, self.into = os.pipe()
        self.out_of, writing = os.pipe()
        if source is not None:
            os.close(reading)
        self.ends = {self.into, self.out_of}
        self.ended = False
        self.said: list[object] = []
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.pipes = Pipes(
            reading if source is None else source,
            writing,
            self,  # type: ignore[arg-type]
            received=self.said.append,
            written=lambda: self.said.append("written"),
            lost=lambda: self.said.append("lost"),
        )
        (self.thread,) = (thread for thread in threading.enumerate() if thread.name == "hackamore-stdio")

    def post(self, function: Callable[[], None]) -> bool:
        self._posted.put(function)
        return not self.ended

    def turn(self) -> object:
        """Let the event loop run what comes next."""
        self._posted.get(timeout=patience(20))()
        return self.said[-1]

    def shut(self, descriptor: int) -> None:
        self.ends.discard(descriptor)
        os.close(descriptor)

    def close(self) -> None:
        self.pipes.close()
        self.thread.join(patience(20))
        assert not self.thread.is_alive()
        for descriptor in self.ends:
            os.close(descriptor)


@pytest.fixture
def peers() -> Iterator[Callable[..., Peer]]:
    made: list[Peer] = []

    def make(**more: Any) -> Peer:
        made.append(Peer(**more))
        return made[-1]

    with nothing_left():
        yield make
        for peer in made:
            peer.close()


def test_each_read_waits_until_the_one_before_was_taken(peers: Callable[..., Peer]) -> None:
    peer = peers()
    assert peer.thread.daemon
    os.write(peer.into, b"one")
    assert peer.turn() == b"one"
    os.write(peer.into, b"two")
    for _ in range(2):  # it writes meanwhile
        peer.pipes.write(b"answer")
        assert peer.turn() == "written"
        assert os.read(peer.out_of, 100) == b"answer"
    os.write(peer.into, b"three")
    peer.pipes.read_on()
    assert peer.turn() == b"twothree"
    peer.pipes.read_on()
    peer.shut(peer.into)
    assert peer.turn() == b""


def test_a_source_that_cannot_be_read_has_ended(peers: Callable[..., Peer], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    assert peers(source=os.open("/", os.O_RDONLY)).turn() == b""
    assert [record.getMessage() for record in caplog.records] == ["stdin cannot be read: [Errno 21] Is a directory"]


def test_what_is_written_arrives_whole_however_slowly_it_is_read(peers: Callable[..., Peer]) -> None:
    peer = peers()
    data = os.urandom(300_000)
    assert not peer.pipes.writing
    peer.pipes.write(data)
    assert peer.pipes.writing
    os.write(peer.into, b"more")
    assert peer.turn() == b"more"  # it is read meanwhile
    read = b""
    while len(read) < len(data):
        read += os.read(peer.out_of, 65_536)
    assert read == data
    assert peer.turn() == "written"
    assert not peer.pipes.writing


def test_a_reader_that_is_gone_is_told_once(peers: Callable[..., Peer], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    peer = peers()
    peer.shut(peer.out_of)
    peer.pipes.write(b"answer")
    assert peer.turn() == "lost"
    assert not peer.pipes.writing
    assert [record.getMessage() for record in caplog.records] == ["stdout cannot be written: [Errno 32] Broken pipe"]
    for text in (b"one", b"two"):  # it is read on, and nothing is written
        peer.pipes.read_on()
        os.write(peer.into, text)
        assert peer.turn() == text


def test_the_end_waits_for_no_reader(peers: Callable[..., Peer]) -> None:
    peer = peers()
    peer.pipes.write(b"x" * 1_000_000)
    while not select.select([peer.out_of], [], [], 0)[0]:
        pass
    peer.pipes.close()
    peer.thread.join(patience(20))
    assert not peer.thread.is_alive()
    assert len(os.read(peer.out_of, 1_000_000)) < 1_000_000


@pytest.mark.parametrize("moment", ["received", "written", "lost"])
def test_it_ends_with_its_event_loop(peers: Callable[..., Peer], moment: str) -> None:
    peer = peers()
    peer.ended = True
    if moment == "received":
        os.write(peer.into, b"one")
    else:
        if moment == "lost":
            peer.shut(peer.out_of)
        peer.pipes.write(b"answer")
    peer.thread.join(patience(20))
    assert not peer.thread.is_alive()


def test_the_standard_streams_are_taken_by_one_and_given_back() -> None:
    before = {number: os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)}
    with nothing_left(), standard_streams() as (source, target):
        assert [os.readlink(f"/proc/self/fd/{number}") for number in (source, target)] == [before[0], before[1]]
        assert os.readlink("/proc/self/fd/1") == before[2]  # `os.write`, and children
        assert sys.stdout is sys.stderr  # `print`
        assert os.read(0, 1) == b""
        with pytest.raises(RuntimeError, match="serve another tool server already"), standard_streams():
            raise AssertionError
        os.close(source)
        os.close(target)
    assert {number: os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)} == before
    assert sys.stdout is not sys.stderr
    with standard_streams() as descriptors:  # a second time
        for descriptor in descriptors:
            os.close(descriptor)


@pytest.mark.parametrize("closed", [0, 1])
def test_streams_that_are_closed_are_an_error_and_stay_free(closed: int) -> None:
    with nothing_left():
        kept = os.dup(closed)
        os.close(closed)
        try:
            for _ in range(2):
                with pytest.raises(OSError, match="Bad file descriptor"), standard_streams():
                    raise AssertionError
        finally:
            os.dup2(kept, closed)
            os.close(kept)


def test_without_stderr_what_is_printed_goes_nowhere() -> None:
    kept = os.dup(2)
    os.close(2)
    try:
        with standard_streams() as descriptors:
            place = os.readlink("/proc/self/fd/1")
            for descriptor in descriptors:
                os.close(descriptor)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    assert place == os.devnull
