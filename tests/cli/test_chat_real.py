"""`hackamore chat` at a terminal, with the real CLI and a scripted model."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.testing import Repeat, Reply, ScriptedModel, Thinking, ToolCall
from tests.cli.command import Command
from tests.cli.talk import CTRL_C, CTRL_D, Talk

if TYPE_CHECKING:
    from tests.conftest import RealCLI

QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "red", "description": "like a fox"}, {"label": "blue", "description": "like the sea"}],
}
LONG = Repeat(Reply("word " * 400, chunk=5, delay=0.02))


def bash(command: str) -> Reply:
    return Reply(ToolCall("Bash", {"command": command, "description": "a command"}))


Talking = Callable[..., Talk]


@pytest.fixture
def talk(real_cli: RealCLI, tmp_path: Path) -> Talking:
    """Return a function that begins a chat."""

    def begin(model: ScriptedModel, *arguments: str) -> Talk:
        command = Command(tmp_path, real_cli.cli_path)
        command.environment.update(real_cli.env(model))
        return Talk(command, "--cwd", str(real_cli.cwd), *arguments)

    return begin


def test_conversation(talk: Talking) -> None:
    script = (Reply(Thinking("A thought."), "One 😀 two three.", chunk=1), Reply("Four.", expect_text="and\nthen"))
    with ScriptedModel(*script) as model, talk(model) as chat:
        assert "Ctrl-D" in chat.until_prompt()
        chat.say("hello")
        shown = chat.until_prompt()
        for part in ("A thought.", "One 😀 two three.", "✓ 1 turn"):
            assert shown.count(part) == 1
        chat.say("and\\")
        chat.until("\n. ")
        chat.say("then")
        assert chat.until_prompt().count("Four.") == 1
        chat.look()
        chat.type(CTRL_D)
        assert chat.code() == 0
        assert "hackamore chat --resume" in chat.text
        assert chat.left() == []


def test_first_prompt_and_resume(talk: Talking) -> None:
    with ScriptedModel("I am here.") as model, talk(model, "Are you there?") as chat:
        assert "> Are you there?\n" in chat.until("I am here.")
        chat.until_prompt()
        chat.say("/quit")
        assert chat.code() == 0
        session_id = chat.text.rpartition("--resume ")[2].strip()
    step = Reply("Still.", expect=lambda request: "I am here." in str(request.body))
    with ScriptedModel(step) as model, talk(model, "And now?", "--resume", session_id) as chat:
        chat.until("Still.")
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_yes_and_no(talk: Talking, real_cli: RealCLI) -> None:
    denied = Reply("Then not.", expect_text="rather touch three")
    with ScriptedModel(bash("touch one; ls"), "Done.", bash("touch two"), denied) as model, talk(model) as chat:
        chat.until_prompt()
        chat.say("make one")
        shown = chat.until("Allow Bash?")
        assert shown.index("● Bash touch one; ls") < shown.index("Bash wants to run:") < shown.index("always: ")
        assert "command: touch one; ls" in shown
        chat.say("perhaps")
        assert "Type [y]es, [n]o, [a]lways" in chat.until("Allow Bash?")
        chat.say("y")
        assert "⎿ one" in chat.until("Done.")
        chat.until_prompt()
        chat.say("make two")
        chat.until("Allow Bash?")
        chat.say("n rather touch three")
        assert "⎿ rather touch three" in chat.until("Then not.")
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0
    assert [path.name for path in real_cli.cwd.iterdir()] == ["one"]


def test_always_holds(talk: Talking, real_cli: RealCLI) -> None:
    with ScriptedModel(bash("touch one"), bash("touch one two"), "Both are there.") as model, talk(model) as chat:
        chat.until_prompt()
        chat.say("make them")
        assert "always: allow Bash(touch one *) (in this session)" in chat.until("Allow Bash?")
        chat.say("always")
        # The open question itself is shown again if a message comes before its answer is read.
        assert "wants to run" not in chat.until("Both are there.")
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0
    assert {"one", "two"} <= {path.name for path in real_cli.cwd.iterdir()}


def test_the_models_own_question(talk: Talking) -> None:
    asked = ToolCall("AskUserQuestion", {"questions": [QUESTION]})
    script = (Reply(asked), Reply("Red or blue?", expect_text="the user replies with the next prompt"), "The sea.")
    with ScriptedModel(*script) as model, talk(model) as chat:
        chat.until_prompt()
        chat.say("ask me")
        chat.until("Red or blue?")
        chat.until_prompt()
        chat.say("blue")
        chat.until("The sea.")
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_interrupt_while_streaming(talk: Talking) -> None:
    script = (Reply("word " * 400, chunk=5, delay=0.02), "I am back.")
    with ScriptedModel(*script) as model, talk(model) as chat:
        chat.until_prompt()
        chat.say("go")
        chat.until("word word")
        chat.type(CTRL_C)
        chat.until("Interrupting")
        chat.until("Interrupted.")
        chat.until_prompt()
        chat.say("and now")
        chat.until("I am back.")
        chat.until_prompt()
        chat.type(CTRL_C)
        assert "Ctrl-C again quits" in chat.until_prompt()
        chat.look()
        chat.type(CTRL_C)
        assert chat.code() == 130
        assert chat.left() == []


def test_interrupt_while_a_question_is_open(talk: Talking, real_cli: RealCLI) -> None:
    with ScriptedModel(bash("touch one"), "I am back.") as model, talk(model) as chat:
        chat.until_prompt()
        chat.say("go")
        chat.until("Allow Bash?")
        chat.type(CTRL_C)
        chat.until("Interrupted.")
        chat.until_prompt()
        chat.say("y")
        chat.until("I am back.")
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0
    assert list(real_cli.cwd.iterdir()) == []


def test_interrupt_while_a_tool_runs(talk: Talking, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = f"echo $$ > {shlex.quote(str(ready))}; sleep 120"
    with ScriptedModel(bash(command), "I am back.") as model, talk(model, "--allow", "Bash") as chat:
        chat.until_prompt()
        chat.say("go")
        shell = int(ready.read_text())
        chat.look()
        assert shell in chat.below
        chat.type(CTRL_C)
        chat.until("Interrupted.")
        chat.until_prompt()
        chat.say("and now")
        chat.until("I am back.")
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0
        assert chat.left() == []


@pytest.mark.parametrize("place", ["streaming", "question", "tool"])
@pytest.mark.parametrize("how", ["Ctrl-C twice", "Ctrl-D", "SIGTERM", "SIGHUP", "hang up"])
def test_every_end_leaves_nothing(talk: Talking, tmp_path: Path, place: str, how: str) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = f"echo $$ > {shlex.quote(str(ready))}; sleep 120"
    script: Any = {"streaming": LONG, "question": bash("touch one"), "tool": bash(command)}[place]
    with ScriptedModel(script) as model, talk(model, *(["--allow", "Bash"] if place == "tool" else [])) as chat:
        chat.until_prompt()
        chat.say("go")
        if place == "tool":
            ready.read_text()
        else:
            chat.until({"streaming": "word word", "question": "Allow Bash?"}[place])
        chat.look()
        match how:
            case "Ctrl-C twice":
                chat.type(CTRL_C)
                chat.until("Interrupting")
                chat.type(CTRL_C)
            case "Ctrl-D":
                chat.type(CTRL_D)
            case "hang up":
                chat.hang_up()
            case _:
                chat.process.send_signal(signal.Signals[how])
        expected = {"Ctrl-C twice": {130}, "Ctrl-D": {0}, "SIGTERM": {143}, "SIGHUP": {129}, "hang up": {129}}
        assert chat.code() in expected[how]
        assert "Traceback" not in chat.text
        assert chat.left() == []


def test_commands_of_the_cli(talk: Talking) -> None:
    with ScriptedModel() as model, talk(model) as chat:
        chat.until_prompt()
        chat.say("/usage")
        assert "error" not in chat.until_prompt().lower()
        chat.say("/quit")
        assert chat.code() == 0


def test_prompt_typed_while_another_runs(talk: Talking) -> None:
    with ScriptedModel(Reply("first " * 20, chunk=3, delay=0.02), "Second.") as model, talk(model) as chat:
        chat.until_prompt()
        chat.say("one")
        chat.until("first first")
        chat.say("two")
        shown = chat.until("Second.")
        assert shown.count("✓ 1 turn") == 1
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_background_task(talk: Talking, real_cli: RealCLI) -> None:
    held = "until [ -e go ]; do sleep 0.05; done"
    call = ToolCall("Bash", {"command": held, "description": "build", "run_in_background": True})
    with ScriptedModel(Reply(call), "It builds.", "It is built.") as model, talk(model, "--allow", "Bash") as chat:
        chat.until_prompt()
        chat.say("build")
        assert "In the background: build" in chat.until_prompt()
        (real_cli.cwd / "go").touch()
        chat.until("It is built.")
        assert "Background task completed" in chat.text
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0
