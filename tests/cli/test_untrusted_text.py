"""Nothing that others wrote may steer the terminal: every place where such text is shown, with every nasty text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hackamore.activity.words import clean
from hackamore.cli.terminal import Cleaner, escape_json
from tests.cli.command import Command, Ran

NASTY = {
    "colour": "\x1b[38;5;199mpink",
    "clear screen": "\x1b[2J\x1b[H",
    "window title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;b3duZWQ=\x1b\\",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "device control": "\x1bP$qm\x1b\\",
    "answer back": "\x05\x1b[c\x1b[6n",
    "C1 CSI": "\x9b31mred",
    "C1 OSC": "\x9d0;owned\x9c",
    "bell and backspace": "safe\x07\x08\x08\x08\x08evil",
    "carriage return": "rm -rf /\rls        ",
    "delete": "a\x7fb",
    "vertical": "a\x0bb\x0cc",
    "shift out": "\x0elqqk\x0f",
    "bidi override": "\u202egnp.exe",
    "bidi isolate": "\u2066abc\u2069\u2067def\u2069",
    "bidi mark": "\u200e\u200f\u061c",
    "hidden": "in\u00advis\u200bible\u2060\ufeff",
    "tags": "\U000e0041\U000e0042\U000e007f",
    "separators": "a\u2028b\u2029c",
    "interlinear": "\ufff9a\ufffab\ufffb",
    "lone surrogate": "\ud83d and \ude00",
    "markup": "[bold red]x[/bold red] [link=http://evil.example]y[/link] [/]",
    "emoji code": ":smiley: :bomb:",
    "markdown": "**bold** `code`",
    "percent": "%s %n {0} {name}",
}
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# What Hackamore's own styles send to a terminal; none of them is in the texts above.
OWN_STYLES = re.compile(r"\x1b\[(?:0|1|2|2;3|1;34|3[1-6])m")
SPINNER = re.compile(r"\r\x1b\[36m.\x1b\[0m \x1b\[2m(?:Starting Claude Code|Working) \d+ s\x1b\[0m\x1b\[K|\r\x1b\[K")
RESULT: list[Any] = ["frame", "result"]


def frame(kind: str, **fields: Any) -> list[Any]:
    return ["frame", {"type": kind, **fields}]


def assistant(block: dict[str, Any], **more: Any) -> list[Any]:
    return frame("assistant", message={"content": [block]}, **more)


def user(content: Any) -> list[Any]:
    return frame("user", message={"role": "user", "content": content})


def event(delta: dict[str, Any]) -> list[Any]:
    return frame("stream_event", event={"type": "content_block_delta", "index": 0, "delta": delta})


def streamed(text: str) -> list[list[Any]]:
    return [event({"type": "text_delta", "text": character}) for character in text]


PLACES: dict[str, Callable[[str], list[list[Any]]]] = {
    "text": lambda text: [assistant({"type": "text", "text": text}), RESULT],
    "deltas": lambda text: [*streamed(text), RESULT],
    "thinking delta": lambda text: [event({"type": "thinking_delta", "thinking": text}), RESULT],
    "thinking": lambda text: [assistant({"type": "thinking", "thinking": text}), RESULT],
    "tool name": lambda text: [assistant({"type": "tool_use", "id": text, "name": text, "input": {}}), RESULT],
    "command": lambda text: [
        assistant({"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": text, text: text}}),
        RESULT,
    ],
    "arguments": lambda text: [
        assistant({"type": "tool_use", "id": "1", "name": "X", "input": {text: [text]}}),
        RESULT,
    ],
    "unknown block": lambda text: [assistant({"type": f"x{text}"}), RESULT],
    "tool result": lambda text: [user([{"type": "tool_result", "tool_use_id": text, "content": text}]), RESULT],
    "failed tool": lambda text: [
        user([{"type": "tool_result", "is_error": True, "content": [{"type": "text", "text": text}, {"type": text}]}]),
        RESULT,
    ],
    "user text": lambda text: [user(text), RESULT],
    "init": lambda text: [
        frame("system", subtype="init", model=text, cwd=f"/{text}", claude_code_version=text),
        RESULT,
    ],
    "retry": lambda text: [frame("system", subtype="api_retry", error=text), RESULT],
    "notes": lambda text: [
        frame("system", subtype="informational", content=text, level=text),
        frame("system", subtype="notification", text=text),
        frame("system", subtype="permission_denied", tool_name=text, decision_reason=text),
        frame("system", subtype="task_notification", status=text, summary=text),
        frame("system", subtype="local_command_output", content=text),
        frame("rate_limit_event", rate_limit_info={"status": text, "rateLimitType": text}),
        RESULT,
    ],
    "result": lambda text: [frame("result", subtype="success", is_error=False, result=text, session_id=text)],
    "structured": lambda text: [
        frame("result", subtype="success", is_error=False, structured_output={text: text}, session_id=text)
    ],
    "error result": lambda text: [
        frame("result", subtype=text, is_error=True, errors=[text], terminal_reason=text, session_id=text)
    ],
    "wrong shape": lambda text: [frame("assistant", message={"content": [], "model": [text]}, **{text: text}), RESULT],
    "noise": lambda text: [["hex", text.encode("utf-8", "replace").hex() + "0a"], RESULT],
    "stderr": lambda text: [["err", text.encode("utf-8", "replace").decode()], ["exit", 1]],
}


def check(ran: Ran, *, colours: bool = False) -> None:
    shown = (ran.out + ran.err).decode().replace("\r\n", "\n")
    if colours:
        shown = OWN_STYLES.sub("", SPINNER.sub("", shown))
    assert FORBIDDEN.findall(shown) == []
    assert "Traceback" not in shown


@pytest.mark.parametrize("place", PLACES)
def test_every_place(hackamore: Command, place: str) -> None:
    # One run for all texts of a place: the frames before the last one for each text, the last one with all of them.
    steps: list[list[Any]] = []
    for text in NASTY.values():
        steps.extend(step for step in PLACES[place](text) if step is not RESULT and step[0] != "exit")
    steps.append(PLACES[place]("\n".join(NASTY.values()))[-1])
    # Texts that are no JSON come one after the other, which would end the stream.
    hackamore.plays(*steps)
    patience = ("--option", 'limits={"consecutive_decode_errors": 100}')
    check(hackamore("run", "hi", *patience, "--quiet"))
    check(hackamore.on_terminal("run", "hi", *patience, env={"NO_COLOR": "1"}))
    check(hackamore.on_terminal("run", "hi", *patience), colours=True)
    check(hackamore.on_terminal("run", "hi", "--json", *patience), colours=True)


def test_text_is_shown_literally(hackamore: Command) -> None:
    steps = [PLACES["text"](text)[0] for text in NASTY.values()]
    shown = "\n" + hackamore.plays(*steps, RESULT)("run", "hi").text
    streams = [PLACES["deltas"](text)[:-1] for text in NASTY.values()]
    pieces = [piece for stream in streams for piece in (event({"type": "text_delta", "text": "\n<"}), *stream)]
    streamed_shown = hackamore.plays(*pieces, RESULT)("run", "hi", "--partial").text
    for name, text in NASTY.items():
        if name == "lone surrogate":
            assert "\n\ufffd and \ufffd\n" in shown
            assert "\n<\\ud83d and \\ude00\n" in streamed_shown
        else:
            assert f"\n{clean(text)}\n" in shown
            assert f"\n<{clean(text)}\n" in streamed_shown


@pytest.mark.parametrize("part", range(4))
def test_arguments_and_file_names(hackamore: Command, tmp_path: Path, part: int) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in NASTY.values()][part::4]
    text = "x" + "".join(texts).replace("/", "_")
    config = tmp_path / text
    config.write_text("nonsense = [")
    for arguments in (
        ("run", "hi", "--config", str(config)),
        ("run", "hi", "--output-schema", str(config)),
        ("run", "hi", "--cwd", str(tmp_path / f"{text}x")),
        ("run", "hi", "--option", f"{text}="),
        ("run", "hi", f"--{text}"),
        (text,),
        ("doctor", "--cli-path", str(config)),
        ("doctor", "--json", "--model", text, "--cli-path", str(config)),
        ("doctor", "--system-prompt", text),
    ):
        ran = hackamore.on_terminal(*arguments, env={"NO_COLOR": "1"})
        assert ran.out
        check(ran)


def test_newlines_and_tabs_are_kept(hackamore: Command) -> None:
    steps = PLACES["text"]("a\tb\n\n\tc\r\nd")
    assert "a\tb\n\n\tc\nd\n" in hackamore.plays(*steps)("run", "hi").text
    assert b"a\tb\r\n\r\n\tc\r\nd\r\n" in hackamore.plays(*steps).on_terminal("run", "hi").out


def test_scripts_and_emoji_are_kept() -> None:
    for text in ("日本語 עברית العربية हिन्दी", "👩‍👩‍👧 ☝🏽 ❤️", "می‌خواهم", "e\u0301"):
        assert clean(text) == text


def test_cleaner_gives_the_same_however_a_text_is_cut() -> None:
    for text in (*NASTY.values(), "a\r\nb\r\r\n", "😀\r", "\ud83d\ude00\ud83d"):
        whole = Cleaner()
        expected = whole.feed(text) + whole.finish()
        for size in (1, 2, 3):
            cleaner = Cleaner()
            pieces = [cleaner.feed(text[at : at + size]) for at in range(0, len(text), size)]
            assert "".join(pieces) + cleaner.finish() == expected


def test_escaped_json_means_the_same() -> None:
    for text in NASTY.values():
        line = json.dumps({text: text}, ensure_ascii=False)
        safe = escape_json(line)
        assert json.loads(safe) == json.loads(line)
        assert FORBIDDEN.findall(safe) == []
    assert os.linesep == "\n"
