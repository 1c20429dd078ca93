"""`bridle trace show`: a recording as a readable timeline. Reads one file and reaches nothing else.

A frame that means nothing to a reader (a state, a piece of streamed text) becomes an event with `minor` set. Nothing here raises for
what is in a file.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.cli.running import FAILED, USAGE
from bridle.cli.terminal import escape_json
from bridle.errors import escape_terminal
from bridle.transports.recording.reading import frame_of, read_recording

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bridle.cli.terminal import Terminal
    from bridle.transports.recording.reading import Entry, RecordedSession, Recording

_FAILED_STATES = frozenset({"failed", "killed", "error"})


class Event(msgspec.Struct, omit_defaults=True):
    """One line of a timeline."""

    session: int  # its place in the file
    at: float  # seconds since its start
    kind: str  # prompt, tool, hook, ...
    what: str = ""
    took: float | None = None  # seconds until it was answered or over
    outcome: str = ""
    failed: bool = False
    minor: bool = False  # bookkeeping
    line: int = 0  # its line in the file
    cost: float | None = None  # dollars, of a result

    def ends(self, entry: Entry, outcome: str | None = None, failed: bool = False) -> None:
        """Note when it was over, and how it came out if that is known."""
        self.took = round(entry.seconds - self.at, 4)
        if outcome is not None:
            self.outcome, self.failed = outcome, failed


class Totals(msgspec.Struct):
    """The events of a session."""

    seconds: float
    counts: dict[str, int]
    cost: float | None
    failed: int


def totals(session: RecordedSession, events: Iterable[Event]) -> Totals:
    """Return the totals of a session."""
    found = list(events)
    counts = Counter(event.kind for event in found if not event.minor)
    costs = [event.cost for event in found if event.cost is not None]  # each is the cost of the session so far
    seconds = max((entry.seconds for entry in session.entries), default=0.0)
    return Totals(
        seconds, counts, costs[-1] if costs else None, sum(event.failed for event in found if not event.minor)
    )


def timeline(session: RecordedSession) -> list[Event]:
    """Return what happened in a session, in order."""
    reader = _Reader(session)
    for entry in session.entries:
        reader.take(entry)
    reader.finish()
    return reader.events


def _object(value: Any, *names: str) -> dict[str, Any]:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(content: Any) -> str:
    """Return content blocks as text; blocks of other kinds as their kind in brackets."""
    return "\n".join(str(block["text"]) if "text" in block else f"[{block.get('type')}]" for block in _blocks(content))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if value not in (None, {}, []) else ""


def _call(tool: Any, fields: Any) -> str:
    """Return a tool call as text: for the usual tools, what matters most of it."""
    known = fields if isinstance(fields, dict) else {}
    for name in ("command", "file_path", "path", "pattern", "url", "query", "prompt", "description"):
        if isinstance(known.get(name), str):
            return f"{tool} {known[name]}"
    return f"{tool} {_json(fields)}".rstrip()


class _Reader:
    def __init__(self, session: RecordedSession) -> None:
        self.events: list[Event] = []
        self._session = session
        self._asked: dict[str, Event] = {}  # by request id
        self._tools: dict[str, Event] = {}  # by tool use id
        self._prompts: list[Event] = []
        self._init = ""

    def _add(self, entry: Entry, kind: str, what: str = "", **more: Any) -> Event:
        event = Event(self._session.index, entry.seconds, kind, what, line=entry.line, **more)
        self.events.append(event)
        return event

    def take(self, entry: Entry) -> None:
        """Take one entry of the recording."""
        if entry.kind in ("in", "out"):
            frame = frame_of(entry)
            if not frame:
                oversized = entry.fields.get("oversized")
                text = f"a line of {oversized} bytes or more" if oversized else entry.data.decode("utf-8", "replace")
                self._add(entry, "no frame", text, failed=True)
            elif entry.kind == "out":
                self._sent(entry, frame)
            else:
                self._received(entry, frame)
            return
        fields = entry.fields
        match entry.kind:
            case "start":
                given = fields.get("arguments")
                self._add(entry, "start", " ".join(map(str, given)) if isinstance(given, list) else "")
            case "start_error":
                self._add(entry, "start", outcome=f"{fields.get('error')}: {fields.get('message')}", failed=True)
            case "prompt":
                self._prompts.append(self._add(entry, "prompt", str(fields.get("text", ""))))
            case "exit":
                code = fields.get("code")
                self._add(entry, "exit", "no status" if code is None else f"code {code}", failed=bool(code))
            case "stderr":
                self._add(entry, "stderr", str(fields.get("text", "")).rstrip())
            case "stop":
                self._add(entry, "stop", "in the middle of a turn" if fields.get("turn_open") else "")
            case "abandon":
                self._add(entry, "stop", "forgotten by its host")
            case "end":
                redacted = ", ".join(f"{count} {kind}" for kind, count in _object(fields, "redactions").items())
                self._add(entry, "end", f"redacted: {redacted}" if redacted else "", minor=True)
            case "eof":
                self._add(entry, "output ended", minor=True)
            case "end_input":
                self._add(entry, "input ended", minor=True)
            case other:
                self._add(entry, other, _json(fields), minor=True)

    def _sent(self, entry: Entry, frame: dict[str, Any]) -> None:
        match frame.get("type"):
            case "user":
                self._prompts.append(self._add(entry, "prompt", _text(_object(frame, "message").get("content"))))
            case "control_request":
                request = _object(frame, "request")
                fields = {name: value for name, value in request.items() if name != "subtype"}
                subtype = str(request.get("subtype"))
                self._asked[str(frame.get("request_id"))] = self._add(
                    entry, "control", f"{subtype} {_json(fields)}".rstrip(), minor=subtype == "mcp_message"
                )
            case "control_response":
                self._answered(entry, _object(frame, "response"))
            case other:
                self._add(entry, str(other), _json(frame), minor=True)

    def _answered(self, entry: Entry, response: dict[str, Any]) -> None:
        event = self._asked.pop(str(response.get("request_id")), None)
        if event is None:
            self._add(entry, "answer", f"to an unknown request: {_json(response)}", minor=True)
            return
        if response.get("subtype") == "error":
            event.ends(entry, str(response.get("error")), True)
        else:
            event.ends(entry, *_OUTCOMES.get(event.kind, _plain)(_object(response, "response")))

    def _received(self, entry: Entry, frame: dict[str, Any]) -> None:
        match frame.get("type"):
            case "assistant":
                self._assistant(entry, frame)
            case "user":
                self._results(entry, frame)
            case "result":
                self._result(entry, frame)
            case "control_request":
                self._request(entry, frame)
            case "control_response":
                self._answered(entry, _object(frame, "response"))
            case "control_cancel_request":
                if event := self._asked.pop(str(frame.get("request_id")), None):
                    event.ends(entry, "taken back", True)
            case "system":
                self._system(entry, frame)
            case "stream_event":
                self._add(entry, "piece", _json(_object(frame, "event", "delta")), minor=True)
            case kind:
                self._add(entry, str(kind), _json(frame), minor=kind in ("command_lifecycle", "keep_alive"))

    def _assistant(self, entry: Entry, frame: dict[str, Any]) -> None:
        for block in _blocks(_object(frame, "message").get("content")):
            match block.get("type"):
                case "text":
                    self._add(entry, "text", str(block.get("text", "")), failed=bool(frame.get("error")))
                case "thinking":
                    self._add(entry, "thinking", str(block.get("thinking", "")))
                case "tool_use":
                    event = self._add(entry, "tool", _call(block.get("name"), block.get("input")))
                    self._tools[str(block.get("id"))] = event
                case other:
                    self._add(entry, str(other), _json(block))

    def _results(self, entry: Entry, frame: dict[str, Any]) -> None:
        for block in _blocks(_object(frame, "message").get("content")):
            event = self._tools.pop(str(block.get("tool_use_id")), None)
            if event is not None:
                event.ends(entry, _text(block.get("content")), bool(block.get("is_error")))
            elif block.get("type") == "tool_result":
                self._add(entry, "tool result", _text(block.get("content")), failed=bool(block.get("is_error")))
            else:
                minor = bool(frame.get("isReplay") or frame.get("isSynthetic"))
                self._add(entry, "user", _text([block]), minor=minor)

    def _result(self, entry: Entry, frame: dict[str, Any]) -> None:
        usage = _object(frame, "usage")
        parts = [str(frame.get("subtype"))]
        if frame.get("terminal_reason") and frame.get("is_error"):
            parts.append(str(frame["terminal_reason"]))
        if usage:
            parts.append(f"{usage.get('input_tokens', 0)} tokens in, {usage.get('output_tokens', 0)} out")
        cost = frame.get("total_cost_usd")
        cost = float(cost) if isinstance(cost, (int, float)) else None
        if cost is not None:
            parts.append(f"${cost:.4f} so far")
        errors = frame.get("errors")
        outcome = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
        event = self._add(
            entry, "result", ", ".join(parts), outcome=outcome, failed=bool(frame.get("is_error")), cost=cost
        )
        if self._prompts:
            event.took = round(entry.seconds - self._prompts.pop(0).at, 4)

    def _request(self, entry: Entry, frame: dict[str, Any]) -> None:
        request = _object(frame, "request")
        fields = _object(request, "input")
        subtype = str(request.get("subtype"))
        minor = False
        match subtype:
            case "hook_callback":
                kind = "hook"
                about = _call(fields["tool_name"], fields.get("tool_input")) if "tool_name" in fields else ""
                what = f"{fields.get('hook_event_name')} {about}".rstrip()
            case "can_use_tool":
                kind, what = "permission", _call(request.get("tool_name"), fields)
            case "mcp_message":
                message = _object(request, "message")
                parameters = _object(message, "params")
                minor = message.get("method") != "tools/call"
                what = (
                    str(message.get("method")) if minor else _call(parameters.get("name"), parameters.get("arguments"))
                )
                kind, what = "mcp", f"{request.get('server_name')}: {what}"
            case _:
                kind, what = "question", f"{subtype} {_json({n: v for n, v in request.items() if n != 'subtype'})}"
        self._asked[str(frame.get("request_id"))] = self._add(entry, kind, what, minor=minor)

    def _system(self, entry: Entry, frame: dict[str, Any]) -> None:
        subtype = str(frame.get("subtype"))
        match subtype:
            case "init":
                version = frame.get("claude_code_version")
                said = [frame.get("model"), frame.get("permissionMode"), version and f"Claude Code {version}"]
                text = ", ".join(str(part) for part in said if part)
                # It comes with every turn, and nearly always says the same.
                self._add(entry, "init", text, minor=text == self._init)
                self._init = text
            case "session_state_changed":
                self._add(entry, "state", str(frame.get("state")), minor=True)
            case "status" if frame.get("status") == "requesting":
                self._add(entry, "state", "requesting", minor=True)
            case "background_tasks_changed":
                tasks = frame.get("tasks")
                self._add(entry, "background", f"{len(tasks) if isinstance(tasks, list) else 0} tasks run")
            case "task_started" | "task_notification":
                what = f"{subtype} {frame.get('description') or frame.get('summary') or frame.get('task_id')}"
                self._add(entry, "background", what, failed=frame.get("status") in _FAILED_STATES)
            case "api_retry":
                what = f"try {frame.get('attempt')} of {frame.get('max_retries')}: {frame.get('error') or frame.get('error_status')}"
                self._add(entry, "retry", what, failed=True)
            case _:
                rest = {name: value for name, value in frame.items() if name not in _USUAL}
                self._add(entry, "system", f"{subtype} {_json(rest)}".rstrip(), minor=subtype.startswith("hook_"))

    def finish(self) -> None:
        """Say of what was never answered that it was not."""
        for event in (*self._asked.values(), *self._tools.values()):
            event.outcome = "no answer"


_USUAL = frozenset({"type", "subtype", "uuid", "session_id", "parent_tool_use_id"})


def _plain(answer: dict[str, Any]) -> tuple[str, bool]:
    return _json(answer) or "done", False


def _hook(answer: dict[str, Any]) -> tuple[str, bool]:
    specific = _object(answer, "hookSpecificOutput")
    decision = specific.get("permissionDecision") or answer.get("decision")
    if decision is None and answer.get("continue") is False:
        decision = "stop"
    if decision is None:
        return _json(answer) or "continue", False
    reason = specific.get("permissionDecisionReason") or answer.get("reason") or answer.get("stopReason")
    return f"{decision}: {reason}" if reason else str(decision), decision in ("deny", "block", "stop")


def _permission(answer: dict[str, Any]) -> tuple[str, bool]:
    behavior = str(answer.get("behavior"))
    return (f"{behavior}: {answer['message']}" if answer.get("message") else behavior), behavior == "deny"


def _mcp(answer: dict[str, Any]) -> tuple[str, bool]:
    response = _object(answer, "mcp_response")
    error = _object(response, "error")
    if error:
        return str(error.get("message")), True
    result = _object(response, "result")
    return (_text(result["content"]) if "content" in result else _json(result)), bool(result.get("isError"))


_OUTCOMES = {"hook": _hook, "permission": _permission, "mcp": _mcp}


_STYLES = {"prompt": "bold", "thinking": "dim", "result": "bold", "stderr": "yellow", "retry": "yellow"}
_KIND_WIDTH = 11
_PROBLEMS = 10
_COUNTED = {
    "result": "turns",
    "tool": "tool calls",
    "hook": "hooks",
    "permission": "permission requests",
    "mcp": "in-process tool calls",
    "control": "control operations",
    "no frame": "lines that are not frames",
}


def trace(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Show a recording; return the exit code."""
    path = str(given["file"])
    try:
        recording = read_recording(path)
    except OSError as error:
        terminal.error(f"{path} cannot be read: {error.strerror or error}")
        return USAGE
    chosen = set(given.get("session") or [])
    unknown = chosen - {session.index for session in recording.sessions}
    if unknown:
        missing = ", ".join(map(str, sorted(unknown)))
        terminal.error(f"the file has no session {missing}; it has {len(recording.sessions)}")
        return USAGE
    sessions = [session for session in recording.sessions if not chosen or session.index in chosen]
    events = {session.index: _wanted(timeline(session), given) for session in sessions}
    if given.get("raw"):
        lines = (
            part for session in sessions for part in (events[session.index] if given.get("kind") else session.entries)
        )
        _raw(path, {part.line for part in lines}, terminal)
    elif given.get("as_json"):
        for session in sessions:
            for event in events[session.index]:
                terminal.line(escape_json(msgspec.json.encode(event).decode()))
    else:
        page = _Page(terminal, full=bool(given.get("full")))
        page.head(recording)
        for session in sessions:
            page.session(session, events[session.index], filtered=bool(given.get("kind")))
    if given.get("kind") and sessions and not any(events.values()):
        there = sorted({event.kind for session in sessions for event in timeline(session)})
        terminal.warning(f"nothing is of that kind; there are: {', '.join(there)}")
    for problem in recording.problems[:_PROBLEMS]:
        terminal.warning(f"{escape_terminal(path)}: {problem}")
    if len(recording.problems) > _PROBLEMS:
        terminal.warning(f"{escape_terminal(path)}: and more like these")
    if not recording.sessions:
        terminal.error(f"nothing in {escape_terminal(path)} can be read")
        return FAILED
    return 0


def _wanted(events: list[Event], given: Mapping[str, Any]) -> list[Event]:
    kinds = {name.strip() for part in given.get("kind") or [] for name in part.split(",")}
    if kinds:
        return [event for event in events if event.kind in kinds]
    return [event for event in events if given.get("everything") or not event.minor]


def _raw(path: str, numbers: set[int], terminal: Terminal) -> None:
    """Write these lines of the file as they are."""
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if number in numbers:
                terminal.raw_line(line.rstrip(b"\r\n"))


class _Page:
    def __init__(self, terminal: Terminal, *, full: bool) -> None:
        self._terminal = terminal
        self._full = full

    def head(self, recording: Recording) -> None:
        """Show what the file says of itself."""
        if header := recording.header:
            cli = [f"Claude Code {header['cli']}"] if header.get("cli") else []
            parts = [f"Bridle {header.get('library')}", *cli, str(header.get("created"))]
            self._terminal.line(self._terminal.dot.join(parts), "dim")

    def session(self, session: RecordedSession, events: list[Event], *, filtered: bool) -> None:
        """Show one session."""
        terminal = self._terminal
        name = session.start_field("name")
        kind = "query" if session.start_field("one_shot") else "session"
        title = f"{kind} {session.index}" + (f" ({name})" if name else "")
        terminal.line()
        terminal.line(f"{terminal.rule * 2} {title} {terminal.rule * 2}", "bold")
        for event in events:
            self._event(event)
        if not session.complete:
            terminal.line("          the recording was interrupted here", "yellow")
        if not filtered:
            self._totals(session)

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
        first = " ".join(text.split())
        return self._terminal.shorten(first, max(20, self._terminal.width - used - 1))

    def _totals(self, session: RecordedSession) -> None:
        found = totals(session, timeline(session))
        parts = [f"{found.counts[kind]} {label}" for kind, label in _COUNTED.items() if found.counts.get(kind)]
        if found.failed:
            parts.append(f"{found.failed} went wrong")
        if found.cost is not None:
            parts.append(f"${found.cost:.4f}")
        parts.append(_seconds(found.seconds))
        self._terminal.line(f"{'':10}{self._terminal.dot.join(parts)}", "bold")


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
