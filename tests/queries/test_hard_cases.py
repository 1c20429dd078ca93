"""Races, exhaustion and odd hosts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

import hackamore
import hackamore.sync
from hackamore import ResultMessage
from tests.contract import shows
from tests.support.leaks import alive, nothing_left, open_descriptors, wait_gone
from tests.support.patience import patience
from tests.support.query_fixtures import StandIn
from tests.support.shell import Shell

INIT, ASSISTANT, RESULT = ["frame", "init"], ["frame", "assistant"], ["frame", "result"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_read_loses_nothing(backend: str, playing: StandIn) -> None:
    async def scenario() -> list[object]:
        got: list[object] = []
        async with hackamore.query("hi", playing(INIT, ASSISTANT, RESULT)) as stream:
            with anyio.fail_after(patience(10)):
                while None not in got:
                    await anyio.sleep(0.1)
                    with anyio.CancelScope() as scope:
                        scope.cancel()
                        got.append(await stream.next_item())  # cancelled before it begins: must not lose anything
                    with anyio.move_on_after(0.05):
                        got.append(await stream.next_item())
        return got

    got = anyio.run(scenario, backend=backend)
    assert len(got) == 4, got
    assert isinstance(got[2], ResultMessage)


@pytest.mark.parametrize("shell", ["trio", "threads"], indirect=True)  # asyncio has no running loop in a forked copy
def test_a_forked_copy_can_leave_the_block(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with shell.query("hi", playing(INIT, ["sleep", 20])) as stream:
            await stream.next_item()
            copy = os.fork()
            if copy == 0:
                code = 1
                try:
                    await stream.close()
                    code = 0
                finally:
                    os._exit(code)
            descriptor = os.pidfd_open(copy)
            try:
                assert select.select([descriptor], [], [], 10)[0]
            finally:
                os.close(descriptor)
                os.kill(copy, 9)
                assert os.waitpid(copy, 0)[1] == 0
            assert alive(stream.pid)

    shell.play(scenario)


def test_a_forked_copy_does_not_hold_the_input_open(playing: StandIn) -> None:
    stream = hackamore.sync.query("x" * 300_000, playing(["sleep", 0.3], ["read_prompt"], INIT, ASSISTANT, RESULT))
    stream.start()
    copy = os.fork()
    if copy == 0:
        time.sleep(20)
        os._exit(0)
    try:
        begin = time.monotonic()
        assert len(stream.collect().messages) == 4
        assert time.monotonic() - begin < patience(10)
    finally:
        os.kill(copy, 9)
        os.waitpid(copy, 0)


class Endless:
    """A transport that always has data."""

    pid = None
    stderr_tail = b""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.starts = 0

    def start(self, plan: object) -> None:
        self.starts += 1

    def send(self, data: bytes) -> None:
        pass

    def end_input(self) -> None:
        pass

    def receive(self, timeout: float | None = None) -> bytes:
        return b"" if self.stopped.is_set() else b'{"type":"user"}\n'

    def wait_exit(self, timeout: float | None = None) -> int:
        return 0

    def stop(self, *, turn_open: bool) -> None:
        self.stopped.set()

    def abandon(self) -> None:
        pass


@pytest.fixture
def busy_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("busy_threads")
@pytest.mark.parametrize("how", ["next_item", "for"])
def test_closing_under_a_reader_in_full_flow_is_the_end_and_no_other_error(how: str) -> None:
    errors: list[BaseException] = []
    for _ in range(150):
        stream = hackamore.sync.query("hi", transport=Endless())

        def read(stream: hackamore.sync.QueryStream = stream) -> None:
            try:
                if how == "for":
                    for _ in stream:
                        pass
                else:
                    while stream.next_item() is not None:
                        pass
            except BaseException as error:
                errors.append(error)

        stream.start()
        thread = threading.Thread(target=read)
        thread.start()
        time.sleep(0.001)
        stream.close()
        thread.join(patience(10))
        assert not thread.is_alive()
    assert errors == []


def test_the_turn_has_a_deadline_while_output_is_steady(shell: Shell, playing: StandIn) -> None:
    steps = [step for _ in range(2_000) for step in (ASSISTANT, ["sleep", 0.002])]

    async def scenario() -> None:
        begin = time.monotonic()
        stream = shell.query("hi", playing(*steps, RESULT, timeouts=hackamore.Timeouts(turn=0.5)))
        error = (await stream.collect()).terminal_error
        assert isinstance(error, hackamore.TurnTimeoutError)
        assert time.monotonic() - begin < patience(3)

    shell.play(scenario)


class WithoutStatus:
    """An async transport whose peer has no exit status."""

    pid = None
    stderr_tail = b""

    def __init__(self, *reads: bytes) -> None:
        self.reads = list(reads)

    async def start(self, plan: object) -> None:
        pass

    async def send(self, data: bytes) -> None:
        pass

    async def end_input(self) -> None:
        pass

    async def receive(self) -> bytes:
        return self.reads.pop(0) if self.reads else b""

    async def wait_exit(self) -> None:
        return None

    async def stop(self, *, turn_open: bool) -> None:
        pass

    def abandon(self) -> None:
        pass


def test_a_peer_without_an_exit_status_ends_well_and_at_once() -> None:
    async def scenario() -> None:
        transport = WithoutStatus(b'{"type":"result","subtype":"success","is_error":false,"result":"x"}\n')
        begin = time.monotonic()
        collected = await hackamore.query("hi", transport=transport).collect()
        assert time.monotonic() - begin < patience(1)
        assert len(collected.messages) == 1
        assert collected.warnings == []

    anyio.run(scenario)


@shows("process.descendants")
def test_after_a_crash_nothing_survives_even_with_a_result(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    mark = tmp_path / "pid"

    async def scenario() -> None:
        await shell.query("hi", playing(INIT, ["grandchild", 60, str(mark), True], RESULT, ["die", 9])).collect()
        assert wait_gone(int(mark.read_text()))

    shell.play(scenario)


@contextlib.contextmanager
def free_descriptors(free: int) -> Iterator[None]:
    """Leave so many descriptors that can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(open_descriptors()) + 30, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(free):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


@shows("process.start")
@pytest.mark.parametrize("free", range(20))
def test_descriptors_run_out_at_every_moment_of_a_start(free: int, playing: StandIn) -> None:
    query = partial(hackamore.sync.query, "hi", playing(INIT, ASSISTANT, RESULT))
    assert len(query().collect().messages) == 3  # with everything imported
    with nothing_left(), free_descriptors(free):
        if free < 6:  # fewer than the pipes need
            with pytest.raises(hackamore.SpawnError):
                query().collect()
        else:
            with contextlib.suppress(hackamore.SpawnError):
                assert len(query().collect().messages) == 3
    assert len(query().collect().messages) == 3


@pytest.mark.parametrize("name", ["hackamore-reaper", "hackamore-stderr"])
def test_no_thread_can_be_started(name: str, playing: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith(name):
            raise RuntimeError("can't start new thread")
        real(thread)

    with nothing_left():
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(hackamore.SpawnError, match="can't start new thread"):
            hackamore.sync.query("hi", playing(INIT, ASSISTANT, RESULT, stderr=print)).collect()
        monkeypatch.undo()
    assert len(hackamore.sync.query("hi", playing(INIT, ASSISTANT, RESULT)).collect().messages) == 3


def test_a_signal_handler_may_close_in_the_middle_of_a_read(playing: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = hackamore.sync.query("hi", playing(INIT, ["sleep", 20]))
    assert stream.next_item() is not None
    real = os.read
    before = signal.signal(signal.SIGUSR1, lambda *_: stream.close())

    def read(descriptor: int, size: int) -> bytes:
        if threading.current_thread() is threading.main_thread():
            monkeypatch.undo()
            signal.raise_signal(signal.SIGUSR1)  # with the child's lock held
        return real(descriptor, size)

    monkeypatch.setattr(os, "read", read)
    try:
        assert stream.next_item() is None
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_closing_ends_a_start_that_is_under_way(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    async def scenario() -> None:
        options = playing(
            INIT, version_check="strict", env={"STAND_IN_VERSION": "hang", "XDG_CACHE_HOME": str(tmp_path)}
        )
        stream = shell.query("hi", options)

        async def close() -> None:
            until = time.monotonic() + 0.3
            while time.monotonic() < until:
                await shell.let_others_run()
            await stream.close()

        begin = time.monotonic()
        read, _ = await shell.meanwhile(stream.next_item, close)
        assert read is None
        assert time.monotonic() - begin < patience(5)

    shell.play(scenario)


def test_cancelling_twice_still_waits_for_the_end(playing: StandIn) -> None:
    async def scenario() -> None:
        options = playing(["ignore_term"], INIT, ["sleep", 30], timeouts=hackamore.Timeouts(kill_grace=0.5))
        stream = hackamore.query("hi", options)
        await stream.next_item()
        pid = stream.pid
        task = asyncio.create_task(stream.aclose())
        for _ in range(2):
            await asyncio.sleep(0.1)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert pid is not None
        assert not alive(pid)

    asyncio.run(scenario())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("waiting", [0.001, 0.02, 0.2])
def test_a_start_that_is_cancelled_goes_on_with_the_next_call(
    backend: str, waiting: float, playing: StandIn, tmp_path: Path
) -> None:
    async def scenario() -> None:
        options = playing(INIT, ASSISTANT, RESULT, version_check="strict", env={"XDG_CACHE_HOME": str(tmp_path)})
        stream = hackamore.query("hi", options)
        got: list[object] = []
        with anyio.fail_after(patience(20)):
            while None not in got:
                if backend == "asyncio":
                    with contextlib.suppress(TimeoutError):
                        got.append(await asyncio.wait_for(stream.next_item(), waiting))
                else:
                    with anyio.move_on_after(waiting):
                        got.append(await stream.next_item())
        assert len(got) == 4, got

    anyio.run(scenario, backend=backend)
