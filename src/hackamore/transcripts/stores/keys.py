"""The common ground of the adapters: checked keys, positions of writers, and calls off the event loop."""

from __future__ import annotations

import hashlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from hackamore.errors import StoreConflictError
from hackamore.runtime.threads import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.options.stores import StoreKey, StoreListEntry

T = TypeVar("T")
Place = tuple[str, str, str]
"""Project, session, part; the part is "" for the main transcript."""

_encode = msgspec.json.encode


def place_of(key: StoreKey) -> Place:
    """Return the place that a key names; raise `TypeError` or `ValueError` for what is not a key."""
    place = (key["project_key"], key["session_id"], key.get("subpath") or "")
    for part in place:
        if not isinstance(part, str):
            raise TypeError(f"a part of a key must be a str, got {part!r} ({type(part).__name__})")
        if "\0" in part:
            raise ValueError("a key must not contain a NUL character")
    if not place[0] or not place[1]:
        raise ValueError("a key needs `project_key` and `session_id`")
    return place


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Run a blocking function of a driver in a thread of Hackamore. A cancelled call continues, and its result is dropped."""
    call = Call(partial(function, *arguments))
    try:
        return await call.wait()
    except BaseException:
        call.leave()
        raise


def milliseconds() -> int:
    """Return the time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def missing_extra(package: str, extra: str) -> ImportError:
    """Return the error for an adapter whose driver is not installed."""
    return ImportError(f"`{package}` is not installed; run: pip install 'hackamore[{extra}]'", name=package)


class Batch:
    """The entries of one append.

    Attributes:
        entries: each entry as JSON, with its uuid or None.
        talks: True if it has entries of the conversation, which only one writer may append.
        digest: the same for the same entries.
    """

    __slots__ = ("digest", "entries", "talks")

    def __init__(self, entries: list[Any]) -> None:
        self.entries: list[tuple[str | None, bytes]] = [(_uuid(entry), _encode(entry)) for entry in entries]
        self.talks: bool = any(uuid is not None for uuid, _ in self.entries)
        self.digest: str = hashlib.sha256(b"\n".join(raw for _, raw in self.entries)).hexdigest()[:32]


def _uuid(entry: Any) -> str | None:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) and uuid else None


class Positions:
    """How far each transcript was when this object saw it last: another writer is recognised by a transcript that is further.

    The position counts appends with entries of the conversation. Titles and tags, which any program may add, do not count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Place, int] = {}

    def saw(self, place: Place, position: int) -> None:
        """Note a position."""
        with self._lock:
            self._seen[place] = position

    def seen(self, place: Place) -> int | None:
        """Return the last position seen; None if there is none."""
        with self._lock:
            return self._seen.get(place)

    def forget(self, place: Place) -> None:
        """Forget a transcript that was deleted, and its parts."""
        with self._lock:
            for each in [seen for seen in self._seen if seen[:2] == place[:2] and place[2] in ("", seen[2])]:
                del self._seen[each]

    def check(self, place: Place, position: int) -> None:
        """Compare the position in the store with the last one seen; raise `StoreConflictError` if another writer was there."""
        seen = self.seen(place)
        if seen is not None and seen != position:
            raise StoreConflictError(place[1])


class Adapter:
    """The methods of a store whose driver blocks. Each runs in a thread of Hackamore, and raises what the driver raises."""

    def close(self) -> None:
        """Close the connections, unless they were given. The next call opens another one."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def append(self, key: StoreKey, entries: list[Any]) -> None:
        """Add entries to the end of a transcript, all or none; entries with a known `uuid` count once.

        Args:
            key: the transcript.
            entries: the entries, as dicts.

        Raises:
            StoreConflictError: another writer has added messages since this object saw the transcript last.
        """
        if entries:
            await in_thread(self._append, place_of(key), entries)

    async def load(self, key: StoreKey) -> list[Any] | None:
        """Return the entries of a transcript in order; None if there are none."""
        return await in_thread(self._load, place_of(key))

    async def list_sessions(self, project_key: str) -> list[StoreListEntry]:
        """Return the sessions of a project."""
        found = await in_thread(self._sessions, project_key)
        return [{"session_id": session, "mtime": mtime} for session, mtime in found]

    async def list_subkeys(self, key: StoreKey) -> list[str]:
        """Return the names of the parts of a session."""
        return sorted(await in_thread(self._parts, *place_of(key)[:2]))

    async def delete(self, key: StoreKey) -> None:
        """Remove a transcript; that of a session with all of its parts."""
        await in_thread(self._delete, place_of(key))

    async def find_session(self, session_id: str) -> list[StoreKey]:
        """Return the keys of a session in any project, the one with the last append first."""
        found = await in_thread(self._projects, session_id)
        return [{"project_key": project, "session_id": session_id} for project in found]

    # -- in threads ----------------------------------------------------------------------------------------------------

    _append: Callable[[Place, list[Any]], None]
    _load: Callable[[Place], list[Any] | None]
    _delete: Callable[[Place], None]
    _sessions: Callable[[str], list[tuple[str, int]]]
    _parts: Callable[[str, str], list[str]]
    _projects: Callable[[str], list[str]]
    """Returns the projects that have a session, the one with the last append first."""


class Tables(Adapter):
    """The questions that all adapters with tables ask alike."""

    def _rows(self, operation: str, sql: str, *values: str) -> list[Any]:
        """Return the rows of a statement with `{}` for the beginning of the names of tables and `%s` for values."""
        raise NotImplementedError

    def _sessions(self, project: str) -> list[tuple[str, int]]:
        sql = "SELECT session, mtime FROM {}transcripts WHERE project = %s AND part = ''"
        return self._rows("list_sessions", sql, project)

    def _parts(self, project: str, session: str) -> list[str]:
        sql = "SELECT part FROM {}transcripts WHERE project = %s AND session = %s AND part != ''"
        return [part for (part,) in self._rows("list_subkeys", sql, project, session)]

    def _projects(self, session: str) -> list[str]:
        sql = "SELECT project FROM {}transcripts WHERE session = %s AND part = '' ORDER BY mtime DESC"
        return [project for (project,) in self._rows("find_session", sql, session)]
