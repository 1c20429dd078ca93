"""Changes of conversations on the disk and in stores.

They raise ValueError for an id that is not a UUID, and for an empty title or tag; FileNotFoundError for a missing conversation.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio.to_thread

from hackamore import transcripts
from hackamore.compat.claude_agent_sdk._internal._session_helpers import _validate_uuid
from hackamore.compat.claude_agent_sdk._internal.session_store_validation import _store_implements
from hackamore.compat.claude_agent_sdk._internal.sessions import _key, _project, on_disk
from hackamore.errors import SessionNotFoundError, TranscriptError
from hackamore.transcripts.changes import clean_tag as _sanitize_unicode


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


_OF_THE_DISK = ("agent-name", "last-prompt")
"""Entries for the prompt of the CLI, which a copy in a store does not have in the official package."""


# -- stores ------------------------------------------------------------------------------------------------------------


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
