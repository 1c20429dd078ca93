"""`hackamore trace show`: what it shows of whole, interrupted and damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Command
from tests.cli.test_sessions_command import config, talk
from tests.traces.written import Tape

__all__ = ["config"]  # a fixture

HEADER = {
    "format": "hackamore-cassette",
    "version": 1,
    "library": "0.1.0",
    "cli": "2.1.328",
    "created": "2026-01-01T00:00:00+00:00",
}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": list(blocks)}}


def asked(request_id: str, subtype: str, **fields: Any) -> dict[str, Any]:
    return {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}}


def answered(request_id: str, payload: dict[str, Any]) -> dict[str, Any]:
    response = {"subtype": "success", "request_id": request_id, "response": payload}
    return {"type": "control_response", "response": response}


TOOL = {"tool_name": "Bash", "tool_input": {"command": "ls -l"}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "price", "arguments": {"article": "tea"}}}
RPC = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "2.5"}]}}
EVENTS: list[tuple[float, str, dict[str, Any]]] = [
    (0.0, "start", {"arguments": ["--verbose"], "one_shot": False}),
    (0.1, "out", asked("r1", "initialize")),
    (0.2, "in", asked("m0", "mcp_message", server_name="shop", message={"method": "tools/list"})),
    (0.3, "in", answered("r1", {})),
    (1.0, "out", {"type": "user", "message": {"role": "user", "content": "What is\nthere?"}}),
    (1.1, "in", {"type": "system", "subtype": "init", "model": "m", "claude_code_version": "2.1.328"}),
    (1.2, "in", {"type": "system", "subtype": "session_state_changed", "state": "running"}),
    (
        2.0,
        "in",
        assistant(
            {"type": "thinking", "thinking": "Hm."},
            {"type": "tool_use", "id": "t1", "name": "Bash", "input": TOOL["tool_input"]},
        ),
    ),
    (2.1, "in", asked("h1", "hook_callback", callback_id="hook_0", input={"hook_event_name": "PreToolUse", **TOOL})),
    (
        2.3,
        "out",
        answered(
            "h1", {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no \x1b[31mway"}}
        ),
    ),
    (2.4, "in", asked("p1", "can_use_tool", tool_name="Bash", input=TOOL["tool_input"])),
    (2.5, "out", answered("p1", {"behavior": "allow", "updatedInput": {}})),
    (2.6, "in", asked("m1", "mcp_message", server_name="shop", message=CALL)),
    (2.7, "out", answered("m1", {"mcp_response": RPC})),
    (
        3.5,
        "in",
        {
            "type": "user",
            "message": {
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.txt", "is_error": True}]
            },
        },
    ),
    (3.6, "in", {"type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 10, "error": "overloaded"}),
    (3.7, "in", {"type": "system", "subtype": "background_tasks_changed", "tasks": [{}]}),
    (4.0, "in", assistant({"type": "text", "text": "There is \x1b]0;evil\x07 " + "x" * 500})),
    (
        4.5,
        "in",
        {
            "type": "result",
            "subtype": "success",
            "total_cost_usd": 0.25,
            "usage": {"input_tokens": 3, "output_tokens": 5},
        },
    ),
    (5.0, "in", asked("h2", "hook_callback", callback_id="hook_0", input={"hook_event_name": "Stop"})),
    (6.0, "stop", {"turn_open": False}),
    (6.1, "exit", {"code": 3}),
    (6.2, "stderr", {"text": "it broke\n"}),
    (6.2, "end", {"redactions": {"key": 2}}),
]


def line(session: int, at: float, kind: str, fields: dict[str, Any]) -> str:
    value = {"s": session, "t": at, "k": kind}
    return json.dumps({**value, "f": fields} if kind in ("in", "out") else {**value, **fields}, separators=(",", ":"))


def whole(*sessions: int) -> list[str]:
    header = json.dumps(HEADER, separators=(",", ":"))
    return [header, *(line(session, at, kind, fields) for session in sessions or (0,) for at, kind, fields in EVENTS)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(whole()) + "\n")
    return path


def test_the_timeline(hackamore: Command, file: Path) -> None:
    ran = hackamore("trace", "show", str(file))
    assert (ran.code, ran.errors) == (0, "")
    shown = [text.split() for text in ran.text.splitlines()]
    assert shown[0][:4] == ["Hackamore", "0.1.0", "·", "Claude"]
    for wanted in (
        "1.000 prompt What is there?",
        "started 2026-01-01T00:00:00+00:00, model m, Claude Code 2.1.328, redacted 2 key",
        "2.000 thinking Hm.",
        "2.000 tool Bash ls -l [1.5 s]",
        "⎿ a.txt",
        "2.100 hook PreToolUse Bash ls -l [200 ms]",
        "⎿ deny: no \\x1b[31mway",
        "2.400 permission Bash ls -l [100 ms]",
        "⎿ allow",
        '2.600 mcp shop: tools/call price {"article": "tea"} [100 ms]',
        "⎿ 2.5",
        "3.600 retry try 2 of 10",
        "⎿ overloaded",
        "4.500 result success, 3 tokens in, 5 out, $0.2500 so far [3.5 s]",
        "5.000 hook Stop",
        "⎿ no answer",
        "6.100 exit code 3",
        "6.200 stderr it broke",
    ):
        assert wanted.split() in shown, (wanted, ran.text)
    assert "1 turn · 1 tool call · 2 hooks · 1 permission request · 1 in-process tool call" in ran.text
    assert "$0.2500 · 6.2 s" in ran.text
    assert "tools/list" not in ran.text
    assert "running" not in ran.text
    assert "x" * 200 not in ran.text
    assert not set(ran.text) & set("\x1b\x07")


def test_filters(hackamore: Command, tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    path.write_text("\n".join(whole(0, 7)) + "\n")
    assert hackamore("trace", "show", str(path)).text.count("── session") == 2
    ran = hackamore("trace", "show", str(path), "--session", "1", "--kind", "hook,prompt", "--kind", "exit")
    assert ran.text.count("── session") == 1
    found = [text.split() for text in ran.text.splitlines()]
    assert [parts[1] for parts in found if parts and parts[0].count(".") == 1] == ["prompt", "hook", "hook", "exit"]
    nothing = hackamore("trace", "show", str(path), "--kind", "hok")
    assert (nothing.code, "there are: " in nothing.errors, "hook" in nothing.errors) == (0, True, True)
    everything = hackamore("trace", "show", str(path), "--all", "--full").text
    assert "running" in everything
    assert "tools/list" in everything
    assert "x" * 500 in everything
    wrong = hackamore("trace", "show", str(path), "--session", "5")
    assert (wrong.code, "no session 5; it has 2" in wrong.errors) == (2, True)


def test_json_and_raw(hackamore: Command, file: Path) -> None:
    ran = hackamore("trace", "show", str(file), "--json")
    found = [json.loads(text) for text in ran.text.splitlines()]
    [tool] = [event for event in found if event["kind"] == "tool"]
    assert tool == {
        "session": 0, "at": 2.0, "kind": "tool", "what": "Bash ls -l", "took": 1.5, "outcome": "a.txt", "failed": True, "line": 9,
    }  # fmt: skip
    assert "\x1b" not in ran.text
    raw = hackamore("trace", "show", str(file), "--raw", "--kind", "tool")
    assert raw.out == file.read_bytes().splitlines(keepends=True)[8]
    assert hackamore("trace", "show", str(file), "--raw").text.count("\n") == len(EVENTS)


def test_a_file_that_is_not_whole(hackamore: Command, file: Path) -> None:
    lines = whole()
    file.write_text("\n".join(lines[:10]) + '\n{"s":0,"t":9,"k":"in","f":{"type":"assi')
    ran = hackamore("trace", "show", str(file))
    assert ran.code == 0
    assert "The recording was interrupted before a result" in ran.text
    assert "line 11 cannot be read" in ran.errors
    file.write_text("\n".join([*lines[:5], "garbage \x1b[2J", *lines[5:]]) + "\n")
    ran = hackamore("trace", "show", str(file))
    assert ran.code == 0
    assert "line 6 cannot be read" in ran.errors
    assert "4.500 result" in ran.text
    strange = ('{"s":0,"t":1,"k":"in","f":[1]}', '{"s":0,"t":1,"k":"in","f":{"type":"assistant","message":5}}',
                    '{"s":0,"t":1,"k":"in","f":{"type":"control_request","request":"x"}}', '{"s":0,"t":1,"k":"odd","a":[{}]}',
                    '{"s":0,"t":1,"k":"in","oversized":5000}', '{"s":0,"t":1,"k":"in","text":"no json \\u001b"}',
                    '{"s":0,"t":1,"k":"start","arguments":5}', '{"s":0,"t":1,"k":"end","redactions":[1]}')  # fmt: skip
    file.write_text("\n".join([lines[0], *strange, *lines[1:]]) + "\n")
    ran = hackamore("trace", "show", str(file), "--all")
    assert (ran.code, ran.errors) == (0, ""), ran
    assert "4.500 result" in ran.text


def test_what_is_no_trace(hackamore: Command, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"\x00\xff\n" * 200)
    (tmp_path / "empty").write_bytes(b"")
    for name, code, said in (
        ("other", 1, "no header"),
        ("other", 1, "and more like these"),
        ("other", 1, "nothing in"),
        ("empty", 1, "no header"),
        ("absent", 2, "is neither a file nor the beginning of a session id"),
        (".", 2, "cannot be read"),
    ):
        ran = hackamore("trace", "show", str(tmp_path / name))
        assert ran.code == code, ran
        assert said in ran.errors
    ran = hackamore("trace", "draw", "x")
    assert (ran.code, "There is no command `draw`" in ran.errors) == (2, True)
    assert hackamore("trace", "show").code == 2


def test_a_conversation_on_the_disk(hackamore: Command, config: Path) -> None:
    writer = talk(config)
    ran = hackamore("trace", "show", writer.session_id[:8])
    assert (ran.code, ran.errors) == (0, "")
    assert "The conversation ends with" in ran.text
    kinds = {text.split()[1] for text in ran.text.splitlines() if text.startswith("    0.000 ")}
    assert kinds >= {"prompt"}
    raw = hackamore("trace", "show", writer.session_id[:8], "--raw")
    assert [json.loads(text)["uuid"] for text in raw.text.splitlines()] == [
        json.loads(text)["uuid"] for text in writer.lines
    ]


def test_texts_of_every_kind_in_full(hackamore: Command, tmp_path: Path) -> None:
    tape = Tape()
    long = "word " * 200
    tape.prompt(f"prompt {long}")
    tape.reply(1, {"type": "thinking", "thinking": f"thinking {long}"})
    tape.reply(1, {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"command {long}"}})
    tape.into(asked("p1", "can_use_tool", tool_name="Bash", input={"command": f"permission {long}"}))
    tape.out(answered("p1", {"behavior": "deny", "message": f"reason {long}"}))
    tape.result_of("t1", f"result {long}")
    path = tape.write(tmp_path / "run.jsonl")
    short, full = (hackamore("trace", "show", str(path), *more).text for more in ((), ("--full",)))
    found = [json.loads(line) for line in hackamore("trace", "show", str(path), "--json").text.splitlines()]
    for name in ("prompt", "thinking", "command", "permission", "reason", "result"):
        assert f"{name} {long}".strip() in full, name
        assert long.strip() not in short
        assert any(f"{name} {long}".strip() in event["what"] + event.get("outcome", "") for event in found), name


def test_help(hackamore: Command) -> None:
    ran = hackamore("trace", "show", "--help")
    assert ran.code == 0
    for part in ("show", "FILE", "--session", "--kind", "--json", "--raw", "Examples", "Exit codes"):
        assert part in ran.text
