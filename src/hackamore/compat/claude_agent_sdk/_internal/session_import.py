"""`import_session_to_store`: a conversation of the disk, copied to a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hackamore import transcripts
from hackamore.compat.claude_agent_sdk._internal.session_mutations import _translated
from hackamore.compat.claude_agent_sdk._internal.sessions import _meta_beside, _project

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
    """Copy a conversation to a store, at most `batch_size` entries and 1 MiB in one append.

    Raises:
        ValueError: the id is not a UUID.
        FileNotFoundError: the conversation does not exist.
    """
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
