"""Session stores in one SQLite file, with the standard library alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridle.errors import StoreError
from bridle.storage.sqlite import Database, StorageError
from bridle.transcripts.stores.keys import Adapter, Batch, Positions, milliseconds

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from bridle.transcripts.stores.keys import Place

__all__ = ["SQLiteStore"]

T = TypeVar("T")
_decode = msgspec.json.Decoder().decode

_VERSION = 1
_TABLES = (
    """CREATE TABLE IF NOT EXISTS bridle_transcripts (
        project TEXT NOT NULL, session TEXT NOT NULL, part TEXT NOT NULL,
        position INTEGER NOT NULL, next INTEGER NOT NULL, mtime INTEGER NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (project, session, part)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS bridle_transcripts_session ON bridle_transcripts (session)",
    """CREATE TABLE IF NOT EXISTS bridle_entries (
        project TEXT NOT NULL, session TEXT NOT NULL, part TEXT NOT NULL, number INTEGER NOT NULL, uuid TEXT, entry BLOB NOT NULL,
        PRIMARY KEY (project, session, part, number)
    ) WITHOUT ROWID""",
    """CREATE UNIQUE INDEX IF NOT EXISTS bridle_entries_uuid ON bridle_entries (project, session, part, uuid)
        WHERE uuid IS NOT NULL""",
)
_OF_TRANSCRIPT = "project = ? AND session = ? AND part = ?"


class SQLiteStore(Adapter):
    """Keep transcripts in a SQLite file, which several processes of one host may use at the same time.

    An append is one transaction, on the disk when it returns. An append of another writer to the same session raises `StoreConflictError`.

    Args:
        path: the file; made with the mode 0600 if it is not there. `:memory:` keeps everything in this object.
        timeout: seconds to wait for another process that writes.

    Example:
        ::

            store = SQLiteStore("sessions.db")
            options = Options(session_store=store)
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        self._path = os.fspath(path)
        file = None if self._path == ":memory:" else self._path
        self._database = Database(file, _TABLES, _VERSION, timeout, synchronous="FULL")
        self._positions = Positions()

    def __repr__(self) -> str:
        return f"SQLiteStore({self._path!r})"

    def close(self) -> None:
        """Close the file. The next call opens it again; the transcripts of `:memory:` are gone."""
        self._database.close()

    # -- in threads ----------------------------------------------------------------------------------------------------

    def _sessions(self, project: str) -> list[tuple[str, int]]:
        sql = "SELECT session, mtime FROM bridle_transcripts WHERE project = ? AND part = ''"
        return self._rows("list_sessions", sql, (project,))

    def _parts(self, project: str, session: str) -> list[str]:
        sql = "SELECT part FROM bridle_transcripts WHERE project = ? AND session = ? AND part != ''"
        return [part for (part,) in self._rows("list_subkeys", sql, (project, session))]

    def _projects(self, session: str) -> list[str]:
        sql = "SELECT project FROM bridle_transcripts WHERE session = ? AND part = '' ORDER BY mtime DESC"
        return [project for (project,) in self._rows("find_session", sql, (session,))]

    def _rows(self, operation: str, sql: str, values: tuple[str, ...]) -> list[Any]:
        return self._do(operation, lambda connection: connection.execute(sql, values).fetchall(), reads=True)

    def _do(self, operation: str, work: Callable[[sqlite3.Connection], T], *, reads: bool = False) -> T:
        """Call a function in one transaction.

        Raises:
            StoreError: the file cannot be used.
        """
        try:
            return self._database.transaction(work, reads=reads)
        except StorageError as error:
            failed = StoreError(operation, f"{self._path!r} {error}")
            failed.retryable = error.retryable
            cause = error.__cause__
        raise failed from cause

    def _append(self, place: Place, entries: list[Any]) -> None:
        batch = Batch(entries)

        def work(connection: sqlite3.Connection) -> int:
            row = connection.execute(
                f"SELECT position, next, digest, mtime FROM bridle_transcripts WHERE {_OF_TRANSCRIPT}", place
            ).fetchone()
            position, number, digest, mtime = row if row is not None else (0, 0, "", 0)
            if batch.talks and digest == batch.digest:
                return int(position)  # the last append, whose answer was lost
            if batch.talks:
                self._positions.check(place, position)
            connection.executemany(
                "INSERT OR IGNORE INTO bridle_entries VALUES (?, ?, ?, ?, ?, ?)",
                [(*place, number + count, uuid, raw) for count, (uuid, raw) in enumerate(batch.entries)],
            )
            position += batch.talks
            connection.execute(
                "INSERT OR REPLACE INTO bridle_transcripts VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *place,
                    position,
                    number + len(batch.entries),
                    max(mtime, milliseconds()),
                    batch.digest if batch.talks else digest,
                ),
            )
            return int(position)

        position = self._do("append", work)
        if batch.talks:
            self._positions.saw(place, position)

    def _load(self, place: Place) -> list[Any] | None:
        def work(connection: sqlite3.Connection) -> tuple[int, list[Any] | None]:
            row = connection.execute(
                f"SELECT position FROM bridle_transcripts WHERE {_OF_TRANSCRIPT}", place
            ).fetchone()
            if row is None:
                return 0, None
            found = connection.execute(
                f"SELECT entry FROM bridle_entries WHERE {_OF_TRANSCRIPT} ORDER BY number", place
            )
            return row[0], [_decode(entry) for (entry,) in found]

        position, entries = self._do("load", work, reads=True)
        self._positions.saw(place, position)
        return entries

    def _delete(self, place: Place) -> None:
        where = _OF_TRANSCRIPT if place[2] else "project = ? AND session = ?"
        values = place if place[2] else place[:2]

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(f"DELETE FROM bridle_entries WHERE {where}", values)
            connection.execute(f"DELETE FROM bridle_transcripts WHERE {where}", values)

        self._do("delete", work)
        self._positions.forget(place)
