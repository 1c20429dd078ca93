"""Session stores in PostgreSQL, through `psycopg`."""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.transcripts.stores.keys import Adapter, Batch, Positions, milliseconds, missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from hackamore.transcripts.stores.keys import Place

__all__ = ["PostgresStore"]

_decode = msgspec.json.Decoder().decode

_SCHEMA = """
CREATE TABLE IF NOT EXISTS {prefix}transcripts (
    project text NOT NULL, session text NOT NULL, part text NOT NULL,
    position bigint NOT NULL, next bigint NOT NULL, mtime bigint NOT NULL, digest text NOT NULL,
    PRIMARY KEY (project, session, part)
);
CREATE INDEX IF NOT EXISTS {prefix}transcripts_session ON {prefix}transcripts (session);
CREATE TABLE IF NOT EXISTS {prefix}entries (
    project text NOT NULL, session text NOT NULL, part text NOT NULL, number bigint NOT NULL, uuid text, entry text NOT NULL,
    PRIMARY KEY (project, session, part, number)
);
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}entries_uuid ON {prefix}entries (project, session, part, uuid) WHERE uuid IS NOT NULL;
"""
_OF_TRANSCRIPT = "project = %s AND session = %s AND part = %s"
_SCHEMA_LOCK = 0x6861_636B_616D
"""The advisory lock under which the tables are made: two programs that make them at the same time would disturb each other."""


class PostgresStore(Adapter):
    """Keep transcripts in PostgreSQL, for the processes of any number of hosts.

    An append is one transaction, committed when it returns. An append of another writer to the same session raises `StoreConflictError`.
    The tables are made with the first call.

    Args:
        conninfo: the database, as `psycopg.connect` takes it, such as `postgresql://user@host/name?sslmode=verify-full`.
        prefix: the beginning of the names of the tables; a schema may stand before it, such as `agents.hackamore_`.
        **options: further arguments of `psycopg.connect`: `sslrootcert`, `connect_timeout`, `keepalives`, ...

    Raises:
        ImportError: `psycopg` is not installed.
        ValueError: `prefix` is not a plain name, or `conninfo` is not a connection string.

    Example:
        ::

            store = PostgresStore("postgresql://agents@db.example/agents", sslmode="verify-full")
            options = Options(session_store=store)
    """

    def __init__(self, conninfo: str = "", *, prefix: str = "hackamore_", **options: Any) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise missing_extra("psycopg", "postgres") from error
        if not re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]*", prefix):
            raise ValueError(f"`prefix` must be letters, digits and underscores, got {prefix!r}")
        try:
            psycopg.conninfo.conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError:  # its text has the whole string, with the password
            raise ValueError(
                "`conninfo` is not a connection string of PostgreSQL. Write `postgresql://user@host/name` or `host=... user=...`, "
                "and percent-encode special characters of a password in a URL."
            ) from None
        self._psycopg = psycopg
        self._conninfo = conninfo
        self._options = options
        self._prefix = prefix
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None
        self._pid = os.getpid()
        self._positions = Positions()

    def __repr__(self) -> str:
        return f"PostgresStore(prefix={self._prefix!r})"

    def close(self) -> None:
        """Close the connection. The next call opens another one."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    # -- in threads ----------------------------------------------------------------------------------------------------

    def _sessions(self, project: str) -> list[tuple[str, int]]:
        return self._rows("SELECT session, mtime FROM {prefix}transcripts WHERE project = %s AND part = ''", (project,))

    def _parts(self, project: str, session: str) -> list[str]:
        sql = "SELECT part FROM {prefix}transcripts WHERE project = %s AND session = %s AND part != ''"
        return [part for (part,) in self._rows(sql, (project, session))]

    def _projects(self, session: str) -> list[str]:
        sql = "SELECT project FROM {prefix}transcripts WHERE session = %s AND part = '' ORDER BY mtime DESC"
        return [project for (project,) in self._rows(sql, (session,))]

    def _sql(self, text: str) -> Any:
        return text.replace("{prefix}", self._prefix)

    def _open(self) -> psycopg.Connection[Any]:
        connection = self._connection
        if connection is not None and self._pid != os.getpid():
            connection = None  # that of the parent process
        if connection is None or connection.closed or connection.broken:
            connection = self._psycopg.connect(self._conninfo, **{**self._options, "autocommit": True})
            try:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                    # The names of indexes have no schema.
                    schema = _SCHEMA.replace("EXISTS {prefix}entries_uuid", f"EXISTS {self._bare}entries_uuid")
                    schema = schema.replace(
                        "EXISTS {prefix}transcripts_session", f"EXISTS {self._bare}transcripts_session"
                    )
                    connection.execute(self._sql(schema))
            except BaseException:
                connection.close()
                raise
            self._connection, self._pid = connection, os.getpid()
        return connection

    @property
    def _bare(self) -> str:
        return self._prefix.rpartition(".")[2]

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        with self._lock:
            connection = self._open()
            try:
                with connection.transaction():
                    yield connection
            except self._psycopg.OperationalError:
                connection.close()  # the next call connects again
                raise

    def _rows(self, sql: str, values: tuple[str, ...]) -> list[Any]:
        with self._transaction() as connection:
            return connection.execute(self._sql(sql), values).fetchall()

    def _append(self, place: Place, entries: list[Any]) -> None:
        batch = Batch(entries)
        with self._transaction() as connection:
            # One statement: a deletion between two would leave entries without their transcript.
            ((position, number, digest),) = connection.execute(
                self._sql(
                    "INSERT INTO {prefix}transcripts AS known VALUES (%s, %s, %s, 0, 0, 0, '') "
                    "ON CONFLICT (project, session, part) DO UPDATE SET next = known.next RETURNING position, next, digest"
                ),
                place,
            ).fetchall()
            if batch.talks and digest == batch.digest:
                self._positions.saw(place, position)  # the last append, whose answer was lost
                return
            if batch.talks:
                self._positions.check(place, position)
            with connection.cursor() as cursor:
                cursor.executemany(
                    self._sql("INSERT INTO {prefix}entries VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"),
                    [(*place, number + count, uuid, raw.decode()) for count, (uuid, raw) in enumerate(batch.entries)],
                )
            position += batch.talks
            connection.execute(
                self._sql(
                    "UPDATE {prefix}transcripts SET position = %s, next = %s, mtime = greatest(mtime, %s), digest = %s "
                    f"WHERE {_OF_TRANSCRIPT}"
                ),
                (
                    position,
                    number + len(batch.entries),
                    milliseconds(),
                    batch.digest if batch.talks else digest,
                    *place,
                ),
            )
        if batch.talks:
            self._positions.saw(place, position)

    def _load(self, place: Place) -> list[Any] | None:
        with self._transaction() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = connection.execute(
                self._sql(f"SELECT position FROM {{prefix}}transcripts WHERE {_OF_TRANSCRIPT}"), place
            ).fetchone()
            if row is None:
                self._positions.saw(place, 0)
                return None
            found = connection.execute(
                self._sql(f"SELECT entry FROM {{prefix}}entries WHERE {_OF_TRANSCRIPT} ORDER BY number"), place
            )
            entries = [_decode(entry) for (entry,) in found]
        self._positions.saw(place, row[0])
        return entries

    def _delete(self, place: Place) -> None:
        where = _OF_TRANSCRIPT if place[2] else "project = %s AND session = %s"
        values = place if place[2] else place[:2]
        with self._transaction() as connection:
            # The transcript first: it waits for an append.
            connection.execute(self._sql(f"DELETE FROM {{prefix}}transcripts WHERE {where}"), values)
            connection.execute(self._sql(f"DELETE FROM {{prefix}}entries WHERE {where}"), values)
        self._positions.forget(place)
