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
import time
from collections import deque
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import msgspec

from hackamore.activity.prices import SYNTHETIC
from hackamore.errors import SessionNotFoundError, StoreError, TranscriptError, escape_terminal
from hackamore.options.stores import SessionStore, StoreKey, StoreSummary, encoded, implements
from hackamore.runtime.log import logger
from hackamore.storage.places import (
    HEAD_BYTES,
    SessionFiles,
    StrPath,
    chosen_folders,
    find_files,
    project_key,
    sessions_in,
)
from hackamore.transcripts.stored import StoredFiles, ask, files_of, load, located, wait
from hackamore.transcripts.stores.keys import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

TitleSource = Literal["custom", "ai", "last_prompt", "summary", "first_prompt", ""]
"""Where a title comes from: the user, the CLI's own model, the last prompt, a summary, the first prompt; empty without a title."""

READ_AHEAD = 32
"""Files that are open at a time."""
LOADED_AT_A_TIME = 16
"""Conversations that are loaded from a store at a time."""

PROMPT_LENGTH = 200
"""The most characters of a first prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptInfo:
    """A conversation on the disk or in a store, as a list shows it.

    Attributes:
        session_id: the session, for `Options(resume=...)` and `read`.
        title: the user's title, else the one that the CLI made, else the last prompt, a summary, or the first prompt; empty without these.
        title_source: where the title comes from.
        first_prompt: the first prompt, at most 200 characters; None if the beginning of the file has none.
        cwd: the working directory that the conversation started in; None if it is unknown.
        git_branch: the last known branch, `HEAD` where there is none; None if it is unknown.
        created: the time of the first entry; None if it is unknown.
        modified: the time of the last change of the file.
        bytes: the size of the file, without subagents; 0 if it is unknown, for a summary of a store.
        tag: the tag; None without one.
        model: the model of the last reply; None without one, and for a summary of a store.
        sidechain: True if the file holds a subagent's conversation. `list` leaves it out.
        path: the file; of a conversation in a store `PROJECT_KEY/SESSION_ID.jsonl`, its place there.
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
    store: SessionStore | None = None,
) -> list[TranscriptInfo]:
    """Return the conversations of a project, newest first.

    Conversations of subagents, and files without a title, a prompt or a summary are left out. If several projects have the same session,
    the newest file counts. At most 128 KiB of each file are read. A store with summaries loads no conversation that has a current one. A
    conversation that cannot be loaded has an empty title.

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
        store: the store to list, one project of it; None for the disk.

    Returns:
        The conversations. Empty if the project has none.

    Raises:
        ValueError: if `limit` or `offset` is negative, or `all_projects` comes with a `project` or a store.
        StoreError: if the store fails, or has neither `list_sessions` nor `list_session_summaries`.

    Example:
        ::

            for each in hackamore.transcripts.list(limit=10):
                print(each.modified, each.title)
    """
    if limit is not None and limit < 0:
        raise ValueError(f"`limit` must be at least 0, or None for all, got {limit}.")
    if offset < 0:
        raise ValueError(f"`offset` must be at least 0, got {offset}.")
    wanted = None if limit is None else offset + limit
    found: list[TranscriptInfo] = []
    if store is not None:
        if all_projects:
            raise ValueError("`all_projects` and `store` exclude each other: a store lists one project.")
        return cast(
            "list[TranscriptInfo]", wait(_in_store, store, project, _between(since, until), tag, slice(offset, wanted))
        )
    folders = chosen_folders(project, all_projects, include_worktrees=include_worktrees, config_dir=config_dir)
    seen: set[str] = set()
    with closing(_infos(_newest_first(folders, _between(since, until)))) as infos:
        for each in infos if wanted != 0 else ():
            if not _is_listed(each, tag) or each.session_id in seen:
                continue
            seen.add(each.session_id)
            found.append(each)
            if len(found) == wanted:
                break
    # A file can have grown since it was ordered.
    found.sort(key=lambda each: each.modified, reverse=True)
    return found[offset:]


def _is_listed(each: TranscriptInfo, tag: str | None) -> bool:
    return not each.sidechain and bool(each.title) and (tag is None or each.tag == tag)


def _between(since: datetime | None, until: datetime | None) -> Callable[[float], bool]:
    earliest = since.timestamp() if since is not None else float("-inf")
    latest = until.timestamp() if until is not None else float("inf")
    return lambda seconds: earliest <= seconds < latest


def _newest_first(folders: Iterable[tuple[Path, str | None]], dated: Callable[[float], bool]) -> Iterator[SessionFiles]:
    found: list[tuple[int, SessionFiles]] = []
    for folder, directory in folders:
        for files in sessions_in(folder, directory):
            with suppress(OSError):
                status = os.stat(files.path)
                if status.st_size and dated(status.st_mtime):
                    found.append((status.st_mtime_ns, files))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return (files for _, files in found)


async def _in_store(
    store: SessionStore, project: StrPath | None, dated: Callable[[float], bool], tag: str | None, page: slice
) -> list[TranscriptInfo]:
    """Return the first conversations of a project. Those that the store has no current summary of are loaded, some at a time."""
    import anyio

    folder = project_key(project)
    summaries = await _summaries(store, folder)
    times = {session_id: each["mtime"] for session_id, each in (summaries or {}).items()}
    if summaries is None or implements(store, "list_sessions"):
        times = {each["session_id"]: each["mtime"] for each in await ask(store, "list_sessions", folder)}
    shown: dict[str, TranscriptInfo | None] = {}
    limiter = anyio.CapacityLimiter(LOADED_AT_A_TIME)

    async def look(session_id: str) -> None:
        mtime, summary = times[session_id], (summaries or {}).get(session_id)
        key: StoreKey = {"project_key": folder, "session_id": session_id}
        files = files_of(store, key, project, modified=mtime / 1000)
        try:
            found: TranscriptInfo | None
            if summary is not None and summary["mtime"] >= mtime:
                found = _summarized(summary, files)
            else:
                async with limiter:
                    files = replace(files, loaded=await load(store, key))
                    found = await in_thread(info_of, files)
            shown[session_id] = found if found and _is_listed(found, tag) else None
        except StoreError:  # one that cannot be loaded must not hide the others
            logger.warning("The session %s was not loaded", session_id, exc_info=True, extra={"code": "STORE_FAILED"})
            unknown: StoreSummary = {"session_id": session_id, "mtime": mtime, "data": {}}
            shown[session_id] = None if tag else _summarized(unknown, files)

    waiting = [each for each in sorted(times, key=times.__getitem__, reverse=True) if dated(times[each] / 1000)]
    found: list[TranscriptInfo] = []
    while waiting and (page.stop is None or len(found) < page.stop):
        batch = waiting[: None if page.stop is None else page.stop - len(found)]
        del waiting[: len(batch)]
        async with anyio.create_task_group() as tasks:
            for session_id in batch:
                tasks.start_soon(look, session_id)
        found += [each for each in map(shown.__getitem__, batch) if each is not None]
    return found[page]


async def _summaries(store: SessionStore, folder: str) -> dict[str, StoreSummary] | None:
    try:
        if implements(store, "list_session_summaries"):
            return {each["session_id"]: each for each in await ask(store, "list_session_summaries", folder)}
    except StoreError as error:
        if not isinstance(error.__cause__, NotImplementedError):
            raise
    return None


def info(
    session_id: str,
    *,
    project: StrPath | None = None,
    config_dir: StrPath | None = None,
    store: SessionStore | None = None,
) -> TranscriptInfo:
    """Return one conversation, with a title or without.

    Args:
        session_id: the session.
        project: the working directory of its project; None to look in all projects.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.
        store: the store that has it; None for the disk.

    Returns:
        The conversation.

    Raises:
        SessionNotFoundError: if no file of this session exists.
        TranscriptError: if the file cannot be read.
        StoreError: if the store fails.
    """
    return _present(located(session_id, project, config_dir, store))


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
            files.open().close()
        except PermissionError as error:
            raise TranscriptError(f"{escape_terminal(str(files.path))} could not be read: {error.strerror}.") from None
        except OSError:
            pass
        raise SessionNotFoundError.on_disk(files.session_id, str(files.path.parent))
    return found


def info_of(files: SessionFiles) -> TranscriptInfo | None:
    """Return a conversation by its files; None if the file vanished, is empty or cannot be read."""
    if isinstance(files, StoredFiles):
        if not files.content:
            return None
        size, head = len(files.content), _Window(files.content[:HEAD_BYTES])
        tail = _Window(files.content[-HEAD_BYTES:]) if size > HEAD_BYTES else None
        return _read(files, size, files.modified, head, tail)
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
    size, modified = opened.status.st_size, opened.status.st_mtime_ns / 1e9
    return _read(opened.files, size, modified, _Window(head), _Window(tail) if tail else None) if head else None


class _Tops(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a line's top level that a list shows."""

    type: Any = None
    custom_title: Any = None
    ai_title: Any = None
    last_prompt: Any = None
    summary: Any = None
    git_branch: Any = None
    tag: Any = None
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


tops_of: Callable[[bytes], _Tops] = msgspec.json.Decoder(_Tops).decode
_reply: Callable[[bytes], _Reply] = msgspec.json.Decoder(_Reply).decode
prompt_of: Callable[[bytes], _Prompt] = msgspec.json.Decoder(_Prompt).decode
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
                self._decoded[start] = tops_of(self.data[start : end if end >= 0 else len(self.data)])
            except (ValueError, RecursionError):
                self._decoded[start] = None
        decoded = self._decoded[start]
        if decoded is not None:
            value = getattr(decoded, name)
            return value if isinstance(value, str) and (name != "tag" or decoded.type == "tag") else None
        if name == "tag" and not self.data.startswith(b'{"type":"tag"', start):
            return None  # arguments of tools have this name also
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

    def last_time(self) -> float:
        """Return the time of the last entry that has one, in seconds since 1970; now if none has."""
        moment = time_of(self.last("timestamp"))
        return time.time() if moment is None else moment.timestamp()


_SKIPPED = re.compile(
    r"<local-command-stdout>|<session-start-hook>|<tick>|<goal>|\[Request interrupted by user[^\]]*\]|"
    r"<ide_opened_file>.*</ide_opened_file>$|<ide_selection>.*</ide_selection>$",
    re.DOTALL,
)
"""The beginnings of texts that no user typed."""

_COMMAND = re.compile(r"<command-name>([^<]*+)</command-name>")


def _first_prompt(lines: Iterable[bytes]) -> tuple[str, str]:
    """Return the first text that a user typed, and the first command before it; each empty if there is none."""
    command = ""
    for line in lines:
        if b'"user"' not in line or b'"tool_result"' in line:
            continue
        try:
            found = prompt_of(line)
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
            return text if len(text) <= PROMPT_LENGTH else text[:PROMPT_LENGTH].rstrip() + "\u2026", command
    return "", command


def time_of(text: str) -> datetime | None:
    """Return a time as the CLI writes it, or one without a zone as local time; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.astimezone()


def _read(
    files: SessionFiles, size: int, modified: float | None, head: _Window, rest: _Window | None
) -> TranscriptInfo:
    tail = rest or head
    first_prompt = next(filter(None, _first_prompt(BytesIO(head.data))), "")
    notes = tail.notes()
    early = head.notes() if rest is not None else notes

    def either(name: str) -> str:
        return notes.last(name) or early.last(name)

    later = (notes.last(name) for name in ("last_prompt", "summary"))
    title, source = _titled(either("custom_title"), either("ai_title"), *later, first_prompt)
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
        modified=_moment(modified if modified is not None else tail.last_time()),
        bytes=size,
        tag=notes.last("tag") or None,
        model=tail.last_model() or (head.last_model() if rest is not None else None),
        sidechain=sidechain,
        path=files.path,
    )


def _titled(*texts: str | None) -> tuple[str, TitleSource]:
    sources: tuple[TitleSource, ...] = get_args(TitleSource)
    return next(((text, source) for text, source in zip(texts, sources, strict=False) if text), ("", ""))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# -- summaries in stores ----------------------------------------------------------------------------------------------

_LAST_COUNTS = {
    "customTitle": "custom_title",
    "aiTitle": "ai_title",
    "lastPrompt": "last_prompt",
    "summary": "summary_hint",
    "gitBranch": "git_branch",
}
"""Fields of entries whose last value counts, and their names in summaries."""


def fold_summary(previous: StoreSummary | None, key: StoreKey, entries: Sequence[Mapping[str, Any]]) -> StoreSummary:
    """Return the summary of a session after further entries, for the method `list_session_summaries` of a store.

    Call it in `append`, for main transcripts only, and keep the result beside the entries. It has the format of `claude-agent-sdk`.

    Args:
        previous: the summary before; None for the first entries. It does not change.
        key: the transcript.
        entries: the entries of the append.

    Returns:
        The summary. Its `mtime` is that of `previous`, or 0: the store sets it to the time that `list_sessions` has for the session.
    """
    data: dict[str, Any] = {} if previous is None else dict(previous["data"])
    for entry in entries:
        data.setdefault("is_sidechain", entry.get("isSidechain") is True)
        created = time_of(str(entry.get("timestamp")))
        if created is not None:
            data.setdefault("created_at", int(created.timestamp() * 1000))
        if isinstance(entry.get("cwd"), str) and entry["cwd"]:
            data.setdefault("cwd", entry["cwd"])
        if entry.get("type") == "user" and not data.get("first_prompt_locked"):
            prompt, command = _first_prompt([encoded(entry, key["session_id"], halves=True)])
            if prompt:
                data.update(first_prompt=prompt, first_prompt_locked=True)
            elif command:
                data.setdefault("command_fallback", command)
        data.update({name: entry[wire] for wire, name in _LAST_COUNTS.items() if isinstance(entry.get(wire), str)})
        if entry.get("type") == "tag":
            data["tag"] = entry.get("tag")
            if not isinstance(data["tag"], str) or not data["tag"]:
                del data["tag"]
    session_id, mtime = (key["session_id"], 0) if previous is None else (previous["session_id"], previous["mtime"])
    return {"session_id": session_id, "mtime": mtime, "data": data}


def _summarized(summary: StoreSummary, files: SessionFiles) -> TranscriptInfo:
    data = summary["data"]
    prompt = data.get("first_prompt" if data.get("first_prompt_locked") else "command_fallback") or None
    title, source = _titled(*map(data.get, ("custom_title", "ai_title", "last_prompt", "summary_hint")), prompt)
    created = data.get("created_at")
    return TranscriptInfo(
        session_id=summary["session_id"],
        title=title,
        title_source=source,
        first_prompt=prompt,
        cwd=data.get("cwd") or files.directory,
        git_branch=data.get("git_branch") or None,
        created=None if created is None else _moment(created / 1000),
        modified=_moment(summary["mtime"] / 1000),
        bytes=0,
        tag=data.get("tag") or None,
        model=None,
        sidechain=bool(data.get("is_sidechain")),
        path=files.path,
    )
