"""The watchdog: there while there are children, and no longer; and it ends what a dead host leaves, nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from bridle.transports.process import watchdog_main
from bridle.transports.process.processes import CHILD_ID_VARIABLE, identity
from bridle.transports.process.watchdog import Watchdog
from tests.contract import shows
from tests.support.leaks import alive, nothing_left, wait_gone
from tests.support.patience import patience

SLEEPER = [sys.executable, "-I", "-S", "-c", "import signal, sys; {}; print('up', flush=True); sys.stdin.read()"]


# Other runs of these tests on the same machine have other marks.
LEFT, REMOVED, ELSEWHERE, MARKED, FOREIGN, ONE, TWO = (f"{os.getpid()}-{number}" for number in range(7))


def sleeper(child_id: str, preparation: str = "pass") -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [*SLEEPER[:-1], SLEEPER[-1].format(preparation)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, CHILD_ID_VARIABLE: child_id},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


@pytest.fixture
def dog() -> Iterator[Watchdog]:
    with nothing_left():
        dog = Watchdog()
        yield dog
        dog.retire()


def test_it_stays_while_there_are_children_and_until_it_is_retired(dog: Watchdog) -> None:
    assert dog.pid is None
    dog.add("one")
    pid = dog.pid
    assert pid is not None
    dog.add("two")
    assert dog.pid == pid
    dog.remove("one")
    dog.retire()
    assert alive(pid)
    dog.remove("two")
    assert alive(pid)
    dog.add("three")
    assert dog.pid == pid
    dog.remove("three")
    dog.retire()
    assert dog.pid is None
    assert not alive(pid)


def test_a_watchdog_that_was_killed_harms_nobody(dog: Watchdog) -> None:
    dog.add("one")
    assert dog.pid is not None
    os.kill(dog.pid, 9)
    assert wait_gone(dog.pid)
    dog.add("two")
    dog.started("two", (os.getpid(), "0"))
    dog.remove("one")
    dog.remove("two")


def test_a_python_without_an_executable_means_no_watchdog(dog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    dog.add("one")
    assert dog.pid is None
    dog.started("one", (1, "1"))
    dog.remove("one")


def run_watchdog(lines: str) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(lines.encode())
        file.flush()
        argv = [sys.executable, "-I", "-S", watchdog_main.__file__, str(file.fileno())]
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, pass_fds=(file.fileno(),), check=False, timeout=patience(20)
        ).returncode


@shows("process.host-ends")
@pytest.mark.parametrize("preparation", ["pass", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_at_the_end_of_its_input_it_ends_what_is_left(preparation: str) -> None:
    with sleeper(LEFT, preparation) as left, sleeper(REMOVED) as removed, sleeper(ELSEWHERE) as elsewhere:
        who = identity(left.pid)
        assert who is not None
        lines = (
            f"add {LEFT}\nadd {REMOVED}\nstarted {LEFT} {who[0]} {who[1]}\nremove {REMOVED}\nnonsense\nstarted {LEFT}\n"
        )
        assert run_watchdog(lines) == 0
        assert left.wait(patience(1)) in {-15, -9}
        assert removed.poll() is None
        assert elsewhere.poll() is None
        for process in (removed, elsewhere):
            process.communicate(b"")


def test_a_child_whose_pid_never_arrived_is_known_by_its_mark() -> None:
    with sleeper(MARKED) as process:
        assert run_watchdog(f"add {MARKED}\n") == 0
        assert process.wait(patience(1)) == -15


@shows("process.same-process")
def test_a_reused_pid_is_left_alone() -> None:
    with sleeper(FOREIGN) as process:
        assert run_watchdog(f"add gone\nstarted gone {process.pid} 1\n") == 0
        assert process.poll() is None
        process.communicate(b"")


def test_the_script_reads_lines_and_nothing_more() -> None:
    lines: list[str] | IO[str] = ["add a", "started a 5 77", "add b", "remove a", ""]
    assert watchdog_main.watch(lines) == ({"b": None}, [])


def test_the_script_removes_the_private_folders_that_are_left(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    folder = tmp_path / "with a space"
    (folder / "projects").mkdir(parents=True)
    (folder / "skills").symlink_to(outside)
    name = os.fsencode(str(folder)).hex()
    children, folders = watchdog_main.watch([f"folder {name}\n", "folder 2f61\n", "gone 2f61\n"])
    assert (children, folders) == ({}, [str(folder)])
    watchdog_main.remove(folders)
    assert not folder.exists()
    assert (outside / "kept").exists()  # links are not followed


def test_a_watchdog_that_was_killed_is_replaced_with_the_next_child(dog: Watchdog) -> None:
    process = sleeper(ONE)
    try:
        dog.add(ONE)
        first = dog.pid
        assert first is not None
        who = identity(process.pid)
        assert who is not None
        dog.started(ONE, who)
        os.kill(first, 9)
        assert wait_gone(first)
        dog.add(TWO)
        second = dog.pid
        assert second is not None
        assert second != first
        dog.after_fork()  # lets go of the pipe, as if the host were gone
        assert wait_gone(process.pid)
        os.waitpid(second, 0)
    finally:
        process.kill()
        process.communicate()
        dog.remove(ONE)
        dog.remove(TWO)


def test_a_watchdog_that_was_stopped_costs_no_time(dog: Watchdog) -> None:
    dog.add("one")
    assert dog.pid is not None
    os.kill(dog.pid, signal.SIGSTOP)
    begin = time.monotonic()
    dog.remove("one")
    dog.retire()
    assert time.monotonic() - begin < patience(2)


@shows("process.host-ends")
def test_a_list_that_became_long_holds_who_is_there_and_nobody_else(dog: Watchdog) -> None:
    with sleeper(ONE) as process, sleeper(TWO) as removed:
        who = identity(process.pid)
        assert who is not None
        dog.add(ONE)
        dog.started(ONE, who)
        dog.add(TWO)
        dog.remove(TWO)
        for number in range(20_000):
            dog.add(f"{number}-gone")
            dog.remove(f"{number}-gone")
        pid = dog.pid
        assert pid is not None
        dog.after_fork()  # lets go of the pipe, as if the host were gone
        assert process.wait(patience(5)) == -15
        os.waitpid(pid, 0)
        assert removed.poll() is None
        removed.communicate(b"")
