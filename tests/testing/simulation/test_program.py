"""The program that plays a script: what it prints, and how it exits. It runs in this process, with files in place of its streams."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from hackamore.testing import Script
from hackamore.testing.simulation.launch import VERSION
from hackamore.testing.simulation.simulated_cli import SCRIPT_VARIABLE, USAGE, command_line
from tests.testing.simulation.peer import FLAGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Return a function that runs the program with arguments and its input; it returns the exit status, stdout and stderr."""
    kept = [os.dup(number) for number in range(3)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.delenv(SCRIPT_VARIABLE, raising=False)

    def started(*arguments: str, stdin: str = "", script: Script | None = None) -> tuple[int, str, str]:
        paths = [tmp_path / name for name in ("stdin", "stdout", "stderr")]
        paths[0].write_text(stdin, encoding="utf-8")
        given = arguments if script is None else (str(script.save(tmp_path / "script.json")), *arguments)
        sys.stdout.flush()
        files = [
            os.open(path, os.O_RDWR if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number, path in enumerate(paths)
        ]
        try:
            for number, file in enumerate(files):
                os.dup2(file, number)
            code = command_line(given)
        finally:
            signal.set_wakeup_fd(-1)
            for number, file in enumerate(files):
                os.dup2(kept[number], number)
                os.close(file)
        return code, paths[1].read_text(encoding="utf-8"), paths[2].read_text(encoding="utf-8")

    yield started
    for number in kept:
        os.close(number)
    for signal_number, handler in handlers.items():
        signal.signal(signal_number, handler)


@pytest.mark.parametrize("flag", ["--version", "-v"])
def test_the_version(run: Run, flag: str) -> None:
    assert run(flag) == (0, f"{VERSION} (Claude Code)\n", "")
    assert run(flag, script=Script()) == (0, f"{VERSION} (Claude Code)\n", "")


def test_without_a_script_it_prints_the_usage(run: Run, tmp_path: Path) -> None:
    assert run() == (2, "", USAGE)
    assert run("-p", "hello") == (2, "", USAGE)
    code, _, problem = run(str(tmp_path / "never.json"))
    assert (code, problem.startswith("the script cannot be read: ")) == (2, True)


def test_a_variable_may_name_the_script(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SCRIPT_VARIABLE, str(Script().user("hello").says("Hi.").save(tmp_path / "other.json")))
    assert run("-p", "hello") == (0, "Hi.\n", "")


@pytest.mark.parametrize(
    ("script", "arguments", "stdin", "expected"),
    [
        (Script().user("hello").says("Hi."), ("-p",), "hello", (0, "Hi.\n", "")),
        (Script().user("hello").says("Hi."), ("-p", "hello"), "", (0, "Hi.\n", "")),
        (Script().user("hello").api_error(402, "no"), ("-p", "hello"), "", (1, "API Error: 402 no\n", "")),
        (
            *(Script().user().calls("Bash", {"command": "ls"}), ("-p", "hello", "--max-turns", "1"), ""),
            (1, "Error: Reached max turns (1)", ""),
        ),
        (Script(), ("-p", "--nonsense"), "hello", (1, "", "error: unknown option '--nonsense'\n")),
        (Script().user("hello").crash(7, stderr="boom"), ("-p", "hello"), "", (7, "", "boom\n")),
        (
            *(Script(), ("-p",), " "),
            (1, "", "Error: Input must be provided either through stdin or as a prompt argument when using --print\n"),
        ),
        (
            *(Script().user("one").says("One."), ("-p", "two"), ""),
            (
                1,
                "Unexpected request to the simulated CLI: the prompt was 'two', and the script has user 'one'\n",
                "The simulated CLI: the prompt was 'two', and the script has user 'one'\n",
            ),
        ),
        (
            *(Script().user().says("Hi."), ("-p", "hello", "--effort", "huge"), ""),
            (
                *(0, "Hi.\n"),
                "Warning: Unknown --effort value 'huge' — ignoring it and using the default effort. "
                "Valid values: low, medium, high, xhigh, max.\n",
            ),
        ),
    ],
)  # fmt: skip
def test_one_answer(
    run: Run, script: Script, arguments: tuple[str, ...], stdin: str, expected: tuple[int, str, str]
) -> None:
    assert run(*arguments, stdin=stdin, script=script) == expected


def test_a_conversation_of_frames(run: Run) -> None:
    requests = [
        {"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}},
        *({"type": "user", "message": {"role": "user", "content": prompt}} for prompt in ("one", "two")),
    ]
    stdin = "".join(f"{json.dumps(frame)}\n" for frame in requests)
    script = Script().user("one").slow(0.01).says("One.").user("two").says("Two.")
    code, printed, problems = run(*FLAGS, stdin=stdin, script=script)
    frames = [json.loads(line) for line in printed.splitlines()]
    assert (code, problems) == (0, "")
    assert [frame["result"] for frame in frames if frame["type"] == "result"] == ["One.", "Two."]
    assert frames[0]["response"]["request_id"] == "r1"


def test_a_line_that_is_not_json_ends_it(run: Run) -> None:
    code, printed, problems = run(*FLAGS, stdin="nonsense\n", script=Script())
    assert (code, printed, problems) == (1, "", "Error parsing streaming input line: it is not JSON\n")


def test_files_of_the_working_directory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "tea.txt").write_bytes(b"leaves\xff")
    for number in range(20):
        (folder / f"many{number:02}").touch()
    asked = [
        {"subtype": "read_file", "path": "tea.txt"},
        {"subtype": "read_file", "path": str(folder / "tea.txt"), "max_bytes": 3},
        {"subtype": "file_suggestions", "query": "ea"},
        {"subtype": "file_suggestions", "query": "many"},
        {"subtype": "file_suggestions", "query": ""},
    ]
    frames = [
        {"type": "control_request", "request_id": f"r{number}", "request": each} for number, each in enumerate(asked)
    ]
    _, printed, _ = run(*FLAGS, stdin="".join(f"{json.dumps(frame)}\n" for frame in frames), script=Script())
    read, part, found, many, none = (json.loads(line)["response"]["response"] for line in printed.splitlines())
    path = str(folder / "tea.txt")
    assert read == {"contents": "leaves\ufffd", "absPath": path, "lossy": False, "requested_path": "tea.txt"}
    assert part == {"contents": "lea", "absPath": path, "lossy": False, "requested_path": path}
    assert found == {"suggestions": [{"path": "tea.txt"}], "cwd": str(folder)}
    assert many["suggestions"] == [{"path": f"many{number:02}"} for number in range(15)]
    assert none["suggestions"] == []


@pytest.mark.parametrize("real", [True, False])
def test_frames_of_a_one_shot(run: Run, *, real: bool) -> None:
    flags = ("-p", "hello", "--output-format", "stream-json" if real else "json", "--verbose")
    code, printed, _ = run(*flags, script=Script().user("hello").says("Hi."))
    frames = [json.loads(line) for line in printed.splitlines()] if real else json.loads(printed)
    assert code == 0
    assert [frame["type"] for frame in frames] == ["system", "assistant", "result"]
