"""`hackamore run` with the stand-in: what is shown, what is written, how it exits."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Command

Started = Callable[[subprocess.Popen[bytes]], subprocess.Popen[bytes]]

INIT: list[Any] = ["frame", "init"]
ANSWER: list[Any] = ["frame", "assistant"]
RESULT: list[Any] = ["frame", "result"]


def said(*content: dict[str, Any], **more: Any) -> list[Any]:
    return ["frame", {"type": "assistant", "message": {"id": "m", "content": list(content)}, **more}]


def returned(content: Any, **more: Any) -> list[Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content, **more}
    return ["frame", {"type": "user", "message": {"role": "user", "content": [block]}}]


def delta(text: str, kind: str = "text", index: int = 0) -> list[Any]:
    event = {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: text}}
    return ["frame", {"type": "stream_event", "event": event}]


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": name, "input": arguments}


# -- what is shown -------------------------------------------------------------------------------------------------------------


def test_answer_and_summary(hackamore: Command) -> None:
    ran = hackamore.plays(INIT, ANSWER, RESULT)("run", "hi")
    assert ran.code == 0
    assert ran.text == "hello\n"
    assert ran.errors.splitlines() == [
        "stand-in · /",
        "",
        "✓ 1 turn · 3 tokens in, 5 out · $0.2500 · 0.0 s · session 5e551011",
    ]


def test_tool_calls_and_shortened_results(hackamore: Command) -> None:
    lines = "\n".join(f"line {number}" for number in range(40))
    steps = [
        said(call("Bash", command="seq 40", description="Count")),
        returned(lines),
        said(call("Odd", b=1)),
        returned([{"type": "image"}], is_error=True),
        RESULT,
    ]
    shown = hackamore.plays(*steps)("run", "hi").errors
    assert "● Bash seq 40\n  ⎿ line 0\n" in shown
    assert "line 5\n    … 34 more lines\n" in shown
    assert "line 6" not in shown
    assert '● Odd {"b": 1}\n  ⎿ [image]\n' in shown


def test_long_lines_are_cut_at_the_width_of_the_terminal(hackamore: Command) -> None:
    steps = [said(call("Bash", command="c" * 500)), returned("r" * 500), RESULT]
    shown = hackamore.plays(*steps).on_terminal("run", "hi", env={"NO_COLOR": "1"}).text.replace("\r\n", "\n")
    assert max(len(line) for line in shown.split("\n") if line[:1] in "● ") == 100
    assert "r…\n" in shown


def test_streamed_text_is_shown_once(hackamore: Command) -> None:
    steps = [
        ["frame", {"type": "stream_event", "event": {"type": "message_start"}}],
        delta("Let me ", "thinking"),
        delta("see.", "thinking"),
        delta("One ", index=1),
        delta("two.", index=1),
        said({"type": "thinking", "thinking": "Let me see."}),
        said(text("One two.")),
        said(text("Not streamed.")),
        RESULT,
    ]
    ran = hackamore.plays(*steps)("run", "hi", "--partial")
    assert ran.text == "One two.\n\nNot streamed.\n"
    assert ran.errors.startswith("(thinking) Let me see.\n\n✓")


def test_text_that_stopped_short_is_completed(hackamore: Command) -> None:
    ran = hackamore.plays(delta("One "), said(text("One two.")), RESULT)("run", "hi", "--partial")
    assert ran.text == "One two.\n"


def test_partial_is_asked_for_on_a_terminal_only(hackamore: Command) -> None:
    hackamore.plays(["echo_argv"], RESULT)
    flag = "--include-partial-messages"
    assert flag in hackamore.on_terminal("run", "hi", "--option", 'env={"X": "1"}').text.replace("\r\n", "")
    assert flag not in hackamore("run", "hi").text
    assert flag in hackamore("run", "hi", "--partial", "--json").text
    assert flag not in hackamore.on_terminal("run", "hi", "--no-partial").text


def test_characters_cut_in_two_are_put_together(hackamore: Command) -> None:
    steps = [delta("smile \ud83d"), delta("\ude00 end\r"), delta("\nnext \x1b"), delta("[31mred"), RESULT]
    shown = hackamore.plays(*steps)("run", "hi", "--partial").text
    assert "smile 😀 end\nnext \\x1b[31mred\n" in shown


def test_retries_and_warnings_go_to_standard_error(hackamore: Command) -> None:
    retry = {
        "type": "system",
        "subtype": "api_retry",
        "attempt": 1,
        "max_retries": 10,
        "retry_delay_ms": 600,
        "error_status": 429,
        "error": "rate_limit",
    }
    ran = hackamore.plays(["frame", retry], ["out", "noise\n"], ANSWER, RESULT)("run", "hi")
    assert ran.code == 0
    assert "rate_limit 429): attempt 1 of 10, again in 0.6 s." in ran.errors
    assert "warning: A line of output was skipped (not-json" in ran.errors
    assert "noise" not in ran.text


def test_subagents_are_set_in(hackamore: Command) -> None:
    steps = [said(call("Task", description="Look")), said(text("From below."), parent_tool_use_id="t1"), RESULT]
    ran = hackamore.plays(*steps)("run", "hi")
    assert "● Task Look\n\n    From below.\n" in ran.errors
    assert ran.text == ""


def test_an_error_is_shown_once(hackamore: Command) -> None:
    failed = {"type": "result", "subtype": "success", "is_error": True, "result": "Not logged in. Run /login"}
    steps = [INIT, said(text("Not logged in. Run /login"), error="authentication_failed"), ["frame", failed]]
    for ran in (hackamore.plays(*steps)("run", "hi"), hackamore.on_terminal("run", "hi", env={"NO_COLOR": "1"})):
        assert ran.code == 1
        assert (ran.text + ran.errors).count("Not logged in. Run /login") == 1
        assert "error: The turn failed" in ran.text + ran.errors
    lost = hackamore.plays(said(text("Overloaded."), error="overloaded"), RESULT)("run", "hi")
    assert "Overloaded." in lost.errors


def test_a_denied_tool_is_explained_once(hackamore: Command) -> None:
    reason = "Permission to use Bash was denied."
    denied = {"type": "system", "subtype": "permission_denied", "tool_name": "Bash", "tool_use_id": "t1"}
    steps = [
        said(call("Bash", command="ls")),
        ["frame", {**denied, "decision_reason": reason, "message": reason}],
        returned(reason, is_error=True),
        ANSWER,
        RESULT,
    ]
    ran = hackamore.plays(*steps)("run", "hi")
    assert ran.errors.count(reason) == 1
    assert "Allow it with --allow Bash." in ran.errors
    assert ran.text == "hello\n"


def test_a_pipe_gets_the_answer_alone(hackamore: Command) -> None:
    steps = [INIT, said(text("One.")), said(call("Bash", command="ls")), returned("x"), said(text("Two.")), RESULT]
    ran = hackamore.plays(*steps)("run", "hi")
    assert ran.text == "One.\n\nTwo.\n"
    assert "● Bash ls\n  ⎿ x\n" in ran.errors
    shown = hackamore.on_terminal("run", "hi", env={"NO_COLOR": "1"}).text.replace("\r\n", "\n")
    assert "\n\nOne.\n\n● Bash ls\n  ⎿ x\n\nTwo.\n\n✓ 1 turn" in shown


def test_a_terminal_breaks_lines_at_words(hackamore: Command) -> None:
    words = " ".join(f"word{number:03}" for number in range(60))
    fenced = "```\n" + "code " * 30 + "\n```"
    pieces = [delta(words[at : at + 7]) for at in range(0, len(words), 7)]
    hackamore.plays(*pieces, said(text(words)), said(text(fenced)), ["out", "noise " * 30 + "\n"], RESULT)
    shown = hackamore.on_terminal("run", "hi", env={"NO_COLOR": "1", "COLUMNS": "46"}).text.replace("\r\n", "\n")
    lines = shown.split("\n")
    assert "code " * 29 + "code" in shown
    assert max(len(line) for line in lines if "code code" not in line) <= 46
    assert " ".join(line for line in lines if line.startswith("word")) == words


def test_a_spinner_on_a_terminal_with_colours(hackamore: Command) -> None:
    hackamore.plays(["sleep", 1.5], ANSWER, RESULT)
    shown = hackamore.on_terminal("run", "hi").text
    assert "Starting Claude Code" in shown
    assert shown.index("\r\x1b[K") < shown.index("hello")
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "Starting" not in hackamore.on_terminal("run", "hi", env=plain).text
    assert "Starting" not in hackamore("run", "hi").errors


def test_answer_of_a_slash_command(hackamore: Command) -> None:
    assert "hello" in hackamore.plays(INIT, RESULT)("run", "/cost").text


def test_colours_on_a_terminal_and_none_elsewhere(hackamore: Command) -> None:
    hackamore.plays(said(call("Bash", command="ls")), returned("x"), RESULT)
    assert b"\x1b[36m" in hackamore.on_terminal("run", "hi").out
    assert b"\x1b" not in hackamore.on_terminal("run", "hi", env={"NO_COLOR": "1"}).out
    assert b"\x1b" not in hackamore("run", "hi").out


# -- prompt, --quiet, --json ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["-"], []])
def test_prompt_on_standard_input(hackamore: Command, arguments: list[str]) -> None:
    hackamore.plays(["read_prompt"], RESULT)
    assert "> héllo\n" in hackamore("run", *arguments, stdin="héllo".encode()).errors


def test_prompt_that_looks_like_a_flag(hackamore: Command) -> None:
    assert "> --help me\n" in hackamore.plays(["read_prompt"], RESULT)("run", "--", "--help me").errors


def test_quiet_writes_the_final_text(hackamore: Command) -> None:
    ran = hackamore.plays(INIT, said(call("Bash", command="x")), ANSWER, RESULT)("run", "hi", "--quiet")
    assert (ran.code, ran.text, ran.errors) == (0, "hello\n", "")


def test_quiet_says_nothing_on_standard_output_after_an_error(hackamore: Command) -> None:
    ran = hackamore.plays(INIT, ["frame", "error_result"])("run", "hi", "-q")
    assert (ran.code, ran.text) == (1, "")
    assert "it went wrong" in ran.errors


def test_structured_output(hackamore: Command, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    result = {"type": "result", "subtype": "success", "is_error": False, "structured_output": {"n": [1, "\x9b"]}}
    hackamore.plays(["echo_argv"], ["frame", result])
    ran = hackamore("run", "hi", "--output-schema", str(schema), "--quiet")
    assert json.loads(ran.text) == {"n": [1, "\x9b"]}
    assert "\x9b" not in ran.text
    assert '{\n  "n": [\n    1' in hackamore("run", "hi").text
    assert "--json-schema=" in hackamore("run", "hi", "--output-schema", str(schema), "--json").text


AWKWARD = [
    b'{"type":"system","subtype":"init","session_id":"s"}',
    b'{ "type" : "assistant" , "message":{"content":[{"type":"text","text":"\\u001b[31m \xc2\x9b \xe2\x80\xae \\ud83d"}]} }',
    b'{"type":"never heard of","x":[1.0,1e400,"\\u00e4 \xc3\xa4"]}',
    b'{"type":"system","subtype":"never heard of"}',
    b'{"is_error":false,"type":"result","subtype":"success","result":"a"}',
]


def test_json_is_the_exact_bytes(hackamore: Command) -> None:
    sent = b"".join(line + b"\n" for line in AWKWARD)
    ran = hackamore.plays(["hex", sent.hex()])("run", "hi", "--json")
    assert ran.code == 0
    assert ran.out == sent


def test_json_leaves_out_what_is_no_json(hackamore: Command) -> None:
    good = AWKWARD[0] + b"\n" + AWKWARD[-1] + b"\n"
    ran = hackamore.plays(["hex", AWKWARD[0].hex()], ["out", "\nLoading \x1b]0;x\x07\n"], ["hex", AWKWARD[-1].hex()])(
        "run", "hi", "--json"
    )
    assert ran.out == good
    assert "Loading \\x1b]0;x\\x07" in ran.errors


def test_json_on_a_terminal_means_the_same_and_is_safe(hackamore: Command) -> None:
    ran = hackamore.plays(["hex", b"\n".join(AWKWARD).hex()]).on_terminal("run", "hi", "--json")
    lines = [
        line.rpartition(b"\x1b[K")[2] for line in ran.out.replace(b"\r\n", b"\n").split(b"\n")
    ]  # without a spinner
    assert [json.loads(line) for line in lines if line.startswith(b"{")] == [json.loads(line) for line in AWKWARD]
    assert b"\xc2\x9b" not in ran.out
    assert b"\xe2\x80\xae" not in ran.out


# -- options -------------------------------------------------------------------------------------------------------------------


def test_every_flag_arrives(hackamore: Command, tmp_path: Path) -> None:
    config = tmp_path / "options.toml"
    config.write_text('model = "from the file"\nfallback_model = "other"\n[timeouts]\nidle = 20\n')
    servers = tmp_path / "servers.json"
    servers.write_text('{"mcpServers": {}}')
    ran = hackamore.plays(["echo_argv"], RESULT)(
        *("run", "hi", "--json", "--model", "m", "--append-system-prompt", "more", "--allow", "Read, Bash(git log:*)"),
        *("--allowed-tools", "Edit", "--disallowed-tools", "Write", "--tools", "", "--permission-mode", "plan"),
        *("--max-turns", "3", "--max-budget-usd", "0.5", "--resume", "r", "--fork-session", "--add-dir", str(tmp_path)),
        *(
            "--mcp-config",
            str(servers),
            "--setting-sources",
            "user,project",
            "--timeout",
            "20",
            "--option",
            "effort=high",
        ),
        *("--option", 'betas=["b"]', "--config", str(config), "--session-id", "00000000-0000-4000-8000-000000000000"),
    )
    assert ran.code == 0, ran.errors
    argv = json.loads(json.loads(ran.out.splitlines()[0])["message"]["content"])
    line = "\n".join(argv)
    for expected in (
        *(
            "--model=m",
            "more",
            "--allowedTools=Read",
            "Bash(git log:*)",
            "=Edit",
            "Write",
            "plan",
            "3",
            "0.5",
            "r",
            "--fork-session",
            "high",
        ),
        *(str(tmp_path), str(servers), "user,project", "b", "other", "00000000-0000-4000-8000-000000000000"),
    ):
        assert expected in line
    assert any(part.startswith("--tools") for part in argv)


def test_system_prompt_and_continue(hackamore: Command) -> None:
    ran = hackamore.plays(["echo_argv"], RESULT)("run", "hi", "--json", "--system-prompt", "be", "--continue")
    argv = json.loads(json.loads(ran.out.splitlines()[0])["message"]["content"])
    assert "--continue" in argv
    assert "--system-prompt=be" in argv


def test_variables_count(hackamore: Command) -> None:
    ran = hackamore.plays(["echo_argv"], RESULT)("run", "hi", "--json", env={"HACKAMORE_MODEL": "from-a-variable"})
    assert "--model=from-a-variable" in ran.text


def test_timeout(hackamore: Command) -> None:
    ran = hackamore.plays(INIT, ["sleep", 60])("run", "hi", "--timeout", "0.2")
    assert ran.code == 1
    assert "error:" in ran.errors
