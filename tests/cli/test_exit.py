"""How `hackamore run` ends: exit codes, signals, readers that go away; and what is left then, which is nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, Command, children_of, left_of, read_until
from tests.support.patience import patience

Started = Callable[[subprocess.Popen[bytes]], subprocess.Popen[bytes]]

INIT: list[Any] = ["frame", "init"]
ANSWER: list[Any] = ["frame", "assistant"]
RESULT: list[Any] = ["frame", "result"]


# -- exit codes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [[], ["--json"], ["--quiet"]], ids=["shown", "json", "quiet"])
@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([INIT, RESULT], 0),
        ([INIT, ["frame", "error_result"], ["exit", 1]], 1),
        ([INIT, ["exit", 3]], 1),
        ([INIT, ["die", 9]], 1),
        ([INIT], 1),
        ([], 1),
        ([["out", "x\n" * 9]], 1),
    ],
    ids=["success", "error result", "exit 3", "killed", "no result", "nothing", "no stream"],
)
def test_exit_codes_of_runs(hackamore: Command, steps: list[list[Any]], code: int, extra: list[str]) -> None:
    ran = hackamore.plays(*steps)("run", "hi", *extra)
    assert ran.code == code
    shown = not extra  # the header and the summary go to stderr, because stdout is no terminal
    assert bool(ran.err) == (shown or (code != 0 and not (extra == ["--json"] and steps[-1:] == [["exit", 1]])))
    assert b"Traceback" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "hi", "--nonsense"], "There is no option"),
        (["run", "hi", "--max-turns", "many"], "max-turns"),
        (["run", "hi", "--max-turns", "-1"], "max_turns"),
        (["run", "hi", "--permission-mode", "yolo"], "permission_mode"),
        (["run", "hi", "--session-id", "x"], "UUID"),
        (["run", "hi", "--cwd", "/nowhere/at/all"], "does not exist"),
        (["run", "hi", "--option", "modle=x"], "Did you mean `model`"),
        (["run", "hi", "--option", "model"], "NAME=JSON"),
        (["run", "hi", "--option", "agents={"], "not valid JSON"),
        (["run", "hi", "--option", "can_use_tool=1"], "is a function"),
        (["run", "hi", "--option", "max_turns=many"], "max_turns"),
        (["run", "hi", "--config", "/nowhere.toml"], "cannot be read"),
        (["run", "hi", "--output-schema", "/nowhere.json"], "cannot be read"),
        (["run", "hi", "--timeout", "0"], "`--timeout` must be more than 0"),
        (["run", "hi", "--json", "--quiet"], "exclude"),
        (["run", "hi", "twice"], "unexpected extra argument"),
        (["run", ""], "empty"),
        (["run"], "empty"),
        (["nonsense"], "There is no command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage(hackamore: Command, arguments: list[str], says: str) -> None:
    ran = hackamore(*arguments)
    assert (ran.code, ran.text) == (2, "")
    assert says in ran.errors
    assert "Traceback" not in ran.errors


def test_prompt_that_is_no_utf8(hackamore: Command) -> None:
    ran = hackamore("run", stdin=b"\xff")
    assert ran.code == 2
    assert "UTF-8" in ran.errors


@pytest.mark.parametrize("kind", ["missing", "folder", "not executable", "no program", "too old", "no version"])
def test_cli_that_cannot_be_started(hackamore: Command, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "another"
    match kind:
        case "folder":
            path.mkdir()
        case "not executable":
            path.write_text("#!/bin/sh\n")
        case "no program":
            path.write_bytes(b"\x7fELF nonsense")
            path.chmod(0o755)
        case "too old" | "no version":
            path.write_text(f"#!/bin/sh\necho {'0.2.9' if kind == 'too old' else 'hello'}\n")
            path.chmod(0o755)
    for command in ("run", "chat", "doctor"):
        ran = hackamore(command, "--cli-path", str(path), *(["hi"] if command == "run" else []))
        assert ran.code == 3, ran
        assert "Traceback" not in ran.errors
        assert command != "run" or ran.text == ""


# -- endings -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [[], ["--json"], ["--quiet"]], ids=["shown", "json", "quiet"])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_signals_stop_everything(
    hackamore: Command, started: Started, tmp_path: Path, number: signal.Signals, code: int, extra: list[str]
) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    hackamore.plays(INIT, ["grandchild", 120, str(tmp_path / "mark"), True], ["touch", str(ready)], ["sleep", 120])
    process = started(hackamore.start("run", "hi", *extra))
    with open(ready, "rb"):
        # Opening waits for the other end: the stand-in has got there.
        below = children_of(process)
    assert len(below) >= 2
    process.send_signal(number)
    _, err = process.communicate(timeout=patience(30))
    assert process.returncode == code, err
    assert b"Traceback" not in err
    # On a busy machine the signal may come before the first frame was read, which names the session.
    hint = b"Resume with: hackamore run --resume 5e551011 PROMPT\n"
    shown = (b"Interrupted.\n", b"Interrupted.\n" + hint)
    assert err.endswith(shown) if number == signal.SIGINT else b"Interrupted." not in err
    assert int((tmp_path / "mark").read_text()) in below
    assert left_of(below) == []


def test_second_interrupt_does_not_disturb_stopping(hackamore: Command, started: Started) -> None:
    hackamore.plays(["ignore_term"], INIT, ANSWER, ["sleep", 120])
    process = started(hackamore.start("run", "hi", "--option", 'timeouts={"kill_grace": 0.5, "stop_grace": 0.1}'))
    read_until(process, b"hello")
    below = children_of(process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=patience(30))
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert left_of(below) == []


def test_interrupt_while_the_version_is_asked(hackamore: Command, started: Started, tmp_path: Path) -> None:
    ready, path = tmp_path / "ready", tmp_path / "slow"
    os.mkfifo(ready)
    path.write_text(f"#!/bin/sh\n: > '{ready}'\nexec sleep 120\n")
    path.chmod(0o755)
    process = started(hackamore.start("run", "hi", "--cli-path", str(path)))
    with open(ready, "rb"):
        below = children_of(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=patience(20))
    assert (process.returncode, err) == (130, b"Interrupted.\n")
    assert left_of(below) == []


def test_interrupt_while_the_reader_sleeps(hackamore: Command, started: Started) -> None:
    hackamore.plays(INIT, ["frames", "assistant", 200_000], ["sleep", 120])
    process = started(hackamore.start("run", "hi"))
    read_until(process, b"hello")
    # Nobody reads on: the command is, or will be, blocked in a write.
    below = children_of(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(patience(20)) == 130
    assert left_of(below) == []


@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["shown", "json"])
def test_reader_that_goes_away(hackamore: Command, started: Started, extra: list[str]) -> None:
    hackamore.plays(INIT, ["frames", "assistant", 200_000], ["sleep", 120])
    process = started(hackamore.start("run", "hi", *extra))
    read_until(process, b"hello")
    below = children_of(process)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=patience(30))
    assert process.returncode == 141
    assert err.decode() == ("" if extra else "stand-in · /\n")
    assert left_of(below) == []


def test_full_disk(hackamore: Command) -> None:
    with open("/dev/full", "wb") as full:
        process = hackamore.plays(INIT, ANSWER, RESULT).start("run", "hi", stdout=full)
        _, err = process.communicate(timeout=patience(30))
    assert process.returncode == 1
    assert err.decode().endswith("error: the output cannot be written: No space left on device\n")


# -- the rest ------------------------------------------------------------------------------------------------------------------


def test_version_and_help(hackamore: Command) -> None:
    from hackamore import __version__

    assert hackamore("--version").text == f"hackamore {__version__}\n"
    shown = hackamore("run", "--help")
    assert shown.code == 0
    for part in ("Exit codes", "130", "cannot be started", "git diff |", "--allow", "--option"):
        assert part in shown.text
    assert hackamore("--help").code == hackamore("doctor", "--help").code == hackamore("demo", "-h").code == 0


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], []])
def test_nobody_reads_the_help(hackamore: Command, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = hackamore.arguments(*arguments)
        done = subprocess.run(
            command, env=hackamore.environment, stdout=writer, stderr=subprocess.PIPE, timeout=patience(30), check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("missing", ["typer", "rich"])
@pytest.mark.parametrize("command", ["run", "chat"])
def test_without_the_extra(missing: str, command: str) -> None:
    code = f"import sys; sys.argv[1:] = [{command!r}]; sys.modules[{missing!r}] = None; from hackamore.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=patience(30), check=False
    )
    assert done.returncode == 2
    assert "pip install 'hackamore[cli]'" in done.stderr
    assert missing in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_the_command_is_loaded() -> None:
    code = """
import sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
from hackamore.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=patience(30), check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_the_package_does_not_load_the_extra() -> None:
    code = "import sys, hackamore.cli; sys.exit(any(name in sys.modules for name in ('typer', 'rich', 'click')))"
    assert subprocess.run([sys.executable, "-c", code], timeout=patience(30), check=False).returncode == 0


def test_module_is_the_command() -> None:
    assert COMMAND[1:] == ("-m", "hackamore.cli")


def test_the_package_is_the_command_too(hackamore: Command) -> None:
    command = [sys.executable, "-m", "hackamore", "--version"]
    done = subprocess.run(command, env=hackamore.environment, capture_output=True, timeout=patience(30), check=True)
    assert done.stdout == hackamore("--version").out
