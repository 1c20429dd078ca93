"""A store in memory: for tests, and for sessions that one process continues."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.transcripts.listing import fold_summary
from hackamore.transcripts.stores.keys import Batch, milliseconds, place_of

if TYPE_CHECKING:
    from hackamore.options.stores import StoreKey, StoreListEntry, StoreSummary
    from hackamore.transcripts.stores.keys import Place

_decode = msgspec.json.Decoder().decode


class MemoryStore:
    """Keep transcripts in this process, as JSON: what a caller changes later does not change the store.

    Example:
        ::

            store = MemoryStore()
            result = await hackamore.run("Remember 42.", Options(session_store=store))
            await hackamore.run("Which number?", Options(session_store=store, resume=result.session_id))
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[Place, list[bytes]] = {}
        self._uuids: dict[Place, set[str]] = {}
        self._times: dict[Place, int] = {}
        self._summaries: dict[Place, StoreSummary] = {}
        self._last = 0

    async def append(self, key: StoreKey, entries: list[Any]) -> None:
        """Add entries to the end of a transcript; entries with a known `uuid` are left out.

        Args:
            key: the transcript.
            entries: the entries, as dicts.
        """
        if not entries:
            return
        place, batch = place_of(key), Batch(entries)
        with self._lock:
            kept, known = self._entries.setdefault(place, []), self._uuids.setdefault(place, set())
            self._last = self._times[place] = max(milliseconds(), self._last + 1)  # no two appends have the same time
            for uuid, raw in batch.entries:
                if uuid is None or uuid not in known:
                    kept.append(raw)
                if uuid is not None:
                    known.add(uuid)
            if not place[2]:
                self._summaries[place] = fold_summary(self._summaries.get(place), key, entries)

    async def load(self, key: StoreKey) -> list[Any] | None:
        """Return the entries of a transcript in order; None if there are none."""
        with self._lock:
            kept = self._entries.get(place_of(key))
            lines = list(kept) if kept is not None else None
        return None if lines is None else [_decode(line) for line in lines]

    def transcripts(self) -> dict[tuple[str, str, str], list[Any]]:
        """Return all entries, by project, session and part ("" for the main transcript): for tests."""
        with self._lock:
            return {place: [_decode(line) for line in lines] for place, lines in self._entries.items()}

    async def list_sessions(self, project_key: str) -> list[StoreListEntry]:
        """Return the sessions of a project."""
        with self._lock:
            return [
                {"session_id": session, "mtime": mtime}
                for (project, session, part), mtime in self._times.items()
                if project == project_key and not part
            ]

    async def list_session_summaries(self, project_key: str) -> list[StoreSummary]:
        """Return the summaries of the sessions of a project."""
        with self._lock:
            found = [(self._times[place], each) for place, each in self._summaries.items() if place[0] == project_key]
        return [{**each, "mtime": mtime} for mtime, each in found]

    async def list_subkeys(self, key: StoreKey) -> list[str]:
        """Return the names of the parts of a session."""
        place = place_of(key)
        with self._lock:
            return sorted(part for project, session, part in self._entries if (project, session) == place[:2] and part)

    async def delete(self, key: StoreKey) -> None:
        """Remove a transcript; that of a session with all of its parts."""
        place = place_of(key)
        with self._lock:
            for each in [each for each in self._entries if each[:2] == place[:2] and place[2] in ("", each[2])]:
                for kept in (self._entries, self._uuids, self._times, self._summaries):
                    kept.pop(each, None)

    async def find_session(self, session_id: str) -> list[StoreKey]:
        """Return the keys of a session in any project, the one with the last append first."""
        with self._lock:
            found = [(self._times[place], place) for place in self._times if place[1] == session_id and not place[2]]
        return [{"project_key": place[0], "session_id": place[1]} for _, place in sorted(found, reverse=True)]
