"""Recordings and conversations become items, whatever is in them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hackamore.errors import SessionNotFoundError
from hackamore.storage.places import SessionFiles
from hackamore.traces import reading
from hackamore.traces.items import LANES, Item
from hackamore.traces.page import write_page
from hackamore.traces.reading import GrowingTrace, Trace, read_session, read_trace
from hackamore.transports.recording.reading import read_recording
from tests.traces.written import CANARY, Tape, call, everything, text


def items(trace: Trace, kind: str) -> list[Item]:
    return [item for item in trace.builder.items if item.kind == kind]


def test_every_lane_has_its_items(tmp_path: Path) -> None:
    trace = read_trace(everything().write(tmp_path / "run.jsonl"))
    assert {LANES[item.lane] for item in trace.builder.items} == set(LANES)
    assert trace.builder.problems == []
    bash, _inside = items(trace, "tool")[0], items(trace, "tool")[2]
    assert (bash.name, bash.status, bash.decision) == ("Bash", "ok", "allowed by the permission callback")
    assert bash.end is not None
    assert bash.end > bash.start
    permission = items(trace, "permission")[0]
    assert trace.builder.items[permission.parent] is bash
    assert [item.status for item in items(trace, "permission")] == ["ok", "denied"]
    edit = items(trace, "tool")[1]
    assert (edit.name, edit.status) == ("Edit", "denied")
    assert edit.decision.startswith("denied by the permission callback: No: ")
    assert trace.builder.items[_inside.parent].kind == "subagent"
    assert trace.builder.items[items(trace, "hook")[0].parent] is bash
    assert items(trace, "task")[0].outcome == "It is ready."
    assert items(trace, "prompt")[0].end is not None


def test_tokens_cost_rules_and_facts(tmp_path: Path) -> None:
    trace = read_trace(everything().write(tmp_path / "run.jsonl"))
    session = trace.builder.sessions[0].finished()
    assert session.usage == {"input": 40, "output": 20, "cache_read": 300, "cache_write": 60}
    assert session.cost == 0.25
    assert [sample.cache_read for sample in trace.builder.samples if sample.cost is None] == [90, 180, 270, 360, 450]
    assert ("--allowedTools", "Bash(echo:*)") in session.rules
    assert ("--permission-mode", "default") in session.rules
    assert ("permission callback, allow (session)", "Bash(ls)") in session.rules
    assert ("model", "m") in session.facts
    assert ("Hackamore", "0.1.0") in trace.reader.facts
    assert session.failed == 3  # the denied permission, its call, and what was on stderr


def begun() -> Tape:
    tape = Tape()
    tape.put("start", arguments=[])
    tape.prompt("Go.")
    return tape


Step = Callable[[Tape], object]
End = tuple[str, str, str, int]


def failing(reason: str) -> Step:
    return lambda tape: tape.result("error", terminal_reason=reason, errors=["It broke."])


def calling(tape: Tape) -> None:
    tape.reply(1, call("Bash", "t1", command="sleep 9"))


def done(tape: Tape) -> None:
    tape.result()


def exits(code: int | None) -> Step:
    return lambda tape: tape.put("exit", code=code)


def stopping(tape: Tape) -> None:
    tape.put("stop", turn_open=True)


KILLED = "another process, or the system, stopped it. See stderr and the last frames."
RESULT, WAITS = ("Last result: success", 2), "Prompts without a result: 1"
INTERRUPTED = "The recording was interrupted before a result"
TURNS = ("The limit of turns was reached", " Raise `max_turns`, or send another prompt.")
BUDGET = ("The budget of the CLI was spent", " Raise `max_budget_usd`.")
ENDS: list[tuple[list[Step], End, list[tuple[str, int]]]] = [
    (
        [],
        (
            *("bad", INTERRUPTED),
            *("The host was killed, or the file was cut. The last item shows the state at that moment.", 1),
        ),
        [(WAITS, 1)],
    ),
    (
        [calling, exits(137)],
        ("bad", "The CLI exited with 137 before a result", f"SIGKILL ended it: {KILLED}", 4),
        [("No result: tool Bash sleep 9", 3), (WAITS, 1), ("Exit code: 137", 4)],
    ),
    (
        [exits(-15)],
        ("bad", "The CLI exited with -15 before a result", f"SIGTERM ended it: {KILLED}", 2),
        [(WAITS, 1), ("Exit code: -15", 2)],
    ),
    (
        [exits(1), lambda tape: tape.put("stderr", text="no key"), lambda tape: tape.put("stderr", text="more")],
        ("bad", "The CLI exited with 1 before a result", "See stderr and the last frames.", 2),
        [(WAITS, 1), ("Exit code: 1", 2), ("stderr: no key", 3)],
    ),
    (
        [exits(None)],
        ("bad", "The CLI exited with None before a result", "See stderr and the last frames.", 2),
        [(WAITS, 1), ("Exit code: None", 2)],
    ),
    (
        [stopping],
        ("warn", "The host stopped the session before a result", "stopped in the middle of a turn", 2),
        [(WAITS, 1), ("Host: stopped in the middle of a turn", 2)],
    ),
    (
        [lambda tape: tape.put("start_error", error="CLINotFoundError", message="no CLI")],
        ("bad", "The CLI could not be started: CLINotFoundError", "no CLI", 2),
        [(WAITS, 1)],
    ),
    *(
        ([failing(reason)], ("bad", head, f"It broke.{text}", 2), [(f"Last result: error, {reason}", 2)])
        for reason, (head, text) in {
            "max_turns": TURNS,
            "error_max_turns": TURNS,
            "error_max_budget_usd": BUDGET,
            "max_budget": BUDGET,
            "aborted_streaming": ("The turn was interrupted while the model wrote", ""),
            "aborted_tools": ("The turn was interrupted while a tool ran", ""),
            "api_error": ("The API reported an error", " The last model item has its text."),
            "hook_stopped": ("A hook stopped the turn", " The hook lane shows which one."),
            "error_during_execution": ("The turn failed", ""),
            "prompt_too_long": ("The context is full", " Compact the conversation, or start another one."),
            "of tomorrow": ("The turn ended with of tomorrow", ""),
        }.items()
    ),
    (
        [done, exits(0)],
        ("ok", "The turn ended normally", "The model ended its turn, and no tool call was open.", 2),
        [RESULT, ("Exit code: 0", 3)],
    ),
    (
        [lambda tape: tape.result(terminal_reason="hook_stopped")],
        ("ok", "A hook stopped the turn", "The hook lane shows which one.", 2),
        [("Last result: success, hook_stopped", 2)],
    ),
    (
        [done, exits(1)],
        (
            *("warn", "The turn succeeded, then the CLI exited with 1"),
            *("The last turn succeeded. After an interrupt, the CLI exits with 1 although nothing failed.", 2),
        ),
        [RESULT, ("Exit code: 1", 3)],
    ),
    (
        [done, lambda tape: tape.prompt("And?"), stopping],
        ("warn", "The host stopped the session in the middle of a turn", "A prompt has no result.", 3),
        [RESULT, (WAITS, 3), ("Host: stopped in the middle of a turn", 4)],
    ),
    (
        [done, calling],
        ("bad", "The recording was interrupted during a turn", "Calls have no result.", 4),
        [RESULT, ("No result: tool Bash sleep 9", 4)],
    ),
    (
        [done, calling, lambda tape: tape.put("end")],
        ("ok", "The turn ended normally", "The model ended its turn, and no tool call was open.", 2),
        [RESULT, ("No result: tool Bash sleep 9", 4)],
    ),
    (
        [done, lambda tape: tape.prompt("And?"), exits(0)],
        ("warn", "A prompt has no result", "The session ended before the CLI answered it.", 3),
        [RESULT, (WAITS, 3), ("Exit code: 0", 4)],
    ),
]


@pytest.mark.parametrize(("steps", "end", "evidence"), ENDS)
def test_why_it_stopped(tmp_path: Path, steps: list[Step], end: End, evidence: list[tuple[str, int]]) -> None:
    tape = begun()
    for step in steps:
        step(tape)
    path = tape.write(tmp_path / "end.jsonl")
    stop = read_trace(path).builder.sessions[0].finished().stop
    assert stop is not None
    assert (stop.level, stop.title, stop.text, stop.item) == end
    assert stop.evidence == evidence


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        ([], ("open", "The session is running", "No result was received yet.", 1)),
        ([done], ("open", "The session is running", "The last turn succeeded.", 2)),
        ([done, calling], ("open", "The session is running", "The last turn succeeded.", 2)),
        ([exits(0)], ("bad", "The CLI exited with 0 before a result", "See stderr and the last frames.", 2)),
    ],
)
def test_a_session_that_is_followed_runs_until_its_end(tmp_path: Path, steps: list[Step], end: End) -> None:
    tape = begun()
    for step in steps:
        step(tape)
    session = GrowingTrace(tape.write(tmp_path / "run.jsonl")).trace.builder.sessions[0]
    session.live = True
    stop = session.finished().stop
    assert stop is not None
    assert (stop.level, stop.title, stop.text, stop.item) == end


DISK = "A conversation on the disk has no results and no exit code."


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ([("user", {"content": "go"}, {"isMeta": True})], ("warn", "The conversation ends with: message", DISK, 0)),
        ([("user", {"content": "go"}, {"isReplay": True})], ("warn", "The conversation is empty", "", -1)),
        ([("user", {"content": "go"}, {})], ("warn", "The last prompt has no reply", DISK, 0)),
        (
            [("user", {"content": "[Request interrupted by user]"}, {})],
            ("bad", "The user interrupted the turn", DISK, 0),
        ),
        (
            [("assistant", {"content": [text("Yes.")]}, {})],
            ("ok", "The conversation ends with a reply", DISK, 0),
        ),
        (
            [("assistant", {"content": [text("No key.")]}, {"isApiErrorMessage": True})],
            ("bad", "The API reported an error", "No key.", 0),
        ),
        (
            [("assistant", {"content": [call("Bash", "t1", command="ls")]}, {})],
            ("warn", "A tool call has no result", f"The CLI was stopped while it ran. {DISK}", 1),
        ),
    ],
)
def test_how_a_conversation_ends(tmp_path: Path, lines: list[tuple[str, Any, dict[str, Any]]], end: End) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text(
        "".join(
            json.dumps(entry(kind, number, message={"id": "m1", **message}, **more)) + "\n\n"
            for number, (kind, message, more) in enumerate(lines, 1)
        )
    )
    stop = read_trace(path).builder.sessions[0].finished().stop
    assert stop is not None
    assert (stop.level, stop.title, stop.text, stop.item) == end


def test_every_line_has_a_label_and_its_place_in_time(tmp_path: Path) -> None:
    tape = begun()
    tape.into({"type": "system", "subtype": "init"})
    tape.into({"type": "stream_event", "event": {"type": "message_start"}})
    tape.asked("p1", "can_use_tool", tool_name="Bash")
    tape.answered("p1", {"behavior": "allow"})
    tape.into({"type": "keep_alive", "subtype": "x"})
    tape.put("in", x="not JSON")
    tape.put("in", after=1, oversized=9_000)
    tape.result()
    lines = read_trace(tape.write(tmp_path / "run.jsonl")).builder.lines
    assert [lines.labels[label] for label in lines.table[2::4]] == [
        ("other", "header"),
        ("other", "start"),
        ("out", "user"),
        ("in", "system · init"),
        ("in", "stream_event · message_start"),
        ("in", "control_request · can_use_tool"),
        ("out", "control_response"),
        ("in", "keep_alive"),
        ("in", "no frame"),
        ("in", "no frame"),
        ("in", "result · success"),
    ]
    assert [lines.about(number) for number in (3, 10)] == [(0, 0.3, "system · init"), (0, 1.9, "result · success")]
    assert lines.table[3::4] == [len(lines.line(number)) for number in range(len(lines))]
    talk = read_trace(conversation(tmp_path / "talk.jsonl")).builder.lines
    assert [talk.labels[label] for label in talk.table[2::4]] == [
        *(("out", "user"), ("in", "assistant"), ("in", "assistant")),
        *(("out", "user"), ("in", "assistant")),
    ]


def test_sessions_of_one_file_are_apart(tmp_path: Path) -> None:
    one, other = everything(Tape("a")), everything(Tape("b"))
    mixed = [line for pair in zip(one.lines, other.lines, strict=True) for line in pair]
    (tmp_path / "two.jsonl").write_text("\n".join(mixed) + "\n")
    builder = read_trace(tmp_path / "two.jsonl").builder
    assert len(builder.sessions) == 2
    names = [session.info.name for session in builder.sessions]
    assert names == ["session", "session"]
    kinds = [[item.kind for item in builder.items if item.session == number] for number in (0, 1)]
    assert kinds[0] == kinds[1]
    assert all(builder.items[item.parent].session == item.session for item in builder.items if item.parent >= 0)


def test_a_session_that_starts_again_is_another_one(tmp_path: Path) -> None:
    tape = Tape()
    tape.put("start", name="shop")
    tape.prompt("One")
    tape.at = 0.0
    tape.put("start", one_shot=True)
    tape.prompt("Two")
    builder = read_trace(tape.write(tmp_path / "run.jsonl")).builder
    assert [session.info.name for session in builder.sessions] == ["shop", "query"]
    assert [(item.session, item.title) for item in builder.items] == [(0, ""), (0, "One"), (1, ""), (1, "Two")]
    assert [builder.lines.about(number)[0] for number in range(5)] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "x",
        [],
        {},
        [[]],
        {"type": 3},
        {"content": 5},
        {"content": [None, 1, {}]},
        "\ud800",
        pytest.param(10**400, id="huge"),
        float("inf"),
    ],
)
def test_odd_values_are_no_error(tmp_path: Path, value: object) -> None:
    tape = begun()
    for kind in ("assistant", "user", "result", "system", "control_request", "control_response", "stream_event", "x"):
        tape.into({"type": kind, "message": value, "request": value, "response": value, "event": value, "usage": value,
                   "subtype": value, "errors": value, "total_cost_usd": value, "tool_result_meta": value})  # fmt: skip
        tape.out({"type": kind, "message": value, "request": value, "response": value})
    for subtype in (
        "init",
        "task_started",
        "task_notification",
        "api_retry",
        "compact_boundary",
        "hook_started",
        "hook_response",
    ):
        tape.into({"type": "system", "subtype": subtype, "task_id": value, "patch": value, "compact_metadata": value})
    for kind in ("start", "exit", "stderr", "stop", "end", "abandon", "prompt", "unknown"):
        tape.put(kind, arguments=value, code=value, text=value, redactions=value)
    trace = read_trace(tape.write(tmp_path / "odd.jsonl"))
    assert trace.builder.problems == []
    for session in trace.builder.sessions:
        assert session.finished().stop is not None
    assert write_page(tmp_path / "odd.html", trace)


@pytest.mark.parametrize("said", ["\ud800", "\udc80 behind", "half \ud83d of a pair", "\\ud800"])
def test_half_characters_do_not_break_the_page(tmp_path: Path, said: str) -> None:
    escaped = everything(said=said).write(tmp_path / "escaped.jsonl")
    raw = tmp_path / "raw.jsonl"
    lines = (
        json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")) for line in everything(said=said).lines
    )
    raw.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    for path in (escaped, raw):
        trace = read_trace(path)
        assert trace.builder.problems == []
        assert write_page(tmp_path / "page.html", trace)
    prompt = items(read_trace(escaped), "prompt")[0].title
    assert prompt == said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("moment", ["1e999", "-1e999", "NaN", "1e300", "-1e300", "9" * 400])
def test_moments_out_of_range_do_not_break_the_page(tmp_path: Path, moment: str) -> None:
    path = everything().write(tmp_path / "run.jsonl")
    with path.open("a") as file:
        file.write(f'{{"s":"s1","t":{moment},"k":"stderr","text":"late"}}\n')
    trace = read_trace(path)
    assert write_page(tmp_path / "page.html", trace)
    assert items(trace, "prompt")


def test_damaged_files_are_read_as_far_as_possible(tmp_path: Path) -> None:
    path = everything().write(tmp_path / "run.jsonl")
    data = path.read_bytes()
    path.write_bytes(b"\xff\xfe rubbish\n{}\n[1]\n" + data[: len(data) // 2])
    trace = read_trace(path)
    assert items(trace, "prompt")
    assert [problem.split(":")[0] for problem in trace.builder.problems[:3]] == [
        f"line {number} cannot be read" for number in (1, 2, 3)
    ]
    assert trace.reader.facts == [
        ("Hackamore", "0.1.0"),
        ("Claude Code", "2.1.330"),
        ("recorded", "2026-01-01T00:00:00+00:00"),
    ]
    lines = trace.builder.lines
    assert [lines.about(number) for number in (0, 3)] == [(0, 0.0, "line"), (0, 0.0, "header")]


def test_the_problems_of_a_file_have_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "rubbish.jsonl"
    path.write_text("\n\n" + "rubbish\n" * 60)
    problems = read_trace(path).builder.problems
    assert problems[0] == "it has no header: it is not a trace, or its beginning is lost"
    assert problems[-1] == "and more like these"
    assert [problem.partition(" cannot")[0] for problem in problems[1:-1]] == [
        f"line {number}" for number in range(3, 53)
    ]


@pytest.mark.parametrize("version", [2, None, "x", 10**100])
def test_a_later_format_is_a_problem(tmp_path: Path, version: object) -> None:
    path = everything().write(tmp_path / "run.jsonl")
    head, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps({**json.loads(head), "version": version}) + "\n" + rest)
    (problem,) = read_trace(path).builder.problems
    assert problem == f"line 1: format version {repr(version)[:40]}, and 1 is known here"
    assert read_recording(path).problems == [problem]


def test_secrets_are_redacted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "plain-canary-5up3rs3cr3t")
    said = f"{CANARY} and plain-canary-5up3rs3cr3t"
    trace = read_trace(everything(said=said).write(tmp_path / "run.jsonl"))
    lines = b"\n".join(trace.builder.lines.line(number) for number in range(len(trace.builder.lines)))
    for where in (lines.decode(), str(trace.builder.items)):
        assert "canary" not in where
        assert "<hackamore-key-" in where


def entry(kind: str, number: int, **more: object) -> dict[str, object]:
    moment = f"2026-01-01T00:00:{number:02}.000Z"
    return {"type": kind, "uuid": f"u{number}", "parentUuid": f"u{number - 1}", "sessionId": "s", "timestamp": moment,
            "cwd": "/home/me", "version": "2.1.330", **more}  # fmt: skip


def conversation(path: Path, key: str = "nothing secret") -> Path:
    usage = {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5}
    lines = [
        entry("user", 1, message={"role": "user", "content": f"Hello {key}"}, permissionMode="plan"),
        entry("assistant", 2, message={"id": "m1", "model": "m", "usage": usage, "content": [call("Agent", "t1", description="Look")]}),
        entry("user", 5, message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "seen"}]}),
        entry("assistant", 6, message={"id": "m2", "model": "m", "usage": usage, "content": [text("Bye.")]}),
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    inside = path.with_suffix("") / "subagents"
    inside.mkdir(parents=True)
    own = [
        entry(
            "assistant",
            3,
            message={"id": "m3", "content": [call("Read", "t2", file_path="/a")]},
            isSidechain=True,
            agentId="a1",
        )
    ]
    (inside / "agent-a1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in own))
    (inside / "agent-a1.meta.json").write_text(json.dumps({"toolUseId": "t1"}))
    return path


def test_a_conversation_on_the_disk(tmp_path: Path) -> None:
    trace = read_trace(conversation(tmp_path / "talk.jsonl", key=CANARY))
    builder = trace.builder
    assert [(item.kind, item.start, item.parent) for item in builder.items] == [
        ("prompt", 0.0, -1), ("model", 0.0, -1), ("subagent", 1.0, -1), ("model", 2.0, 2), ("tool", 2.0, 2), ("model", 4.0, -1),
    ]  # fmt: skip
    session = builder.sessions[0].finished()
    assert session.usage["cache_read"] == 10
    assert session.stop is not None
    assert (session.stop.level, session.stop.title) == ("warn", "A tool call has no result")
    assert CANARY not in str(builder.items)


def test_subagents_stand_behind_their_calls_in_whatever_order_their_files_are_listed(tmp_path: Path) -> None:
    talk = conversation(tmp_path / "talk.jsonl")
    inside = talk.with_suffix("") / "subagents"
    for name, started_by, content in (
        ("a0", "t3", text("The inner one.")),
        ("a1", "t1", call("Agent", "t3", description="Inner")),
        ("a2", "nobody", text("Whose?")),
    ):
        line = entry("assistant", 3, message={"id": name, "model": "m", "content": [content]}, agentId=name)
        (inside / f"agent-{name}.jsonl").write_text(json.dumps(line, separators=(",", ":")) + "\n")
        (inside / f"agent-{name}.meta.json").write_text(json.dumps({"toolUseId": started_by}))
    items = read_trace(talk).builder.items
    assert [(item.kind, item.parent) for item in items if item.kind != "prompt"] == [
        ("model", -1), ("subagent", -1), ("model", 2), ("subagent", 2), ("model", 4), ("model", -1), ("model", -1),
    ]  # fmt: skip


@pytest.mark.skipif(sys.platform == "darwin", reason="the file system takes no such names")
def test_names_that_are_not_utf_8_do_not_break_the_page(tmp_path: Path) -> None:
    run = everything().write(tmp_path / os.fsdecode(b"run-\xff.jsonl"))
    assert read_trace(run).title == "run-\\udcff.jsonl"
    assert write_page(tmp_path / "page.html", read_trace(run))
    assert write_page(tmp_path / "page.html", read_trace(run, title="half of a pair: \ud83d"))
    talk = conversation(tmp_path / os.fsdecode(b"talk-\xff.jsonl"))
    agents = talk.with_suffix("") / "subagents"
    for name, meta in ((b"agent-\xfe.jsonl", None), (b"agent-b.jsonl", b'{"toolUseId":"\\ud800"}')):
        path = agents / os.fsdecode(name)
        path.write_bytes((agents / "agent-a1.jsonl").read_bytes())
        if meta is not None:
            path.with_suffix(".meta.json").write_bytes(meta)
    (agents / os.fsdecode(b"agent-\xfd.jsonl")).mkdir()
    (agents / os.fsdecode(b"agent-\xfc.jsonl")).symlink_to("nowhere")
    for trace in (read_trace(talk), GrowingTrace(talk).trace):
        assert write_page(tmp_path / "page.html", trace)
        assert trace.builder.sessions[0].info.name == "talk-\\udcff.jsonl"
    assert read_trace(talk).builder.problems == ["subagent \\udcfc: No such file or directory"]


def test_the_facts_and_moments_of_a_conversation(tmp_path: Path) -> None:
    moments = ["2026-01-01T00:00:05Z", "2026-01-01T00:00:02Z", "not a moment", "2026-01-01T00:00:06.25Z", None]
    lines = [
        {
            **entry("assistant", number, message={"id": f"m{number}", "model": f"model-{number}", "content": "x"}),
            "timestamp": moment,
            "cwd": f"/srv/{number}",
            "gitBranch": "main",
            "sessionId": f"s{number}",
        }
        for number, moment in enumerate(moments)
    ]
    lines.append({"type": "system", "subtype": "compact_boundary", "timestamp": "2026-01-01T00:00:08Z"})
    lines.append({"type": "attachment", "attachment": {"type": "file"}})
    lines.append({"type": "queue-operation", "operation": "enqueue"})
    path = tmp_path / "talk.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "[]\n")
    trace = read_trace(path)
    session = trace.builder.sessions[0].finished()
    assert session.facts == [
        ("source", "a conversation on the disk: it has no control frames"),
        ("started", "2026-01-01T00:00:05Z"),
        ("folder", "/srv/0"),
        ("branch", "main"),
        ("Claude Code", "2.1.330"),
        ("session", "s0"),
        ("model", "model-4"),
    ]
    assert (session.name, session.seconds, trace.title) == ("talk.jsonl", 3.0, "talk.jsonl")
    assert [item.end for item in trace.builder.items] == [0.0, 0.0, 0.0, 1.25, 1.25, 3.0]
    table = trace.builder.lines
    assert [table.about(number) for number in (3, 5, 6, 7)] == [
        (0, 1.25, "assistant"),
        (0, 3.0, "system · compact_boundary"),
        (0, 3.0, "attachment · file"),
        (0, 3.0, "queue-operation · enqueue"),
    ]
    assert [table.labels[table.table[4 * number + 2]][0] for number in (0, 5, 7)] == ["in", "other", "other"]
    assert trace.builder.problems == ["line 9 is not a JSON object"]


def test_a_subagent_without_its_call_comes_last(tmp_path: Path) -> None:
    path = conversation(tmp_path / "talk.jsonl")
    (tmp_path / "talk" / "subagents" / "agent-a1.meta.json").unlink()
    trace = read_trace(path)
    assert [(item.kind, item.start, item.parent) for item in trace.builder.items][-2:] == [
        ("model", 2.0, -1),
        ("tool", 2.0, -1),
    ]
    assert dict(trace.builder.sessions[0].info.facts)["folder"] == "/home/me"


def test_a_session_id_opens_its_conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "projects" / "-work"
    folder.mkdir(parents=True)
    session = "00000000-0000-4000-8000-000000000001"
    conversation(folder / f"{session}.jsonl")
    trace = read_trace(session)
    assert (trace.title, len(trace.builder.items)) == ("Hello nothing secret", 6)
    assert read_trace(session, title="Mine").title == "Mine"
    with pytest.raises(SessionNotFoundError):
        read_trace("00000000-0000-4000-8000-000000000002")


def test_a_conversation_that_is_gone_is_not_found_in_its_folder(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError) as caught:
        read_session(SessionFiles("s1", tmp_path / "s1.jsonl"), "Gone")
    assert "s1" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_growing_file_is_read_on(tmp_path: Path) -> None:
    whole = "\n".join(everything().lines) + "\n"
    path = tmp_path / "run.jsonl"
    path.write_text(whole[:900])
    growing = GrowingTrace(path)
    for end in range(900, len(whole), 333):
        path.write_text(whole[:end])
        growing.update()
    path.write_text(whole)
    growing.update()
    assert growing.epoch == 1
    assert growing.trace.builder.items == read_trace(path).builder.items
    everything(said="Again.").write(tmp_path / "other")
    (tmp_path / "other").replace(path)
    growing.update()
    assert growing.epoch == 2
    assert items(growing.trace, "prompt")[0].title == "Again."
    path.write_bytes(whole[:900].encode().replace(b"\n", b"\r\n"))  # the same file, shorter
    growing.update()
    assert growing.epoch == 3
    assert items(growing.trace, "prompt")[0].title == "Look at <b>this</b>."
    assert all(b"\r" not in growing.trace.builder.lines.line(n) for n in range(len(growing.trace.builder.lines)))


def test_a_growing_file_is_read_in_parts(tmp_path: Path) -> None:
    path = everything().write(tmp_path / "run.jsonl")
    growing = GrowingTrace(path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() * 2)
    known = len(growing.trace.builder.lines)
    counts = []
    for _ in range(3):
        growing.update(size // 2 + 1)
        counts.append(len(growing.trace.builder.lines))
    assert known < counts[0] < counts[1] == counts[2] == 2 * known
    assert growing.epoch == 1


def test_a_line_of_a_growing_file_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LONGEST", 1000)
    path = everything().write(tmp_path / "run.jsonl")
    with path.open("a") as file:
        file.write("x" * 1001)
    growing = GrowingTrace(path)
    assert growing.trace.builder.problems == ["a line of more than 1000 bytes was left out"]
    assert growing.trace.builder.items == read_trace(path).builder.items
