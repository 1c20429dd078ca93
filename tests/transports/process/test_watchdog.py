"""The watchdog: there while there are children, and no longer; and it ends what a dead host leaves, nothing else."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from hackamore.transports.process import watchdog as watchdog_module
from hackamore.transports.process import watchdog_main
from hackamore.transports.process.processes import CHILD_ID_VARIABLE, identity
from hackamore.transports.process.watchdog import Watchdog
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
def test_a_list_that_became_long_holds_who_is_there_and_nobody_else(
    dog: Watchdog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog_module, "_LONGEST_LIST", 1000)
    folder = tmp_path / "private"
    folder.mkdir()
    with sleeper(ONE) as process, sleeper(TWO) as removed:
        who = identity(process.pid)
        assert who is not None
        dog.add(ONE)
        dog.started(ONE, who)
        dog.add(TWO)
        dog.remove(TWO)
        dog.add_folder(str(folder))
        for number in range(100):
            dog.add(f"{number}-gone")
            dog.remove(f"{number}-gone")
        pid = dog.pid
        assert pid is not None
        dog.after_fork()  # lets go of the pipe, as if the host were gone
        assert process.wait(patience(5)) == -15
        os.waitpid(pid, 0)
        assert removed.poll() is None
        assert not folder.exists()
        removed.communicate(b"")


def test_it_inherits_nothing_but_what_python_needs_to_start(dog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It outlives the host: no secret, and no folder that could not be removed then."""
    monkeypatch.setenv("SHOP_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/srv/lib")
    monkeypatch.setenv("PYTHONPATH", "/srv/python")
    dog.add("one")
    place = Path(f"/proc/{dog.pid}")
    until = time.monotonic() + patience(30)
    while not (variables := place.joinpath("environ").read_bytes()):  # the kernel shows none in the middle of `execve`
        assert time.monotonic() < until
        time.sleep(0.005)
    assert variables.rstrip(b"\0") == b"LD_LIBRARY_PATH=/srv/lib"
    assert place.joinpath("cwd").readlink() == Path("/")
    assert place.joinpath("fd/1").readlink() == Path(os.devnull)
    dog.remove("one")


def test_a_private_folder_keeps_it_and_is_removed_when_the_host_is_gone(dog: Watchdog, tmp_path: Path) -> None:
    left, gone = tmp_path / "left", tmp_path / "gone"
    for folder in (left, gone):
        folder.mkdir()
        dog.add_folder(str(folder))
    assert dog.count == 2
    dog.remove_folder(str(gone))
    dog.retire()
    pid = dog.pid
    assert pid is not None
    dog.after_fork()  # lets go of the pipe, as if the host were gone
    assert (dog.count, dog.pid) == (0, None)
    assert wait_gone(pid)
    os.waitpid(pid, 0)
    assert not left.exists()
    assert gone.exists()


@pytest.mark.parametrize("killed", [False, True])
def test_where_files_need_a_name_the_list_has_none(
    dog: Watchdog, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with sleeper(ONE) as process:
        if killed:  # the first one has read nothing
            dog.add(TWO)
            assert dog.pid is not None
            os.kill(dog.pid, 9)
            assert wait_gone(dog.pid)
            dog.remove(TWO)
        dog.add(ONE)
        pid = dog.pid
        assert pid is not None
        dog.after_fork()  # lets go of the pipe, as if the host were gone
        assert process.wait(patience(10)) == -15
        os.waitpid(pid, 0)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files need a name here")
def test_it_needs_no_folder_that_can_be_written(dog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose disk is read-only."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with sleeper(ONE) as process:
        dog.add(ONE)
        pid = dog.pid
        assert pid is not None
        dog.after_fork()  # lets go of the pipe, as if the host were gone
        assert process.wait(patience(10)) == -15
        os.waitpid(pid, 0)


def test_a_list_that_cannot_be_written_costs_its_protection_alone(
    dog: Watchdog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    caplog.set_level("DEBUG", "hackamore")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        dog.add("one")
        dog.started("one", (1, "1"))
        dog.remove("one")
    assert caplog.text.count("the list of the watchdog cannot be written: [Errno 28] No space left on device") == 3
    assert dog.count == 0


class Over(Exception):
    """The script ends its process."""


def test_the_script_hears_no_signal_of_its_terminal_and_ends_what_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As `test_at_the_end_of_its_input_it_ends_what_is_left`, in this process."""
    ignored: list[object] = []
    listed = tmp_path / "list"
    folder = tmp_path / "private"
    folder.mkdir()

    def end(code: int) -> None:
        raise Over(code)

    with sleeper(LEFT) as left:
        listed.write_bytes(f"add {LEFT}\nodd \udcff\nfolder {os.fsencode(folder).hex()}\n".encode("utf-8", "replace"))
        with listed.open("rb") as file, monkeypatch.context() as patch:
            file.read()  # where the host has written last
            patch.setattr(signal, "signal", lambda number, how: ignored.append((number, how)))
            patch.setattr(sys, "stdin", io.StringIO("until the end"))
            patch.setattr(sys, "argv", ["watchdog_main.py", str(os.dup(file.fileno()))])
            patch.setattr(sys, "path", [*sys.path])
            patch.delitem(sys.modules, "processes", raising=False)
            patch.setattr(os, "_exit", end)
            with pytest.raises(Over, match="0"):
                watchdog_main.main()
            assert sys.stdin.read() == ""
            sys.modules.pop("processes")
        assert left.wait(patience(10)) == -15
    assert not folder.exists()
    assert ignored == [(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_a_folder_that_is_written_to_until_now_is_removed_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    removals: list[str] = []

    def written_to(path: str, *, ignore_errors: bool) -> None:
        assert ignore_errors
        removals.append(path)
        if len(removals) == 3:
            os.rmdir(path)

    monkeypatch.setattr("shutil.rmtree", written_to)
    monkeypatch.setattr(watchdog_main, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))
    watchdog_main.remove([str(folder)])
    assert removals == [str(folder)] * 3
    (tmp_path / "other").mkdir()
    removals = []
    monkeypatch.setattr(watchdog_main, "TERMINATE_SECONDS", -1.0)
    watchdog_main.remove([str(tmp_path / "other")])
    assert len(removals) == 1  # there is no time left


class Processes:
    """Processes that are on paper: some end by SIGTERM, the others by SIGKILL."""

    def __init__(self, stubborn: set[int]) -> None:
        self.stubborn = stubborn
        self.running = {10: "a", 11: "b", 12: "c", 13: "d", 14: "e", 15: "f"}
        self.signals: list[tuple[int, int]] = []

    def descendants(self, pid: int) -> list[tuple[int, str]]:
        return [(12, "c")] if pid == 10 and 10 in self.running else []

    def marked_with(self, child_id: str) -> list[tuple[int, str]]:
        return [(pid, self.running[pid]) for pid in {"one": (13,), "two": (11, 14)}[child_id] if pid in self.running]

    def identity(self, pid: int) -> tuple[int, str] | None:
        return (pid, self.running[pid]) if pid in self.running else None

    def kill_identity(self, who: tuple[int, str], number: int) -> None:
        if self.identity(who[0]) == who:
            self.signals.append((who[0], number))
            if number == signal.SIGKILL or who[0] not in self.stubborn:
                del self.running[who[0]]


@pytest.mark.parametrize(
    ("stubborn", "killed"), [(set(), {12, 13}), ({10}, {10, 12, 13}), ({11, 14}, {11, 12, 13, 14})]
)
def test_children_are_asked_and_then_killed_with_all_that_is_theirs(
    stubborn: set[int], killed: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    passing = SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda seconds: clock.append(clock.pop() + seconds))
    monkeypatch.setattr(watchdog_main, "time", passing)
    processes = Processes(stubborn)
    watchdog_main.end({"one": (10, "a"), "two": None}, processes)
    asked = [pid for pid, number in processes.signals if number == signal.SIGTERM]
    assert sorted(asked) == [10, 11, 14]
    assert {pid for pid, number in processes.signals if number == signal.SIGKILL} == killed
    assert processes.running == {15: "f"}
    assert 102.0 <= clock[0] < 102.1  # 12 and 13 were not asked, and get their time
