"""The command with the real CLI and a scripted model, and the demo."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hackamore.testing import HTTPFailure, Reply, ScriptedModel, Thinking, ToolCall
from tests.cli.command import Command, children_of, left_of, read_until
from tests.support.patience import patience

if TYPE_CHECKING:
    from tests.conftest import RealCLI

Started = Callable[[subprocess.Popen[bytes]], subprocess.Popen[bytes]]


@pytest.fixture
def real(real_cli: RealCLI, tmp_path: Path) -> Command:
    """The command with the real CLI; the environment is completed by `at`."""
    return Command(tmp_path, real_cli.cli_path)


@pytest.fixture
def at(real: Command, real_cli: RealCLI) -> Callable[[ScriptedModel], Command]:
    def point(model: ScriptedModel) -> Command:
        real.environment.update(real_cli.env(model))
        return real

    return point


At = Callable[[ScriptedModel], Command]


def test_text_tool_and_summary(at: At, real_cli: RealCLI) -> None:
    script = (
        Reply(
            Thinking("First a look."), "I will look.", ToolCall("Bash", {"command": "echo seen; printf '\\033[31m'"})
        ),
        Reply("All seen.", expect_text="seen"),
    )
    with ScriptedModel(*script) as model:
        ran = at(model)("run", "Look", "--cwd", str(real_cli.cwd), "--allow", "Bash")
    assert ran.code == 0, ran
    for part in ("(thinking) First a look.", "I will look.", "● Bash echo seen", "⎿ seen", "All seen.", "2 turns"):
        assert (ran.text + ran.errors).count(part) == 1
    assert ran.text == "I will look.\n\nAll seen.\n"
    assert "\x1b" not in ran.text + ran.errors


def test_streamed_on_a_terminal(at: At, real_cli: RealCLI) -> None:
    script = Reply(
        Thinking("First a thought."), "One 😀 two three.", ToolCall("Bash", {"command": "echo ran"}), chunk=1
    )
    with ScriptedModel(script, Reply("Done.", chunk=3)) as model:
        ran = at(model).on_terminal("run", "Go", "--cwd", str(real_cli.cwd), "--allow", "Bash", env={"NO_COLOR": "1"})
    assert ran.code == 0
    for part in ("First a thought.", "One 😀 two three.", "Done.", "⎿ ran"):
        assert ran.text.count(part) == 1


def test_json_is_what_the_cli_wrote(at: At, real_cli: RealCLI, tmp_path: Path) -> None:
    copy, wrapper = tmp_path / "copy.jsonl", tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\n{shlex.quote(real_cli.cli_path)} "$@" | tee {shlex.quote(str(copy))}\n')
    wrapper.chmod(0o755)
    with ScriptedModel(
        Reply("Tab\tand \u2028 and \x1b[31m.", ToolCall("Bash", {"command": "printf 'a\\303\\244'"})), "x"
    ) as model:
        arguments = ("--cwd", str(real_cli.cwd), "--allow", "Bash", "--partial", "--option", "version_check=skip")
        ran = at(model)("run", "Look", "--json", "--cli-path", str(wrapper), *arguments)
    assert (ran.code, ran.errors) == (0, "")
    # What the CLI says about its state only because Hackamore asks for it is no message of a one-shot query.
    lines = copy.read_bytes().splitlines(keepends=True)
    assert ran.out == b"".join(line for line in lines if b'"sdk_host_only":true' not in line)
    assert ran.out.count(b"\n") > 10


def test_error_result(at: At, real_cli: RealCLI) -> None:
    with ScriptedModel() as model:
        ran = at(model)("run", "hi", "--resume", "00000000-0000-4000-8000-000000000000", "--cwd", str(real_cli.cwd))
    assert ran.code == 1
    assert "No conversation found" in ran.errors


def test_max_turns(at: At, real_cli: RealCLI) -> None:
    with ScriptedModel(Reply(ToolCall("Bash", {"command": "true"}))) as model:
        ran = at(model)("run", "hi", "--max-turns", "1", "--allow", "Bash", "--cwd", str(real_cli.cwd))
    assert ran.code == 1
    assert "max_turns" in ran.errors


def test_retry_is_told(at: At, real_cli: RealCLI) -> None:
    with ScriptedModel(HTTPFailure(429, retry_after=0), "There.") as model:
        ran = at(model)("run", "hi", "--cwd", str(real_cli.cwd))
    assert ran.code == 0
    assert "429" in ran.errors
    assert "There." in ran.text


def test_structured_output(at: At, real_cli: RealCLI, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}')
    with ScriptedModel(Reply(ToolCall("StructuredOutput", {"n": 4}))) as model:
        ran = at(model)("run", "Count", "--output-schema", str(schema), "-q", "--cwd", str(real_cli.cwd))
    assert (ran.code, ran.text) == (0, '{"n": 4}\n')


def test_interrupt_in_the_middle_of_a_command(at: At, real_cli: RealCLI, started: Started, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = f"echo $$ > {shlex.quote(str(ready))}; sleep 120"
    with ScriptedModel(Reply(ToolCall("Bash", {"command": command}))) as model:
        process = started(at(model).start("run", "hi", "--allow", "Bash", "--cwd", str(real_cli.cwd)))
        shell = int(ready.read_text())
        below = children_of(process)
        assert shell in below
        assert process.stderr is not None
        shown = b""
        while b"sleep 120" not in shown:  # the command may run before its call is shown
            shown += os.read(process.stderr.fileno(), 4096)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=patience(30))
    err = shown + err
    assert process.returncode == 130
    assert "\nInterrupted.\nResume with: hackamore run --resume " in err.decode()
    assert left_of(below) == []


def test_reader_that_goes_away(at: At, real_cli: RealCLI, started: Started) -> None:
    script = [Reply("word " * 2_000, ToolCall("Bash", {"command": "echo x"}), chunk=5, delay=0.001)]
    with ScriptedModel(*script) as model:
        process = started(at(model).start("run", "hi", "--partial", "--cwd", str(real_cli.cwd)))
        read_until(process, b"word")
        below = children_of(process)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=patience(30))
    assert process.returncode == 141
    assert err.count(b"\n") == 1  # the header
    assert left_of(below) == []


def test_doctor(real: Command) -> None:
    ran = real("doctor", env={"ANTHROPIC_API_KEY": "test"})
    assert ran.code == 0
    assert "2.1." in ran.text


# -- the demo ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [False, True])
def test_demo(real: Command, terminal: bool) -> None:
    home = Path(real.environment["HOME"])
    before = sorted(home.rglob("*"))
    ran = real.on_terminal("demo", env={"NO_COLOR": "1"}) if terminal else real("demo")
    assert ran.code == 0, ran
    assert sorted(home.rglob("*")) == before
    assert "Background task completed" in ran.text + ran.errors
    assert ran.errors == "" or ran.errors.splitlines()[0] == "In the background: It takes a while."
    assert "warning" not in ran.text + ran.errors
    shown = ran.text.replace("\r\n", "\n")
    position = 0
    for part in (
        "The model is a script on 127.0.0.1",
        "The folder is best looked at",
        "● Bash wc -c *",
        "76 total",
        "this ran on Linux, as process ",
        "● Write ",
        "[This is not markup], and \\x1b[31mthis is not red\\x1b[0m.",
        "3 turns",
        "- `data.csv`, 43 bytes\n  - `hello.py`, 33 bytes",
        "Inventory(files=3, largest='NOTES.md', total_bytes=",
        "2 turns",
        "● Bash rm data.csv",
        "hook: nothing is deleted",
        "Nothing is deleted in a demo.",
        "permission callback: yes, but as `cp data.csv backup.csv && ls`",
        "backup.csv\n",
        "permission callback: no",
        "● mcp__stable__height",
        "function: height('Ada') was called",
        "163 cm\n",
        "await session.interrupt()",
        "interrupted: aborted_streaming",
        "await session.wait_idle()   # background tasks: 1",
        "The test is done: all is well.",
        "nothing runs in the background",
        "Finished in",
    ):
        position = shown.find(part, position)
        assert position >= 0, (part, shown)
    folder = shown.partition("/project · Claude Code")[0].rpartition(" ")[2]
    assert Path(folder).name.startswith("hackamore-demo-")
    assert not Path(folder).exists()


@pytest.mark.parametrize("how", ["asked for", "none is there"])
def test_demo_without_a_cli(real: Command, how: str) -> None:
    real.cli_path = ""
    ran = real("demo", "--simulated") if how == "asked for" else real("demo", env={"PATH": "/nonexistent"})
    assert ran.code == 0, ran
    shown = ran.text
    assert ("No Claude Code CLI was found" in shown) is (how != "asked for")
    position = 0
    for part in (
        "Hackamore demo, simulated",
        "76 total",
        "Inventory(files=3, largest='NOTES.md', total_bytes=",
        "hook: nothing is deleted",
        "backup.csv\n",
        "permission callback: no",
        "function: height('Ada') was called",
        "interrupted: aborted_streaming",
        "await session.wait_idle()   # background tasks: 1",
        "nothing runs in the background",
    ):
        position = shown.find(part, position)
        assert position >= 0, (part, shown)


def test_demo_uses_what_is_named(real: Command) -> None:
    path, real.cli_path = real.cli_path, ""
    assert f"CLI: {path} (HACKAMORE_CLI_PATH)" in real("demo", env={"HACKAMORE_CLI_PATH": path}).text
    ran = real("demo", env={"HACKAMORE_CLI_PATH": "/nonexistent"})
    assert ran.code == 3
    assert "none was found" in ran.errors
    assert "`HACKAMORE_CLI_PATH` is '/nonexistent', which does not exist. Correct the path" in ran.errors


@pytest.mark.parametrize("place", [b"Claude Code", b"First the old table goes", b"A horse is"])
def test_demo_interrupted(real: Command, started: Started, place: bytes) -> None:
    process = started(real.start("demo"))
    read_until(process, place)
    below = children_of(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=patience(30))
    assert process.returncode == 130
    assert err == b"Interrupted.\n"
    assert left_of(below) == []
