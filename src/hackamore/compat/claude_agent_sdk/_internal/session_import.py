"""`import_session_to_store`: a conversation of the disk, copied to a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hackamore import transcripts
from hackamore.compat.claude_agent_sdk._internal._session_helpers import _validate_uuid
from hackamore.compat.claude_agent_sdk._internal.sessions import _canonicalize_path
from hackamore.errors import SessionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["import_session_to_store"]

_MOST_ENTRIES = 500
_MOST_BYTES = 1024 * 1024


async def import_session_to_store(
    session_id: str,
    store: Any,
    *,
    directory: str | None = None,
    include_subagents: bool = True,
    batch_size: int = _MOST_ENTRIES,
) -> None:
    """Copy a conversation to a store.

    Args:
        session_id: its id.
        store: the store.
        directory: the folder of its project; None to look in all projects.
        include_subagents: whether to copy its subagents also.
        batch_size: the most entries of one append.

    Raises:
        ValueError: the id is not a UUID.
        FileNotFoundError: the conversation does not exist.
    """
    if not _validate_uuid(session_id):
        raise ValueError(f"Invalid session_id: {session_id}")
    try:
        path = transcripts.info(session_id, project=_canonicalize_path(directory) if directory else None).path
    except SessionNotFoundError as error:
        raise FileNotFoundError(f"Session {session_id} not found") from error
    most = batch_size if batch_size > 0 else _MOST_ENTRIES
    key = {"project_key": path.parent.name, "session_id": session_id}
    for batch in _batches(path, most):
        await store.append(key, batch)
    folder = path.with_suffix("")
    for file in sorted(folder.glob("subagents/**/*.jsonl")) if include_subagents else ():
        sub = {**key, "subpath": file.relative_to(folder).as_posix().removesuffix(".jsonl")}
        for batch in _batches(file, most):
            await store.append(sub, batch)
        meta = _meta(file)
        if meta is not None:
            await store.append(sub, [{**meta, "type": "agent_metadata"}])


def _batches(path: Path, most: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = 0
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.strip():
                continue
            batch.append(json.loads(line))
            size += len(line)
            if len(batch) >= most or size >= _MOST_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _meta(file: Path) -> dict[str, Any] | None:
    try:
        meta = json.loads(file.with_name(f"{file.stem}.meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return meta if isinstance(meta, dict) else None
