"""The entry of a session in a list: title, first prompt, directory, times. Made of the first and the last 64 KiB of its file.

The fields stand in entries of their own (titles, tags) or in each message (directory, branch). Bytes are searched, and a hit counts if the
decoded line has the field at its top level: tool inputs and results have fields of the same names. A line that the window cuts cannot be
decoded; there the hit itself counts.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections import deque
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hackamore.activity.prices import SYNTHETIC
from hackamore.errors import SessionNotFoundError, TranscriptError, escape_terminal
from hackamore.storage.places import (
    HEAD_BYTES,
    SessionFiles,
    StrPath,
    chosen_folders,
    find_files,
    locate,
    sessions_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path

__all__ = ["TitleSource", "TranscriptInfo", "find", "info", "info_of", "list_sessions"]

TitleSource = Literal["custom", "ai", "last_prompt", "summary", "first_prompt", ""]
"""Where a title comes from: the user, the CLI's own model, the last prompt, a summary, the first prompt; empty without a title."""

READ_AHEAD = 32
"""Files that are open at a time."""

PROMPT_LENGTH = 200
"""The most characters of a first prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptInfo:
    """A conversation on the disk, as a list shows it.

    Attributes:
        session_id: the session, for `Options(resume=...)` and `read`.
        title: the user's title, else the one that the CLI made, else the last prompt, a summary, or the first prompt; empty without these.
        title_source: where the title comes from.
        first_prompt: the first prompt, at most 200 characters; None if the beginning of the file has none.
        cwd: the working directory that the conversation started in; None if it is unknown.
        git_branch: the last known branch, `HEAD` where there is none; None if it is unknown.
        created: the time of the first entry; None if it is unknown.
        modified: the time of the last change of the file.
        bytes: the size of the file, without subagents.
        tag: the tag; None without one.
        model: the model of the last reply; None without one.
        sidechain: True if the file holds a subagent's conversation. `list` leaves it out.
        path: the file.
    """

    session_id: str
    title: str
    title_source: TitleSource
    first_prompt: str | None
    cwd: str | None
    git_branch: str | None
    created: datetime | None
    modified: datetime
    bytes: int
    tag: str | None
    model: str | None
    sidechain: bool
    path: Path

    @property
    def project_key(self) -> str:
        """The name of the project's folder."""
        return self.path.parent.name

    @property
    def files(self) -> SessionFiles:
        """The files of the session."""
        return SessionFiles(self.session_id, self.path)


def list_sessions(
    project: StrPath | None = None,
    *,
    all_projects: bool = False,
    include_worktrees: bool = True,
    since: datetime | None = None,
    until: datetime | None = None,
    tag: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    config_dir: StrPath | None = None,
) -> list[TranscriptInfo]:
    """Return the conversations of a project, newest first.

    Conversations of subagents, and files without a title, a prompt or a summary are left out. If several projects have the same session,
    the newest file counts. At most 128 KiB of each file are read.

    Args:
        project: the working directory of the project; None for the current one.
        all_projects: whether to list the conversations of all projects; `project` must be None then.
        include_worktrees: whether the other worktrees of the project's git repository count.
        since: only conversations that changed at this time or later. A time without a zone is local time.
        until: only conversations that changed before this time.
        tag: only conversations with this tag.
        limit: the most conversations to return; None for all.
        offset: conversations to leave out at the beginning.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Returns:
        The conversations. Empty if the project has none.

    Raises:
        ValueError: if `limit` or `offset` is negative, or `all_projects` comes with a `project`.

    Example:
        ::

            for each in hackamore.transcripts.list(limit=10):
                print(each.modified, each.title)
    """
    if limit is not None and limit < 0:
        raise ValueError(f"`limit` must be at least 0, or None for all, got {limit}.")
    if offset < 0:
        raise ValueError(f"`offset` must be at least 0, got {offset}.")
    folders = chosen_folders(project, all_projects, include_worktrees=include_worktrees, config_dir=config_dir)
    found: list[TranscriptInfo] = []
    wanted = None if limit is None else offset + limit
    seen: set[str] = set()
    with closing(_infos(_newest_first(folders, since, until))) as infos:
        for each in infos if wanted != 0 else ():
            if each.sidechain or not each.title or (tag is not None and each.tag != tag) or each.session_id in seen:
                continue
            seen.add(each.session_id)
            found.append(each)
            if len(found) == wanted:
                break
    # A file can have grown since it was ordered.
    found.sort(key=lambda each: each.modified, reverse=True)
    return found[offset:]


def _newest_first(
    folders: Iterable[tuple[Path, str | None]], since: datetime | None, until: datetime | None
) -> Iterator[SessionFiles]:
    earliest = since.timestamp() if since is not None else None
    latest = until.timestamp() if until is not None else None
    dated: list[tuple[int, SessionFiles]] = []
    for folder, directory in folders:
        for files in sessions_in(folder, directory):
            with suppress(OSError):
                status = os.stat(files.path)
                if (
                    status.st_size
                    and (earliest is None or status.st_mtime >= earliest)
                    and (latest is None or status.st_mtime < latest)
                ):
                    dated.append((status.st_mtime_ns, files))
    dated.sort(key=lambda pair: pair[0], reverse=True)
    return (files for _, files in dated)


def info(session_id: str, *, project: StrPath | None = None, config_dir: StrPath | None = None) -> TranscriptInfo:
    """Return one conversation, with a title or without.

    Args:
        session_id: the session.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Returns:
        The conversation.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        TranscriptError: if the file cannot be read.
    """
    return _present(locate(session_id, project=project, config_dir=config_dir))


def find(prefix: str, *, project: StrPath | None = None, config_dir: StrPath | None = None) -> TranscriptInfo:
    """Return the one conversation whose session id begins with `prefix`.

    Args:
        prefix: the beginning of the session id, or all of it.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Returns:
        The conversation.

    Raises:
        SessionNotFoundError: if no session id begins with it, or it is empty.
        AmbiguousSessionError: if several do; the error lists them.
        TranscriptError: if the file cannot be read.
    """
    return _present(find_files(prefix, project=project, config_dir=config_dir))


def _present(files: SessionFiles) -> TranscriptInfo:
    found = info_of(files)
    if found is None:
        try:
            os.close(os.open(files.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        except PermissionError as error:
            raise TranscriptError(f"{escape_terminal(str(files.path))} could not be read: {error.strerror}.") from None
        except OSError:
            pass
        raise SessionNotFoundError.on_disk(files.session_id, str(files.path.parent))
    return found


def info_of(files: SessionFiles) -> TranscriptInfo | None:
    """Return a conversation by its files; None if the file vanished, is empty or cannot be read."""
    return next(_infos(iter([files])), None)


def _infos(waiting: Iterator[SessionFiles]) -> Generator[TranscriptInfo, None, None]:
    """Yield the conversations of files that can be read, in their order. The system reads ahead: disks like several requests at a time."""
    opened: deque[_Opened] = deque()
    try:
        while True:
            for files in islice(waiting, READ_AHEAD - len(opened)):
                if (each := _open(files)) is not None:
                    opened.append(each)
            if not opened:
                return
            found = _info(opened[0])
            os.close(opened.popleft().descriptor)
            if found is not None:
                yield found
    finally:
        for each in opened:
            os.close(each.descriptor)


@dataclass(frozen=True, slots=True)
class _Opened:
    files: SessionFiles
    descriptor: int
    status: os.stat_result

    @property
    def tail_at(self) -> int:
        return max(self.status.st_size - HEAD_BYTES, 0)


def _open(files: SessionFiles) -> _Opened | None:
    try:
        # Without O_NONBLOCK, a FIFO would wait for its writer.
        descriptor = os.open(files.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return None
    opened = _Opened(files, descriptor, os.fstat(descriptor))
    if not stat.S_ISREG(opened.status.st_mode):
        os.close(descriptor)
        return None
    if sys.platform == "linux":
        with suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # nothing between the windows
            os.posix_fadvise(descriptor, 0, HEAD_BYTES, os.POSIX_FADV_WILLNEED)
            os.posix_fadvise(descriptor, opened.tail_at, HEAD_BYTES, os.POSIX_FADV_WILLNEED)
    return opened


def _info(opened: _Opened) -> TranscriptInfo | None:
    try:
        head = os.pread(opened.descriptor, HEAD_BYTES, 0)
        tail = os.pread(opened.descriptor, HEAD_BYTES, opened.tail_at) if opened.tail_at else None
    except OSError:
        return None
    return _read(opened.files, opened.status, _Window(head), _Window(tail) if tail else None) if head else None


class _Tops(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a line's top level that a list shows."""

    type: Any = None
    custom_title: Any = None
    ai_title: Any = None
    last_prompt: Any = None
    summary: Any = None
    git_branch: Any = None
    cwd: Any = None
    timestamp: Any = None
    is_sidechain: Any = None


class _Body(msgspec.Struct, frozen=True, gc=False):
    model: Any = None
    role: Any = None


class _Reply(msgspec.Struct, frozen=True, gc=False):
    type: str
    message: _Body


class _Part(msgspec.Struct, frozen=True, gc=False):
    type: Any = None
    text: Any = None


class _PromptBody(msgspec.Struct, frozen=True, gc=False):
    content: str | list[_Part] = ""


class _Prompt(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str
    message: _PromptBody
    is_meta: Any = None
    is_compact_summary: Any = None


class _Tag(msgspec.Struct, frozen=True, gc=False):
    type: str
    tag: str = ""


_tops: Callable[[bytes], _Tops] = msgspec.json.Decoder(_Tops).decode
_reply: Callable[[bytes], _Reply] = msgspec.json.Decoder(_Reply).decode
_prompt: Callable[[bytes], _Prompt] = msgspec.json.Decoder(_Prompt).decode
tag_of: Callable[[bytes], _Tag] = msgspec.json.Decoder(_Tag).decode
_text: Callable[[bytes], str] = msgspec.json.Decoder(str).decode
_names = {field.name: field.encode_name.encode() for field in msgspec.structs.fields(_Tops)}
_tokens = {name: b'"%b"' % wire for name, wire in _names.items()}
_loose = {name: re.compile(rb'"%b": ?("(?:[^"\\]|\\.)*")' % wire) for name, wire in _names.items()}


_NOT_NOTES = (b'{"parentUuid":', b'{"type":"api-request')
"""The beginnings of long lines without titles and tags, as the CLI writes them."""


class _Window:
    """A part of a file. Its first and last line may be cut."""

    __slots__ = ("_decoded", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._decoded: dict[int, _Tops | None] = {}

    def last(self, name: str) -> str:
        """Return the last value of a text field at the top level of a line; empty if there is none."""
        token, data, end = _tokens[name], self.data, len(self.data)
        while (at := data.rfind(token, 0, end)) >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            value = self._value(name, start, at)
            if value is not None:
                return value
            end = start
        return ""

    def first(self, name: str) -> str:
        """Return the first value of a text field at the top level of a line; empty if there is none."""
        token, data, begin = _tokens[name], self.data, 0
        while (at := data.find(token, begin)) >= 0:
            value = self._value(name, data.rfind(b"\n", 0, at) + 1, at)
            if value is not None:
                return value
            begin = data.find(b"\n", at) + 1
            if not begin:
                break
        return ""

    def _value(self, name: str, start: int, at: int) -> str | None:
        """Return the field of the line that begins at `start` and has the field's name at `at`; None if it is not at the top level."""
        if start not in self._decoded:
            end = self.data.find(b"\n", at)
            try:
                self._decoded[start] = _tops(self.data[start : end if end >= 0 else len(self.data)])
            except (ValueError, RecursionError):
                self._decoded[start] = None
        decoded = self._decoded[start]
        if decoded is not None:
            value = getattr(decoded, name)
            return value if isinstance(value, str) else None
        found = _loose[name].match(self.data, at)
        try:
            return _text(found[1]) if found is not None else None
        except ValueError:
            return None

    def notes(self) -> _Window:
        """Return the lines that may be titles, tags and the like. Messages are nearly all of a window, and are not among them."""
        at, data, kept = 0, self.data, []
        while True:
            end = data.find(b"\n", at)
            if not data.startswith(_NOT_NOTES, at):
                kept.append(data[at : end if end >= 0 else len(data)])
            if end < 0:
                return _Window(b"\n".join(kept))
            at = end + 1

    def last_model(self) -> str | None:
        """Return the model of the last reply."""
        data, end = self.data, len(self.data)
        while (at := data.rfind(b'"assistant"', 0, end)) >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            stop = data.find(b"\n", at)
            with suppress(ValueError, RecursionError):
                found = _reply(data[start : stop if stop >= 0 else len(data)])
                model = found.message.model
                if found.type == "assistant" and isinstance(model, str) and model and model != SYNTHETIC:
                    return model
            end = start
        return None

    def last_tag(self) -> str | None:
        """Return the tag of the last line that sets one."""
        begins, data, end = b'{"type":"tag"', self.data, len(self.data)
        while (at := data.rfind(begins, 0, end)) >= 0:
            if at == 0 or data[at - 1] == 0x0A:
                stop = data.find(b"\n", at)
                try:
                    return tag_of(data[at : stop if stop >= 0 else len(data)]).tag or None
                except (ValueError, RecursionError):
                    found = re.search(
                        rb'"tag": ?("(?:[^"\\]|\\.)*")', data[at + len(begins) : stop if stop >= 0 else None]
                    )
                    with suppress(ValueError):
                        return (_text(found[1]) or None) if found is not None else None
            end = at
        return None


_SKIPPED = re.compile(
    r"<local-command-stdout>|<session-start-hook>|<tick>|<goal>|\[Request interrupted by user[^\]]*\]|"
    r"<ide_opened_file>.*</ide_opened_file>$|<ide_selection>.*</ide_selection>$",
    re.DOTALL,
)
"""The beginnings of texts that no user typed."""

_COMMAND = re.compile(r"<command-name>([^<]*+)</command-name>")


def _first_prompt(head: _Window) -> str:
    command = ""
    for line in BytesIO(head.data):
        if b'"user"' not in line or b'"tool_result"' in line:
            continue
        try:
            found = _prompt(line)
        except (ValueError, RecursionError):
            continue
        if found.type != "user" or found.is_meta is True or found.is_compact_summary is True:
            continue
        content = found.message.content
        parts = [content] if isinstance(content, str) else [part.text for part in content if part.type == "text"]
        for part in parts:
            text = part.replace("\n", " ").strip() if isinstance(part, str) else ""
            if not text or _SKIPPED.match(text):
                continue
            if (name := _COMMAND.search(text)) is not None:
                command = command or name[1]
                continue
            return text if len(text) <= PROMPT_LENGTH else text[:PROMPT_LENGTH].rstrip() + "\u2026"
    return command


def time_of(text: str) -> datetime | None:
    """Return a time as the CLI writes it, or one without a zone as local time; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.astimezone()


def _read(files: SessionFiles, status: os.stat_result, head: _Window, rest: _Window | None) -> TranscriptInfo:
    tail = rest or head
    first_prompt = _first_prompt(head)
    notes = tail.notes()
    early = head.notes() if rest is not None else notes

    def either(name: str) -> str:
        return notes.last(name) or early.last(name)

    title: str
    source: TitleSource
    if title := either("custom_title"):
        source = "custom"
    elif title := either("ai_title"):
        source = "ai"
    elif title := notes.last("last_prompt"):
        source = "last_prompt"
    elif title := notes.last("summary"):
        source = "summary"
    else:
        title, source = first_prompt, "first_prompt" if first_prompt else ""
    first_line = head.data.partition(b"\n")[0]
    sidechain = b'"isSidechain":true' in first_line or b'"isSidechain": true' in first_line
    return TranscriptInfo(
        session_id=files.session_id,
        title=title,
        title_source=source,
        first_prompt=first_prompt or None,
        cwd=head.first("cwd") or files.directory,
        git_branch=tail.last("git_branch") or head.first("git_branch") or None,
        created=time_of(head.first("timestamp")),
        modified=datetime.fromtimestamp(status.st_mtime_ns / 1e9, UTC),
        bytes=status.st_size,
        tag=notes.last_tag(),
        model=tail.last_model() or (head.last_model() if rest is not None else None),
        sidechain=sidechain,
        path=files.path,
    )
