"""Items of traces: each frame becomes the item that the page shows, with its lane, times, outcome and place in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hackamore.traces.items import LANES, Item
from hackamore.traces.reading import Trace, read_trace
from tests.traces.written import HEADER, Tape, call, everything, text

Row = tuple[str, str, str, str, str, str]


def read(tape: Tape, folder: Path) -> Trace:
    return read_trace(tape.write(folder / "run.jsonl"))


def row(item: Item) -> Row:
    """Return lane, kind, name, title, outcome and status."""
    return LANES[item.lane], item.kind, item.name, item.title, item.outcome, item.status


def system(subtype: str, **fields: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, **fields}


def user(content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **fields}


# Start, end, parent and lines of the items of `everything`, and their rows.
WHOLE: list[tuple[float, float, int, list[tuple[str, int, int]], Row]] = [
    (
        *(0.1, 0.1, -1, [("entry", 1, -1)]),
        ("session", "start", "", "--verbose --allowedTools=Bash(echo:*) --permission-mode default", "", "ok"),
    ),
    (0.2, 2.4, -1, [("prompt", 2, -1), ("result", 24, -1)], ("session", "prompt", "", "x", "answered: success", "ok")),
    (
        *(0.2, 0.6, -1, [("block", 4, 0), ("block", 5, 0), ("block", 6, 0)]),
        ("model", "model", "m", "I say x", "calls Bash", "ok"),
    ),
    (0.6, 1.1, -1, [("call", 6, 0), ("result", 11, 0)], ("tools", "tool", "Bash", "echo x", "it said x", "ok")),
    (0.7, 0.8, 3, [("ask", 7, -1), ("answer", 8, -1)], ("hooks", "hook", "PreToolUse", "Bash echo", "continue", "ok")),
    (
        *(0.9, 1.0, 3, [("ask", 9, -1), ("answer", 10, -1)]),
        ("permissions", "permission", "Bash", "echo x", "allow", "ok"),
    ),
    (1.1, 1.2, -1, [("block", 12, 0)], ("model", "model", "m", "", "calls Edit", "ok")),
    (
        *(1.2, 1.5, -1, [("call", 12, 0), ("result", 15, 0)]),
        ("tools", "tool", "Edit", "/home/me/a.py", "No: x", "denied"),
    ),
    (
        *(1.3, 1.4, 7, [("ask", 13, -1), ("answer", 14, -1)]),
        ("permissions", "permission", "Edit", "/home/me/a.py", "deny: No: x", "denied"),
    ),
    (1.5, 1.6, -1, [("block", 16, 0)], ("model", "model", "m", "", "calls Agent", "ok")),
    (
        *(1.6, 2.0, -1, [("call", 16, 0), ("task", 17, -1), ("result", 20, 0)]),
        ("subagents", "subagent", "Agent", "Count", "There are 12.", "ok"),
    ),
    # The request of a subagent begins when its input is complete.
    (1.7, 1.8, 10, [("block", 18, 0)], ("model", "model", "m", "", "calls Bash", "ok")),
    (1.8, 1.9, 10, [("call", 18, 0), ("result", 19, 0)], ("tools", "tool", "Bash", "wc", "12", "ok")),
    (
        *(2.1, 2.2, 3, [("task", 21, -1), ("task", 22, -1)]),
        ("background", "task", "local_bash", "Wait x", "It is ready.", "ok"),
    ),
    (2.0, 2.3, -1, [("block", 23, 0)], ("model", "model", "m", "All is done.", "", "ok")),
    (2.4, 2.4, -1, [("result", 24, -1)], ("session", "result", "completed", "All is done.", "success", "ok")),
    (2.5, 2.5, -1, [("entry", 25, -1)], ("session", "exit", "", "exit code 0", "", "note")),
    (2.6, 2.6, -1, [("stderr", 26, -1)], ("session", "stderr", "", "a warning: x", "", "failed")),
]


def test_every_item_of_a_run_has_its_times_and_its_place(tmp_path: Path) -> None:
    trace = read(everything(said="x"), tmp_path)
    found = [
        (round(item.start, 3), item.end and round(item.end, 3), item.parent, item.refs, row(item))
        for item in trace.builder.items
    ]
    assert found == WHOLE
    session = trace.builder.sessions[0].finished()
    assert dict(session.facts) == {
        "started": "2026-01-01T00:00:00+00:00",
        "folder": "/home/me",
        "model": "m",
        "permission mode": "default",
        "session": "x",
        "redacted": "1 key",
    }
    assert session.seconds == 2.7
    assert session.counts == {kind: sum(row[4][1] == kind for row in WHOLE) for kind in {row[4][1] for row in WHOLE}}
    assert session.stop is not None
    assert session.stop.item == 15
    assert session.stop.evidence == [("Last result: success", 15), ("Exit code: 0", 16), ("stderr: a warning: x", 17)]


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (
            system("api_retry", attempt=1, max_retries=3, error="busy"),
            ("session", "retry", "", "try 1 of 3", "busy", "failed"),
        ),
        (
            system("api_retry", attempt=2, max_retries=3, error_status=529),
            ("session", "retry", "", "try 2 of 3", "529", "failed"),
        ),
        (
            system("compact_boundary", compact_metadata={"trigger": "auto", "pre_tokens": 5000}),
            ("session", "compaction", "", "auto 5000", "", "note"),
        ),
        (
            system("microcompact_boundary", compactMetadata={"trigger": "manual", "pre_tokens": 7}),
            ("session", "compaction", "", "manual 7", "", "note"),
        ),
        (system("permission_denied", command="rm"), ("session", "permission", "", "rm", "denied", "denied")),
        (system("news", message="new"), ("session", "notice", "", "news new", "", "note")),
        (system("news", content="new"), ("session", "notice", "", "news new", "", "note")),
        (system("news", text="new"), ("session", "notice", "", "news new", "", "note")),
        (
            system("task_notification", task_id="unknown", status="failed", summary="gone"),
            ("session", "task", "", "gone", "failed", "failed"),
        ),
        (
            system("task_notification", task_id="unknown", status="completed", summary="done"),
            ("session", "task", "", "done", "completed", "note"),
        ),
        (system("task_notification", task_id="unknown", summary="gone"), ("session", "task", "", "gone", "", "note")),
        (
            user("[Request interrupted by user]"),
            ("session", "interrupt", "", "[Request interrupted by user]", "", "failed"),
        ),
        (user("a note", isSynthetic=True), ("session", "message", "", "a note", "", "note")),
        (user("again", isReplay=True), None),
        (user("the task", parent_tool_use_id="t1"), None),
        (system("session_state_changed", state="idle"), None),
        (
            {"type": "assistant", "message": {"id": "m1", "content": [text("sorry")]}, "error": "rate_limit"},
            ("model", "model", "", "sorry", "rate_limit", "failed"),
        ),
        *(
            ({"type": "assistant", "message": {"content": content}}, ("model", "model", "", title, "", "ok"))
            for content, title in (("plain", "plain"), ([{"type": "text"}], ""))
        ),
        *(
            (
                {"type": "assistant", "message": {"id": "m1", "content": [text("sorry")]}, key: True},
                ("model", "model", "", "sorry", outcome, "failed"),
            )
            for key, outcome in (
                *(("error", "the API reported an error"), ("isApiErrorMessage", "the API reported an error")),
                ("is_api_error_message", ""),
            )
        ),
        (
            {"type": "assistant", "message": {"id": "m1", "content": [text("half")]}, "aborted": True},
            ("model", "model", "", "half", "interrupted", "failed"),
        ),
        (
            user("", message={"content": [{"type": "tool_result", "tool_use_id": "unknown", "content": "late"}]}),
            ("tools", "result", "", "late", "", "note"),
        ),
    ],
)
def test_a_frame_becomes_its_item(tmp_path: Path, frame: dict[str, Any], expected: Row | None) -> None:
    tape = Tape()
    tape.into(frame)
    trace = read(tape, tmp_path)
    assert [row(item) for item in trace.builder.items] == ([] if expected is None else [expected])
    places = {"model": ("block", 1, 0), "tools": ("result", 1, 0)}
    for item in trace.builder.items:
        assert item.refs == [places.get(LANES[item.lane], ("message", 1, -1))]
    session = trace.builder.sessions[0].finished()
    assert session.failed == (expected is not None and expected[-1] in ("failed", "denied"))
    assert session.seconds == 0.1


@pytest.mark.parametrize(
    ("answer", "outcome", "status", "decision"),
    [
        (
            {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}},
            *("deny: no", "denied", "denied by a hook: no"),
        ),
        ({"hookSpecificOutput": {"permissionDecision": "allow"}}, "allow", "ok", "allowed by a hook"),
        ({"hookSpecificOutput": {"permissionDecision": "ask"}}, "ask", "ok", ""),
        ({"hookSpecificOutput": {"decision": {"behavior": "deny"}}}, "deny", "denied", "denied by a hook"),
        ({"decision": "block", "reason": "no"}, "block: no", "denied", "denied by a hook: no"),
        ({"decision": "approve"}, "approve", "ok", "allowed by a hook"),
        ({"continue": False, "stopReason": "enough"}, "stop: enough", "denied", ""),
        ({"continue": True}, '{"continue": true}', "ok", ""),
        ({}, "continue", "ok", ""),
    ],
)
def test_the_answer_of_a_hook_decides_its_call(
    tmp_path: Path, answer: dict[str, Any], outcome: str, status: str, decision: str
) -> None:
    tape = Tape()
    tape.reply(1, call("Bash", "t1", command="ls"))
    asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    tape.asked("h1", "hook_callback", callback_id="hook_0", input=asked)
    tape.answered("h1", answer)
    trace = read(tape, tmp_path)
    _, bash, hook = trace.builder.items
    assert row(hook) == ("hooks", "hook", "PreToolUse", "Bash ls", outcome, status)
    assert (hook.start, hook.end, hook.parent, bash.decision) == (0.2, 0.3, 1, decision)
    assert trace.builder.sessions[0].finished().failed == (status == "denied")


def test_hooks_of_the_cli_have_their_exit_code(tmp_path: Path) -> None:
    tape = Tape()
    tape.into(system("hook_started", hook_id="one", hook_event="Stop", hook_name="lint"))
    tape.into(system("hook_started", hook_id="two", hook_name="format"))
    tape.into(system("hook_response", hook_id="one", exit_code=2))
    tape.into(system("hook_response", hook_id="two", exit_code=0, outcome="fine"))
    tape.into(system("hook_response", hook_id="unknown"))
    items = read(tape, tmp_path).builder.items
    assert [row(item) for item in items] == [
        ("hooks", "hook", "Stop", "lint", "exit code 2", "failed"),
        ("hooks", "hook", "format", "format", "fine", "ok"),
    ]
    assert [(item.start, item.end) for item in items] == [(0.1, 0.3), (0.2, 0.4)]


SERVED: list[tuple[str, dict[str, Any], dict[str, Any], Row, int]] = [
    (
        *("initialize", {}, {"result": {}}),
        ("session", "control", "shop: initialize", "", '{"mcp_response": {"result": {}}}', "ok"),
        -1,
    ),
    (
        "tools/call",
        {"name": "price", "arguments": {"article": "tea"}, "_meta": {"claudecode/toolUseId": "t1"}},
        {"result": {"content": [text("2.50")]}},
        ("tools", "mcp", "shop: tools/call", 'price {"article": "tea"}', "2.50", "ok"),
        1,
    ),
    (
        *("tools/call", {"name": "price"}, {"result": {"content": [text("bad")], "isError": True}}),
        ("tools", "mcp", "shop: tools/call", "price", "bad", "failed"),
        -1,
    ),
    (
        *("tools/call", {"name": "price"}, {"error": {"message": "none"}}),
        ("tools", "mcp", "shop: tools/call", "price", "none", "failed"),
        -1,
    ),
]


@pytest.mark.parametrize(("method", "parameters", "answer", "expected", "parent"), SERVED)
def test_messages_to_servers_of_the_host(
    tmp_path: Path, method: str, parameters: dict[str, Any], answer: dict[str, Any], expected: Row, parent: int
) -> None:
    tape = Tape()
    tape.reply(1, call("mcp__shop__price", "t1", article="tea"))
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    tape.asked("r1", "mcp_message", server_name="shop", message=message)
    tape.answered("r1", {"mcp_response": answer})
    found = read(tape, tmp_path).builder.items[2]
    assert (row(found), found.parent) == (expected, parent)


def test_questions_and_operations_end_with_their_answers(tmp_path: Path) -> None:
    tape = Tape()
    tape.asked("q1", "elicitation", message="Which?")
    tape.into({"type": "control_cancel_request", "request_id": "q1"})
    tape.asked("q2", "elicitation", message="Wähle?")
    tape.out({"type": "control_response", "response": {"subtype": "error", "request_id": "q2", "error": "no"}})
    tape.asked("q3", "elicitation", message="Which?")
    asked: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("set_permission_mode", {"mode": "plan"}, {}),
        ("interrupt", {}, {}),
        ("set_model", {"model": "m2"}, {"model": "m2"}),
        ("initialize", {"hooks": {}, "agents": {"a": {}}}, {"commands": []}),
    ]
    for number, (subtype, fields, answer) in enumerate(asked):
        request = {"subtype": subtype, **fields}
        tape.out({"type": "control_request", "request_id": f"o{number}", "request": request})
        response = {"subtype": "success", "request_id": f"o{number}", "response": answer}
        tape.into({"type": "control_response", "response": response})
    trace = read(tape, tmp_path)
    question = ("session", "question", "elicitation", '{"message": "Which?"}')
    assert [row(item) for item in trace.builder.items] == [
        (*question, "cancelled by the CLI", "failed"),
        ("session", "question", "elicitation", '{"message": "Wähle?"}', "no", "failed"),
        (*question, "", "open"),
        ("session", "control", "set_permission_mode", '{"mode": "plan"}', "done", "ok"),
        ("session", "interrupt", "interrupt", "", "done", "ok"),
        ("session", "control", "set_model", '{"model": "m2"}', '{"model": "m2"}', "ok"),
        ("session", "control", "initialize", '{"agents": {"a": {}}}', "", "ok"),
    ]
    assert [item.end for item in trace.builder.items] == [0.2, 0.4, None, 0.7, 0.9, 1.1, 1.3]
    session = trace.builder.sessions[0].finished()
    assert session.rules == [("set_permission_mode", "plan")]
    assert session.stop is not None
    assert ('No result: question elicitation {"message": "Which?"}', 2) in session.stop.evidence


def test_a_reply_names_its_calls(tmp_path: Path) -> None:
    tape = Tape()
    calls = [call(name, f"t{number}") for number, name in enumerate(("Bash", "Read", "Edit"))]
    usage = {"input_tokens": 1}
    for blocks in (calls[:2], calls[2:], [text("So."), text("Then.")]):
        tape.into({"type": "assistant", "message": {"id": "m1", "model": "m", "content": blocks, "usage": usage}})
    model, *tools = read(tape, tmp_path).builder.items
    assert row(model) == ("model", "model", "m", "So.", "calls Bash, Read, Edit", "ok")
    assert [tool.refs for tool in tools] == [[("call", 1, 0)], [("call", 1, 1)], [("call", 2, 0)]]
    assert model.refs == [("block", 1, 0), ("block", 1, 1), ("block", 2, 0), ("block", 3, 0), ("block", 3, 1)]


def test_what_goes_on_is_open_and_has_all_its_lines(tmp_path: Path) -> None:
    tape = Tape()
    tape.into(system("hook_started", hook_id="one", hook_event="Stop", hook_name="lint"))
    tape.into(system("task_started", task_id="b1", task_type="local_bash", is_backgrounded=True))
    for subtype in ("task_progress", "task_updated"):
        tape.into(system(subtype, task_id="b1"))
    tape.reply(1, call("Bash", "t1", command="ls"))
    hook, task, _, bash = read(tape, tmp_path).builder.items
    assert [(item.status, item.end) for item in (hook, task, bash)] == [("open", None)] * 3
    assert hook.refs == [("ask", 1, -1)]
    assert task.refs == [("task", 2, -1), ("task", 3, -1), ("task", 4, -1)]


@pytest.mark.parametrize(("status", "ends"), [("failed", "failed"), ("completed", "ok"), ("running", "open")])
def test_a_background_task_ends_with_its_status(tmp_path: Path, status: str, ends: str) -> None:
    tape = Tape()
    tape.into(system("task_started", task_id="b1", task_type="local_bash", is_backgrounded=True))
    tape.into(system("task_updated", task_id="b1", patch={"status": status}))
    [task] = read(tape, tmp_path).builder.items
    outcome = "" if ends == "open" else status
    assert row(task) == ("background", "task", "local_bash", "b1", outcome, ends)
    assert task.end == (None if ends == "open" else 0.2)


@pytest.mark.parametrize(
    ("kind", "fields", "how"),
    [
        ("stop", {"turn_open": True}, "stopped in the middle of a turn"),
        ("stop", {}, "stopped by the host"),
        ("abandon", {}, "abandoned by the host"),
    ],
)
def test_the_end_by_the_host_is_an_item_and_a_reason(
    tmp_path: Path, kind: str, fields: dict[str, Any], how: str
) -> None:
    tape = Tape()
    tape.prompt("x")
    tape.put(kind, **fields)
    trace = read(tape, tmp_path)
    assert row(trace.builder.items[1]) == ("session", "stop", "", how, "", "note")
    assert trace.builder.items[1].refs == [("entry", 2, -1)]
    stop = trace.builder.sessions[0].finished().stop
    assert stop is not None
    assert (stop.level, stop.text, stop.item) == ("warn", how, 1)
    assert (f"Host: {how}", 1) in stop.evidence


@pytest.mark.parametrize(
    ("decided", "failed", "status", "decision"),
    [
        ({"decision": "reject", "source": "user_reject"}, False, "denied", "denied by the permission callback"),
        (
            {"decision": "reject", "source": "hologram", "reason_type": "rule"},
            True,
            "denied",
            "denied by hologram (rule)",
        ),
        ({"decision": "accept", "source": "hologram"}, False, "ok", "allowed by hologram"),
        (
            {"decision": "accept", "source": "x" * 50, "reason_type": "y" * 50},
            *(False, "ok", f"allowed by {'x' * 39}… ({'y' * 39}…)"),
        ),
        ({"decision": "accept", "source": "hologram"}, True, "failed", "allowed by hologram"),
        ({"decision": "accept", "source": "config"}, False, "ok", "allowed by a rule or setting"),
        (
            {"decision": "accept", "source": "user_permanent"},
            False,
            "ok",
            "allowed by the permission callback, for good",
        ),
        ({"decision": "reject", "source": "user_abort"}, True, "denied", "denied by an interrupt"),
        ({"decision": "reject", "source": "hook"}, True, "denied", "denied by a hook"),
        (None, True, "failed", ""),
    ],
)
def test_a_result_says_who_decided(
    tmp_path: Path, decided: dict[str, Any] | None, failed: bool, status: str, decision: str
) -> None:
    for key in ("tool_result_meta", "toolResultMeta"):
        tape = Tape()
        tape.reply(1, call("Bash", "t1", command="ls"))
        more = {} if decided is None else {key: [{"id": "t1", "permission_decision": decided}]}
        tape.result_of("t1", "x", failed=failed, **more)
        bash = read(tape, tmp_path).builder.items[1]
        assert (bash.status, bash.decision, bash.outcome) == (status, decision, "x")


def test_a_reply_is_shown_while_it_is_written(tmp_path: Path) -> None:
    def stream(kind: str, agent: str | None = None, **fields: Any) -> None:
        tape.into({"type": "stream_event", "event": {"type": kind, **fields}, "parent_tool_use_id": agent})

    def begins(message_id: str, agent: str | None = None) -> None:
        message = {"id": message_id, "model": "m", "usage": {"input_tokens": 7, "output_tokens": 1}}
        stream("message_start", agent, message=message)

    tape = Tape()
    stream("content_block_delta")  # of a reply whose beginning is not in the file
    tape.into(system("status", status="requesting", permissionMode="plan"))
    begins("m1")
    stream("content_block_delta", usage={"output_tokens": 500})
    begins("m2", "t1")  # of a subagent, at the same time
    stream("message_delta", usage={"output_tokens": 40})
    stream("message_delta", usage={"output_tokens": 30})  # what was counted is not counted again
    content = [text("Done.")]
    usage = {"input_tokens": 7, "output_tokens": 2}
    tape.into({"type": "assistant", "message": {"id": "m1", "model": "m", "content": content, "usage": usage}})
    builder = read(tape, tmp_path).builder
    assert [(row(item), item.start, item.end) for item in builder.items] == [
        (("model", "model", "m", "Done.", "", "ok"), 0.2, 0.8),
        (("model", "model", "m", "", "", "ok"), 0.5, 0.5),
    ]
    assert [(sample.item, sample.at, sample.input, sample.output) for sample in builder.samples] == [
        (0, 0.3, 7, 40),
        (1, 0.5, 7, 1),
    ]
    session = builder.sessions[0].finished()
    assert session.rules == [("set_permission_mode", "plan")]
    assert session.usage == {"input": 14, "output": 41, "cache_read": 0, "cache_write": 0}
    assert session.seconds == 0.8


def test_what_is_not_said_is_empty(tmp_path: Path) -> None:
    tape = Tape()
    tape.lines[0] = json.dumps({"format": HEADER["format"], "version": HEADER["version"]})
    tape.put("prompt")
    tape.put("stderr")
    tape.into({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t1"}]}})
    tape.asked("h1", "hook_callback")
    tape.answered("h1", {})
    tape.asked("p1", "can_use_tool", tool_name="Bash")
    tape.answered("p1", {})
    tape.asked("s1", "mcp_message", server_name="shop", message={"method": "tools/call"})
    tape.into(system("task_started", task_id="b1"))
    tape.into(system("compact_boundary"))
    tape.into(system("api_retry", attempt=1, max_retries=2))
    tape.into(system("news"))
    trace = read(tape, tmp_path)
    assert [row(item) for item in trace.builder.items] == [
        ("session", "prompt", "", "", "", "ok"),
        ("session", "stderr", "", "", "", "failed"),
        ("model", "model", "", "", "calls ", "ok"),
        ("tools", "tool", "", "", "", "open"),
        ("hooks", "hook", "", "", "continue", "ok"),
        ("permissions", "permission", "Bash", "", "", "ok"),
        ("tools", "mcp", "shop: tools/call", "", "", "open"),
        ("background", "task", "", "b1", "", "open"),
        ("session", "compaction", "", "", "", "note"),
        ("session", "retry", "", "try 1 of 2", "", "failed"),
        ("session", "notice", "", "news", "", "note"),
    ]
    assert (trace.reader.facts, trace.builder.sessions[0].info.facts) == ([], [])
    assert {item.parent for item in trace.builder.items} == {-1}


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("in", {"x": "y", "text": "not JSON"}, ("session", "no frame", "", "not JSON", "", "failed")),
        ("in", {"oversized": 9000}, ("session", "no frame", "", "a line of 9000 bytes or more", "", "failed")),
        ("in", {"base64": "/zE="}, ("session", "no frame", "", "\ufffd1", "", "failed")),
        (
            *("start_error", {"error": "CLINotFoundError", "message": "no CLI"}),
            ("session", "start", "", "no CLI", "CLINotFoundError", "failed"),
        ),
        ("exit", {"code": 3}, ("session", "exit", "", "exit code 3", "", "failed")),
        ("exit", {"code": None}, ("session", "exit", "", "no status", "", "note")),
        ("start", {"arguments": ["--print", "go"]}, ("session", "start", "", "--print go", "", "ok")),
    ],
)
def test_an_entry_becomes_its_item(tmp_path: Path, kind: str, fields: dict[str, Any], expected: Row) -> None:
    tape = Tape()
    tape.put(kind, **fields)
    trace = read(tape, tmp_path)
    assert [(row(item), item.refs, item.start, item.end) for item in trace.builder.items] == [
        (expected, [("entry", 1, -1)], 0.1, 0.1)
    ]
    assert trace.builder.sessions[0].finished().failed == (expected[-1] == "failed")


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"command": "ls", "file_path": "/a", "description": "List"}, "ls"),
        ({"prompt": "Go.", "description": "Look"}, "Look"),
        ({"prompt": "Go.", "skill": "pdf"}, "pdf"),
        ({"query": "tea", "url": "https://shop.example"}, "https://shop.example"),
        ({"pattern": "def", "path": "/src"}, "def"),
        ({"notebook_path": "/a.ipynb", "pattern": "x"}, "/a.ipynb"),
        ({"query": 7, "prompt": "Go."}, "Go."),
        ({"article": "Käse"}, '{"article": "Käse"}'),
        ({"command": "a\n  b\tc"}, "a b c"),
        ({"command": "x" * 240}, "x" * 240),
        ({"command": "x" * 241}, "x" * 239 + "…"),
        ({"article": "x" * 2000}, '{"article": "' + "x" * 226 + "…"),
    ],
)
def test_a_call_is_called_by_its_most_telling_argument(tmp_path: Path, fields: dict[str, Any], title: str) -> None:
    tape = Tape()
    tape.reply(1, call("Tool", "t1", **fields))
    tape.asked("p1", "can_use_tool", tool_name="Tool", input=fields)
    _, made, asked = read(tape, tmp_path).builder.items
    assert (made.title, asked.title) == (title, title)


def test_rules_and_modes_that_the_permission_callback_sets_are_noted_once(tmp_path: Path) -> None:
    added = {"rules": [{"toolName": "Read"}, {"toolName": "Bash", "ruleContent": "ls"}], "behavior": "allow"}
    updates = [{**added, "destination": "session"}, {"mode": "acceptEdits", "destination": "localSettings"}]
    tape = Tape()
    tape.put(
        "start",
        arguments=["--tools", "Read,Bash", "--disallowed-tools=WebFetch", "--dangerously-skip-permissions", "go"],
    )
    for request in ("p1", "p2"):
        tape.asked(request, "can_use_tool", tool_name="Bash", input={})
        tape.answered(request, {"behavior": "allow", "updatedPermissions": updates})
    assert read(tape, tmp_path).builder.sessions[0].info.rules == [
        ("--tools", "Read,Bash"),
        ("--disallowed-tools", "WebFetch"),
        ("--dangerously-skip-permissions", "all tools run without asking"),
        ("permission callback, allow (session)", "Read"),
        ("permission callback, allow (session)", "Bash(ls)"),
        ("permission callback (localSettings)", "acceptEdits"),
    ]


def test_the_first_two_hundred_rules_are_kept(tmp_path: Path) -> None:
    tape = Tape()
    tape.put("start", arguments=[f"--allowedTools=Bash({number})" for number in range(201)])
    found = read(tape, tmp_path).builder.sessions[0].info.rules
    assert found == [("--allowedTools", f"Bash({number})") for number in range(200)]


def test_an_agent_in_the_background_is_an_item_of_its_own(tmp_path: Path) -> None:
    tape = Tape()
    tape.reply(1, call("Agent", "t1", prompt="Count it."))
    started = {"task_id": "a1", "tool_use_id": "t1", "task_type": "local_agent", "is_backgrounded": True}
    tape.into(system("task_started", **started, description="Count"))
    hook = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "agent_id": "a1"}
    tape.asked("h1", "hook_callback", input=hook)
    tape.asked("p1", "can_use_tool", tool_name="Bash", agent_id="a1")
    tape.into(system("task_notification", task_id="a1", status="stopped"))
    _, agent, task, *asked = read(tape, tmp_path).builder.items
    assert (row(agent), agent.end) == (("subagents", "subagent", "Agent", "Count it.", "", "open"), None)
    assert agent.refs == [("call", 1, 0), ("task", 2, -1)]
    assert row(task) == ("background", "task", "local_agent", "Count", "stopped", "failed")
    assert (task.parent, [item.parent for item in asked]) == (1, [1, 1])


def test_a_turn_that_failed_has_its_reason_and_its_errors(tmp_path: Path) -> None:
    tape = Tape()
    for prompt in ("One", "Two", "Three"):
        tape.prompt(prompt)
    tape.result("error_during_execution", errors=["It broke.", 7], terminal_reason="api_error", total_cost_usd=0.5)
    tape.result(result=None, terminal_reason=None, total_cost_usd=None)
    trace = read(tape, tmp_path)
    *prompts, failed, done = trace.builder.items
    assert row(failed) == (
        *("session", "result", "api_error", "It broke.; 7", "error_during_execution, api_error", "failed"),
    )
    assert row(done) == ("session", "result", "success", "success", "success", "ok")
    assert [(prompt.end, prompt.outcome) for prompt in prompts] == [
        (0.4, "answered: error_during_execution"),
        (0.5, "answered: success"),
        (0.3, ""),
    ]
    session = trace.builder.sessions[0].finished()
    assert (session.cost, session.failed) == (0.5, 1)
    assert session.usage == {"input": 80, "output": 40, "cache_read": 600, "cache_write": 120}
    assert [(sample.at, sample.item, sample.cost) for sample in trace.builder.samples] == [(0.4, 3, 0.5)]


def test_a_call_that_was_denied_stays_denied(tmp_path: Path) -> None:
    tape = Tape()
    tape.reply(1, call("Bash", "t1", command="ls"))
    meta = [{"id": "t1", "permission_decision": {"decision": "reject", "source": "config"}}]
    tape.result_of("t1", "No.", tool_result_meta=meta)
    tape.result_of("t1", "again")
    trace = read(tape, tmp_path)
    bash = trace.builder.items[1]
    assert (bash.status, bash.decision, bash.outcome) == ("denied", "denied by a rule or setting", "No.")
    assert [role for role, *_ in bash.refs] == ["call", "result", "result"]
    assert trace.builder.sessions[0].info.failed == 1


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ({"type": "custom-title", "customTitle": "Mine"}, "Mine"),
        ({"type": "ai-title", "aiTitle": "Its"}, "Its"),
        ({"type": "summary", "summary": "Short"}, "Short"),
    ],
)
def test_the_title_and_the_cost_of_a_conversation_on_the_disk(tmp_path: Path, line: dict[str, Any], title: str) -> None:
    message = {"role": "user", "content": "go"}
    prompt = {
        "type": "user",
        "sessionId": "s1",
        "uuid": "u1",
        "parentUuid": None,
        "timestamp": "2026-01-01T00:00:00Z",
        "message": message,
        "gitBranch": "main",
        "version": "2.1.330",
        "cwd": "/home/me",
        "permissionMode": "plan",
    }
    path = tmp_path / "talk.jsonl"
    path.write_text(
        "".join(f"{json.dumps(each)}\n" for each in (prompt, line, {"type": "cost-state", "totalCostUSD": 2}))
    )
    session = read_trace(path).builder.sessions[0].finished()
    facts = dict(session.facts)
    assert facts["title"] == title
    assert (facts["branch"], facts["Claude Code"], facts["session"]) == ("main", "2.1.330", "s1")
    assert session.cost == 2
    assert session.rules == [("permission mode of a prompt", "plan")]
