"""A child process without a shell around it: starts that break off, and waking."""

from __future__ import annotations

import errno
import logging
import os
import resource
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from hackamore._engine.launch import LaunchPlan
from hackamore.errors import SpawnError
from hackamore.runtime.threads import Wakeup
from hackamore.transports.process.child import Child, InputPipe, Poller, widen
from hackamore.transports.process.processes import CHILD_ID_VARIABLE
from hackamore.transports.process.reaper import reaper
from hackamore.transports.process.states import Input, WaitTrigger
from hackamore.transports.process.stderr import LineCallback, StderrDrain
from hackamore.transports.process.subprocess_async import AsyncChildProcess
from hackamore.transports.process.subprocess_sync import SyncChildProcess
from tests.contract import shows
from tests.support.leaks import alive, nothing_left, wait_gone
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


def ended(child: Child, *, turn_open: bool = True) -> int | None:
    child.stop(turn_open=turn_open)
    assert child.done.wait(patience(20))
    return child.exit_code


def read_to_the_end(child: Child) -> bytes:
    data = b""
    while (part := child.take()) != b"":
        data += part or b""
        child.wait(patience(20))
    return data


READS = "import os, sys; data = sys.stdin.read(); os.write(1, data.encode()); os._exit(7)"


def test_what_a_pipe_does_not_take_is_written_by_waiting_and_reading() -> None:
    child = start(READS.replace("os.write(1, data.encode())", "print(len(data), flush=True)"))
    for part in (b"a" * 500_000, b"b" * 500_000, b""):
        child.queue(part)
    child.end_input()
    child.queue(b"too late")
    assert read_to_the_end(child) == b"1000000\n"
    assert ended(child, turn_open=False) == 7
    assert not child.input_broken


def test_an_input_that_breaks_wakes_the_waiter_and_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    reading, writing = os.pipe()
    os.close(reading)
    poller = Poller()
    pipe = InputPipe(writing, poller, 7)
    pipe.queue(b"data")
    assert pipe.state is Input.BROKEN
    assert pipe.queued == []
    assert poller.ready()
    assert poller.ready() == []  # a wake-up is taken
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writing)
    (record,) = caplog.records
    assert (record.getMessage(), vars(record)["pid"]) == ("stdin of a process is closed: [Errno 32] Broken pipe", 7)
    for again in (pipe.end, pipe.close, pipe.flush):
        again()
    poller.happen(WaitTrigger.CLOSE)


def test_a_poller_tells_when_there_is_room_again() -> None:
    reading, writing = os.pipe()
    poller = Poller()
    pipe = InputPipe(writing, poller)
    pipe.queue(b"x" * 100_000)
    assert writing in poller.watched
    assert poller.ready() == []
    os.read(reading, 65_536)
    poller.select(patience(20))
    assert poller.ready() == [writing]
    pipe.flush()
    assert writing not in poller.watched
    assert pipe.queued == []
    pipe.queue(b"y" * 100_000)
    pipe.close()  # what is queued is dropped
    assert (pipe.state, pipe.queued, writing in poller.watched) == (Input.CLOSED, [], False)
    poller.wake()
    poller.select(None)
    os.close(reading)
    poller.happen(WaitTrigger.CLOSE)


def test_output_has_room_for_a_whole_read(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    child = start("import fcntl, os, sys; sys.stdin.read(); os.write(1, b'%d' % fcntl.fcntl(1, fcntl.F_GETPIPE_SZ))")
    child.end_input()
    assert read_to_the_end(child) == b"262144"
    ended(child)
    nobody = os.open(os.devnull, os.O_RDONLY)
    widen(nobody)  # it is no pipe, or there is no more room for this user
    os.close(nobody)
    assert [record.getMessage() for record in caplog.records if "usual size" in record.getMessage()] == [
        "a pipe keeps its usual size: [Errno 9] Bad file descriptor"
    ]


def test_pipes_of_many_children_keep_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user has a total for all of them."""
    monkeypatch.setattr(type(reaper), "count", 32)
    child = start("import fcntl, os, sys; sys.stdin.read(); os.write(1, b'%d' % fcntl.fcntl(1, fcntl.F_GETPIPE_SZ))")
    child.end_input()
    assert read_to_the_end(child) != b"262144"
    ended(child)


def test_whoever_waits_for_the_end_is_woken_and_whoever_comes_later_as_well() -> None:
    child = start("import time; time.sleep(60)")
    wakeups = [Wakeup() for _ in range(3)]
    for wakeup in wakeups[:2]:
        child.add_done_wakeup(wakeup)
    child.remove_done_wakeup(wakeups[1])
    child.remove_done_wakeup(wakeups[1])
    poll = Poller()
    poll.watch(wakeups[0].fileno())
    assert poll.ready() == []
    ended(child)
    poll.select(patience(20))
    child.add_done_wakeup(wakeups[2])
    poll.watch(wakeups[1].fileno())
    poll.watch(wakeups[2].fileno())
    assert set(poll.ready()) == {wakeups[0].fileno(), wakeups[2].fileno()}
    poll.happen(WaitTrigger.CLOSE)
    for wakeup in wakeups:
        wakeup.close()


def test_a_process_that_is_not_ours_any_more_reads_its_input_to_the_end() -> None:
    """A forked copy of the host lets go: it sends no signal, and holds no pipe open."""
    child = start(READS)
    pid, held = child.pid, child.wait_descriptor()
    assert held is not None
    child.disown()
    reaper.forget(child)
    assert child.done.is_set()
    assert child.stopping
    assert child.wait_descriptor() is None
    assert child.take() == b""
    child.queue(b"x")
    child.end_input()
    child.wake()
    child.stop(turn_open=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(held)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    child.dispose()  # for the watchdog of this process


def test_another_process_that_has_a_copy_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    child = start("import time; time.sleep(60)")
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        child.stop(turn_open=True)
    assert not child.stopping
    assert alive(child.pid)
    assert ended(child) == -signal.SIGTERM


def test_it_is_busy_only_in_the_thread_that_uses_it() -> None:
    child = start("import time; time.sleep(60)")
    found: list[bool] = []

    class Asking(Wakeup):
        def set(self) -> None:
            found.append(child.busy_in_this_thread)

    assert not child.busy_in_this_thread
    ended(child)
    asking = Asking()
    child.add_done_wakeup(asking)  # as a signal handler that comes in the middle of a call
    asking.close()
    assert found == [True]
    assert not child.busy_in_this_thread


def test_when_there_is_no_time_all_of_it_is_killed(tmp_path: Any) -> None:
    pids = tmp_path / "pids"
    code = f"""
import os, subprocess, sys, time
sleeps = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
found = [subprocess.Popen(sleeps, env=os.environ), subprocess.Popen(sleeps, start_new_session=True), subprocess.Popen(sleeps, env={{}})]
open({str(pids)!r}, "w").write(" ".join(str(one.pid) for one in found))
os.write(1, b"up")
time.sleep(600)
"""
    child = start(code)
    while child.take() is None:
        child.wait(patience(20))
    child.kill_now()
    for pid in map(int, pids.read_text().split()):
        assert wait_gone(pid)
    assert ended(child) == -signal.SIGKILL
    child.kill_now()
    child.signal(signal.SIGTERM)


def test_output_is_thrown_away_until_its_end() -> None:
    child = start("import os, sys; os.write(1, b'x' * 1000); sys.stdin.read()")
    watched = Poller()
    for descriptor in child.descriptors():
        watched.watch(descriptor)
    assert len(child.descriptors()) == 2
    watched.select(patience(20))
    assert child.discard_output()
    assert child.take() is None
    assert child.discard_output()  # nothing is there, and more may come
    child.end_input()
    watched.select(patience(20))
    while child.discard_output():
        pass
    assert read_to_the_end(child) == b""
    assert not child.discard_output()
    watched.happen(WaitTrigger.CLOSE)
    assert ended(child, turn_open=False) == 0
    assert child.descriptors() == []


def test_the_output_of_a_process_that_has_exited_ends_though_a_grandchild_holds_it() -> None:
    code = "import os, subprocess; subprocess.Popen(['sleep', '600']); os.write(1, b'last')"
    child = start(code)
    assert read_to_the_end(child) == b"last"
    assert child.exit is not None
    assert 0.5 <= time.monotonic() - child.exit.seen_at < patience(10)
    assert ended(child) == 0  # an open turn leaves nothing


def test_a_wait_ends_with_its_time_or_a_call() -> None:
    child = start("import time; time.sleep(60)")
    assert child.wait_limit() is None
    child.wait(0.01)
    assert child.take() is None
    child.wake()
    child.wait(None)
    assert ended(child) == -signal.SIGTERM
    child.wait(None)
    assert child.wait_descriptor() is None
    assert child.exited


KINDS: list[type[AsyncChildProcess] | type[SyncChildProcess]] = [AsyncChildProcess, SyncChildProcess]


@pytest.mark.parametrize("kind", KINDS)
def test_a_transport_that_was_not_started(kind: type[AsyncChildProcess] | type[SyncChildProcess]) -> None:
    transport = kind()
    assert (transport.pid, transport.stderr_tail, transport.input_broken) == (None, b"", False)
    with pytest.raises(RuntimeError, match="the transport was not started"):
        transport.send_nowait(b"x")
    transport.abandon()


@pytest.mark.parametrize("backend", ["asyncio", "trio", "threads"])
def test_a_stop_in_the_middle_of_a_turn_does_not_wait_for_the_end_of_the_input(backend: str) -> None:
    limit = patience(20)
    deaf = plan("import time; time.sleep(600)")

    async def scenario() -> None:
        transport = AsyncChildProcess(stop_grace=3 * limit)
        await transport.start(deaf)
        await transport.stop(turn_open=True)
        assert await transport.wait_exit() == -signal.SIGTERM

    began = time.monotonic()
    if backend == "threads":
        transport = SyncChildProcess(stop_grace=3 * limit)
        transport.start(deaf)
        transport.stop(turn_open=True)
        assert transport.wait_exit() == -signal.SIGTERM
    else:
        anyio.run(scenario, backend=backend)
    assert time.monotonic() - began < limit


def test_a_blocking_read_ends_with_its_time() -> None:
    transport = SyncChildProcess()
    transport.start(plan("import sys, os; sys.stdin.read(1); os.write(1, b'x'); sys.stdin.read(); os._exit(3)"))
    assert transport.pid
    began = time.monotonic()
    for seconds in (0.0, -1.0, 0.05):
        assert transport.receive(seconds) is None
        assert transport.wait_exit(seconds) is None
    assert time.monotonic() - began >= 0.1
    transport.send(b"1")
    assert transport.receive(patience(20)) == b"x"
    transport.end_input()
    assert transport.receive() == b""
    assert transport.wait_exit() == 3
    assert transport.wait_exit(0) == 3
    transport.stop(turn_open=False)
    transport.stop(turn_open=True)
    assert transport.receive() == b""


def test_a_blocking_read_tells_once_that_nobody_reads_the_input() -> None:
    transport = SyncChildProcess()
    transport.start(plan("import os, time; os.close(0); os.write(1, b'x'); time.sleep(60)"))
    assert transport.receive() == b"x"
    transport.send(b"x")
    assert transport.input_broken
    assert transport.receive() is None
    assert transport.receive(0.01) is None
    transport.abandon()
    assert transport.receive() == b""
    transport.stop(turn_open=True)


@pytest.mark.parametrize("collected", [False, True])
def test_nothing_that_an_abandoned_process_started_stays(collected: bool) -> None:
    """Its turn may be open. Without one, a server that it left running would stay."""
    transport = SyncChildProcess(stop_grace=patience(60))
    transport.start(
        plan(
            "import subprocess, sys; p = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)'],"
            "stdout=subprocess.DEVNULL, start_new_session=True); print(p.pid, flush=True); sys.stdin.read()"
        )
    )
    descendant = int(transport.receive() or b"")
    if collected:
        del transport
    else:
        transport.abandon()
    assert wait_gone(descendant)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_start_without_a_descriptor_names_the_limit(backend: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scenario() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            await AsyncChildProcess().start(plan("pass"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with pytest.raises(SpawnError, match="too many open files") as caught:
        anyio.run(scenario, backend=backend)
    assert caught.value.errno == errno.EMFILE
    assert "ulimit -n" in str(caught.value)


def test_a_blocking_transport_that_was_stopped_before_its_start_leaves_nothing() -> None:
    transport = SyncChildProcess()
    transport.stop(turn_open=True)
    assert transport.wait_exit() is None
    transport.start(plan("import time; time.sleep(60)"))
    transport.stop(turn_open=True)
    assert transport.wait_exit() == -signal.SIGTERM


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_start_ahead_is_the_start_unless_it_was_stopped(backend: str, stopped: bool) -> None:
    async def scenario() -> None:
        transport = AsyncChildProcess()
        if stopped:
            await transport.stop(turn_open=False)
            assert await transport.wait_exit() is None
        transport.start_ahead(plan(READS))
        pid = transport.pid
        assert (pid is None) is stopped
        if not stopped:
            with anyio.fail_after(patience(20)):
                await transport.start(plan("raise SystemExit(1)"))
                assert transport.pid == pid
                await transport.send(b"text")
                await transport.end_input()
                assert await transport.receive() == b"text"
                assert await transport.receive() == b""
                assert await transport.wait_exit() == 7
        await transport.stop(turn_open=False)

    anyio.run(scenario, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_output_is_pushed_until_the_taker_has_enough_or_the_input_breaks(backend: str) -> None:
    code = """
import os, sys, time
for _ in range(3):
    os.write(1, sys.stdin.buffer.readline())
os.close(0)
os.write(1, b"-")
time.sleep(60)
"""

    async def scenario() -> None:
        transport = AsyncChildProcess(stop_grace=0.1)
        taken: list[bytes] = []

        def take(data: bytes) -> bool:
            taken.append(data)
            if data != b"two\n":
                transport.send_nowait(b"two\n" if data == b"one\n" else b"more\n")
            return data != b"two\n"

        await transport.start(plan(code))
        try:
            with anyio.fail_after(patience(20)):
                await transport.send(b"one\n")
                assert await transport.push_to(take) is None  # enough
                assert taken == [b"one\n", b"two\n"]
                await transport.send(b"three\n")
                assert await transport.push_to(take) is None  # nobody reads what was sent last
                assert transport.input_broken
                assert b"".join(taken[2:]) == b"three\n-"
                with anyio.move_on_after(0.01) as scope:
                    await transport.push_to(take)  # that was told
                assert scope.cancelled_caught
        finally:
            await transport.stop(turn_open=True)

    anyio.run(scenario, backend=backend)


def test_whoever_is_behind_with_stderr_holds_up_its_own_end_alone(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[tuple[float, str]] = []
    go_on = threading.Event()

    class Behind(StderrDrain):
        def calls_done(self, seconds: float) -> bool:
            asked.append((seconds, threading.current_thread().name))
            return seconds > 0 and go_on.wait(patience(20))

    slow = start("import time; time.sleep(60)", drain=Behind)
    quick = start("import time; time.sleep(60)")
    slow.stop(turn_open=True)
    assert ended(quick) == -signal.SIGTERM
    assert not slow.done.is_set()
    go_on.set()
    assert slow.done.wait(patience(20))
    assert asked == [(0, "hackamore-reaper"), (1.0, "hackamore-stderr-last")]
    assert caplog.records == []


def test_a_callback_has_a_thread_that_is_named_after_its_process() -> None:
    found: list[threading.Thread] = []
    line = LineCallback(lambda _: found.append(threading.current_thread()))
    child = start("import sys; print('line', file=sys.stderr)", on_stderr=line)
    pid = child.pid
    ended(child, turn_open=False)
    assert [(thread.name, thread.daemon) for thread in found] == [(f"hackamore-stderr-{pid}-lines", True)]


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("error", [ProcessLookupError, PermissionError])
def test_a_signal_that_cannot_be_sent_is_noted(
    group: bool, error: type[OSError], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise error

    caplog.set_level(logging.DEBUG, "hackamore")
    child = start("import time; time.sleep(60)")
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", refused)
        patch.setattr(signal, "pidfd_send_signal", refused)
        child.signal(signal.SIGTERM, group=group)
    (record,) = caplog.records
    assert (record.getMessage(), vars(record)["pid"]) == (f"process {child.pid} took no signal 15", child.pid)
    assert alive(child.pid)
    ended(child)


def test_a_start_that_is_refused_says_why_and_keeps_the_cause(tmp_path: Path) -> None:
    for argv, cwd, reason in (
        (("/nowhere/claude",), None, "does not exist"),
        (("/bin/sh",), tmp_path / "gone", "gone"),
    ):
        refused = LaunchPlan(argv=argv, environment={}, cwd=None if cwd is None else str(cwd))
        child = Child(refused, stop_grace=1.0, kill_grace=1.0, stderr_tail_bytes=100)
        with pytest.raises(SpawnError, match=reason) as caught:
            child.start()
        assert isinstance(caught.value.__cause__, FileNotFoundError)
        assert caught.value.path == argv[0]
        assert child.done.is_set()
        assert child.pid == 0
