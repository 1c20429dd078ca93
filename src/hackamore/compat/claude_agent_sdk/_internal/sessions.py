"""Conversations on the disk and in stores, as the official package lists, reads, changes and copies them: views of `hackamore.transcripts`.

Lists end with the arguments of a page: `limit` is the most items (None or 0 for all), `offset` the items to leave out before them. Changes
raise ValueError for an id that is not a UUID, and for an empty title or tag; FileNotFoundError for a missing conversation.
"""

from __future__ import annotations

import os
import unicodedata
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, TypeVar

import anyio

from hackamore import transcripts
from hackamore.compat._absent import names_of
from hackamore.compat.claude_agent_sdk import _shapes as shapes
from hackamore.compat.claude_agent_sdk._internal import _summaries
from hackamore.compat.claude_agent_sdk._internal._summaries import _entries_to_jsonl, _validate_uuid, shown
from hackamore.compat.claude_agent_sdk._internal._task_compat import TaskHandle, spawn_detached
from hackamore.compat.claude_agent_sdk._shapes import SDKSessionInfo, SessionMessage
from hackamore.errors import HackamoreError, SessionNotFoundError, StoreError, TranscriptError
from hackamore.options.observing import logger
from hackamore.transcripts import Subagent, Transcript, TranscriptInfo, aio
from hackamore.transcripts import clean_tag as _sanitize_unicode
from hackamore.transcripts.stores import MemoryStore
from hackamore.transcripts.stores import implements as _store_implements

T = TypeVar("T")

_STORE_LIST_LOAD_CONCURRENCY = 16
_ANY = "00000000-0000-4000-8000-000000000000"


def _canonicalize_path(directory: str | Path | None) -> str:
    return unicodedata.normalize("NFC", str(Path(directory if directory is not None else ".").resolve()))


def _project(directory: str | None) -> str | None:
    return _canonicalize_path(directory) if directory else None


def _get_projects_dir(env_override: dict[str, str] | None = None) -> Path:
    override = (env_override or {}).get("CLAUDE_CONFIG_DIR") or os.environ.get("CLAUDE_CONFIG_DIR")
    return Path(override or Path.home() / ".claude") / "projects"


def project_key_for_directory(directory: str | Path | None = None) -> str:
    return transcripts.project_key(directory)


def _limits(limit: int | None, offset: int) -> dict[str, Any]:
    return {"limit": limit if limit is not None and limit > 0 else None, "offset": max(offset, 0)}


def _page(items: list[T], limit: int | None, offset: int) -> list[T]:
    page = _limits(limit, offset)
    return items[page["offset"] :][: page["limit"]]


def list_sessions(
    directory: str | None = None, limit: int | None = None, offset: int = 0, include_worktrees: bool = True
) -> list[SDKSessionInfo]:
    project = _project(directory)
    place: dict[str, Any] = {"all_projects": project is None, "include_worktrees": include_worktrees}
    found = transcripts.list(project, **place, **_limits(limit, offset))
    return [shown(each, project) for each in found]


async def list_sessions_from_store(
    session_store: Any, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SDKSessionInfo]:
    if not any(_store_implements(session_store, each) for each in ("list_sessions", "list_session_summaries")):
        raise ValueError("cannot list sessions: session_store has neither list_session_summaries() nor list_sessions()")
    with _causes():
        found = await aio.list(_canonicalize_path(directory), store=session_store, **_limits(limit, offset))
    return [shown(each) for each in found]


@contextmanager
def _causes() -> Iterator[None]:
    """Raise the exceptions of stores as they are."""
    try:
        yield
    except StoreError as error:
        raise error.__cause__ or error from None


def _found(function: Callable[..., T], session_id: str, *given: Any, **place: Any) -> T | None:
    """Return a conversation on the disk, or a fact of it; None if it does not exist or cannot be read."""
    with suppress(HackamoreError):
        return function(session_id, *given, **place) if _validate_uuid(session_id) else None
    return None


async def _stored(
    function: Callable[..., Awaitable[T]], session_id: str, directory: str | None, store: Any, *given: Any
) -> T | None:
    with _causes(), suppress(SessionNotFoundError, TranscriptError):
        if _validate_uuid(session_id):
            return await function(session_id, *given, project=_canonicalize_path(directory), store=store)
    return None


def _info(found: TranscriptInfo | None, project: str | None) -> SDKSessionInfo | None:
    """Return a conversation as a list shows it; None for one that lists leave out."""
    return None if found is None or found.sidechain or not found.title else shown(found, project)


def get_session_info(session_id: str, directory: str | None = None) -> SDKSessionInfo | None:
    return _info(_found(transcripts.info, session_id, project=_project(directory)), _project(directory))


async def get_session_info_from_store(
    session_store: Any, session_id: str, directory: str | None = None
) -> SDKSessionInfo | None:
    return _info(await _stored(aio.info, session_id, directory, session_store), None)


def _message(entry: dict[str, Any], **parents: Any) -> SessionMessage:
    ids = entry.get("uuid", ""), entry.get("sessionId", "")
    return SessionMessage(entry["type"], *ids, entry.get("message"), **parents)


def _messages(transcript: Transcript | None, limit: int | None, offset: int) -> list[SessionMessage]:
    entries = [message.data for message in transcript.messages] if transcript is not None else []
    hidden = ("isMeta", "isSidechain", "teamName")
    return _page([_message(each) for each in entries if not any(map(each.get, hidden))], limit, offset)


def _agent_messages(agent: Subagent | None, limit: int | None, offset: int) -> list[SessionMessage]:
    if agent is None:
        return []
    parents = {"parent_tool_use_id": agent.tool_use_id, "parent_agent_id": agent.parent_agent_id}
    return _page([_message(message.data, **parents) for message in agent.messages], limit, offset)


def get_session_messages(
    session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    return _messages(_found(transcripts.read, session_id, project=_project(directory)), limit, offset)


async def get_session_messages_from_store(
    session_store: Any, session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    found = await _stored(aio.read, session_id, directory, session_store)
    return await aio.call(partial(_messages, found, limit, offset))


def list_subagents(session_id: str, directory: str | None = None) -> list[str]:
    return _found(transcripts.list_subagents, session_id, project=_project(directory)) or []


async def list_subagents_from_store(session_store: Any, session_id: str, directory: str | None = None) -> list[str]:
    if _validate_uuid(session_id) and not _store_implements(session_store, "list_subkeys"):
        raise ValueError("session_store does not implement list_subkeys() -- cannot list subagents")
    return await _stored(aio.list_subagents, session_id, directory, session_store) or []


def get_subagent_messages(
    session_id: str, agent_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    found = _found(transcripts.read_subagent, session_id, agent_id, project=_project(directory))
    return _agent_messages(found, limit, offset)


async def get_subagent_messages_from_store(
    session_store: Any,
    session_id: str,
    agent_id: str,
    directory: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[SessionMessage]:
    found = await _stored(aio.read_subagent, session_id, directory, session_store, agent_id) if agent_id else None
    return await aio.call(partial(_agent_messages, found, limit, offset))


def _build_conversation_chain(entries: list[Any]) -> list[Any]:
    found = _found(transcripts.read, _ANY, project=".", store=SimpleNamespace(load=lambda _: entries))
    return [] if found is None else [message.data for message in found.messages]


class InMemorySessionStore(MemoryStore):
    """A store for tests: it ends with the process."""

    def get_entries(self, key: shapes.SessionKey) -> list[Any]:
        return self.transcripts().get((key["project_key"], key["session_id"], key.get("subpath") or ""), [])

    @property
    def size(self) -> int:
        return sum(not part for *_, part in self.transcripts())

    def clear(self) -> None:
        MemoryStore.__init__(self)


def file_path_to_session_key(file_path: str, projects_dir: str) -> shapes.SessionKey | None:
    parts = PurePath(os.path.relpath(file_path, projects_dir)).parts
    if len(parts) in (0, 1, 3) or parts[0] == ".." or (len(parts) == 2 and not parts[1].endswith(".jsonl")):
        return None
    if len(parts) == 2:
        return {"project_key": parts[0], "session_id": parts[1].removesuffix(".jsonl")}
    subpath = "/".join(parts[2:]).removesuffix(".jsonl")
    return {"project_key": parts[0], "session_id": parts[1], "subpath": subpath}


MAX_PENDING_ENTRIES = 500
MAX_PENDING_BYTES = 1024 * 1024


async def import_session_to_store(
    session_id: str,
    store: Any,
    *,
    directory: str | None = None,
    include_subagents: bool = True,
    batch_size: int = MAX_PENDING_ENTRIES,
) -> None:
    most = batch_size if batch_size > 0 else MAX_PENDING_ENTRIES
    with _translated(session_id, directory):
        await aio.copy_to_store(
            session_id, store, include_subagents=include_subagents, batch_size=most, project=_project(directory)
        )


SEND_TIMEOUT_SECONDS = 60.0
MIRROR_APPEND_MAX_ATTEMPTS = 3
MIRROR_APPEND_BACKOFF_S = (0.2, 0.8)


@dataclass
class TranscriptMirrorBatcher:
    """Collects entries by file, and appends them when `flush` is called or a limit is exceeded."""

    store: Any
    projects_dir: str
    on_error: Callable[[Any, str], Awaitable[None]]
    send_timeout: float = SEND_TIMEOUT_SECONDS
    max_pending_entries: int = MAX_PENDING_ENTRIES
    max_pending_bytes: int = MAX_PENDING_BYTES
    _pending: list[tuple[str, list[Any]]] = field(default_factory=list)
    _pending_entries: int = 0
    _pending_bytes: int = 0
    _flush_task: TaskHandle | None = None
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    def enqueue(self, file_path: str, entries: list[Any]) -> None:
        self._pending.append((file_path, entries))
        self._pending_entries += len(entries)
        self._pending_bytes += len(_entries_to_jsonl(entries))
        if self._pending_entries > self.max_pending_entries or self._pending_bytes > self.max_pending_bytes:
            self._flush_task = spawn_detached(self.flush())

    async def flush(self) -> None:
        pending, self._pending = self._pending, []
        self._pending_entries = self._pending_bytes = 0
        errors: list[tuple[Any, str]] = []
        async with self._lock:
            try:
                await self._do_flush(pending, errors)
            except Exception as error:
                logger.error("Entries of a transcript were not stored: %s", error)
                return
        for key, text in errors:
            try:
                await self.on_error(key, text)
            except Exception as error:
                logger.error("The callback for errors of a store failed: %s", error)

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.flush()

    async def _do_flush(self, pending: list[tuple[str, list[Any]]], errors: list[tuple[Any, str]]) -> None:
        by_file: dict[str, list[Any]] = {}
        for file_path, entries in pending:
            by_file.setdefault(file_path, []).extend(entries)
        for file_path, entries in by_file.items():
            key = file_path_to_session_key(file_path, self.projects_dir)
            if key is None:
                logger.warning("The transcript %s is not in %s and is not stored", file_path, self.projects_dir)
            elif entries and (problem := await self._append(key, entries)) is not None:
                errors.append((key, str(problem)))

    async def _append(self, key: Any, entries: list[Any]) -> Exception | None:
        problem: Exception | None = None
        for attempt in range(MIRROR_APPEND_MAX_ATTEMPTS):
            if attempt:
                await anyio.sleep(MIRROR_APPEND_BACKOFF_S[attempt - 1])
            try:
                with anyio.fail_after(self.send_timeout):
                    await self.store.append(key, entries)
                return None
            except TimeoutError as error:  # the first append may still arrive: a second one would double the entries
                return error
            except Exception as error:
                problem = error
        return problem


@dataclass
class ForkSessionResult:
    session_id: str


@contextmanager
def _translated(session_id: str, directory: str | None = None) -> Iterator[None]:
    _check(session_id)
    try:
        with _causes():
            yield
    except SessionNotFoundError as error:
        place = f" in project directory for {directory}" if directory else ""
        raise FileNotFoundError(f"Session {session_id} not found{place}: {error}") from error
    except TranscriptError as error:
        raise ValueError(str(error)) from error


def _check(session_id: str | None, name: str = "session_id") -> None:
    if session_id is not None and not _validate_uuid(session_id):
        raise ValueError(f"Invalid {name}: {session_id}")


def _title(title: str) -> str:
    if not title.strip():
        raise ValueError("title must be non-empty")
    return title.strip()


def _tag(tag: str | None) -> str | None:
    if tag is not None and not _sanitize_unicode(tag):
        raise ValueError("tag must be non-empty (use None to clear)")
    return tag


def _try_append(path: Path, data: str) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return bool(os.fstat(descriptor).st_size) and os.write(descriptor, data.encode()) > 0
    finally:
        os.close(descriptor)


def rename_session(session_id: str, title: str, directory: str | None = None) -> None:
    with _translated(session_id, directory):
        transcripts.rename(session_id, _title(title), project=_project(directory))


def tag_session(session_id: str, tag: str | None, directory: str | None = None) -> None:
    with _translated(session_id, directory):
        transcripts.tag(session_id, _tag(tag), project=_project(directory))


def delete_session(session_id: str, directory: str | None = None) -> None:
    with _translated(session_id, directory):
        transcripts.delete(session_id, project=_project(directory))


def fork_session(
    session_id: str, directory: str | None = None, up_to_message_id: str | None = None, title: str | None = None
) -> ForkSessionResult:
    with _translated(session_id, directory):
        given = _fork_arguments(up_to_message_id, title)
        return ForkSessionResult(transcripts.fork(session_id, project=_project(directory), **given))


def _fork_arguments(up_to_message_id: str | None, title: str | None) -> dict[str, Any]:
    _check(up_to_message_id or None, "up_to_message_id")
    return {"at": up_to_message_id or None, "title": (title or "").strip() or None}


@dataclass
class _AsOfficial:
    """A store that gets the entries of the official package: each has an id, the title is last. No look precedes a change."""

    store: Any
    session_id: str

    async def load(self, key: Any) -> Any:
        return await self.store.load(key)

    async def list_sessions(self, _project: str) -> list[Any]:
        return [{"session_id": self.session_id}]

    async def delete(self, key: Any) -> None:
        await self.store.delete(key)

    async def append(self, key: Any, entries: list[Any]) -> None:
        kept = [each for each in entries if each["type"] not in ("agent-name", "last-prompt")]
        stamped = [each if "uuid" in each else {**each, **_stamp()} for each in kept]
        await self.store.append(key, sorted(stamped, key=lambda each: each["type"] == "custom-title"))


def _stamp() -> dict[str, str]:
    return {"uuid": str(uuid.uuid4()), "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z")}


def _place(store: Any, session_id: str, directory: str | None) -> dict[str, Any]:
    return {"project": _canonicalize_path(directory), "store": _AsOfficial(store, session_id)}


async def rename_session_via_store(
    session_store: Any, session_id: str, title: str, directory: str | None = None
) -> None:
    with _translated(session_id):
        await aio.rename(session_id, _title(title), **_place(session_store, session_id, directory))


async def tag_session_via_store(
    session_store: Any, session_id: str, tag: str | None, directory: str | None = None
) -> None:
    with _translated(session_id):
        await aio.tag(session_id, _tag(tag), **_place(session_store, session_id, directory))


async def delete_session_via_store(session_store: Any, session_id: str, directory: str | None = None) -> None:
    with _translated(session_id):
        if _store_implements(session_store, "delete"):  # nothing happens if the store cannot delete
            await aio.delete(session_id, **_place(session_store, session_id, directory))


async def fork_session_via_store(
    session_store: Any,
    session_id: str,
    directory: str | None = None,
    up_to_message_id: str | None = None,
    title: str | None = None,
) -> ForkSessionResult:
    with _translated(session_id, directory):
        place = _place(session_store, session_id, directory) | _fork_arguments(up_to_message_id, title)
        return ForkSessionResult(await aio.fork(session_id, **place))


def __getattr__(name: str) -> Any:  # private helpers are imported from here
    return getattr(_summaries, name, None) or names_of("sessions")(name)
