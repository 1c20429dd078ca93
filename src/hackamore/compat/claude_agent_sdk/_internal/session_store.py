"""`InMemorySessionStore`, and the place of a transcript in a store."""

from __future__ import annotations

import os
import time
from pathlib import PurePath
from typing import Any

from hackamore.compat.claude_agent_sdk import _shapes as shapes
from hackamore.compat.claude_agent_sdk._internal.session_summary import fold_session_summary
from hackamore.compat.claude_agent_sdk._internal.sessions import project_key_for_directory

__all__ = ["InMemorySessionStore", "file_path_to_session_key", "project_key_for_directory"]

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
    if len(parts) < 2 or parts[0] == "..":
        return None
    if len(parts) == 2:
        name = parts[1]
        return {"project_key": parts[0], "session_id": name[:-6]} if name.endswith(".jsonl") else None
    if len(parts) == 3:
        return None
    subpath = "/".join(parts[2:]).removesuffix(".jsonl")
    return {"project_key": parts[0], "session_id": parts[1], "subpath": subpath}
