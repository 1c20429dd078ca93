"""CLIs without their host are waited for, then ended with all that descends from them; no other process is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hackamore.storage.holders import process_name
from hackamore.transports.process import orphans
from hackamore.transports.process.orphans import end_orphan
from hackamore.transports.process.processes import CHILD_ID_VARIABLE
from tests.support.leaks import alive, wait_gone
from tests.support.patience import patience

MARK = f"{os.getpid()}-orphan"
WAITS = "import sys; print('up', flush=True); sys.stdin.read()"
PARENT = (
    "import subprocess, sys; p = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)'],"
    "start_new_session=True); print(p.pid, flush=True); sys.stdin.read()"
)

Started = subprocess.Popen[bytes]


class Making:
    """Starts processes, which are killed at the end."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.first = b""

    def __call__(self, code: str, mark: str | None = MARK) -> Started:
        environment = {key: value for key, value in os.environ.items() if key != CHILD_ID_VARIABLE}
        environment |= {} if mark is None else {CHILD_ID_VARIABLE: mark}
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.stack.enter_context(process)
        self.stack.callback(process.kill)
        assert process.stdout is not None
        self.first = process.stdout.readline()
        return process


@pytest.fixture
def started() -> Iterator[Making]:
    making = Making()
    with making.stack:
        yield making


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no orphan end by itself."""
    monkeypatch.setattr(orphans, "WAIT_SECONDS", 0.0)


def test_one_that_is_gone_costs_no_time(started: Making, caplog: pytest.LogCaptureFixture) -> None:
    process = started(WAITS)
    name = process_name(process.pid)
    process.kill()
    process.wait()
    end_orphan(name)
    end_orphan("nobody")
    assert caplog.records == []


def test_one_that_ends_by_itself_is_not_ended(
    started: Making, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "WAIT_SECONDS", patience(30))
    process = started(WAITS)
    waiting = threading.Thread(target=end_orphan, args=(process_name(process.pid),))
    waiting.start()
    assert waiting.is_alive()
    process.communicate(b"")
    waiting.join(patience(60))
    assert not waiting.is_alive()
    assert process.returncode == 0
    assert caplog.records == []


def test_one_that_stays_has_five_seconds_to_end_by_itself(started: Making) -> None:
    """The watchdog of its host ends it within these. The program that continues its conversation waits as long."""
    process = started(WAITS)
    began = time.monotonic()
    end_orphan(process_name(process.pid))
    assert 5 <= time.monotonic() - began < 5 + patience(1.5)
    assert process.wait(patience(30)) == -signal.SIGTERM


@pytest.mark.usefixtures("at_once")
def test_one_that_stays_is_ended_with_its_descendants(started: Making, caplog: pytest.LogCaptureFixture) -> None:
    other = started(WAITS, mark=f"{MARK}-other")
    process = started(PARENT)
    child = int(started.first)
    end_orphan(process_name(process.pid))
    assert process.wait(patience(30)) == -signal.SIGTERM
    assert wait_gone(child)
    assert alive(other.pid)
    [record] = caplog.records
    assert (record.levelname, record.__dict__["code"], record.__dict__["pid"]) == (
        "WARNING",
        "ORPHAN_ENDED",
        process.pid,
    )
    assert f"CLI {process.pid} of a program that is gone" in record.getMessage()


@pytest.mark.usefixtures("at_once")
def test_one_that_is_stopped_is_killed_with_what_bears_its_mark(started: Making) -> None:
    """A process that descends from it no more has its mark."""
    process, marked = started(WAITS), started(WAITS)
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # it is stopped before anything else is sent
    end_orphan(process_name(process.pid))
    assert process.wait(patience(30)) == -signal.SIGKILL
    assert marked.wait(patience(30)) == -signal.SIGKILL


@pytest.mark.usefixtures("at_once")
def test_one_without_a_mark_is_ended_alone(started: Making) -> None:
    process, other = started(WAITS, mark=None), started(WAITS, mark=None)
    end_orphan(process_name(process.pid))
    assert process.wait(patience(30)) == -signal.SIGTERM
    assert alive(other.pid)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("part", ["start", "space", "boot"])
def test_another_process_with_the_same_id_is_left_alone(
    part: str, started: Making, caplog: pytest.LogCaptureFixture
) -> None:
    process = started(WAITS)
    parts = process_name(process.pid).split("|")
    parts[{"boot": 1, "space": 2, "start": 4}[part]] += "1"
    end_orphan("|".join(parts))
    assert alive(process.pid)
    assert caplog.records == []
