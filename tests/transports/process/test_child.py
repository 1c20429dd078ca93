"""A child process without a shell around it: starts that break off, and waking."""

from __future__ import annotations

import os
import resource
import secrets
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from bridle.errors import SpawnError
from bridle.launch import LaunchPlan
from bridle.transports.process.child import Child
from bridle.transports.process.processes import CHILD_ID_VARIABLE
from bridle.transports.process.stderr import StderrDrain
from bridle.transports.process.subprocess_async import AsyncChildProcess
from tests.contract import shows
from tests.support.leaks import nothing_left, wait_gone
from tests.support.patience import patience


def plan(code: str) -> LaunchPlan:
    return LaunchPlan(
        argv=(sys.executable, "-I", "-S", "-c", code),
        environment={CHILD_ID_VARIABLE: secrets.token_hex(16)},  # processes of other tests that run now have others
        cwd=None,
        stdin=b"",
        user=None,
        initialize={},
        warnings=(),
        owners=("",) * 5,
        program_length=1,
    )


def start(code: str, **more: Any) -> Child:
    child = Child(plan(code), **{"stop_grace": 5.0, "kill_grace": 5.0, "stderr_tail_bytes": 100, **more})
    child.start()
    return child


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.mark.parametrize("size", [0, 1, 100, 1_000])
def test_a_secret_that_the_limit_of_stderr_cuts_is_not_shown(size: int) -> None:
    key = "sk-ant-" + "0123456789" * 9
    code = f"import sys; sys.stderr.write('a line\\n' * 2000 + '{key}' + '.' * 40)"
    child = start(code, stderr_tail_bytes=size, stop_grace=patience(10))
    child.stop(turn_open=False)
    assert child.done.wait(patience(10))
    tail = child.stderr_tail
    assert len(tail) == size
    assert tail.endswith(b"<masked>........................................"[-size:] if size else b"")
    assert b"0123456789" not in tail


@shows("process.start")
def test_a_start_that_runs_out_of_descriptors_leaves_nothing() -> None:
    """Whichever descriptor is the one too many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    failures = started = 0
    for room in range(1, 30):
        with nothing_left():
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + room, hard))
            try:
                child = start("import time; time.sleep(60)")
            except (SpawnError, OSError):
                failures += 1
            else:
                started += 1
                child.stop(turn_open=True)
                assert child.done.wait(patience(10))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert failures > 5
    assert started > 5


@pytest.mark.parametrize("place", ["__init__", "start"])
def test_ctrl_c_in_the_middle_of_a_start_leaves_nothing(place: str, tmp_path: Any) -> None:
    mark = tmp_path / "pid"

    def interrupt(*_: object, **__: object) -> None:
        while not mark.exists():
            pass
        raise KeyboardInterrupt

    drain = type("Interrupted", (StderrDrain,), {place: interrupt})
    code = f"""
import os, subprocess, sys, time
p = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"], start_new_session=True)
open({str(mark)!r} + ".part", "w").write(str(p.pid))
os.rename({str(mark)!r} + ".part", {str(mark)!r})
time.sleep(60)
"""
    with pytest.raises(KeyboardInterrupt):
        start(code, drain=drain)
    assert wait_gone(int(mark.read_text()))


@shows("process.writes")
def test_writing_to_a_process_that_is_gone_is_no_error() -> None:
    child = start("pass")
    while not child.poll_exit():
        child.wait(patience(5))
    child.queue(b"x" * 1_000_000)
    child.queue(b"y")
    child.end_input()
    assert child.take() == b""
    child.stop(turn_open=False)
    assert child.done.wait(patience(10))
    child.queue(b"z")
    child.end_input()
    child.wake()
    child.stop(turn_open=True)


def test_output_that_nobody_reads_does_not_keep_a_process_from_ending() -> None:
    """It waits in a write when it is asked to end, and does so only by the end of its input."""
    child = start(
        "import os, signal, sys; signal.signal(15, signal.SIG_IGN); os.write(1, b'x' * 1_000_000); sys.stdin.read()",
        stop_grace=10.0,
    )
    child.stop(turn_open=False)
    assert child.done.wait(patience(8))
    assert child.exit_code == 0


def test_without_pidfd_the_exit_is_polled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    child = start("import os; os.write(1, b'hi')")
    assert child.exit_descriptor is None
    data = b""
    while (part := child.take()) != b"":
        data += part or b""
        child.wait(patience(5))
    assert data == b"hi"
    while not child.poll_exit():
        child.wait(patience(5))
    child.stop(turn_open=False)
    assert child.done.wait(patience(10))
    child = start("import time; time.sleep(60)")
    child.stop(turn_open=True)
    assert child.done.wait(patience(10))
    assert child.exit_code == -15


@shows("session.death.status-taken")
def test_a_status_that_somebody_else_took_is_unknown_and_not_0() -> None:
    child = start("import os; os._exit(3)")
    assert wait_gone(child.pid)
    os.waitpid(child.pid, 0)  # a host that waits for all its children
    assert child.poll_exit()
    assert child.exit_code is None
    assert child.exited
    child.stop(turn_open=True)
    assert child.done.wait(patience(10))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_end_of_the_output_is_there_again_for_whoever_asks_again(backend: str) -> None:
    """A wait that is cancelled just when the end is seen must not lose it: the process may live on."""

    async def scenario() -> None:
        transport = AsyncChildProcess(stop_grace=0.1, kill_grace=0.1)
        taken: list[bytes] = []

        def take(data: bytes) -> bool:
            taken.append(data)
            return True

        await transport.start(plan("import os, time; os.write(1, b'x'); os.close(1); time.sleep(60)"))
        try:
            with anyio.fail_after(patience(20)):
                assert await transport.push_to(take) == b""
                assert await transport.push_to(take) == b""
                assert await transport.receive() == b""
        finally:
            await transport.stop(turn_open=True)
        assert taken == [b"x"]

    anyio.run(scenario, backend=backend)
