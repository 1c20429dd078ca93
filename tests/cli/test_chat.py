"""`hackamore chat` with a stand-in CLI: prompts from a pipe, what the real CLI cannot be made to do, and texts that cannot be trusted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Command, children_of, left_of
from tests.cli.talk import CTRL_C, CTRL_D, Talk
from tests.cli.test_untrusted_text import NASTY, check
from tests.support import stand_in_session
from tests.support.patience import patience
from tests.support.programs import program

ASKED = {"tool_name": "Bash", "tool_use_id": "t1", "input": {"command": "touch one"}}
Started = Callable[[subprocess.Popen[bytes]], subprocess.Popen[bytes]]


@pytest.fixture
def hackamore(tmp_path: Path) -> Command:
    """Return the command with the stand-in for sessions."""
    return Command(tmp_path, str(program(tmp_path / "claude", stand_in_session)))


def prompt(*steps: list[Any]) -> str:
    return json.dumps(steps)


def piped(*prompts: str) -> bytes:
    return "".join(f"{line}\n" for line in prompts).encode()


def asking(**more: Any) -> str:
    return prompt(["ask", "can_use_tool", {**ASKED, **more}])


# -- prompts from a pipe -------------------------------------------------------------------------------------------------------


def test_one_prompt_for_each_line(hackamore: Command) -> None:
    ran = hackamore("chat", "zero", stdin=b"one\n\ntwo\\\nand more\nlast, without an end")
    assert ran.code == 0
    assert ran.text.startswith("zero\n\none\n\ntwo\nand more\n")
    assert ran.text.endswith("last, without an end\n")
    position = 0
    for part in ("> zero\n", "\n> one\n", "\n> two\nand more\n", "\n> last, without an end\n"):
        position = ran.errors.find(part, position)
        assert position >= 0, (part, ran.errors)
    assert "\x1b" not in ran.text
    assert "\nResume with: hackamore chat --resume " in ran.errors


def test_prompts_from_a_file(hackamore: Command, tmp_path: Path) -> None:
    source = tmp_path / "prompts"
    source.write_text("\ufeffone\r\ntwo\r\n")
    with source.open("rb") as file:
        process = hackamore.start("chat", stdin=file)
        out, _ = process.communicate(timeout=patience(30))
    assert process.returncode == 0
    assert out == b"one\n\ntwo\n"


@pytest.mark.parametrize("stdin", [b"", b"\n\n", b"/quit\nnever\n"], ids=["nothing", "empty lines", "quit"])
def test_nothing_to_say(hackamore: Command, stdin: bytes) -> None:
    ran = hackamore("chat", stdin=stdin)
    assert (ran.code, ran.text, ran.errors) == (0, "", "")


def test_closed_stdin(hackamore: Command) -> None:
    shell = 'exec "$@" <&-'
    arguments = ["sh", "-c", shell, "sh", *hackamore.arguments("chat", "hello")]
    done = subprocess.run(arguments, env=hackamore.environment, capture_output=True, timeout=patience(30), check=False)
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done


def test_nobody_can_be_asked(hackamore: Command) -> None:
    ran = hackamore("chat", stdin=piped(asking()))
    assert ran.code == 0
    assert (
        "Bash was denied: there is no terminal to ask at. Allow it with --allow Bash, or everything with --yes."
        in ran.errors
    )
    assert '"behavior": "deny"' in ran.text


def test_yes_for_all(hackamore: Command) -> None:
    ran = hackamore("chat", "--yes", stdin=piped(asking(), asking(requires_user_interaction=True)))
    assert ran.code == 0
    assert "Bash was allowed: --yes." in ran.errors
    assert "Bash was denied: there is no terminal to ask at. Only a person at a terminal may allow it." in ran.errors
    assert ran.text.index('"behavior": "allow"') < ran.text.index('"behavior": "deny"')


def test_error_result(hackamore: Command) -> None:
    ran = hackamore("chat", stdin=piped(prompt(["error_result"]), "goes on"))
    assert ran.code == 1
    assert "it went wrong" in ran.errors
    assert ran.text == "goes on\n"


def test_deadline_of_a_turn(hackamore: Command) -> None:
    ran = hackamore("chat", "--timeout", "0.3", stdin=piped(prompt(["hang"]), "goes on"))
    assert ran.code == 1
    assert "0.3" in ran.errors
    assert ran.text == "goes on\n"


def test_background_tasks_are_awaited(hackamore: Command) -> None:
    task = {"task_id": "b1", "task_type": "shell", "description": "build"}
    late = ["later", [["ask", "can_use_tool", ASKED], ["background", []]]]
    ran = hackamore("chat", "--yes", stdin=piped(prompt(late, ["background", [task]])))
    assert ran.code == 0
    assert "Bash was allowed" in ran.errors


def test_server_that_asks(hackamore: Command) -> None:
    question = {"mcp_server_name": "shop", "message": "How many?", "mode": "form", "requested_schema": {}}
    ran = hackamore("chat", stdin=piped(prompt(["ask", "elicitation", question])))
    assert "The MCP server shop asked a question and was declined: a chat has no forms." in ran.errors
    assert '"action": "decline"' in ran.text


# -- wrong use -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "stdin", "says"),
    [
        (["--nonsense"], b"", "There is no option"),
        (["--permission-mode", "yolo"], b"", "permission_mode"),
        (["--cwd", "/nowhere/at/all"], b"", "does not exist"),
        (["--json"], b"", "There is no option"),
        (["hi", "twice"], b"", "unexpected extra argument"),
        ([], b"\xff\n", "not valid UTF-8"),
    ],
    ids=["flag", "mode", "folder", "json", "two prompts", "no text"],
)
def test_usage(hackamore: Command, arguments: list[str], stdin: bytes, says: str) -> None:
    ran = hackamore("chat", *arguments, stdin=stdin)
    assert (ran.code, ran.text) == (2, "")
    assert says in ran.errors
    assert "Traceback" not in ran.errors


def test_help(hackamore: Command) -> None:
    shown = hackamore("chat", "--help")
    assert shown.code == 0
    for part in ("--yes", "--resume", "--allow", "--option", "Ctrl-D", "130", "Examples"):
        assert part in shown.text
    assert "--output-schema" not in shown.text


# -- the end of the CLI --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "says"), [(["die"], "SIGKILL"), (["exit", 3], "exit code 3"), (["exit", 0], "while a prompt was open")]
)
@pytest.mark.parametrize("terminal", [False, True])
def test_cli_that_dies_in_a_turn(hackamore: Command, step: list[Any], says: str, terminal: bool) -> None:
    if terminal:
        ran = hackamore.on_terminal("chat", prompt(["text", "so far"], step))
        errors = ran.text
    else:
        ran = hackamore("chat", stdin=piped(prompt(["text", "so far"], step), "never said"))
        errors = ran.errors
    assert ran.code == 1
    assert "so far" in ran.text
    assert "error: The session is closed" in errors
    assert says in errors
    assert "Traceback" not in ran.text + ran.errors
    assert "never said" not in ran.text


@pytest.mark.parametrize(
    ("start", "code"),
    [([["exit", 1]], 3), ([["die"]], 3), ([["refuse", "no\x1b[2J"]], 3)],
    ids=["exit", "killed", "refused"],
)
def test_cli_that_does_not_start(hackamore: Command, start: list[Any], code: int) -> None:
    hackamore.environment["STAND_IN_START"] = json.dumps(start)
    ran = hackamore("chat", "hi")
    assert ran.code == code
    assert "error: " in ran.errors
    assert "Traceback" not in ran.errors
    check(ran)


def test_cli_that_ends_by_itself(hackamore: Command) -> None:
    with Talk(hackamore) as chat:
        chat.until_prompt()
        chat.say(prompt(["text", "bye"], ["later", [["background", []]]]))
        chat.until_prompt()
        chat.look()
        for who in chat.below:
            if "stand_in_session" in Path(f"/proc/{who}/cmdline").read_text():
                os.kill(who, signal.SIGTERM)
        assert chat.code() == 1
        assert "error: The session is closed" in chat.text
        assert chat.left() == []


def test_interrupt_while_it_starts(hackamore: Command, started: Started, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    hackamore.environment["STAND_IN_START"] = json.dumps([["touch", str(ready)], ["silent"]])
    process = started(hackamore.start("chat", stdin=subprocess.PIPE))
    with open(ready, "rb"):
        below = children_of(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=patience(30))
    assert (process.returncode, err) == (130, b"Interrupted.\n")
    assert left_of(below) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_while_nobody_reads(hackamore: Command, started: Started, number: signal.Signals) -> None:
    process = started(hackamore.start("chat", prompt(["flood", 5_000, 1_000]), stdin=subprocess.PIPE))
    assert process.stdout is not None
    assert b"xxxx" in process.stdout.read(200_000)
    # Nobody reads on: the command is, or will be, blocked in a write.
    below = children_of(process)
    assert below
    process.send_signal(number)
    for _ in range(200):
        try:
            process.wait(0.1)
            break
        except subprocess.TimeoutExpired:
            if number == signal.SIGINT:  # the first one interrupts the turn, and several at once may arrive as one
                process.send_signal(number)
    assert process.returncode == 128 + number
    assert left_of(below) == []


def test_reader_that_goes_away(hackamore: Command, started: Started) -> None:
    process = started(hackamore.start("chat", prompt(["flood", 5_000, 1_000]), stdin=subprocess.PIPE))
    assert process.stdout is not None
    assert b"xxxx" in process.stdout.read(10_000)
    below = children_of(process)
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=patience(30))
    assert process.returncode == 141
    assert err.startswith(b"> ")
    assert err.count(b"\n") == 1
    assert left_of(below) == []


def test_second_interrupt_ends_what_does_not_listen(hackamore: Command) -> None:
    grace = 'timeouts={"kill_grace": 0.5, "stop_grace": 0.1}'
    with Talk(hackamore, "--option", grace) as chat:
        chat.until_prompt()
        chat.say(prompt(["ignore_term"], ["text", "now"], ["silent"]))
        chat.until("\nnow\n")
        chat.look()
        chat.type(CTRL_C)
        chat.until("Interrupting")
        chat.type(CTRL_C)
        assert chat.code() == 130
        assert chat.left() == []


# -- questions -----------------------------------------------------------------------------------------------------------------


def test_what_only_a_person_may_allow(hackamore: Command) -> None:
    with Talk(hackamore) as chat:
        chat.until_prompt()
        chat.say(asking(requires_user_interaction=True, suppress_always_allow_rule=True))
        assert "always" not in chat.until("Allow Bash? yes, [n]o ").rpartition("wants to run")[2]
        for answer in ("y", "always", "", "yes please"):
            chat.say(answer)
            chat.until("Allow Bash?")
        chat.say("yes")
        assert '"behavior": "allow"' in chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_rule_of_our_own(hackamore: Command) -> None:
    with Talk(hackamore) as chat:
        chat.until_prompt()
        chat.say(asking())
        assert "always: allow Bash (in this session)" in chat.until("Allow Bash?")
        chat.say("a")
        answer = chat.until_prompt()
        assert '"toolName": "Bash"' in answer
        assert '"destination": "session"' in answer
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_all_of_a_long_input_can_be_seen(hackamore: Command) -> None:
    command = "\n".join(f"echo {number}" for number in range(60))
    with Talk(hackamore) as chat:
        chat.until_prompt()
        chat.say(asking(input={"command": command}))
        shown = chat.until("Allow Bash?").rpartition("wants to run")[2]
        assert "more characters: ? shows all" in shown
        assert "echo 59" not in shown
        chat.say("?")
        assert "echo 59" in chat.until("Allow Bash?")
        chat.say("n")
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_what_was_typed_before_is_no_answer(hackamore: Command, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with Talk(hackamore) as chat:
        chat.until_prompt()
        chat.say(prompt(["text", "now"], ["await_file", str(go)], ["ask", "can_use_tool", ASKED]))
        chat.until("\nnow\n")
        chat.type("y")
        go.touch()
        chat.until("Allow Bash?")
        chat.say("n")
        assert '"behavior": "deny"' in chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_pasted_lines_are_one_prompt(hackamore: Command) -> None:
    with Talk(hackamore) as chat:
        chat.until_prompt()
        chat.type('[["text",\n"third"\n]]')
        chat.until("]]\n. ")
        chat.say("")
        chat.until("\nthird")
        chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_several_questions_come_one_after_the_other(hackamore: Command) -> None:
    with Talk(hackamore) as chat:
        chat.until_prompt()
        chat.say(prompt(["ask_many", "can_use_tool", ASKED, 3]))
        for answer in ("y", "n first", "y"):
            assert chat.until("Allow Bash?").count("wants to run") == 1
            chat.say(answer)
        answers = chat.until_prompt()
        assert answers.count('"allow"') == 2
        assert answers.count('"deny"') == 1
        chat.type(CTRL_D)
        assert chat.code() == 0


# -- texts that cannot be trusted ----------------------------------------------------------------------------------------------


def _nasty_request(text: str) -> dict[str, Any]:
    rule = {"type": "addRules", "rules": [{"toolName": text, "ruleContent": text}], "behavior": "allow"}
    return {
        **dict.fromkeys(("tool_name", "title", "display_name", "description", "decision_reason", "blocked_path"), text),
        "tool_use_id": text,
        "agent_id": text,
        "mcp_server": {"name": text, "source": text},
        "input": {text: text, "list": [text], "lines": f"{text}\n{text}"},
        "permission_suggestions": [
            {**rule, "destination": "session"},
            {"type": "addDirectories", "directories": [text], "destination": "session"},
            {"type": text},
        ],
    }


PLACES: dict[str, Callable[[str], list[Any]]] = {
    "text": lambda text: ["text", text],
    "permission": lambda text: ["ask", "can_use_tool", _nasty_request(text)],
    "question": lambda text: [
        "ask",
        "can_use_tool",
        {
            "tool_name": "AskUserQuestion",
            "tool_use_id": "1",
            "input": {"questions": [{"question": text, "options": [{"label": text, "description": text}]}]},
        },
    ],
    "server": lambda text: [
        "ask",
        "elicitation",
        {"mcp_server_name": text, "message": text, "mode": "url", "url": text},
    ],
    "form": lambda text: [
        "ask",
        "elicitation",
        {
            "mcp_server_name": text,
            "message": text,
            "mode": "form",
            "requested_schema": {"properties": {text: {"title": text, "enum": [text]}}, "required": [text]},
        },
    ],
    "tasks": lambda text: ["background", [{"task_id": text, "task_type": text, "description": text}]],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("terminal", [False, True])
def test_untrusted_text(hackamore: Command, place: str, terminal: bool) -> None:
    texts = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in NASTY.values()]
    step = PLACES[place]("".join(texts))
    if not terminal:
        check(hackamore("chat", prompt(["later", [["background", []]]], step)))
        return
    with Talk(hackamore, prompt(step)) as chat:
        if place == "permission":
            chat.until("[n]o")
        else:
            chat.until_prompt()
        chat.type(CTRL_D)
        assert chat.code() == 0
        shown = chat.text
    assert shown
    check(type("Shown", (), {"out": shown.encode(), "err": b""})())
