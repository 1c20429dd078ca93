"""Starts of processes: what they inherit, what is left of one that fails, and what the error advises."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from hackamore.transports.process.private_folders import make_folder, remove_folder
from hackamore.transports.process.reaper import reaper
from hackamore.transports.process.short_runs import ShortRun, run_with_descendants
from hackamore.transports.process.spawn import popen, spawn_error, start
from hackamore.transports.process.watchdog import watchdog
from tests.support.leaks import nothing_left, wait_gone
from tests.support.patience import patience

PIPE = subprocess.PIPE
PLACES = (
    "import os; print(*(os.readlink(f'/proc/self/fd/{n}') for n in range(3)), os.getsid(0) == os.getpid(), flush=True)"
)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_a_process_has_a_session_of_its_own_and_nothing_else_of_ours() -> None:
    kept = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(kept, True)
    with nothing_left():
        process = popen(python(f"{PLACES}; print(os.listdir('/proc/self/fd'))"), stdout=PIPE)
        with process:
            output, _ = process.communicate()
    os.close(kept)
    first, second = output.decode().splitlines()
    stdin, stdout, stderr, leads = first.split()
    assert (stdin, stderr, leads) == (os.devnull, os.devnull, "True")
    assert stdout.startswith("pipe:")
    assert len(second.split(",")) == 4  # the last one is of the listing itself


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_each_pipe_leads_from_here_to_there(name: str) -> None:
    with nothing_left():
        text = "print" if name == "stdout" else "sys.stderr.write"
        code = "import sys; sys.exit(sys.stdin.read() != 'text')" if name == "stdin" else f"import sys; {text}('text')"
        process, ours = start(python(code), **{name: PIPE})
        assert set(ours) == {name}
        assert not os.get_inheritable(ours[name])
        if name == "stdin":
            os.write(ours[name], b"text")
            os.close(ours[name])
        else:
            assert os.read(ours[name], 100).strip() == b"text"
            os.close(ours[name])
        assert process.wait(patience(30)) == 0


def test_files_of_a_process_have_no_buffers() -> None:
    with nothing_left(), popen(python("print(input())"), stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"line\n")
        assert process.stdout.readline() == b"line\n"
        assert process.stderr is None


@pytest.mark.parametrize("missing", ["program", "folder"])
def test_a_start_that_fails_leaves_no_descriptor(missing: str) -> None:
    with nothing_left():
        argv = ["/nowhere/claude"] if missing == "program" else python("")
        with pytest.raises(FileNotFoundError):
            start(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd="/nowhere" if missing == "folder" else None)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    for name, content in (
        ("script", b"#!/nowhere/python -u\n"),
        ("bare", b"#!\n"),
        ("binary", b"\x7fELF" + b"x" * 400),
    ):
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(
    ("number", "name", "cwd", "said"),
    [
        (errno.ENOENT, "absent", None, ["The file does not exist, or was removed. Correct `cli_path`."]),
        (
            errno.ENOENT,
            "script",
            None,
            ["its first line names the interpreter '/nowhere/python', which", "Install the"],
        ),
        (errno.ENOENT, "bare", None, ["its first line names the interpreter '', which does not exist"]),
        (errno.ENOENT, "binary", None, ["loader that it needs does not", "another C library. Install the", "`-musl`"]),
        (errno.ENOENT, "folder", "absent", ["absent' does not exist", "Create it or pass another `cwd`."]),
        (errno.ENOTDIR, "script", "script", ["script' is not a directory", "Create it or pass another `cwd`."]),
        (errno.EACCES, "folder", "folder", ["(it is a directory)", "must be the path of the program itself"]),
        (errno.EACCES, "script", "folder", ["chmod +x", "who may become `user`"]),
        (errno.EPERM, "script", None, ["chmod +x", "who may become `user`"]),
        (errno.ENOEXEC, "script", None, ["not a program for this machine", "platform and processor"]),
        (errno.E2BIG, "script", None, ["The arguments and the environment together are too long", "use files"]),
        (errno.EMFILE, "absent", "absent", ["This process has too many open files", "ulimit -n"]),
        (errno.EIO, "script", None, ["Input/output error"]),
    ],
)
def test_the_error_names_the_cause_and_the_way_out(
    files: Path, number: int, name: str, cwd: str | None, said: list[str]
) -> None:
    path, folder = str(files / name), None if cwd is None else str(files / cwd)
    error = spawn_error(path, folder, OSError(number, os.strerror(number)))
    assert (error.path, error.cwd, error.errno) == (path, folder, number)
    for part in said:
        assert part in str(error), str(error)


@pytest.mark.parametrize(
    ("error", "said", "hint"),
    [
        (RuntimeError("can't start new thread"), "can't start new thread", "ulimit -u"),
        (ValueError("embedded null byte"), "embedded null byte", ""),
        (OSError("odd"), "odd", ""),
    ],
)
def test_an_error_without_a_number_says_what_it_says(error: Exception, said: str, hint: str) -> None:
    found = spawn_error(sys.executable, None, error)
    assert found.errno is None
    assert said in str(found)
    assert ("ulimit" in str(found)) is bool(hint)


def test_a_private_folder_is_private_and_removed() -> None:
    with nothing_left():
        folder = make_folder()
        assert watchdog.count == 1
        assert watchdog.pid is not None
        assert not reaper.retire()  # as long as there is something to remove
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert os.path.basename(folder).startswith("hackamore-session-")
        assert os.path.dirname(folder) == tempfile.gettempdir()
        remove_folder(folder)
        assert not os.path.lexists(folder)
        assert watchdog.count == 0
        remove_folder(folder)  # again


@pytest.mark.parametrize("writes", [1, 3, 100])
def test_a_folder_into_which_a_dying_child_still_writes_is_removed_in_the_end(
    monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    removals: list[str] = []
    pauses: list[float] = []

    def written_to(folder: str, *, ignore_errors: bool) -> None:
        assert ignore_errors
        removals.append(folder)
        if len(removals) > writes:
            os.rmdir(folder)

    with nothing_left():
        folder = make_folder()
        with monkeypatch.context() as patch:
            patch.setattr("shutil.rmtree", written_to)
            patch.setattr("hackamore.transports.process.private_folders.time", SimpleNamespace(sleep=pauses.append))
            remove_folder(folder)
        assert len(removals) == min(writes + 1, 5)
        assert len(pauses) == len(removals) - 1
        assert 0.1 <= sum(pauses) < 1
        assert watchdog.count == 0  # the session ends all the same
        if os.path.lexists(folder):
            os.rmdir(folder)


def test_a_short_run_is_known_to_the_watchdog_while_it_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known: list[object] = []

    def started(mark: str, who: tuple[int, str]) -> None:
        known.append((mark, who[0], watchdog.count))
        (tmp_path / "known").touch()

    monkeypatch.setattr(watchdog, "started", started)
    with nothing_left():
        # One that has ended before it is looked up is not noted.
        wait = f"echo $$; until [ -e {tmp_path}/known ]; do sleep 0.01; done; exit 3"
        done = ShortRun("0-marked").run(["/bin/sh", "-c", wait], 60.0)
        assert done.returncode == 3
        assert known == [("0-marked", int(done.stdout), 1)]
        assert watchdog.count == 0
        with pytest.raises(FileNotFoundError):
            ShortRun("0-marked").run(["/nowhere/claude"], 60.0)
        assert watchdog.count == 0


@pytest.mark.parametrize("child_id", ["", "0-marked"])
def test_a_short_run_that_was_cancelled_before_it_began_starts_nothing(child_id: str, tmp_path: Path) -> None:
    run = ShortRun(child_id)
    run.cancel()
    with nothing_left(), pytest.raises(subprocess.TimeoutExpired):
        run.run(["/bin/sh", "-c", f"touch {tmp_path}/ran"], 60.0)
    assert run.cancelled
    assert not (tmp_path / "ran").exists()


def test_a_short_run_that_is_cancelled_ends_with_all_that_bears_its_mark(tmp_path: Path) -> None:
    """A wrapper script starts another program, which holds the output open."""
    pid = tmp_path / "pid"
    mark = f"{os.getpid()}-cancelled"
    script = f"setsid sleep 600 & echo $! > {pid}.new; mv {pid}.new {pid}; wait"
    run = ShortRun(mark)

    def cancel() -> None:
        while not pid.exists():
            pass
        run.cancel()

    with nothing_left():
        canceller = threading.Thread(target=cancel)
        canceller.start()
        done = run.run(["/bin/sh", "-c", script], 600.0, env={**os.environ, "HACKAMORE_CHILD_ID": mark})
        canceller.join()
    assert done.returncode == -9
    assert wait_gone(int(pid.read_text()))


@pytest.mark.timeout(60)
def test_a_short_run_without_a_session_of_its_own_ends_in_time() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_with_descendants(["sleep", "600"], 0.05, start_new_session=False)
