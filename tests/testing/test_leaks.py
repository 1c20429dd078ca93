"""`no_leaks` outside of pytest: what is left is named, what ends by itself is waited for."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from typing import Any

import anyio
import pytest

import hackamore
import hackamore.sync
from hackamore.testing import LeakError, Script, SimulatedCLI, no_leaks
from hackamore.testing.leaks import Snapshot
from tests.contract import shows
from tests.support.query_fixtures import StandIn, playing, shell, stand_in_path
from tests.support.shell import Shell
from tests.support.talking import got

__all__ = ["playing", "shell", "stand_in_path"]

BACKENDS: list[Any] = ["asyncio", "trio"]


def test_nothing_is_nothing() -> None:
    with no_leaks():
        hackamore.sync.run("Hi", transport=SimulatedCLI(Script().user().says("Hello.")))


def test_everything_is_named() -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="forgotten")
    descriptor = -1
    process: subprocess.Popen[bytes] | None = None
    try:
        with pytest.raises(LeakError) as caught, no_leaks(seconds=0.05):
            thread.start()
            descriptor = os.open(os.devnull, os.O_RDONLY)
            secret = "--settings={'apiKey': 'sk-ant-1234'}"
            process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", secret, "my prompt"])
    finally:
        release.set()
        thread.join()
        os.close(descriptor)
        assert process is not None
        process.kill()
        process.wait()
    assert [leak.kind for leak in caught.value.leaks] == ["process", "thread", "descriptor"]
    text = str(caught.value)
    assert f"process {process.pid}: python" in text
    assert "thread 'forgotten'" in text
    assert f"descriptor {descriptor}: {os.devnull}" in text
    assert "sk-ant" not in text
    assert "prompt" not in text.partition("\nLeave sessions")[0]


def test_what_ends_by_itself_is_waited_for() -> None:
    with no_leaks(seconds=20):
        threading.Thread(target=threading.Event().wait, args=(0.1,)).start()


def test_a_session_that_is_not_left_is_noticed(playing: StandIn) -> None:
    stream = hackamore.sync.query("go", playing(["frame", "init"], ["sleep", 60]))
    try:
        with pytest.raises(LeakError) as caught, no_leaks(seconds=0.05):
            next(stream)
    finally:
        stream.close()
    assert {"process", "descriptor"} <= {leak.kind for leak in caught.value.leaks}
    with no_leaks(seconds=20):
        pass


@shows("testing.leaks")
def test_a_forgotten_session_is_named_by_the_line_that_created_it(shell: Shell) -> None:
    """With a transport in memory: there is no process that would tell."""
    transport = SimulatedCLI(Script().user().says("Hello."))

    async def scenario() -> None:
        session: Any
        with pytest.raises(LeakError) as caught:
            if shell.blocking:
                with no_leaks(seconds=0.05):
                    session, line = hackamore.sync.Session(transport=transport), here()
                    session.start()
            else:
                async with no_leaks(seconds=0.05):
                    session, line = hackamore.Session(transport=transport), here()
                    await session.start()
        await got(session.stop())
        [leak] = [leak for leak in caught.value.leaks if "session" in str(leak)]
        assert f"hackamore{'-' if shell.blocking else ' '}session, created at test_leaks.py:{line}'" in str(leak)

    shell.play(scenario)


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_an_error_is_not_replaced() -> None:
    descriptors: list[int] = []
    with pytest.raises(ZeroDivisionError) as caught, no_leaks(seconds=0.05):
        descriptors.append(os.open(os.devnull, os.O_RDONLY))
        raise ZeroDivisionError
    os.close(descriptors[0])
    assert "left 1 thing(s) behind" in caught.value.__notes__[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_tasks_are_named(backend: Any) -> None:
    async def poll() -> None:
        await anyio.sleep(60)

    async def scenario() -> None:
        async with no_leaks(), anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0)
        async with anyio.create_task_group() as group:
            with pytest.raises(LeakError) as caught:
                async with no_leaks(seconds=0.05):
                    group.start_soon(poll, name="poller")
            assert [leak.kind for leak in caught.value.leaks] == ["task"]
            assert "poll" in str(caught.value)
            group.cancel_scope.cancel()

    anyio.run(scenario, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_query_in_a_loop_leaves_nothing(backend: Any, playing: StandIn) -> None:
    async def scenario() -> None:
        async with no_leaks(seconds=20):
            await hackamore.run("go", playing(["frame", "init"], ["frame", "result"]))

    anyio.run(scenario, backend=backend)


def test_what_is_allowed_stays() -> None:
    before = Snapshot()
    descriptor = os.open(os.devnull, os.O_RDONLY)
    assert [leak.kind for leak in before.left(0)] == ["descriptor"]
    assert before.left(0, lambda leak: os.devnull in leak.name) == []
    os.close(descriptor)
    assert before.left(0) == []
