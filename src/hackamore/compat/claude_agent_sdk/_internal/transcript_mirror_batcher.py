"""`TranscriptMirrorBatcher`: frames of a transcript on their way to a store. The layer itself has Hackamore mirror."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from hackamore.compat.claude_agent_sdk._internal._session_helpers import _entries_to_jsonl
from hackamore.compat.claude_agent_sdk._internal._task_compat import TaskHandle, spawn_detached
from hackamore.compat.claude_agent_sdk._internal.session_import import MAX_PENDING_BYTES, MAX_PENDING_ENTRIES
from hackamore.compat.claude_agent_sdk._internal.session_store import file_path_to_session_key
from hackamore.runtime.log import logger

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
