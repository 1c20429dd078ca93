"""Messages for people: `print` shows one short line, notebooks show Markdown or HTML without anything executable in it."""

from __future__ import annotations

from typing import Any

import pytest

from hackamore import ResultMessage, RunResult
from hackamore._engine.session.readers import TurnBase
from hackamore.messages import Message, from_data
from hackamore.messages.shown import markdown

UUID = "11111111-2222-4333-8444-555555555555"
TOOL_USE = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
TEXT = {"type": "text", "text": "Hi\n  there\x1b[31m <b>"}
LINES: list[tuple[dict[str, Any], str]] = [
    (
        {"type": "assistant", "message": {"content": [TEXT, TOOL_USE]}},
        'assistant: Hi there\\x1b[31m <b> | Bash({"command":"ls"})',
    ),
    (
        {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": "Hm."}]}},
        "assistant: (thinking) Hm.",
    ),
    ({"type": "assistant", "message": {"content": [{"type": "new", "x": 1}]}}, "assistant: (new)"),
    ({"type": "assistant"}, "assistant"),
    (
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a\nb"}]}},
        "user: (result) a b",
    ),
    (
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": "no", "is_error": True}]}},
        "user: (failed) no",
    ),
    ({"type": "user", "message": {"content": "Hello"}}, "user: Hello"),
    (
        {
            "type": "result",
            "subtype": "success",
            "result": "42",
            "num_turns": 1,
            "duration_ms": 1500,
            "total_cost_usd": 0.5,
        },
        "result success: 1 turn, 1.5 s, $0.5000: 42",
    ),
    (
        {
            "type": "result",
            "subtype": "error_max_turns",
            "errors": ["Too many", "turns"],
            "num_turns": 2,
            "duration_ms": 90,
        },
        "result error_max_turns: 2 turns, 0.1 s: Too many; turns",
    ),
    (
        {"type": "system", "subtype": "init", "model": "sonnet", "cwd": "/", "tools": ["a", "b"]},
        "system init: model=sonnet, cwd=/, 2 tools",
    ),
    (
        {
            "type": "stream_event",
            "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ab"}},
        },
        "stream_event: text_delta 'ab'",
    ),
    ({"type": "stream_event", "event": {"type": "message_stop"}}, "stream_event: message_stop"),
    ({"type": "from_the_future", "x": 5}, "from_the_future"),
]


def made(data: dict[str, Any]) -> Message:
    frame = from_data({**data, "uuid": UUID, "session_id": UUID})
    assert isinstance(frame, Message)
    return frame


@pytest.mark.parametrize(("data", "expected"), LINES, ids=[expected for _, expected in LINES])
def test_print_shows_one_short_line_without_uuids(data: dict[str, Any], expected: str) -> None:
    assert str(made(data)) == expected
    assert UUID in repr(made(data))


def test_long_texts_are_cut_in_print_and_whole_in_repr() -> None:
    message = made({"type": "user", "message": {"content": "word " * 1000}})
    assert len(str(message)) <= 120
    assert str(message).endswith("...")
    assert "word " * 1000 in repr(message)


def test_notebooks_show_answers_as_markdown_and_the_rest_as_html() -> None:
    answer = made({"type": "result", "subtype": "success", "result": "# Title\n<script>x</script>"})
    assert answer._repr_markdown_() == "# Title\n&lt;script>x&lt;/script>"
    assert answer._repr_html_() is None
    other = made({"type": "system", "subtype": "init", "model": "<img src=x>"})
    assert other._repr_markdown_() is None
    assert other._repr_html_() == "<code>system init: model=&lt;img src=x&gt;</code>"


def test_a_run_result_prints_its_text() -> None:
    ending = made({"type": "result"})
    assert isinstance(ending, ResultMessage)
    result = RunResult(text="**bold** <b>", output=None, messages=[], result=ending)
    assert str(result) == "**bold** <b>"
    assert result._repr_markdown_() == "**bold** &lt;b>"
    assert "text='**bold** <b>'" in repr(result)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b & c", "a &lt; b &amp; c"),
        ("```html\n<b>\n```\n<b>", "```html\n<b>\n```\n&lt;b>"),
        ("~~~\n```\n<b>\n~~~\n<b>", "~~~\n```\n<b>\n~~~\n&lt;b>"),
        ("````\n```\n<b>\n````\n<b>", "````\n```\n<b>\n````\n&lt;b>"),
        ("- a\n  ```\n<b>", "- a\n  ```\n&lt;b>"),
        ("```a`b\n<b>", "```a`b\n&lt;b>"),
        ("`<b>`", "`&lt;b>`"),
    ],
)
def test_markdown_keeps_html_only_inside_fences(text: str, expected: str) -> None:
    assert markdown(text) == expected


def test_a_turn_is_shown_as_html() -> None:
    class Progress:
        id, state, inbox = "<i>", "queued", None

    turn: Any = TurnBase(Progress())  # type: ignore[arg-type]
    assert turn._repr_html_() == "<code>TurnBase('&lt;i&gt;', queued)</code>"
