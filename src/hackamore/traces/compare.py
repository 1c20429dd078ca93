"""Two runs compared: prompts, replies, tool calls, decisions and results, in order. Ids and times are ignored."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from hackamore.activity.words import blocks_of, text_of
from hackamore.traces.items import as_object
from hackamore.transports.recording.reading import object_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore.traces.items import Item
    from hackamore.traces.reading import Trace

_LONGEST = 200
_MOST_LINES = 40
_CONTEXT = 3
_VOLATILE = (
    (re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"), "<id>"),
    (re.compile(r"\b(?:toolu|msg|req|call|srvtoolu)_[A-Za-z0-9_]+"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"<hackamore-([a-z-]+?)[~-]\d+>"), r"<hackamore-\1>"),
    (re.compile(r"(?<=with ID: )\w+|(?<=/tasks/)\w+(?=\.output)|(?<=agentId: )\w+"), "<id>"),
    (re.compile(r"\b[a-z][0-9a-f]{16}\b"), "<id>"),
    (re.compile(r"(?<=duration_ms: )\d+|(?<=_tokens: )\d+"), "<n>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|seconds?)\b"), "<time>"),
)


def _stable(text: str) -> str:
    for pattern, instead in _VOLATILE:
        text = pattern.sub(instead, text)
    return text


def _shown(text: str, *, full: bool) -> list[str]:
    """Return the lines of a text; what is left out still counts, by its hash."""
    text = _stable(text).rstrip("\n")
    lines = text.split("\n")
    if full:
        return lines
    kept = [line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ... {_mark(line)}" for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        rest = lines[_MOST_LINES:]
        kept.append(f"... {len(rest)} more lines {_mark(chr(10).join(rest))}")
    return kept


def _mark(text: str) -> str:
    return f"[{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}]"


def _arguments(fields: Any) -> Iterator[str]:
    if not isinstance(fields, dict):
        return
    for name, value in sorted(fields.items()):
        yield f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)}"


def outline(trace: Trace, *, results: bool = True, full: bool = False) -> list[str]:
    """Return what happened, as lines that do not depend on ids and times.

    Args:
        results: False to leave out what tools returned.
        full: True for texts in full.
    """
    lines: list[str] = []
    for number, session in enumerate(trace.builder.sessions):
        if len(trace.builder.sessions) > 1:
            lines.append(f"session {number} {session.info.name}")
        for item in trace.builder.items:
            if item.session == number:
                lines += _block(trace, item, results=results, full=full)
    return lines


def _block(trace: Trace, item: Item, *, results: bool, full: bool) -> Iterator[str]:
    indent = "  " * (item.parent >= 0)
    parts: list[tuple[str, str]]
    match item.kind:
        case "prompt" | "message":
            parts = [(item.kind, prompt_text(trace, item))]
        case "model":
            texts = [
                str(block.get("text", ""))
                for block in (block_at(trace, line, place) for role, line, place in item.refs if role == "block")
                if block.get("type") == "text"
            ]
            parts = [("reply", text) for text in texts]
        case "tool" | "subagent":
            parts = list(_call(trace, item, results=results))
        case "result":
            parts = [("outcome", item.outcome)]
        case "interrupt" | "retry" | "compaction":
            parts = [(item.kind, item.title)]
        case "hook" if item.status == "denied":
            parts = [("hook", f"{item.name} {item.outcome}")]
        case "exit":
            parts = [("exit", item.title)]
        case "control" if item.name not in ("initialize", ""):
            parts = [("operation", f"{item.name} {item.title}".strip())]
        case _:
            return
    for head, text in parts:
        first, *rest = _shown(text, full=full)
        yield f"{indent}{head}: {first}"
        yield from (f"{indent}    {line}" for line in rest)


def _call(trace: Trace, item: Item, *, results: bool) -> Iterator[tuple[str, str]]:
    fields: Any = None
    result: str | None = None
    for role, line, place in item.refs:
        if role == "call":
            fields = block_at(trace, line, place).get("input")
        elif role == "result":
            result = text_of(block_at(trace, line, place).get("content"))
    yield item.kind, "\n".join([item.name, *_arguments(fields)])
    if item.decision:
        yield "  decision", item.decision
    if result is None:
        yield "  no result", ""
    elif results:
        yield "  failed" if item.status in ("failed", "denied") else "  result", result


def frame_at(trace: Trace, line: int) -> dict[str, Any]:
    """Return the frame of a line; an empty one if it has none."""
    value = object_of(trace.builder.lines.line(line))
    return (as_object(value, "f") or value) if trace.reader.kind == "recording" else value


def block_at(trace: Trace, line: int, place: int) -> dict[str, Any]:
    """Return a content block of the message of a line; an empty one if there is none."""
    blocks = blocks_of(as_object(frame_at(trace, line), "message").get("content"))
    return blocks[place] if 0 <= place < len(blocks) else {}


def prompt_text(trace: Trace, item: Item) -> str:
    """Return the text of a prompt or another message in full."""
    frame = frame_at(trace, item.refs[0][1])
    content = as_object(frame, "message").get("content")
    return text_of(content) if content is not None else str(frame.get("text", item.title))


def difference(one: list[str], other: list[str], names: tuple[str, str]) -> list[str]:
    """Return a unified diff of two outlines; empty if they are the same."""
    return list(difflib.unified_diff(one, other, *names, n=_CONTEXT, lineterm=""))
