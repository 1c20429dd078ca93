"""Conversations on the disk and in stores, as the official package lists and reads them: views of `hackamore.transcripts`.

Lists end with the arguments of a page: `limit` is the most items (None or 0 for all), `offset` the items to leave out before them.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from hackamore import transcripts
from hackamore.compat._absent import names_of
from hackamore.compat.claude_agent_sdk._internal._session_helpers import (
    MAX_SANITIZED_LENGTH,
    _entries_to_jsonl,
    _extract_first_prompt_from_head,
    _extract_json_string_field,
    _extract_last_json_string_field,
    _jsonl_to_lite,
    _parse_session_info_from_lite,
    _read_session_lite,
    _sanitize_path,
    _simple_hash,
    _validate_uuid,
)
from hackamore.compat.claude_agent_sdk._internal.session_store_validation import _store_implements
from hackamore.compat.claude_agent_sdk._internal.session_summary import last_time, summary_entry_to_sdk_info
from hackamore.compat.claude_agent_sdk._shapes import SDKSessionInfo, SessionMessage
from hackamore.errors import HackamoreError
from hackamore.runtime.log import logger
from hackamore.transcripts import TranscriptInfo

T = TypeVar("T")

_STORE_LIST_LOAD_CONCURRENCY = 16
_ANY = "00000000-0000-4000-8000-000000000000"


def _canonicalize_path(directory: str | Path | None) -> str:
    return unicodedata.normalize("NFC", str(Path(directory if directory is not None else ".").resolve()))


def _project(directory: str | None) -> str | None:
    return _canonicalize_path(directory) if directory else None


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


# -- stores ------------------------------------------------------------------------------------------------------------


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
        raise ValueError(
            "session_store has neither list_session_summaries() nor list_sessions() -- cannot list sessions"
        )
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


__getattr__ = names_of("sessions")

__all__ = [
    "MAX_SANITIZED_LENGTH",
    "_extract_first_prompt_from_head",
    "_extract_json_string_field",
    "_extract_last_json_string_field",
    "_read_session_lite",
    "_sanitize_path",
    "_simple_hash",
    "on_disk",
    "project_key_for_directory",
]
