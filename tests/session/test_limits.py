"""Starts that run out of threads or descriptors: a typed error that says what to do, and nothing is left."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
from typing import TYPE_CHECKING

import pytest

from hackamore.errors import SpawnError, StartError
from hackamore.transports.process.reaper import reaper
from hackamore.transports.process.spawn import spawn_error
from tests.contract import shows
from tests.support.leaks import open_descriptors
from tests.support.talking import Running, got, make, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.session_fixtures import StandIn
    from tests.support.shell import Shell


@contextlib.contextmanager
def threads_left(count: int) -> Iterator[list[int]]:
    """Let so many threads of the library start, and refuse the next one as Python does; give how many were wanted."""
    real, wanted = threading.Thread.start, [0]

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("hackamore"):
            wanted[0] += 1
            if wanted[0] == count + 1:
                raise RuntimeError("can't start new thread")
        real(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield wanted


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Leave so many descriptors that can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(open_descriptors()) + 30, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(count):
            os.close(taken.pop())
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def start_error(shell: Shell, playing: StandIn) -> StartError | None:
    """Start a session and stop it; return the error of the start, if it is a typed one."""
    session = make(shell, playing())
    try:
        await got(session.start())
    except StartError as error:
        return error
    finally:
        await got(session.stop())
    return None


async def works(shell: Shell, playing: StandIn) -> None:
    async with Running(shell, playing()) as session:
        assert await texts(await got(session.send("hi"))) == ["hi"]


@shows("process.limits")
def test_a_limit_of_threads_is_a_typed_start_error(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        await works(shell, playing)
        refused = 0
        while True:
            reaper.retire()  # no thread of an earlier start is left to be used again
            with threads_left(refused) as wanted:
                error = await start_error(shell, playing)
            if error is None:
                assert wanted[0] <= refused
                break
            assert isinstance(error, SpawnError)
            assert "can't start new thread. The limit of threads and processes is reached" in str(error)
            assert "ulimit -u" in str(error)
            refused += 1
        assert refused, "no start needed a thread"
        await works(shell, playing)

    shell.play(scenario)


@shows("process.limits")
@pytest.mark.parametrize("free", range(0, 16, 3))
def test_a_limit_of_descriptors_is_a_typed_start_error(shell: Shell, playing: StandIn, free: int) -> None:
    async def scenario() -> None:
        await works(shell, playing)
        with descriptors_left(free):
            error = await start_error(shell, playing)
        if free < 6:  # fewer than the pipes need
            assert error is not None
        if error is not None:
            assert isinstance(error, SpawnError)
            assert error.errno == errno.EMFILE
            assert "ulimit -n" in str(error)
        await works(shell, playing)

    shell.play(scenario)


@shows("process.limits")
@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EMFILE, "ulimit -n"),
        (errno.ENFILE, "too many open files"),
        (errno.EAGAIN, "ulimit -u"),
        (errno.ENOMEM, "Memory"),
    ],
)
def test_each_limit_of_the_operating_system_has_its_hint(number: int, hint: str) -> None:
    """A process limit, for example, is EAGAIN of `fork`."""
    error = spawn_error("/bin/claude", None, OSError(number, os.strerror(number)))
    assert error.errno == number
    assert hint in str(error)
