"""Conversations on the disk and in stores, as the official package lists, reads, changes and copies them: views of `hackamore.transcripts`.

Lists end with the arguments of a page: `limit` is the most items (None or 0 for all), `offset` the items to leave out before them. Changes
raise ValueError for an id that is not a UUID, and for an empty title or tag; FileNotFoundError for a missing conversation.
"""

from __future__ import annotations

import json
import os
import time
import unicodedata
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from hackamore import transcripts
from hackamore.compat._absent import names_of
from hackamore.compat.claude_agent_sdk import _shapes as shapes
from hackamore.compat.claude_agent_sdk._internal import _summaries
from hackamore.compat.claude_agent_sdk._internal._summaries import (
    _entries_to_jsonl,
    _jsonl_to_lite,
    _parse_session_info_from_lite,
    _store_implements,
    _validate_uuid,
    fold_session_summary,
    last_time,
    summary_entry_to_sdk_info,
)
from hackamore.compat.claude_agent_sdk._internal._task_compat import TaskHandle, spawn_detached
from hackamore.compat.claude_agent_sdk._shapes import SDKSessionInfo, SessionMessage
from hackamore.errors import HackamoreError, SessionNotFoundError, TranscriptError
from hackamore.runtime.log import logger
from hackamore.transcripts import TranscriptInfo
from hackamore.transcripts.changes import clean_tag as _sanitize_unicode

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


def _page(items: list[T], limit: int | None, offset: int) -> list[T]:
    rest = items[max(offset, 0) :]
    return rest[:limit] if limit is not None and limit > 0 else rest


def _shown(found: TranscriptInfo, project: str | None = None) -> SDKSessionInfo | None:
    """Return a conversation as a list shows it; None for one that lists leave out."""
    if found.sidechain or not found.title:
        return None
    return SDKSessionInfo(
        session_id=found.session_id,
        summary=found.title,
        last_modified=int(found.modified.timestamp() * 1000),
        file_size=found.bytes,
        custom_title=found.title if found.title_source in ("custom", "ai") else None,
        first_prompt=found.first_prompt,
        git_branch=found.git_branch,
        cwd=found.cwd or project,
        tag=found.tag,
        created_at=None if found.created is None else int(found.created.timestamp() * 1000),
    )


def list_sessions(
    directory: str | None = None, limit: int | None = None, offset: int = 0, include_worktrees: bool = True
) -> list[SDKSessionInfo]:
    project = _project(directory)
    most = limit if limit is not None and limit > 0 else None
    found = transcripts.list(
        project, all_projects=project is None, include_worktrees=include_worktrees, limit=most, offset=max(offset, 0)
    )
    return [info for each in found if (info := _shown(each, project)) is not None]


def get_session_info(session_id: str, directory: str | None = None) -> SDKSessionInfo | None:
    if not _validate_uuid(session_id):
        return None
    try:
        return _shown(transcripts.info(session_id, project=_project(directory)), _project(directory))
    except HackamoreError:
        return None


def _read(session_id: str, directory: str | None, **places: Any) -> Any:
    """Return a transcript; None if it does not exist or cannot be read."""
    try:
        return (
            transcripts.read(session_id, project=_project(directory), **places) if _validate_uuid(session_id) else None
        )
    except HackamoreError:
        return None


def _messages(transcript: Any) -> list[SessionMessage]:
    entries = [message.data for message in transcript.messages] if transcript is not None else []
    hidden = ("isMeta", "isSidechain", "teamName")
    return [_message(entry) for entry in entries if not any(entry.get(name) for name in hidden)]


def _message(entry: dict[str, Any], **parents: Any) -> SessionMessage:
    ids = entry.get("uuid", ""), entry.get("sessionId", "")
    return SessionMessage(entry["type"], *ids, entry.get("message"), **parents)


def _agent_messages(transcript: Any, agent_id: str) -> list[SessionMessage]:
    agent = None if transcript is None else transcript.subagents.get(agent_id)
    if agent is None:
        return []
    meta = _meta_beside(agent.path)
    parents = {"parent_tool_use_id": meta.get("toolUseId"), "parent_agent_id": meta.get("parentAgentId")}
    texts = {name: value if isinstance(value, str) else None for name, value in parents.items()}
    return [_message(message.data, **texts) for message in agent.messages]


def _meta_beside(transcript: Path) -> dict[str, Any]:
    try:
        meta = json.loads(transcript.with_name(f"{transcript.stem}.meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return meta if isinstance(meta, dict) else {}


def get_session_messages(
    session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    return _page(_messages(_read(session_id, directory)), limit, offset)


def list_subagents(session_id: str, directory: str | None = None) -> list[str]:
    transcript = _read(session_id, directory)
    return [] if transcript is None else list(transcript.subagents)


def get_subagent_messages(
    session_id: str, agent_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    return _page(_agent_messages(_read(session_id, directory), agent_id), limit, offset)


def _key(session_id: str, directory: str | Path | None, subpath: str | None = None) -> Any:
    key = {"project_key": project_key_for_directory(directory), "session_id": session_id}
    return key if subpath is None else {**key, "subpath": subpath}


def _is_metadata(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "agent_metadata"


@contextmanager
def on_disk(session_id: str, files: dict[str, list[Any]]) -> Iterator[str]:
    """Have a conversation of a store on the disk: the transcripts read files. `files` has entries by subpath, the main one at "".

    Entries of the type `agent_metadata` become the file beside a subagent's.
    """
    with TemporaryDirectory(prefix="hackamore-compat-") as folder:
        place = Path(folder, "projects", "-store")
        for subpath, entries in files.items():
            path = place / (f"{session_id}/{subpath}.jsonl" if subpath else f"{session_id}.jsonl")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_entries_to_jsonl([each for each in entries if not _is_metadata(each)]), encoding="utf-8")
            for entry in filter(_is_metadata, entries):
                path.with_name(f"{path.stem}.meta.json").write_text(json.dumps(entry), encoding="utf-8")
        yield folder


def _build_conversation_chain(entries: list[Any]) -> list[Any]:
    with on_disk(_ANY, {"": entries}) as folder:
        transcript = _read(_ANY, None, config_dir=folder)
        return [] if transcript is None else [message.data for message in transcript.messages]


async def list_sessions_from_store(
    session_store: Any, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SDKSessionInfo]:
    project, key = _canonicalize_path(directory), project_key_for_directory(directory)
    lists = _store_implements(session_store, "list_sessions")
    summaries: list[Any] | None = None
    if _store_implements(session_store, "list_session_summaries"):
        try:
            summaries = list(await session_store.list_session_summaries(key))
        except NotImplementedError:
            summaries = None
    if summaries is None and not lists:
        raise ValueError("cannot list sessions: session_store has neither list_session_summaries() nor list_sessions()")
    listing = {each["session_id"]: each["mtime"] for each in await session_store.list_sessions(key)} if lists else {}
    slots: list[tuple[int, str, Any]] = []  # time, id, what is known
    known: set[str] = set()
    for summary in summaries or ():
        session_id = summary["session_id"]
        if lists and not (session_id in listing and summary["mtime"] >= listing[session_id]):
            continue  # it is gone, or the summary is old
        known.add(session_id)
        info = summary_entry_to_sdk_info(summary, project)
        if info is not None:
            slots.append((summary["mtime"], session_id, info))
    slots += [(mtime, session_id, None) for session_id, mtime in listing.items() if session_id not in known]
    slots.sort(key=lambda slot: slot[0], reverse=True)
    if summaries is None:  # only those that lists show count for the page, and that is not known before they are loaded
        return _page(await _loaded(session_store, slots, directory, project), limit, offset)
    return await _loaded(session_store, _page(slots, limit, offset), directory, project)


async def _loaded(
    store: Any, slots: list[tuple[int, str, Any]], directory: str | None, project: str
) -> list[SDKSessionInfo]:
    """Return what is known of conversations, after loading those that nothing is known of."""
    limiter = anyio.CapacityLimiter(_STORE_LIST_LOAD_CONCURRENCY)
    found: dict[str, SDKSessionInfo | None] = {session_id: info for _, session_id, info in slots}

    async def load(session_id: str, mtime: int) -> None:
        async with limiter:
            try:
                entries = await store.load(_key(session_id, directory))
            except Exception:  # one that cannot be read must not hide the others
                logger.debug("The session %s could not be loaded", session_id, exc_info=True)
                found[session_id] = SDKSessionInfo(session_id=session_id, summary="", last_modified=mtime)
                return
        found[session_id] = _info(session_id, entries, mtime, project) if entries else None

    async with anyio.create_task_group() as tasks:
        for mtime, session_id, info in slots:
            if info is None:
                tasks.start_soon(load, session_id, mtime)
    return [info for _, session_id, _ in slots if (info := found[session_id]) is not None]


def _info(session_id: str, entries: list[Any], mtime: int, project: str) -> SDKSessionInfo | None:
    return _parse_session_info_from_lite(session_id, _jsonl_to_lite(_entries_to_jsonl(entries), mtime), project)


async def _load(store: Any, session_id: str, directory: str | None, subpath: str | None = None) -> Any:
    return await store.load(_key(session_id, directory, subpath)) if _validate_uuid(session_id) else None


async def get_session_info_from_store(
    session_store: Any, session_id: str, directory: str | None = None
) -> SDKSessionInfo | None:
    entries = await _load(session_store, session_id, directory)
    return _info(session_id, entries, last_time(entries), _canonicalize_path(directory)) if entries else None


async def get_session_messages_from_store(
    session_store: Any, session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    entries = await _load(session_store, session_id, directory)

    def read() -> list[SessionMessage]:
        with on_disk(session_id, {"": entries}) as folder:
            return _messages(_read(session_id, None, config_dir=folder))

    return _page(await anyio.to_thread.run_sync(read), limit, offset) if entries else []


async def _agents(store: Any, session_id: str, directory: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for subpath in await store.list_subkeys(_key(session_id, directory)):
        name = subpath.rpartition("/")[2]
        if subpath.startswith("subagents/") and name.startswith("agent-"):
            found.setdefault(name.removeprefix("agent-"), subpath)
    return found


async def list_subagents_from_store(session_store: Any, session_id: str, directory: str | None = None) -> list[str]:
    if not _validate_uuid(session_id):
        return []
    if not _store_implements(session_store, "list_subkeys"):
        raise ValueError("session_store does not implement list_subkeys() -- cannot list subagents")
    return list(await _agents(session_store, session_id, directory))


async def get_subagent_messages_from_store(
    session_store: Any,
    session_id: str,
    agent_id: str,
    directory: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[SessionMessage]:
    subpath: str | None = f"subagents/agent-{agent_id}" if agent_id and _validate_uuid(session_id) else None
    if subpath and _store_implements(session_store, "list_subkeys"):
        subpath = (await _agents(session_store, session_id, directory)).get(agent_id)
    entries: Any = await _load(session_store, session_id, directory, subpath) if subpath else None

    def read() -> list[SessionMessage]:
        with on_disk(session_id, {"": [{"type": "x"}], f"subagents/agent-{agent_id}": entries}) as folder:
            return _agent_messages(_read(session_id, None, config_dir=folder), agent_id)

    return _page(await anyio.to_thread.run_sync(read), limit, offset) if entries else []


_Place = tuple[str, str, str]


def _place(key: Any) -> _Place:
    return key["project_key"], key["session_id"], key.get("subpath") or ""


class InMemorySessionStore(shapes.SessionStore):
    """A store for tests: it ends with the process."""

    _last: int

    def __init__(self) -> None:
        self.clear()

    async def append(self, key: shapes.SessionKey, entries: list[Any]) -> None:
        place = _place(key)
        self._last = max(int(time.time() * 1000), self._last + 1)  # two appends never have the same time
        self._entries.setdefault(place, []).extend(entries)
        self._times[place] = self._last
        if not place[2]:
            folded = fold_session_summary(self._summaries.get(place), key, entries)
            self._summaries[place] = {**folded, "mtime": self._last}

    async def load(self, key: shapes.SessionKey) -> list[Any] | None:
        entries = self._entries.get(_place(key))
        return None if entries is None else list(entries)

    async def list_sessions(self, project_key: str) -> list[shapes.SessionStoreListEntry]:
        return [
            {"session_id": session, "mtime": self._times[project, session, subpath]}
            for project, session, subpath in self._entries
            if project == project_key and not subpath
        ]

    async def list_session_summaries(self, project_key: str) -> list[shapes.SessionSummaryEntry]:
        return [summary for place, summary in self._summaries.items() if place[0] == project_key]

    async def delete(self, key: shapes.SessionKey) -> None:
        place = _place(key)
        for each in [each for each in self._entries if each == place or (not place[2] and each[:2] == place[:2])]:
            for table in (self._entries, self._times, self._summaries):
                table.pop(each, None)

    async def list_subkeys(self, key: shapes.SessionListSubkeysKey) -> list[str]:
        return [each[2] for each in self._entries if each[:2] == _place(key)[:2] and each[2]]

    def get_entries(self, key: shapes.SessionKey) -> list[Any]:
        return list(self._entries.get(_place(key), ()))

    @property
    def size(self) -> int:
        return sum(not place[2] for place in self._entries)

    def clear(self) -> None:
        self._entries: dict[_Place, list[Any]] = {}
        self._times: dict[_Place, int] = {}
        self._summaries: dict[_Place, shapes.SessionSummaryEntry] = {}
        self._last = 0


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
    with _translated(session_id, directory):
        path = transcripts.info(session_id, project=_project(directory)).path
    most = batch_size if batch_size > 0 else MAX_PENDING_ENTRIES
    key = {"project_key": path.parent.name, "session_id": session_id}
    for batch in _batches(path, most):
        await store.append(key, batch)
    folder = path.with_suffix("")
    for file in sorted(folder.glob("subagents/**/*.jsonl")) if include_subagents else ():
        sub = {**key, "subpath": file.relative_to(folder).as_posix().removesuffix(".jsonl")}
        for batch in _batches(file, most):
            await store.append(sub, batch)
        if meta := _meta_beside(file):
            await store.append(sub, [{**meta, "type": "agent_metadata"}])


def _batches(path: Path, most: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = 0
    with path.open(encoding="utf-8") as file:
        for line in filter(str.strip, file):
            batch.append(json.loads(line))
            size += len(line)
            if len(batch) >= most or size >= MAX_PENDING_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


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


def _tag(tag: str | None) -> str:
    cleaned = "" if tag is None else _sanitize_unicode(tag)
    if tag is not None and not cleaned:
        raise ValueError("tag must be non-empty (use None to clear)")
    return cleaned


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
        transcripts.tag(session_id, _tag(tag) or None, project=_project(directory))


def delete_session(session_id: str, directory: str | None = None) -> None:
    with _translated(session_id, directory):
        transcripts.delete(session_id, project=_project(directory))


def fork_session(
    session_id: str, directory: str | None = None, up_to_message_id: str | None = None, title: str | None = None
) -> ForkSessionResult:
    with _translated(session_id, directory):
        return ForkSessionResult(_forked(session_id, up_to_message_id, title, project=_project(directory)))


def _forked(session_id: str, at: str | None, title: str | None, **place: Any) -> str:
    _check(at or None, "up_to_message_id")
    return transcripts.fork(session_id, at=at or None, title=(title or "").strip() or None, **place)


_OF_THE_DISK = ("agent-name", "last-prompt")  # for the prompt of the CLI; not in stores in the official package


def _entry(session_id: str, **fields: Any) -> Any:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return {**fields, "sessionId": session_id, "uuid": str(uuid.uuid4()), "timestamp": now}


async def rename_session_via_store(
    session_store: Any, session_id: str, title: str, directory: str | None = None
) -> None:
    _check(session_id)
    entry = _entry(session_id, type="custom-title", customTitle=_title(title))
    await session_store.append(_key(session_id, directory), [entry])


async def tag_session_via_store(
    session_store: Any, session_id: str, tag: str | None, directory: str | None = None
) -> None:
    _check(session_id)
    await session_store.append(_key(session_id, directory), [_entry(session_id, type="tag", tag=_tag(tag))])


async def delete_session_via_store(session_store: Any, session_id: str, directory: str | None = None) -> None:
    _check(session_id)
    if _store_implements(session_store, "delete"):  # nothing happens if the store cannot delete
        await session_store.delete(_key(session_id, directory))


async def fork_session_via_store(
    session_store: Any,
    session_id: str,
    directory: str | None = None,
    up_to_message_id: str | None = None,
    title: str | None = None,
) -> ForkSessionResult:
    _check(session_id)
    _check(up_to_message_id or None, "up_to_message_id")
    entries = await session_store.load(_key(session_id, directory))
    if not entries:
        raise FileNotFoundError(f"Session {session_id} not found")

    def fork() -> tuple[str, list[Any]]:
        with on_disk(session_id, {"": entries}) as folder, _translated(session_id):
            copy = _forked(session_id, up_to_message_id, title, config_dir=folder)
            lines = Path(folder, "projects", "-store", f"{copy}.jsonl").read_text(encoding="utf-8").splitlines()
            return copy, [json.loads(line) for line in lines]

    copy, copied = await anyio.to_thread.run_sync(fork)
    kept = [entry for entry in copied if entry["type"] not in _OF_THE_DISK]
    kept.sort(key=lambda entry: entry["type"] == "custom-title")
    stamped = [entry if "uuid" in entry else {**entry, **_entry(copy)} for entry in kept]  # stores drop doubles by id
    await session_store.append(_key(copy, directory), stamped)
    return ForkSessionResult(copy)


def __getattr__(name: str) -> Any:  # private helpers are imported from here
    return getattr(_summaries, name, None) or names_of("sessions")(name)
