"""What the operating system says of processes, and that nobody else's process is ever signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hackamore.transports.process.processes import CHILD_ID_VARIABLE, descendants, identity, kill_identity, marked_with
from hackamore.transports.process.short_runs import run_with_descendants
from tests.contract import shows
from tests.support.leaks import wait_gone
from tests.support.patience import patience

SLEEPER = [sys.executable, "-I", "-S", "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
PARENT = [
    sys.executable,
    "-I",
    "-S",
    "-c",
    f"import subprocess, sys; p = subprocess.Popen({SLEEPER!r}, start_new_session=True); sys.stdin.read(); p.wait()",
]


def started(command: list[str], **more: object) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)  # type: ignore[call-overload]
    assert isinstance(process, subprocess.Popen)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


@shows("process.descendants")
def test_descendants_are_found_in_other_sessions_too() -> None:
    with started(PARENT) as process:
        ((child, _),) = descendants(process.pid)
        assert identity(child) is not None
        assert process.pid in {pid for pid, _ in descendants(os.getpid())}
        assert child in {pid for pid, _ in descendants(os.getpid())}
        process.communicate(b"")
        assert wait_gone(child)
        assert descendants(process.pid) == []


def test_descendants_without_the_list_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels without CONFIG_PROC_CHILDREN: all of /proc is read."""
    with started(PARENT) as process:
        expected = descendants(process.pid)
        monkeypatch.setattr(os.path, "exists", lambda path: False)
        assert descendants(process.pid) == expected
        monkeypatch.undo()
        process.communicate(b"")


def test_marks_are_compared_whole() -> None:
    mark = f"{os.getpid()}-abc123"
    with started(SLEEPER, env={**os.environ, CHILD_ID_VARIABLE: mark}) as process:
        assert [pid for pid, _ in marked_with(mark)] == [process.pid]
        assert marked_with(mark[:-1]) == []
        assert marked_with("") == []
        process.communicate(b"")


@shows("process.same-process")
def test_a_process_is_only_signalled_if_it_is_still_the_same() -> None:
    with started(SLEEPER) as process:
        who = identity(process.pid)
        assert who is not None
        assert not kill_identity((process.pid, who[1] + "0"))
        assert not kill_identity((1, "0"))
        assert not kill_identity((os.getpid(), "0"))
        assert process.poll() is None
        assert kill_identity(who)
        assert process.wait(patience(10)) == -signal.SIGKILL
        assert not kill_identity(who)


def test_a_zombie_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    assert wait_gone(process.pid)
    assert identity(process.pid) is None
    assert process.pid not in {pid for pid, _ in descendants(os.getpid())}
    monkeypatch.setattr(os.path, "exists", lambda path: False)  # a kernel without the list of children
    assert process.pid not in {pid for pid, _ in descendants(os.getpid())}
    process.wait()


def test_names_with_brackets_and_spaces(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to(sys.executable)
    with started([str(odd), *SLEEPER[1:]]) as process:
        who = identity(process.pid)
        assert who is not None
        assert who[0] == process.pid
        assert process.pid in {pid for pid, _ in descendants(os.getpid())}
        process.communicate(b"")


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="there is no /bin/ps here")
def test_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of macOS, as far as Linux can show it."""
    with started(PARENT) as process:
        ((child, start_time),) = descendants(process.pid, linux=False)
        assert " " not in start_time
        monkeypatch.setenv("TZ", "XYZ-5")  # a program that changes its time zone still knows its processes
        assert identity(child, linux=False) == (child, start_time)
        assert marked_with("x", linux=False) == []
        process.communicate(b"")
        assert wait_gone(child)


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="there is no /bin/ps here")
def test_rows_of_a_ps_that_fails_at_the_end_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, run = tmp_path / "ps", subprocess.run
    script.write_text('#!/bin/sh\n/bin/ps "$@"\nexit 1\n')
    script.chmod(0o755)
    monkeypatch.setattr(subprocess, "run", lambda command, **more: run([str(script), *command[1:]], **more))
    with started(PARENT) as process:
        ((child, start_time),) = descendants(process.pid, linux=False)
        assert identity(child, linux=False) == (child, start_time)
        process.communicate(b"")


def test_a_list_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, run = tmp_path / "ps", subprocess.run
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o755)

    def hanging(command: list[str], *, timeout: float, **more: Any) -> Any:
        return run([str(script), *command[1:]], timeout=timeout / 50, **more)

    monkeypatch.setattr(subprocess, "run", hanging)
    assert descendants(os.getpid(), linux=False) == []


def test_a_process_that_is_listed_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list is not made in one moment: a process may get another parent meanwhile."""
    script, run = tmp_path / "ps", subprocess.run
    rows = ((11, 10), (12, 10), (13, 11), (13, 12))
    lines = "".join(f"{pid} {parent} S Thu Nov 26 0{pid % 10}:00:00 2026\n" for pid, parent in rows)
    script.write_text(f"#!/bin/sh\nprintf '{lines}'\n")
    script.chmod(0o755)
    monkeypatch.setattr(subprocess, "run", lambda command, **more: run([str(script), *command[1:]], **more))
    assert [pid for pid, _ in descendants(10, linux=False)] == [11, 12, 13]


def test_a_short_run_that_is_not_short_leaves_nothing(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid}.new; mv {pid}.new {pid}; echo up; wait"
    with pytest.raises(subprocess.TimeoutExpired):
        run_with_descendants(["/bin/sh", "-c", script], 3.0)
    assert wait_gone(int(pid.read_text()))
    done = run_with_descendants(["/bin/sh", "-c", "echo out; echo error >&2; exit 3"], 60.0, stderr=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"error\n")
