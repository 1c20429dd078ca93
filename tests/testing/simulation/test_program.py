"""The simulated CLI as a program, in forked copies of this process: what it prints, how it ends, and what it keeps."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridle.testing import Script, ScriptError, SimulatedCLI
from bridle.testing.simulation import simulated_cli
from bridle.testing.simulation.launch import VERSION
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable

FRAMES = ("--print", "--output-format", "stream-json", "--verbose")
EVERYTHING = (*FRAMES, "--permission-mode", "bypassPermissions")


class Program:
    """A program that runs in a forked copy of this process, and has ended when the block is left."""

    def __init__(self, work: Callable[[], int], arguments: tuple[str, ...], stdin: bytes) -> None:
        pipes = [os.pipe() for _ in range(3)]
        self.pid = os.fork()
        if not self.pid:
            code = 99
            try:
                signal.alarm(int(patience(20)) + 1)
                for number, (reads, writes) in enumerate(pipes):
                    os.dup2(reads if number == 0 else writes, number)
                for descriptor in (each for pair in pipes for each in pair):
                    os.close(descriptor)
                sys.argv = ["claude", *arguments]
                code = work()
            finally:
                os._exit(code)
        for number, (reads, writes) in enumerate(pipes):
            os.close(writes if number else reads)
        os.write(pipes[0][1], stdin)
        os.close(pipes[0][1])
        self.out, self._errors = (os.fdopen(pipes[number][0], "rb") for number in (1, 2))

    def ended(self) -> tuple[int, str, str]:
        """Return the exit status, the rest of the output, and the errors."""
        with self.out, self._errors:
            out, errors = self.out.read().decode(), self._errors.read().decode()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), out, errors


@pytest.fixture(autouse=True)
def _only_one_thread() -> None:
    """Forks of a process with threads may hang."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(0.5)


def program(folder: Path, *arguments: str, stdin: bytes = b"", real_tools: bool = False) -> Program:
    def work() -> int:
        simulated_cli.main(str(folder), time_scale=0.01, real_tools=real_tools)

    return Program(work, arguments, stdin)


def of_module(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    return Program(simulated_cli.command_line, arguments, stdin).ended()


def frames(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def result(text: str) -> dict[str, Any]:
    [found] = [frame for frame in frames(text) if frame["type"] == "result"]
    return found


def test_it_prints_what_is_asked_for(tmp_path: Path) -> None:
    cli = SimulatedCLI(Script(forever=True).user("hello").says("Hi."))
    cli.install(tmp_path)
    assert program(tmp_path, "--print", stdin=b"hello").ended() == (0, "Hi.\n", "")
    code, out, errors = program(tmp_path, "--print", "--output-format", "json", "hello").ended()
    assert (code, json.loads(out)["result"], errors) == (0, "Hi.", "")
    code, out, errors = program(tmp_path, *FRAMES, stdin=b"hello").ended()
    assert (code, [frame["type"] for frame in frames(out)][-1], errors) == (0, "result", "")
    assert program(tmp_path, "--version").ended() == (0, f"{VERSION} (Claude Code)\n", "")
    cli.check()


def test_the_next_process_continues_the_script(tmp_path: Path) -> None:
    with SimulatedCLI(Script().user("one").says("One.").user("two").says("Two.")) as cli:
        cli.install(tmp_path)
        first = result(program(tmp_path, *FRAMES, stdin=b"one").ended()[1])
        resumed = (*FRAMES, "--resume", first["session_id"])
        assert result(program(tmp_path, *resumed, stdin=b"two").ended()[1])["result"] == "Two."
    code, _, errors = program(tmp_path, *resumed, stdin=b"three").ended()
    assert code == 1
    assert errors.startswith("The simulated CLI: ")
    assert errors.count("\n") == 1
    with pytest.raises(ScriptError, match="three"):
        cli.check()


def test_each_session_plays_the_script(tmp_path: Path) -> None:
    with SimulatedCLI(Script().user("one").says("One.").user("two").says("Two."), per_session=True) as cli:
        cli.install(tmp_path)
        first, second = (result(program(tmp_path, *FRAMES, stdin=b"one").ended()[1])["session_id"] for _ in range(2))
        assert first != second
        for each in (first, second):
            last = result(program(tmp_path, *FRAMES, "--resume", each, stdin=b"two").ended()[1])
            assert (last["result"], last["session_id"]) == ("Two.", each)
        assert {session.session_id for session in cli.sessions()} == {first, second}


@pytest.mark.parametrize(
    ("sent", "code", "subtype"),
    [(signal.SIGTERM, 143, None), (signal.SIGINT, 0, "error_during_execution"), (signal.SIGKILL, -9, None)],
)
def test_a_signal_ends_it(tmp_path: Path, sent: int, code: int, subtype: str | None) -> None:
    cli = SimulatedCLI(Script().user().calls("Bash", {"command": "sleep 60"}, endless=True).says("Never."))
    cli.install(tmp_path)
    running = program(tmp_path, *EVERYTHING, stdin=b"go")
    for line in running.out:
        if b'"tool_use"' in line:
            break
    os.kill(running.pid, sent)
    ended, out, _ = running.ended()
    assert ended == code
    assert [frame["subtype"] for frame in frames(out) if frame["type"] == "result"] == ([subtype] if subtype else [])
    assert "Never." not in out


def test_it_crashes_as_the_script_says(tmp_path: Path) -> None:
    cli = SimulatedCLI(Script().user().crash(-signal.SIGKILL, stderr="boom").user().crash(7))
    cli.install(tmp_path)
    code, _, errors = program(tmp_path, *FRAMES, stdin=b"go").ended()
    assert (code, errors.strip()) == (-9, "boom")
    assert program(tmp_path, *FRAMES, stdin=b"go").ended()[0] == 7


def test_a_module_plays_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(simulated_cli.SCRIPT_VARIABLE, raising=False)
    file = str(Script().user("hello").says("Hi.").save(tmp_path / "script.json"))
    assert of_module(file, "--print", stdin=b"hello") == (0, "Hi.\n", "")
    assert of_module("--print", stdin=b"hello") == (2, "", simulated_cli.USAGE)
    code, out, errors = of_module(str(tmp_path / "none"), "--print")
    assert (code, out) == (2, "")
    assert errors.startswith("the script cannot be read: ")
    monkeypatch.setenv(simulated_cli.SCRIPT_VARIABLE, file)
    assert of_module("--print", "hello") == (0, "Hi.\n", "")
    for flag in ("--version", "-v"):
        assert of_module(flag) == (0, f"{VERSION} (Claude Code)\n", "")
    code, out, errors = of_module("--print", "--never-heard-of", "hello")
    assert (code, out) == (1, "")
    assert errors == "error: unknown option '--never-heard-of'\n"


def test_the_tools_that_it_runs_have_their_own_forms(tmp_path: Path) -> None:
    made = tmp_path / "work" / "made.txt"
    script = Script().user().calls("Write", {"file_path": str(made), "content": "one\n"}).says("Done.")
    SimulatedCLI(script).install(tmp_path / "cli")
    code, out, _ = program(tmp_path / "cli", *EVERYTHING, stdin=b"go", real_tools=True).ended()
    assert (code, made.read_text()) == (0, "one\n")
    [told] = [frame["tool_use_result"] for frame in frames(out) if frame["type"] == "user"]
    assert (told["type"], told["filePath"], told["content"]) == ("create", str(made), "one\n")
