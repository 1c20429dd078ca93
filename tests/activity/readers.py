"""The readers of a run behind one function each: frames of the CLI in, tool calls and prompts out."""

from __future__ import annotations

import contextlib
import io
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hackamore import traces, transcripts
from hackamore.cli.terminal import Terminal
from hackamore.cli.transcript import Transcript
from hackamore.telemetry import names
from hackamore.traces.compare import block_at
from hackamore.traces.reading import Trace
from tests.activity.meters import Frame, Subject, messages_of
from tests.telemetry.collecting import Collected, attributes, id_of
from tests.traces.written import Tape
from tests.transcripts.disk import Writer, line

Seen = dict[str, dict[str, Any]]
"""For each call: `agent`, the call of the subagent that made it, or the empty string; `inside`, whether a subagent made it; `end`: `ok`,
`failed` or `open`; `answered`. A reader shows some of them."""


def in_telemetry(frames: list[Frame], _: Path) -> Seen:
    collected = Collected()
    observed = collected.telemetry().observe(Subject())
    observed.prompt_sending("t", "go")
    observed.turn_changed("t", "started", None)
    for message in messages_of(frames):
        observed.messages_received([message], ("t",))
    observed.turn_changed("t", "completed", None)
    observed.ended(None, 0)
    return calls_of_spans(collected)


def calls_of_spans(collected: Collected) -> Seen:
    spans = {id_of(span): span for span in collected.spans}
    found: Seen = {}
    for span in spans.values():
        if (call := attributes(span).get(names.TOOL_CALL_ID)) is None:
            continue
        assert span.parent is not None
        agent = spans[span.parent.span_id]
        started = spans.get(agent.parent.span_id) if agent.parent is not None else None
        by = "" if started is None else str(attributes(started)[names.TOOL_CALL_ID])
        end = {None: "ok", "tool_error": "failed"}.get(attributes(span).get(names.ERROR_TYPE), "open")
        found[_key(found, str(call))] = {"agent": by, "end": end}
    return found


def calls_of_trace(trace: Trace) -> Seen:
    items = trace.builder.items
    calls = {number: item for number, item in enumerate(items) if any(role == "call" for role, _, _ in item.refs)}
    ids = {number: _call_at(trace, item.refs) for number, item in calls.items()}
    found: Seen = {}
    for number, item in calls.items():
        end = "failed" if item.status == "denied" else item.status
        found[_key(found, ids[number])] = {"agent": ids.get(item.parent, ""), "end": end}
    return found


def _key(found: Seen, call: str) -> str:
    return f"{call} again" if call in found else call


def _call_at(trace: Trace, refs: list[tuple[str, int, int]]) -> str:
    [call] = [block_at(trace, line, place) for role, line, place in refs if role == "call"]
    return str(call["id"])


def in_a_trace(frames: list[Frame], folder: Path) -> Seen:
    tape = Tape()
    tape.put("start", arguments=["--verbose"])
    tape.prompt("go")
    for frame in frames:
        tape.into(frame)
    return calls_of_trace(traces.read(tape.write(folder / f"{uuid.uuid4()}.jsonl")))


def on_a_terminal(frames: list[Frame], _: Path) -> Seen:
    """Read the lines of `hackamore run`: a call, and below it or with its name the result."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        shown = Transcript(Terminal())
        for message in messages_of(frames):
            shown.show(message)
        shown.finish(None)
    found: Seen = {}
    for indent, call in re.findall(r"^( *)\S \w+ (t\d+)$", output.getvalue(), re.MULTILINE):
        found[_key(found, call)] = {"inside": bool(indent), "answered": False}
    for call in re.findall(r"result of (t\d+)", output.getvalue()):
        if call in found:
            again = f"{call} again"
            found[again if again in found and found[call]["answered"] else call]["answered"] = True
    return found


def on_disk(frames: list[Frame], folder: Path) -> tuple[Writer, Path]:
    """Write messages as the CLI does: those of subagents into files of their own."""
    main, agents = Writer(), dict[str, Writer]()
    main.user("go")
    for frame in frames:
        if frame["type"] not in ("assistant", "user"):
            continue
        parent = frame.get("parent_tool_use_id")
        writer = main if parent is None else agents.setdefault(parent, Writer(session_id=main.session_id))
        writer.add(frame["type"], message=frame["message"], isSidechain=parent is not None)
    path = main.save(folder)
    for parent, writer in agents.items():
        place = path.with_suffix("") / "subagents" / f"agent-{parent}.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(writer.text, encoding="utf-8")
        place.with_suffix(".meta.json").write_text(line({"agentType": "general-purpose", "toolUseId": parent}))
    return main, path


def in_a_trace_of_a_conversation(frames: list[Frame], folder: Path) -> Seen:
    return calls_of_trace(traces.read(on_disk(frames, folder)[1]))


def in_changed_files(frames: list[Frame], folder: Path) -> Seen:
    """Read the files that a conversation changed; each call writes a file of its name."""
    writer, _ = on_disk(frames, folder)
    changed = transcripts.read(writer.session_id, config_dir=folder).files_changed
    assert all(each.changes == 1 for each in changed), "a call counts twice"
    return {each.path: {"end": "ok"} for each in changed}


READERS: dict[str, Callable[[list[Frame], Path], Seen]] = {
    "telemetry": in_telemetry,
    "trace": in_a_trace,
    "terminal": on_a_terminal,
    "trace of a conversation": in_a_trace_of_a_conversation,
    "changed files": in_changed_files,
}


def _with_one_more(content: Any, marks: dict[str, Any], folder: Path) -> tuple[Writer, Path]:
    """Write a prompt, a reply with a call, and one more entry."""
    writer = Writer()
    writer.user("go")
    writer.assistant("Yes.", {"type": "tool_use", "id": "t1", "name": "Read", "input": {}})
    writer.user(content, **marks)
    return writer, writer.save(folder)


def as_turns(content: Any, marks: dict[str, Any], folder: Path) -> list[bool]:
    writer, _ = _with_one_more(content, marks, folder)
    return [turn.has_prompt for turn in transcripts.read(writer.session_id, config_dir=folder).turns]


def as_items(content: Any, marks: dict[str, Any], folder: Path) -> list[bool]:
    _, path = _with_one_more(content, marks, folder)
    return [True for item in traces.read(path).builder.items if item.kind == "prompt"]


PROMPTS: dict[str, Callable[[Any, dict[str, Any], Path], list[bool]]] = {
    "turns of a conversation": as_turns,
    "trace of a conversation": as_items,
}


def expected(reader: str, calls: dict[str, tuple[str, str]], frames: list[Frame]) -> Seen:
    """The facts that a reader shows of calls, each with its agent and its end."""
    tools = {
        block["id"]: block["name"]
        for frame in frames
        if frame["type"] == "assistant"
        for block in frame["message"]["content"]
        if "name" in block
    }

    def facts() -> Iterator[tuple[str, dict[str, Any]]]:
        for call, (agent, end) in calls.items():
            if reader == "terminal":
                yield call, {"inside": bool(agent), "answered": end != "open"}
            elif reader != "changed files":
                yield call, {"agent": agent, "end": end}
            elif end == "ok" and tools[call.removesuffix(" again")] == "Write":
                yield call, {"end": end}

    return dict(facts())


__all__ = ["PROMPTS", "READERS", "Frame", "Seen", "calls_of_spans", "calls_of_trace", "expected"]
