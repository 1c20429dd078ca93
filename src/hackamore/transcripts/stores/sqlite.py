"""Session stores in one SQLite file, with the standard library alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hackamore.errors import StoreError
from hackamore.storage.sqlite import Database, StorageError
from hackamore.transcripts.stores.keys import Batch, Positions, Tables, milliseconds

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from hackamore.transcripts.stores.keys import Place

T = TypeVar("T")
_decode_lines = msgspec.json.Decoder().decode_lines

_VERSION = 2
_OVERFLOW, _LOCAL = 4_092, 450
"""Of a row that is longer than a page, this many bytes are on each page of its own, and at most this many beside other rows."""
_SHORT = 1_000
"""The bytes of a row that has no page of its own: four fill a page."""
_MOST_PAGES = 64
_TABLES = (
    """CREATE TABLE IF NOT EXISTS hackamore_transcripts (
        id INTEGER PRIMARY KEY, project TEXT NOT NULL, session TEXT NOT NULL, part TEXT NOT NULL,
        position INTEGER NOT NULL, next INTEGER NOT NULL, mtime INTEGER NOT NULL, digest TEXT NOT NULL,
        UNIQUE (project, session, part)
    )""",
    "CREATE INDEX IF NOT EXISTS hackamore_transcripts_session ON hackamore_transcripts (session)",
    # The lines of a transcript, cut without regard to where they end: rows in the order of their writing fill the pages.
    """CREATE TABLE IF NOT EXISTS hackamore_pieces (
        transcript INTEGER NOT NULL, number INTEGER NOT NULL, piece BLOB NOT NULL, UNIQUE (transcript, number)
    )""",
    """CREATE TABLE IF NOT EXISTS hackamore_uuids (
        transcript INTEGER NOT NULL, uuid TEXT NOT NULL, PRIMARY KEY (transcript, uuid)
    ) WITHOUT ROWID""",
)
# In a file with tables of the user, whose version is 0.
_FROM_0 = (
    "CREATE TABLE hackamore_transcripts (project, session, part, position, next, mtime, digest)",
    "CREATE INDEX hackamore_transcripts_session ON hackamore_transcripts (session)",
    "CREATE TABLE hackamore_entries (project, session, part, number, uuid, entry)",
)
_FROM_1 = (
    "ALTER TABLE hackamore_transcripts RENAME TO old_transcripts",
    "DROP INDEX hackamore_transcripts_session",
    *_TABLES,
    "INSERT INTO hackamore_transcripts SELECT NULL, * FROM old_transcripts",
    "INSERT INTO hackamore_pieces SELECT id, number, CAST(CAST(entry AS TEXT) || char(10) AS BLOB) "
    "FROM hackamore_entries JOIN hackamore_transcripts USING (project, session, part) ORDER BY id, number",
    "INSERT INTO hackamore_uuids SELECT id, uuid FROM hackamore_entries JOIN hackamore_transcripts USING (project, session, part) "
    "WHERE uuid IS NOT NULL",
    "DROP TABLE hackamore_entries",
    "DROP TABLE old_transcripts",
)
_OF_TRANSCRIPT = "project = ? AND session = ? AND part = ?"


class SQLiteStore(Tables):
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
        self._database = Database(file, _TABLES, _VERSION, timeout, "FULL", migrations={0: _FROM_0, 1: _FROM_1})
        self._positions = Positions()

    def __repr__(self) -> str:
        return f"SQLiteStore({self._path!r})"

    def close(self) -> None:
        """Close the file. The next call opens it again; the transcripts of `:memory:` are gone."""
        self._database.close()

    # -- in threads ----------------------------------------------------------------------------------------------------

    def _rows(self, operation: str, sql: str, *values: str) -> list[Any]:
        text = sql.format("hackamore_").replace("%s", "?")
        return self._do(operation, lambda connection: connection.execute(text, values).fetchall(), reads=True)

    def _do(self, operation: str, work: Callable[[sqlite3.Connection], T], *, reads: bool = False) -> T:
        """Call a function in one transaction; raise StoreError if the file cannot be used."""
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
            connection.execute(
                "INSERT OR IGNORE INTO hackamore_transcripts VALUES (NULL, ?, ?, ?, 0, 0, ?, '')",
                (*place, milliseconds()),
            )
            transcript, position, number, digest = connection.execute(
                f"SELECT id, position, next, digest FROM hackamore_transcripts WHERE {_OF_TRANSCRIPT}", place
            ).fetchone()
            if batch.talks and digest == batch.digest:
                return int(position)  # the last append, whose answer was lost
            if batch.talks:
                self._positions.check(place, position)
            known = "INSERT OR IGNORE INTO hackamore_uuids VALUES (?, ?)"
            lines = b"".join(
                raw + b"\n"
                for uuid, raw in batch.entries
                if uuid is None or connection.execute(known, (transcript, uuid)).rowcount
            )
            rows = [(transcript, at, piece) for at, piece in enumerate(_cut(lines), number)]
            connection.executemany("INSERT INTO hackamore_pieces VALUES (?, ?, ?)", rows)
            position += batch.talks
            connection.execute(
                "UPDATE hackamore_transcripts SET position = ?, next = ?, mtime = max(mtime, ?), digest = ? WHERE id = ?",
                (position, number + len(rows), milliseconds(), batch.digest if batch.talks else digest, transcript),
            )
            return int(position)

        position = self._do("append", work)
        if batch.talks:
            self._positions.saw(place, position)

    def _load(self, place: Place) -> list[Any] | None:
        def work(connection: sqlite3.Connection) -> tuple[int, list[Any] | None]:
            row = connection.execute(
                f"SELECT position, id FROM hackamore_transcripts WHERE {_OF_TRANSCRIPT}", place
            ).fetchone()
            if row is None:
                return 0, None
            found = connection.execute(
                "SELECT piece FROM hackamore_pieces WHERE transcript = ? ORDER BY number", row[1:]
            )
            entries: list[Any] = []
            pieces: list[bytes] = []
            for (piece,) in found:
                pieces.append(piece)
                if piece.endswith(b"\n"):  # not once for all: that would hold everything twice
                    entries += _decode_lines(b"".join(pieces))
                    pieces.clear()
            return row[0], entries

        position, entries = self._do("load", work, reads=True)
        self._positions.saw(place, position)
        return entries

    def _delete(self, place: Place) -> None:
        where = _OF_TRANSCRIPT if place[2] else "project = ? AND session = ?"
        values = place if place[2] else place[:2]

        def work(connection: sqlite3.Connection) -> None:
            for table in ("pieces", "uuids"):
                of = f"transcript IN (SELECT id FROM hackamore_transcripts WHERE {where})"
                connection.execute(f"DELETE FROM hackamore_{table} WHERE {of}", values)
            connection.execute(f"DELETE FROM hackamore_transcripts WHERE {where}", values)

        self._do("delete", work)
        self._positions.forget(place)


def _cut(lines: bytes) -> Iterator[bytes]:
    """Cut lines into rows that leave little of their pages empty."""
    at = 0
    while at < len(lines):
        pages = min((len(lines) - at) // _OVERFLOW, _MOST_PAGES)
        size = pages * _OVERFLOW + _LOCAL if pages else _SHORT
        yield lines[at : at + size]
        at += size
