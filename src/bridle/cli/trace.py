"""`bridle trace show`: a recording as a readable timeline. Reads one file and reaches nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bridle.cli.running import FAILED, USAGE
from bridle.cli.terminal import escape_json
from bridle.cli.timeline import timeline, totals
from bridle.errors import printable
from bridle.testing.cassettes.file import read_recording

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.cli.terminal import Terminal
    from bridle.cli.timeline import Event
    from bridle.testing.cassettes.file import RecordedSession, Recording

__all__ = ["trace"]

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
    "no frame": "lines that are no frames",
}


def trace(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Show a recording; return the exit code."""
    if given["action"] != "show":
        terminal.error(f"there is no `bridle trace {given['action']}`; try `bridle trace show FILE`")
        return USAGE
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
        terminal.warning(f"{printable(path)}: {problem}")
    if len(recording.problems) > _PROBLEMS:
        terminal.warning(f"{printable(path)}: and more like these")
    if not recording.sessions:
        terminal.error(f"nothing in {printable(path)} can be read")
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
