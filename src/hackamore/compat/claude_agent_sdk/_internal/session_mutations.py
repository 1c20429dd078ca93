"""Changes of conversations on the disk and in stores."""

from __future__ import annotations

import json
import os
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from hackamore import transcripts
from hackamore.compat.claude_agent_sdk._internal._session_helpers import _validate_uuid
from hackamore.compat.claude_agent_sdk._internal.session_store_validation import _store_implements
from hackamore.compat.claude_agent_sdk._internal.sessions import _canonicalize_path, _key, on_disk
from hackamore.errors import SessionNotFoundError, TranscriptError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class ForkSessionResult:
    """The copy of a conversation."""

    session_id: str


def _checked(session_id: str) -> str:
    if not _validate_uuid(session_id):
        raise ValueError(f"Invalid session_id: {session_id}")
    return session_id


def _project(directory: str | None) -> str | None:
    return _canonicalize_path(directory) if directory else None


@contextmanager
def _translated(session_id: str, directory: str | None = None) -> Iterator[None]:
    try:
        yield
    except SessionNotFoundError as error:
        place = f" in project directory for {directory}" if directory else " in any project directory"
        raise FileNotFoundError(f"Session {session_id} not found{place}") from error
    except TranscriptError as error:
        raise ValueError(str(error)) from error


def _title(title: str) -> str:
    if not title.strip():
        raise ValueError("title must be non-empty")
    return title.strip()


def _tag(tag: str | None) -> str:
    cleaned = "" if tag is None else _sanitize_unicode(tag)
    if tag is not None and not cleaned:
        raise ValueError("tag must be non-empty (use None to clear)")
    return cleaned


def _sanitize_unicode(value: str) -> str:
    from hackamore.transcripts.changes import clean_tag

    return clean_tag(value)


def _try_append(path: Path, data: str) -> bool:
    """Append to a file that exists and is not empty; return whether it does."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return bool(os.fstat(descriptor).st_size) and os.write(descriptor, data.encode()) > 0
    finally:
        os.close(descriptor)


def rename_session(session_id: str, title: str, directory: str | None = None) -> None:
    """Set the title of a conversation.

    Raises:
        ValueError: the id is not a UUID, or the title is empty.
        FileNotFoundError: the conversation does not exist.
    """
    title = _title(title) if _checked(session_id) else title
    with _translated(session_id, directory):
        transcripts.rename(session_id, title, project=_project(directory))


def tag_session(session_id: str, tag: str | None, directory: str | None = None) -> None:
    """Set or remove the tag of a conversation. It raises what `rename_session` does."""
    cleaned = _tag(tag) if _checked(session_id) else ""
    with _translated(session_id, directory):
        transcripts.tag(session_id, cleaned or None, project=_project(directory))


def delete_session(session_id: str, directory: str | None = None) -> None:
    """Delete a conversation with its subagents.

    Raises:
        ValueError: the id is not a UUID.
        FileNotFoundError: the conversation does not exist.
    """
    _checked(session_id)
    with _translated(session_id, directory):
        transcripts.delete(session_id, project=_project(directory))


def _checked_fork(session_id: str, up_to_message_id: str | None) -> None:
    _checked(session_id)
    if up_to_message_id and not _validate_uuid(up_to_message_id):
        raise ValueError(f"Invalid up_to_message_id: {up_to_message_id}")


def fork_session(
    session_id: str, directory: str | None = None, up_to_message_id: str | None = None, title: str | None = None
) -> ForkSessionResult:
    """Copy a conversation up to a message.

    Raises:
        ValueError: an id is not a UUID, or the conversation has no such message or is empty.
        FileNotFoundError: the conversation does not exist.
    """
    _checked_fork(session_id, up_to_message_id)
    with _translated(session_id, directory):
        own = (title or "").strip() or None
        return ForkSessionResult(
            transcripts.fork(session_id, at=up_to_message_id or None, title=own, project=_project(directory))
        )


# -- stores ------------------------------------------------------------------------------------------------------------


def _entry(session_id: str, **fields: Any) -> Any:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return {**fields, "sessionId": session_id, "uuid": str(uuid.uuid4()), "timestamp": now}


async def rename_session_via_store(
    session_store: Any, session_id: str, title: str, directory: str | None = None
) -> None:
    """Set the title of a conversation in a store."""
    entry = _entry(_checked(session_id), type="custom-title", customTitle=_title(title))
    await session_store.append(_key(session_id, directory), [entry])


async def tag_session_via_store(
    session_store: Any, session_id: str, tag: str | None, directory: str | None = None
) -> None:
    """Set or remove the tag of a conversation in a store."""
    entry = _entry(_checked(session_id), type="tag", tag=_tag(tag))
    await session_store.append(_key(session_id, directory), [entry])


async def delete_session_via_store(session_store: Any, session_id: str, directory: str | None = None) -> None:
    """Delete a conversation in a store; nothing happens if the store cannot delete."""
    _checked(session_id)
    if _store_implements(session_store, "delete"):
        await session_store.delete(_key(session_id, directory))


async def fork_session_via_store(
    session_store: Any,
    session_id: str,
    directory: str | None = None,
    up_to_message_id: str | None = None,
    title: str | None = None,
) -> ForkSessionResult:
    """Copy a conversation in a store up to a message. It raises what `fork_session` does."""
    _checked_fork(session_id, up_to_message_id)
    entries = await session_store.load(_key(session_id, directory))
    if not entries:
        raise FileNotFoundError(f"Session {session_id} not found")

    def fork() -> tuple[str, list[Any]]:
        with on_disk(session_id, {"": entries}) as folder, _translated(session_id):
            own = (title or "").strip() or None
            copy = transcripts.fork(session_id, at=up_to_message_id or None, title=own, config_dir=folder)
            lines = Path(folder, "projects", "-store", f"{copy}.jsonl").read_text(encoding="utf-8").splitlines()
            return copy, [json.loads(line) for line in lines]

    copy, copied = await anyio.to_thread.run_sync(fork)
    stamped = [entry if "uuid" in entry else {**_entry(copy), **entry} for entry in copied]  # stores drop doubles by id
    await session_store.append(_key(copy, directory), stamped)
    return ForkSessionResult(copy)
