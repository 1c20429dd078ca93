"""Conversations on the disk and in stores, as the official package lists and reads them: views of `hackamore.transcripts`."""

from __future__ import annotations

import json
import unicodedata
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from hackamore import transcripts
from hackamore.compat.claude_agent_sdk._internal._absent import names_of
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
from hackamore.compat.claude_agent_sdk._internal.session_summary import (
    last_time,
    summary_entry_to_sdk_info,
)
from hackamore.compat.claude_agent_sdk._shapes import SDKSessionInfo, SessionMessage
from hackamore.errors import HackamoreError, SessionNotFoundError
from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore.transcripts import TranscriptInfo


_STORE_LIST_LOAD_CONCURRENCY = 16


def _canonicalize_path(directory: str) -> str:
    return unicodedata.normalize("NFC", str(Path(directory).resolve()))


def project_key_for_directory(directory: str | Path | None = None) -> str:
    """Return the key of a project in session stores.

    Args:
        directory: its folder; None for the current one.
    """
    return transcripts.project_key(directory)


def _milliseconds(moment: Any) -> int:
    return int(moment.timestamp() * 1000)


def _shown(found: TranscriptInfo, project: str | None = None) -> SDKSessionInfo | None:
    """Return a conversation as a list shows it; None for one that lists leave out."""
    if found.sidechain or not found.title:
        return None
    return SDKSessionInfo(
        session_id=found.session_id,
        summary=found.title,
        last_modified=_milliseconds(found.modified),
        file_size=found.bytes,
        custom_title=found.title if found.title_source in ("custom", "ai") else None,
        first_prompt=found.first_prompt,
        git_branch=found.git_branch,
        cwd=found.cwd or project,
        tag=found.tag,
        created_at=None if found.created is None else _milliseconds(found.created),
    )


def list_sessions(
    directory: str | None = None, limit: int | None = None, offset: int = 0, include_worktrees: bool = True
) -> list[SDKSessionInfo]:
    """Return the conversations of a project, newest first.

    Args:
        directory: its folder; None for all projects.
        limit: the most conversations; None or 0 for all.
        offset: conversations to leave out at the beginning.
        include_worktrees: whether other worktrees of the repository count.
    """
    project = _canonicalize_path(directory) if directory else None
    found = transcripts.list(
        project,
        all_projects=project is None,
        include_worktrees=include_worktrees,
        limit=limit if limit is not None and limit > 0 else None,
        offset=max(offset, 0),
    )
    return [info for each in found if (info := _shown(each, project)) is not None]


def get_session_info(session_id: str, directory: str | None = None) -> SDKSessionInfo | None:
    """Return one conversation; None if it does not exist, or is that of a subagent.

    Args:
        session_id: its id.
        directory: the folder of its project; None to look in all projects.
    """
    if not _validate_uuid(session_id):
        return None
    project = _canonicalize_path(directory) if directory else None
    try:
        return _shown(transcripts.info(session_id, project=project), project)
    except HackamoreError:
        return None


def _page(messages: list[SessionMessage], limit: int | None, offset: int) -> list[SessionMessage]:
    rest = messages[max(offset, 0) :]
    return rest[:limit] if limit is not None and limit > 0 else rest


def _messages(conversation: Any, *, of_subagent: bool = False, **parents: Any) -> list[SessionMessage]:
    """Return the messages of a transcript or a subagent that a user sees."""
    shown = []
    for message in conversation.messages:
        data = message.data
        hidden = data.get("isMeta") or data.get("isSidechain") or data.get("teamName")
        if of_subagent or not hidden:
            uuid, session_id = data.get("uuid", ""), data.get("sessionId", "")
            shown.append(SessionMessage(data["type"], uuid, session_id, data.get("message"), **parents))
    return shown


def _read(session_id: str, directory: str | None, **places: Any) -> Any:
    """Return a transcript; None if it does not exist or cannot be read."""
    if not _validate_uuid(session_id):
        return None
    try:
        return transcripts.read(session_id, project=_canonicalize_path(directory) if directory else None, **places)
    except HackamoreError:
        return None


def get_session_messages(
    session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """Return the messages of a conversation.

    Args:
        session_id: its id.
        directory: the folder of its project; None to look in all projects.
        limit: the most messages; None or 0 for all.
        offset: messages to leave out at the beginning.
    """
    transcript = _read(session_id, directory)
    return [] if transcript is None else _page(_messages(transcript), limit, offset)


def list_subagents(session_id: str, directory: str | None = None) -> list[str]:
    """Return the ids of the subagents of a conversation.

    Args:
        session_id: its id.
        directory: the folder of its project; None to look in all projects.
    """
    transcript = _read(session_id, directory)
    return [] if transcript is None else list(transcript.subagents)


def get_subagent_messages(
    session_id: str, agent_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """Return the messages of a subagent.

    Args:
        session_id: the conversation.
        agent_id: the subagent.
        directory: the folder of the project; None to look in all projects.
        limit: the most messages; None or 0 for all.
        offset: messages to leave out at the beginning.
    """
    transcript = _read(session_id, directory)
    agent = None if transcript is None else transcript.subagents.get(agent_id)
    return [] if agent is None else _page(_agent_messages(agent), limit, offset)


def _agent_messages(agent: Any) -> list[SessionMessage]:
    try:
        meta = json.loads(Path(str(agent.path).removesuffix(".jsonl") + ".meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        meta = None
    given = meta if isinstance(meta, dict) else {}
    parents = {"parent_tool_use_id": given.get("toolUseId"), "parent_agent_id": given.get("parentAgentId")}
    strings = {name: value if isinstance(value, str) else None for name, value in parents.items()}
    return _messages(agent, of_subagent=True, **strings)


# -- stores ------------------------------------------------------------------------------------------------------------


def _key(session_id: str, directory: str | Path | None, subpath: str | None = None) -> Any:
    key = {"project_key": project_key_for_directory(directory), "session_id": session_id}
    return key if subpath is None else {**key, "subpath": subpath}


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
            lines = [entry for entry in entries if not _is_metadata(entry)]
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
            for entry in filter(_is_metadata, entries):
                path.with_name(f"{path.stem}.meta.json").write_text(json.dumps(entry), encoding="utf-8")
        yield folder


def _is_metadata(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "agent_metadata"


def _parse_session_info(session_id: str, entries: list[Any], mtime: int, project: str) -> SDKSessionInfo | None:
    """Return what a list shows of the entries of a store."""
    jsonl = _entries_to_jsonl(entries)
    return _parse_session_info_from_lite(session_id, _jsonl_to_lite(jsonl, mtime), project)


async def list_sessions_from_store(
    session_store: Any, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SDKSessionInfo]:
    """Return the conversations of a project in a store, newest first.

    Args:
        session_store: the store.
        directory: the folder of the project; None for the current one.
        limit: the most conversations; None or 0 for all.
        offset: conversations to leave out at the beginning.

    Raises:
        ValueError: the store lists neither sessions nor summaries.
    """
    project = _canonicalize_path(str(directory) if directory is not None else ".")
    key = project_key_for_directory(directory)
    lists = _store_implements(session_store, "list_sessions")
    summaries: list[Any] | None = None
    if _store_implements(session_store, "list_session_summaries"):
        try:
            summaries = list(await session_store.list_session_summaries(key))
        except NotImplementedError:
            summaries = None
    if summaries is None and not lists:
        raise ValueError(
            "session_store has neither list_session_summaries() nor list_sessions() -- cannot list sessions. Add one."
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
    if summaries is not None:  # without summaries, those that lists leave out do not count
        slots = _cut(slots, limit, offset)
    infos = await _loaded(session_store, slots, directory, project)
    return infos if summaries is not None else _cut(infos, limit, offset)


def _cut(items: list[Any], limit: int | None, offset: int) -> list[Any]:
    rest = items[max(offset, 0) :]
    return rest[:limit] if limit is not None and limit > 0 else rest


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
            except Exception:
                logger.debug("The session %s could not be loaded", session_id, exc_info=True)
                found[session_id] = SDKSessionInfo(session_id=session_id, summary="", last_modified=mtime)
                return
        found[session_id] = _parse_session_info(session_id, entries, mtime, project) if entries else None

    async with anyio.create_task_group() as tasks:
        for mtime, session_id, info in slots:
            if info is None:
                tasks.start_soon(load, session_id, mtime)
    return [info for _, session_id, _ in slots if (info := found[session_id]) is not None]


async def get_session_info_from_store(
    session_store: Any, session_id: str, directory: str | None = None
) -> SDKSessionInfo | None:
    """Return one conversation of a store; None if it does not exist.

    Args:
        session_store: the store.
        session_id: its id.
        directory: the folder of its project; None for the current one.
    """
    entries = await session_store.load(_key(session_id, directory)) if _validate_uuid(session_id) else None
    if not entries:
        return None
    mtime = last_time(entries)
    project = _canonicalize_path(str(directory) if directory is not None else ".")
    return _parse_session_info(session_id, entries, mtime, project)


async def get_session_messages_from_store(
    session_store: Any, session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """Return the messages of a conversation in a store. The arguments are those of `get_session_messages`."""
    entries = await session_store.load(_key(session_id, directory)) if _validate_uuid(session_id) else None
    if not entries:
        return []

    def read() -> list[SessionMessage]:
        with on_disk(session_id, {"": entries}) as folder:
            transcript = _read(session_id, None, config_dir=folder)
            return [] if transcript is None else _messages(transcript)

    return _page(await anyio.to_thread.run_sync(read), limit, offset)


async def _agents(store: Any, session_id: str, directory: str | None) -> dict[str, str]:
    """Return the subpath of each subagent in a store, by its id."""
    found: dict[str, str] = {}
    for subpath in await store.list_subkeys(_key(session_id, directory)):
        name = subpath.rpartition("/")[2]
        if subpath.startswith("subagents/") and name.startswith("agent-"):
            found.setdefault(name.removeprefix("agent-"), subpath)
    return found


async def list_subagents_from_store(session_store: Any, session_id: str, directory: str | None = None) -> list[str]:
    """Return the ids of the subagents of a conversation in a store.

    Raises:
        ValueError: the store has no `list_subkeys`.
    """
    if not _validate_uuid(session_id):
        return []
    if not _store_implements(session_store, "list_subkeys"):
        raise ValueError("session_store does not implement list_subkeys() -- cannot list subagents. Add it.")
    return list(await _agents(session_store, session_id, directory))


async def get_subagent_messages_from_store(
    session_store: Any,
    session_id: str,
    agent_id: str,
    directory: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[SessionMessage]:
    """Return the messages of a subagent in a store. The arguments are those of `get_subagent_messages`."""
    if not _validate_uuid(session_id) or not agent_id:
        return []
    subpath: str | None = f"subagents/agent-{agent_id}"
    if _store_implements(session_store, "list_subkeys"):
        subpath = (await _agents(session_store, session_id, directory)).get(agent_id)
    entries = await session_store.load(_key(session_id, directory, subpath)) if subpath else None
    if not entries or all(map(_is_metadata, entries)):
        return []

    def read() -> list[SessionMessage]:
        with on_disk(session_id, {"": [], f"subagents/agent-{agent_id}": entries}) as folder:
            transcript = _read(session_id, None, config_dir=folder)
            agent = None if transcript is None else transcript.subagents.get(agent_id)
            return [] if agent is None else _agent_messages(agent)

    return _page(await anyio.to_thread.run_sync(read), limit, offset)


def _build_conversation_chain(entries: list[Any]) -> list[Any]:
    """Return the entries of the conversation in its order, as `hackamore.transcripts` finds it."""
    with on_disk(_ANY, {"": entries}) as folder:
        transcript = _read(_ANY, None, config_dir=folder)
        return [] if transcript is None else [message.data for message in transcript.messages]


_ANY = "00000000-0000-4000-8000-000000000000"

__getattr__ = names_of("sessions")

__all__ = [
    "MAX_SANITIZED_LENGTH",
    "SessionNotFoundError",
    "_extract_first_prompt_from_head",
    "_extract_json_string_field",
    "_extract_last_json_string_field",
    "_read_session_lite",
    "_sanitize_path",
    "_simple_hash",
    "on_disk",
    "project_key_for_directory",
]
