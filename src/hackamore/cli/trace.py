"""`hackamore trace show`: a trace, a cassette or a conversation as a timeline. The items are those of the trace page."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.activity.tree import is_call, is_result
from hackamore.activity.words import text_of
from hackamore.cli.running import FAILED, USAGE
from hackamore.cli.terminal import escape_json
from hackamore.cli.trace_page import read, warn
from hackamore.errors import escape_terminal
from hackamore.traces.compare import block_at, frame_at, prompt_text
from hackamore.traces.items import as_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hackamore.cli.terminal import Terminal
    from hackamore.traces.builder import SessionBuilder
    from hackamore.traces.items import Item
    from hackamore.traces.reading import Trace

_CUT = "…"


class Event(msgspec.Struct, omit_defaults=True):
    session: int  # its place in the file
    at: float  # seconds since its start
    kind: str  # prompt, tool, hook, ...
    what: str = ""
    took: float | None = None  # seconds until it was answered or over
    outcome: str = ""
    failed: bool = False
    minor: bool = False  # bookkeeping
    line: int = 0  # its line in the file; empty lines do not count
    cost: float | None = None  # dollars of the session so far, of a result


def timeline(trace: Trace, *, full: bool) -> list[Event]:
    """Return the events of all sessions, with texts in full or with their beginnings."""
    found = _Timeline(trace, full=full)
    events = [event for item in trace.builder.items for event in found.of(item)]
    return [*events, *found.bookkeeping()]


class _Timeline:
    def __init__(self, trace: Trace, *, full: bool) -> None:
        self._trace = trace
        self._full = full
        self._seen: set[int] = set()
        self._prompts: dict[int, float] = {}  # by the line of the result
        self._costs = {sample.item: sample.cost for sample in trace.builder.samples if sample.cost is not None}
        self._number = -1

    def of(self, item: Item) -> Iterator[Event]:
        self._number += 1
        lines = {role: line for role, line, _ in item.refs}
        self._seen.update(lines.values())
        first = item.refs[0][1] if item.refs else 0
        took = round(item.end - item.start, 4) if item.end is not None and len(lines) > 1 else None
        failed = item.status in ("failed", "denied")
        if item.kind == "model":
            yield from self._reply(item, failed=failed)
            return
        what, outcome = f"{item.name} {item.title}".strip(), item.outcome
        event = Event(item.session, item.start, item.kind, what, took, outcome, failed, line=first + 1)
        match item.kind:
            case "prompt" | "message":
                event.what, event.outcome, event.took = prompt_text(self._trace, item), "", None
                if "result" in lines:
                    self._prompts[lines["result"]] = item.start
            case "tool" | "subagent" if self._full:
                self._in_full(event, item)
            case "result":
                self._result(event, item, first)
            case "exit":
                event.what = item.title.removeprefix("exit ")
            case _ if self._full:
                event.what = self._whole(what, first)
                event.outcome = self._whole(outcome, lines.get("answer", first))
        # A request `server: method` is the handshake of an in-process server.
        event.minor = item.kind == "control" and ": " in item.name
        if item.end is None:
            event.outcome = "no answer"
        yield event

    def _reply(self, item: Item, *, failed: bool) -> Iterator[Event]:
        for _, line, place in item.refs:
            block = block_at(self._trace, line, place)
            kind = str(block.get("type"))
            if is_call(kind) or is_result(kind):
                continue
            text = (
                str(block.get("text") or block.get("thinking") or "") if kind in ("text", "thinking") else _json(block)
            )
            yield Event(
                item.session, self._trace.builder.lines.about(line)[1], kind, text, failed=failed, line=line + 1
            )

    def _in_full(self, event: Event, item: Item) -> None:
        for role, line, place in item.refs:
            block = block_at(self._trace, line, place)
            if role == "call":
                event.what = self._whole(event.what, line, as_object(block, "input"))
            elif role == "result":
                event.outcome = text_of(block.get("content"))

    def _whole(self, text: str, line: int, value: Any = None) -> str:
        return _json(value or frame_at(self._trace, line)) if text.endswith(_CUT) else text

    def _result(self, event: Event, item: Item, line: int) -> None:
        usage = as_object(frame_at(self._trace, line), "usage")
        parts = [item.outcome]
        if usage:
            parts.append(f"{usage.get('input_tokens', 0)} tokens in, {usage.get('output_tokens', 0)} out")
        event.cost = self._costs.get(self._number)
        if event.cost is not None:
            parts.append(f"${event.cost:.4f} so far")
        event.what, event.outcome = ", ".join(parts), item.title if event.failed else ""
        if line in self._prompts:
            event.took = round(item.start - self._prompts.pop(line), 4)

    def bookkeeping(self) -> Iterator[Event]:
        """Yield the lines that belong to no item: states, streamed pieces, handshakes."""
        lines = self._trace.builder.lines
        for number in range(len(lines)):
            session, at, label = lines.about(number)
            if number not in self._seen and label not in ("line", "header"):
                text = f"{label} {lines.line(number).decode('utf-8', 'replace')}"
                yield Event(session, at, "frame", text, minor=True, line=number + 1)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_STYLES = {"prompt": "bold", "thinking": "dim", "result": "bold", "stderr": "yellow", "retry": "yellow"}
_KIND_WIDTH = 11
_COUNTED = {
    "result": "turn",
    "tool": "tool call",
    "subagent": "subagent",
    "hook": "hook",
    "permission": "permission request",
    "mcp": "in-process tool call",
    "control": "control operation",
    "no frame": "invalid line",
}


def trace(given: Mapping[str, Any], terminal: Terminal) -> int:
    path = str(given["file"])
    found = read(path)
    sessions = found.builder.sessions
    chosen = set(given.get("session") or range(len(sessions)))
    if unknown := chosen - set(range(len(sessions))):
        missing = ", ".join(map(str, sorted(unknown)))
        terminal.error(f"the file has no session {missing}; it has {len(sessions)}")
        return USAGE
    kinds = {name.strip() for part in given.get("kind") or [] for name in part.split(",")}
    every = timeline(found, full=bool(given.get("full") or given.get("as_json")))
    every = sorted((event for event in every if event.session in chosen), key=lambda event: (event.session, event.at))
    events = [each for each in every if (each.kind in kinds if kinds else given.get("everything") or not each.minor)]
    if given.get("raw"):
        numbers = {event.line for event in events}
        lines = found.builder.lines
        for number in range(len(lines)):
            session, _, label = lines.about(number)
            if number + 1 in numbers if kinds else session in chosen and label not in ("line", "header"):
                terminal.raw_line(lines.line(number))
    elif given.get("as_json"):
        for event in events:
            terminal.line(escape_json(msgspec.json.encode(event).decode()))
    else:
        page = _Page(terminal, full=bool(given.get("full")))
        terminal.line(terminal.dot.join(f"{name} {value}" for name, value in found.reader.facts), "dim")
        for number in sorted(chosen):
            page.session(sessions[number], [event for event in events if event.session == number])
            if not kinds:
                page.totals(sessions[number], [event for event in every if event.session == number])
    if kinds and every and not events:
        terminal.warning(f"nothing is of that kind; there are: {', '.join(sorted({event.kind for event in every}))}")
    warn(found, path, terminal)
    if not sessions or not found.builder.items:
        terminal.error(f"nothing in {escape_terminal(path)} can be read")
        return FAILED
    return 0


class _Page:
    def __init__(self, terminal: Terminal, *, full: bool) -> None:
        self._terminal = terminal
        self._full = full

    def session(self, session: SessionBuilder, events: list[Event]) -> None:
        terminal, info = self._terminal, session.info
        title = f"session {session.index}" + ("" if info.name == "session" else f" ({escape_terminal(info.name)})")
        terminal.line()
        terminal.line(f"{terminal.rule * 2} {title} {terminal.rule * 2}", "bold")
        facts = ", ".join(f"{name} {value}" for name, value in info.facts)
        terminal.line(f"{'':10}{self._short(facts, 10)}", "dim")
        for event in events:
            self._event(event)

    def _event(self, event: Event) -> None:
        terminal = self._terminal
        took = "" if event.took is None else f"  [{_seconds(event.took)}]"
        style = "red" if event.failed else "dim" if event.minor else _STYLES.get(event.kind, "")
        begin = f"{event.at:9.3f} {event.kind:<{_KIND_WIDTH}} "
        terminal.line(begin + self._short(event.what, len(begin) + len(took)) + took, style)
        if event.outcome:
            indent = " " * (10 + _KIND_WIDTH) + f"{terminal.corner} "
            terminal.line(indent + self._short(event.outcome, len(indent)), "red" if event.failed else "dim")

    def _short(self, text: str, used: int) -> str:
        if self._full:
            return text.replace("\n", "\n" + " " * (11 + _KIND_WIDTH))
        return self._terminal.shorten(" ".join(text.split()), max(20, self._terminal.width - used - 1))

    def totals(self, session: SessionBuilder, events: list[Event]) -> None:
        """Show the reason why a session stopped, and its totals."""
        info = session.finished()
        if info.stop is not None:
            self._terminal.line(f"{'':10}{info.stop.title}", {"bad": "red", "warn": "yellow"}.get(info.stop.level, ""))
        counts = Counter(event.kind for event in events if not event.minor)
        parts = [_count(counts[kind], label) for kind, label in _COUNTED.items() if counts[kind]]
        if failed := sum(event.failed for event in events):
            parts.append(_count(failed, "problem"))
        if info.cost is not None:
            parts.append(f"${info.cost:.4f}")
        self._terminal.line(f"{'':10}{self._terminal.dot.join([*parts, _seconds(info.seconds)])}", "bold")


def _count(number: int, label: str) -> str:
    return f"{number} {label}{'s' if number != 1 else ''}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
