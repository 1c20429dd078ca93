"""Lines of `bridle chat` that are edited: keys, history, completion, and what happens when output comes."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Command
from tests.cli.talk import CTRL_C, CTRL_D, Talk
from tests.support import stand_in_session
from tests.support.programs import program

UP, LEFT, HOME = "\x1b[A", "\x1b[D", "\x01"
READY = re.compile(r"\x1b\[\?2004h(?:\x1b\[[?0-9;]*[a-zA-Z])*>(?:\x08|\x1b\[[?0-9;]*[a-zA-Z])*")
"""The prompt, drawn."""
QUESTION = re.compile(r"\x1b\[\?2004h(?:\x1b\[[?0-9;]*[a-zA-Z])*Allow")
ASKED = {"tool_name": "Bash", "tool_use_id": "t1", "input": {"command": "touch one"}}


@pytest.fixture
def bridle(tmp_path: Path) -> Command:
    """Return the command with the stand-in for sessions."""
    return Command(tmp_path, str(program(tmp_path / "claude", stand_in_session)))


def prompt(*steps: list[Any]) -> str:
    return json.dumps(steps)


def enter(chat: Talk, text: str) -> None:
    chat.type(f"{text}\r")


def test_keys_history_and_completion(bridle: Command, tmp_path: Path) -> None:
    with Talk(bridle, edited=True) as chat:
        chat.until(READY)
        enter(chat, f"ello{HOME}h")
        chat.until("\nhello\n")
        chat.until(READY)
        enter(chat, UP)
        chat.until("\nhello\n")
        chat.until(READY)
        chat.type("/mo\t\t")
        chat.until("/mode  /model")
        chat.until("> ")
        chat.type(" pl\t\r")
        chat.until("Permission mode: plan.")
        chat.until(READY)
        chat.look()
        chat.type(CTRL_D)
        assert chat.code() == 0
        assert chat.left() == []
    history = tmp_path / "home" / ".local" / "state" / "bridle" / "chat_history"
    assert "+hello\n" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with Talk(bridle, edited=True) as chat:
        chat.until(READY)
        enter(chat, UP + UP)
        chat.until("\nhello\n")
        chat.until(READY)
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_questions_are_edited_and_kept_out_of_the_history(bridle: Command, tmp_path: Path) -> None:
    with Talk(bridle, edited=True) as chat:
        chat.until(READY)
        enter(chat, prompt(["ask", "can_use_tool", ASKED]))
        chat.until(QUESTION)
        enter(chat, f"n no{LEFT}{LEFT}rather ")
        assert '"behavior": "deny"' in chat.until(READY)
        chat.type(CTRL_D)
        assert chat.code() == 0
        assert '"message": "rather no"' in chat.text
    history = tmp_path / "home" / ".local" / "state" / "bridle" / "chat_history"
    assert "rather" not in history.read_text()


def test_ctrl_c_clears_the_line_and_a_second_one_quits(bridle: Command) -> None:
    with Talk(bridle, edited=True) as chat:
        chat.until(READY)
        chat.type("half a line")
        chat.until("line")
        chat.type(CTRL_C)
        chat.until("Ctrl-C again quits")
        chat.until(READY)
        chat.look()
        chat.type(CTRL_C)
        assert chat.code() == 130
        assert chat.left() == []


def test_output_suspends_a_line_and_its_text_stays(bridle: Command, tmp_path: Path) -> None:
    go = tmp_path / "go"
    task = {"task_id": "b1", "task_type": "shell", "description": "build"}
    late = ["later", [["await_file", str(go)], ["background", []], ["text", "late news"]]]
    with Talk(bridle, edited=True) as chat:
        chat.until(READY)
        enter(chat, prompt(["background", [task]], late))
        chat.until(READY)
        chat.type("begun")
        chat.until("begun")
        go.touch()
        chat.until("late news")
        chat.until(READY)
        enter(chat, " and ended")
        chat.until("\nbegun and ended\n")
        chat.until(READY)
        chat.type(CTRL_D)
        assert chat.code() == 0


def test_the_terminal_is_given_back(bridle: Command) -> None:
    import termios

    with Talk(bridle, edited=True) as chat:
        chat.until(READY)
        enter(chat, "hello")
        chat.until("\nhello\n")
        chat.until(READY)
        assert not termios.tcgetattr(chat.leader)[3] & termios.ECHO
        chat.type(CTRL_D)
        assert chat.code() == 0
        assert termios.tcgetattr(chat.leader)[3] & termios.ECHO
