"""Session stores in PostgreSQL, through `psycopg`."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.storage.postgres import Postgres, parsed
from hackamore.transcripts.stores.keys import Batch, Positions, Tables, milliseconds, missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from hackamore.transcripts.stores.keys import Place

_decode = msgspec.json.Decoder().decode

_SCHEMA = """
CREATE TABLE IF NOT EXISTS {prefix}transcripts (
    project text NOT NULL, session text NOT NULL, part text NOT NULL,
    position bigint NOT NULL, next bigint NOT NULL, mtime bigint NOT NULL, digest text NOT NULL,
    PRIMARY KEY (project, session, part)
);
CREATE INDEX IF NOT EXISTS {bare}transcripts_session ON {prefix}transcripts (session);
CREATE TABLE IF NOT EXISTS {prefix}entries (
    project text NOT NULL, session text NOT NULL, part text NOT NULL, number bigint NOT NULL, uuid text, entry text NOT NULL,
    PRIMARY KEY (project, session, part, number)
);
CREATE UNIQUE INDEX IF NOT EXISTS {bare}entries_uuid ON {prefix}entries (project, session, part, uuid) WHERE uuid IS NOT NULL;
"""
_OF_TRANSCRIPT = "project = %s AND session = %s AND part = %s"
_SCHEMA_LOCK = 0x6861_636B_616D
"""The advisory lock under which the tables are made: two programs that make them at the same time would disturb each other."""


class PostgresStore(Tables):
    """Keep transcripts in PostgreSQL, for the processes of any number of hosts.

    An append is one transaction, committed when it returns. An append of another writer to the same session raises `StoreConflictError`.
    The tables are made with the first call.

    Args:
        conninfo: the database, as `psycopg.connect` takes it, such as `postgresql://user@host/name?sslmode=verify-full`. Without other
            settings a server that is gone is noticed within half a minute.
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
        settings = parsed(conninfo)
        if settings is None:
            raise ValueError(
                "`conninfo` is not a connection string of PostgreSQL. Write `postgresql://user@host/name` or `host=... user=...`, "
                "and percent-encode special characters of a password in a URL."
            ) from None
        self._psycopg = psycopg
        self._prefix = prefix
        self._server = Postgres({**settings, **options}, self._make)
        self._positions = Positions()

    def __repr__(self) -> str:
        return f"PostgresStore(prefix={self._prefix!r})"

    def close(self) -> None:
        """Close the connection. The next call opens another one."""
        with self._server.lock:
            self._server.close()

    # -- in threads ----------------------------------------------------------------------------------------------------

    def _sql(self, text: str) -> Any:
        return text.replace("{prefix}", self._prefix)

    def _make(self, connection: psycopg.Connection[Any]) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            # The names of indexes have no schema.
            connection.execute(self._sql(_SCHEMA.replace("{bare}", self._prefix.rpartition(".")[2])))

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        with self._server.lock:
            connection = self._server.opened()
            try:
                with connection.transaction():
                    yield connection
            except self._psycopg.OperationalError:
                connection.close()  # the next call connects again
                raise

    def _rows(self, operation: str, sql: str, *values: str) -> list[Any]:
        text: Any = sql.format(self._prefix)
        with self._transaction() as connection:
            return connection.execute(text, values).fetchall()

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
