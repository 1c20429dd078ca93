"""Reads traces, cassettes and the conversations that the CLI keeps, into page data.

Every line passes the redaction of recordings before anything else looks at it. A recording is redacted already where it was written;
here it is redacted again, because another program may have written or changed it.
"""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore.activity.words import text_of
from hackamore.errors import DecodeError, SessionNotFoundError, escape_terminal
from hackamore.messages.base import plain, repair_surrogates
from hackamore.storage.places import SessionFiles, is_session_id, locate
from hackamore.traces.builder import Builder, SessionBuilder
from hackamore.traces.items import as_cost, as_object, short
from hackamore.transcripts.entries import decode_entry, meta_of
from hackamore.transcripts.listing import info_of
from hackamore.transports.recording.reading import Entry, entry_of, version_problem
from hackamore.transports.recording.redaction import Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from hackamore.traces.items import Item

READ_BYTES = 1 << 20
_HEAD = 1 << 16
_LONGEST = 1 << 28
"""Bytes of a line that a growing file may have."""


class Reader:
    """Takes the lines of one kind of file."""

    kind = ""

    def __init__(self) -> None:
        self.builder: Builder = Builder()
        self.facts: list[tuple[str, str]] = []
        self.vault: Vault = Vault()
        self._redactor = Redactor(self.vault)
        self._number = 0

    def take(self, line: bytes, agent: str = "") -> None:
        """Process a line without its end; `agent` is the call that started the subagent whose conversation it is from. Raises nothing."""
        self._number += 1
        if line.strip():
            line = _redacted(self._redactor, line)
            self._take(line, self.builder.lines.add(line), agent)

    def _take(self, line: bytes, place: int, agent: str) -> None:
        raise NotImplementedError


class Trace:
    """A trace that was read.

    Attributes:
        title: the name that the page shows.
        reader: the reader, with everything that it found.
    """

    def __init__(self, title: str, reader: Reader) -> None:
        self.title: str = escape_terminal(title, 300)
        self.reader = reader

    @property
    def builder(self) -> Builder:
        """The items, sessions and lines."""
        return self.reader.builder

    @property
    def items(self) -> Sequence[Item]:
        """The items that the page shows."""
        return self.builder.items

    @property
    def problems(self) -> list[str]:
        """The parts that cannot be read, with their reasons."""
        return self.builder.problems


def _loads(line: bytes) -> Any:
    try:
        return plain(line)
    except DecodeError:
        return None


def _redacted(redactor: Redactor, line: bytes) -> bytes:
    # A page is UTF-8, which has no lone surrogates: neither as escapes nor as bytes.
    line = repair_surrogates(line)
    if not line.isascii():
        line = line.decode("utf-8", "replace").encode()
    kept, _ = redactor.line(line, inbound=False)
    return kept.replace(b"\n", b" ")


class RecordingReader(Reader):
    """Reads a trace or a cassette."""

    kind = "recording"

    def __init__(self) -> None:
        super().__init__()
        self.header: bool = False
        self._sessions: dict[int | str, SessionBuilder] = {}
        self._created = ""

    def _take(self, line: bytes, place: int, agent: str) -> None:
        try:
            found = entry_of(self._number, line)
        except ValueError as error:
            self.builder.problem(f"line {self._number} cannot be read: {error}")
            return
        if isinstance(found, dict):
            self.builder.lines.describe(place, 0, 0.0, "other", "header")
            self._header(found)
            return
        key, entry = found
        session = self._sessions.get(key)
        if session is None or entry.kind == "start":
            name = entry.fields.get("name") or ("query" if entry.fields.get("one_shot") else "session")
            session = self._sessions[key] = self.builder.session(short(name, 80))
            session.fact("started", self._created)
        frame = _loads(entry.data) if entry.is_json else None
        frame = frame if isinstance(frame, dict) else {}
        self.builder.lines.describe(place, session.index, entry.seconds, *_label(entry, frame))
        session.moment(entry.seconds)
        self._event(session, place, entry, frame)

    def _header(self, fields: dict[str, Any]) -> None:
        if problem := version_problem(self._number, fields):
            self.builder.problem(problem)
        self._created = short(fields.get("created", ""), 60)
        if self.header:
            return
        self.header = True
        versions = [
            ("Hackamore", fields.get("library")),
            ("Claude Code", fields.get("cli")),
            ("recorded", self._created),
        ]
        self.facts.extend((name, short(value, 80)) for name, value in versions if value)

    def _event(self, session: SessionBuilder, place: int, entry: Entry, frame: dict[str, Any]) -> None:
        at, fields = entry.seconds, entry.fields
        match entry.kind:
            case "in" | "out" if not frame:
                size = fields.get("oversized")
                text = f"a line of {size} bytes or more" if size else entry.data.decode("utf-8", "replace")
                session.bad_line(at, place, text)
            case "out":
                self._sent(session, at, place, frame)
            case "in":
                self._received(session, at, place, frame)
            case "start":
                session.started(at, place, fields)
            case "start_error":
                session.start_failed(at, place, fields)
            case "prompt":
                session.prompt(at, place, fields.get("text", ""))
            case "exit":
                session.exited(at, place, fields.get("code"))
            case "stderr":
                session.stderr(at, place, fields.get("text", ""))
            case "stop":
                session.stopped(
                    at, place, "stopped in the middle of a turn" if fields.get("turn_open") else "stopped by the host"
                )
            case "abandon":
                session.stopped(at, place, "abandoned by the host")
            case "end":
                session.ended()
                counts = ", ".join(f"{count} {kind}" for kind, count in as_object(fields, "redactions").items())
                session.fact("redacted", counts)
            case _:
                pass  # the ends of input and output

    def _sent(self, session: SessionBuilder, at: float, place: int, frame: dict[str, Any]) -> None:
        match frame.get("type"):
            case "user":
                session.prompt(at, place, text_of(as_object(frame, "message").get("content")))
            case "control_request":
                session.operation(at, place, str(frame.get("request_id")), as_object(frame, "request"))
            case "control_response":
                session.answered(at, place, as_object(frame, "response"), inbound=False)
            case _:
                pass

    def _received(self, session: SessionBuilder, at: float, place: int, frame: dict[str, Any]) -> None:
        match frame.get("type"):
            case "assistant":
                session.assistant(at, place, frame)
            case "user":
                session.user(at, place, frame)
            case "result":
                session.result(at, place, frame)
            case "control_request":
                session.asked(at, place, str(frame.get("request_id")), as_object(frame, "request"))
            case "control_response":
                session.answered(at, place, as_object(frame, "response"), inbound=True)
            case "control_cancel_request":
                session.cancelled(at, place, str(frame.get("request_id")))
            case "system":
                session.system(at, place, frame)
            case "stream_event":
                session.stream(at, frame)
            case _:
                pass  # it stands among the raw frames


def _label(entry: Entry, frame: dict[str, Any]) -> tuple[str, str]:
    if entry.kind not in ("in", "out"):
        return "other", entry.kind
    kind = str(frame.get("type", "no frame"))
    match kind:
        case "system":
            more = frame.get("subtype")
        case "control_request":
            more = as_object(frame, "request").get("subtype")
        case "stream_event":
            more = as_object(frame, "event").get("type")
        case "result":
            more = frame.get("subtype")
        case _:
            more = None
    return entry.kind, f"{kind} · {more}" if more else kind


class TranscriptReader(Reader):
    """Reads a conversation that the CLI keeps. All branches are shown, in the order of the file."""

    kind = "transcript"

    def __init__(self, name: str = "conversation") -> None:
        super().__init__()
        self._session = self.builder.session(short(escape_terminal(name, 300), 80))
        self._session.stored = True
        self._session.fact("source", "a conversation on the disk: it has no control frames")
        self._began: float | None = None
        self._at = 0.0

    def _take(self, line: bytes, place: int, agent: str) -> None:
        frame = _loads(line)
        if not isinstance(frame, dict):
            self.builder.problem(f"line {self._number} is not a JSON object")
            return
        at = self._moment(frame.get("timestamp"))
        kind = str(frame.get("type", "entry"))
        more = frame.get("subtype") or as_object(frame, "attachment").get("type") or frame.get("operation")
        direction = "out" if kind == "user" else "in" if kind == "assistant" else "other"
        self.builder.lines.describe(place, 0, at, direction, f"{kind} · {more}" if more else kind)
        self._entry(at, place, kind, frame, agent)

    def _moment(self, timestamp: Any) -> float:
        if isinstance(timestamp, str):
            try:
                moment = datetime.fromisoformat(timestamp).timestamp()
            except (ValueError, OverflowError, OSError):
                return self._at
            if self._began is None:
                self._began = moment
                self._session.fact("started", timestamp)
            self._at = max(0.0, round(moment - self._began, 3))
        return self._at

    def _entry(self, at: float, place: int, kind: str, frame: dict[str, Any], agent: str) -> None:
        session = self._session
        if not agent:
            for name, key in (
                ("folder", "cwd"),
                ("branch", "gitBranch"),
                ("Claude Code", "version"),
                ("session", "sessionId"),
            ):
                if frame.get(key) and not any(fact[0] == name for fact in session.info.facts):
                    session.fact(name, frame[key])
        match kind:
            case "assistant":
                session.assistant(at, place, frame, agent)
                if model := as_object(frame, "message").get("model"):
                    session.fact("model", model)
            case "user":
                if mode := frame.get("permissionMode"):
                    session.rule("permission mode of a prompt", mode)
                session.user(at, place, frame, agent, prompts=not agent)
            case "system":
                session.system(at, place, frame)
            case "custom-title" | "ai-title" | "summary":
                session.fact("title", frame.get("customTitle") or frame.get("aiTitle") or frame.get("summary"))
            case "cost-state":
                cost = as_cost(frame.get("totalCostUSD"))
                if cost is not None:
                    session.info.cost = cost
            case _:
                pass  # it stands among the raw lines


def _is_transcript(head: bytes) -> bool:
    """Return whether a file begins as the conversations of the CLI do."""
    for line in head.split(b"\n")[:20]:
        entry = decode_entry(line) if line.strip() else None
        if entry is not None and (entry.session_id is not None or entry.parent_uuid is not None):
            return True
    return False


def _lines(file: BinaryIO) -> Iterator[bytes]:
    for line in file:
        yield line.rstrip(b"\r\n")


def read_trace(source: str | os.PathLike[str], *, title: str | None = None) -> Trace:
    """Read a trace, a cassette, or by its session id a conversation of the CLI. Parts that cannot be read are in `builder.problems`.

    Raises:
        OSError: the file cannot be read.
        SessionNotFoundError: it is a session id, and no such conversation exists.
    """
    text = os.fspath(source)
    if is_session_id(text) and not os.path.exists(text):
        files = locate(text)
        found = info_of(files)
        return read_session(files, title or (short(found.title, 200) if found else "") or f"conversation {text[:8]}")
    path = Path(text)
    with open(path, "rb") as file:
        head = file.read(_HEAD)
        file.seek(0)
        if _is_transcript(head):
            return read_session(SessionFiles(path.stem, path), title or path.name)
        reader = RecordingReader()
        for line in _lines(file):
            reader.take(line)
    if not reader.header:
        reader.builder.problems.insert(0, "it has no header: it is not a trace, or its beginning is lost")
    return Trace(title or path.name, reader)


def read_session(files: SessionFiles, title: str) -> Trace:
    """Read a conversation of the CLI, subagents included, as `read_trace` does."""
    reader = TranscriptReader(title)
    main: list[bytes] = []
    try:
        with open(files.path, "rb") as file:
            main = list(_lines(file))
    except FileNotFoundError:
        raise SessionNotFoundError.on_disk(files.session_id, escape_terminal(str(files.path.parent))) from None
    waiting: dict[bytes, list[tuple[str, list[bytes]]]] = {}
    for subagent in files.subagents():
        call = str(meta_of(subagent).get("toolUseId") or subagent.agent_id)
        try:
            with open(subagent.path, "rb") as file:
                own = list(_lines(file))
        except OSError as error:
            reader.builder.problem(f"subagent {escape_terminal(subagent.agent_id, 300)}: {error.strerror or error}")
            continue
        waiting.setdefault(call.encode("utf-8", "surrogateescape"), []).append((call, own))
    for line, agent in _inserted(main, waiting):
        reader.take(line, agent)
    return Trace(title, reader)


def _inserted(main: list[bytes], waiting: dict[bytes, list[tuple[str, list[bytes]]]]) -> Iterator[tuple[bytes, str]]:
    """Yield the lines, with those of each subagent behind the line with the call that started it, or at the end."""
    open_parts = [("", iter(main))]
    while open_parts:
        agent, lines = open_parts[-1]
        for line in lines:
            yield line, agent
            started = [own for name in _ID.findall(line) for own in waiting.pop(name, ())] if waiting else []
            if started:
                open_parts += [(call, iter(own)) for call, own in reversed(started)]
                break
        else:
            open_parts.pop()
            if not open_parts and waiting:
                open_parts = [(call, iter(own)) for call, own in reversed(waiting.pop(next(iter(waiting))))]


_ID = re.compile(rb'"id":"([^"]*)"')


class GrowingTrace:
    """A file that still grows. `OSError` is raised if it cannot be read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self.epoch: int = 0
        self.trace: Trace
        self._offset = 0
        self._identity: tuple[int, int] | None = None
        self._rest = b""
        self.update()

    def update(self, most: int = 64 * READ_BYTES) -> None:
        """Read the lines that were added, up to `most` bytes. A file that was replaced is read from its beginning."""
        with open(self.path, "rb") as file:
            status = os.fstat(file.fileno())
            identity = status.st_dev, status.st_ino
            if self._identity != identity or status.st_size < self._offset:
                self._begin(file.read(_HEAD))
                self._identity = identity
            file.seek(self._offset)
            left = most
            while left > 0 and (data := file.read(min(READ_BYTES, left))):
                left -= len(data)
                self._offset += len(data)
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    self.trace.reader.take(line.rstrip(b"\r"))
                if len(self._rest) > _LONGEST:
                    self.trace.builder.problem(f"a line of more than {_LONGEST} bytes was left out")
                    self._rest = b""

    def _begin(self, head: bytes) -> None:
        reader: Reader = TranscriptReader(self.path.name) if _is_transcript(head) else RecordingReader()
        self.trace = Trace(self.path.name, reader)
        self._offset, self._rest = 0, b""
        self.epoch += 1
