"""Databases of one kind in PostgreSQL, through `psycopg`: one connection for each process, behind a lock."""

from __future__ import annotations

import hashlib
import os
import re
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from hackamore.errors import without_passwords
from hackamore.storage.postgres import Postgres, parsed
from hackamore.storage.sqlite import StorageError, migration, unstorable
from hackamore.storage.stores import BUSY_SECONDS, SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import psycopg

    from hackamore.storage.stores import Cursor, Kind, Store

T = TypeVar("T")

IDLE_SECONDS = 10
"""After this silence inside a transaction the server ends it: a machine that is gone must not keep others from writing."""
_RECONNECT_SECONDS = 0.5
_CLIENTS = """CREATE TABLE IF NOT EXISTS clients (
    client TEXT PRIMARY KEY,
    number BIGINT NOT NULL
)"""
"""The number of the last transaction of each process: after a lost connection it says whether a commit was done."""
_ADVICE = {
    "25P03": "It was not used for too long inside a transaction. The same call may be made again.",
    "53100": "Free some space: nothing was lost, and the same call continues.",
    "55P03": f"Another program held it for more than {BUSY_SECONDS:g} s.",
}
_BEFORE_PARAMETERS = re.compile(r"postgres(?:ql)?://(?:[^@/]*@)?[^?]*")
_NAME = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


class _Cursor:
    """Statements of a connection. In a pipeline only those that read are waited for; errors of others come with the next one."""

    def __init__(self, connection: psycopg.Connection[Any], pipeline: psycopg.Pipeline | None = None) -> None:
        self._connection = connection
        self._pipeline = pipeline

    def rows(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(_translated(statement), values)
        if not statement.startswith("SELECT"):
            return []
        if self._pipeline is not None:
            self._pipeline.sync()  # without it the server would not notice that a transaction idles
        return cursor.fetchall()

    def many(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(statement), values)


@lru_cache(1_000)
def _translated(statement: str) -> Any:
    return _NAME.sub(r"%(\1)s", statement.replace("%", "%%"))


class PostgresStore:
    """A database in PostgreSQL, for programs on any number of machines.

    The tables are in a schema of their own: that of the kind, such as `hackamore_fleet`, or the one that the parameter `schema` of the URL
    names (`postgresql://agents@db.example/agents?schema=nightly`). So one server can have many.

    Each process uses one connection. Changes of one database wait for each other; reads wait for no other process. If the connection is
    lost during a commit, the server says afterwards whether the change was made. A proxy in front of the server must give each
    connection a session of its own (PgBouncer: `pool_mode = session`).

    Args:
        kind: the kind of database.
        url: the database. Special characters of a password must be percent-encoded. Settings of libpq may follow as parameters.
        create: False refuses a database without the tables.

    Attributes:
        address: the URL.
        title: the URL for people, without password and settings.

    Raises:
        HackamoreError: that of the kind: the database cannot be used, or another version of Hackamore made the tables.
        ImportError: `psycopg` is not installed.
    """

    def __init__(self, kind: Kind, url: str, *, create: bool = True) -> None:
        self._kind = kind
        try:
            import psycopg
        except ImportError as error:
            raise ImportError(
                f"a {kind.noun} in PostgreSQL needs `psycopg`; run: pip install 'hackamore[postgres]'", name="psycopg"
            ) from error
        self._psycopg = psycopg
        self._create = create
        self.address: str = url
        url, self._schema = _without_schema(kind, url)
        settings = _settings(kind, url)
        self.title: str = _title(settings, self._schema if self._schema != kind.schema else "")
        # Advisory locks belong to a database, and the schema names the tables in it.
        digest = hashlib.sha256(f"hackamore {kind.noun} {self._schema}".encode()).digest()
        self._advisory = int.from_bytes(digest[:8], "big", signed=True)
        self._server = Postgres(settings, self._prepare)
        self._number = 0
        self.look(lambda cursor: cursor.rows("SELECT 1"))

    def __repr__(self) -> str:
        return f"PostgresStore({self.title!r})"

    def transaction(self, work: Callable[[Cursor], T]) -> T:
        """Call a function at most once, in a transaction that no other one overlaps; return what it returns.

        Raises:
            the error of the kind: the database failed, and nothing was changed, or the text says that this is unknown.
        """
        sent = False

        def whole() -> T:
            nonlocal sent
            connection = self._server.use(self._begin)
            try:
                with connection.pipeline() as pipeline:
                    result = work(_Cursor(connection, pipeline))
                    sent = True
                    connection.execute("COMMIT", prepare=False)
            except self._psycopg.Error as error:
                if not sent or not connection.closed or not self._was_committed(error):
                    raise
            finally:
                self._roll_back(connection)
            return result

        return self._use(whole)

    def look(self, work: Callable[[Cursor], T]) -> T:
        """Call a function that only reads, again if the connection is lost; return its result."""
        return self._use(lambda: self._server.use(lambda connection: work(_Cursor(connection))))

    def _use(self, call: Callable[[], T]) -> T:
        with self._server.lock:
            try:
                return call()
            except StorageError as error:
                raise self._kind.failed(self.title, error) from error.__cause__
            except self._psycopg.Error as error:
                raise self._kind.failed(self.title, self._problem(error)) from error
            except UnicodeEncodeError as error:
                raise self._kind.failed(self.title, unstorable(error)) from error

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        with self._server.lock:
            connection = self._server.connection
            if connection is not None:
                with suppress(self._psycopg.Error):
                    connection.execute("DELETE FROM clients WHERE client = %s", (self._server.client,))
            self._server.close()

    # -- transactions --------------------------------------------------------------------------------------------------

    def _begin(self, connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
        """Begin a transaction, once those of other programs are over; one round trip does all of it."""
        if connection.info.transaction_status == self._psycopg.pq.TransactionStatus.INTRANS:
            raise self._kind.refused(
                f"The {self._kind.noun} {self.title!r} was called inside one of its own transactions."
            )
        self._number += 1
        statement: Any = (
            f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_advisory_xact_lock({self._advisory}); "
            f"INSERT INTO clients VALUES ('{self._server.client}', {self._number}) "
            f"ON CONFLICT (client) DO UPDATE SET number = {self._number}"
        )
        try:
            connection.execute(statement, prepare=False)
        except BaseException:
            self._roll_back(connection)
            raise
        return connection

    def _roll_back(self, connection: psycopg.Connection[Any]) -> None:
        status, known = connection.info.transaction_status, self._psycopg.pq.TransactionStatus
        if status == known.IDLE:
            return
        if status in (known.INTRANS, known.INERROR):
            with suppress(self._psycopg.Error):
                connection.execute("ROLLBACK")
                return
        connection.close()  # the server rolls it back

    def _was_committed(self, lost: BaseException) -> bool:
        """Ask the server whether the last transaction was committed: the connection was lost before it said so."""
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._server.use(self._has_number)
            except self._psycopg.OperationalError as error:
                if time.monotonic() > until:
                    raise self._kind.refused(
                        f"The connection to the {self._kind.noun} {self.title!r} was lost during a commit ({_text(lost)}), and the "
                        f"server cannot report whether it was done: {_text(error)}. Repeat the call once it can be reached."
                    ) from error
            time.sleep(_RECONNECT_SECONDS)

    def _has_number(self, connection: psycopg.Connection[Any]) -> bool:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._advisory,))  # the lost one is over now
        found = connection.execute("SELECT number FROM clients WHERE client = %s", (self._server.client,)).fetchone()
        return found is not None and found[0] == self._number

    # -- the tables ----------------------------------------------------------------------------------------------------

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        settings: Any = (
            f"SET search_path = \"{self._schema}\"; SET lock_timeout = '{BUSY_SECONDS:.0f}s'; "
            f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'; "
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        connection.execute(settings)
        if self._version(connection) != self._kind.version:
            # Before the transaction: only its beginning shows the tables of a program that had the lock.
            connection.execute("SELECT pg_advisory_lock(%s)", (self._advisory,))
            with connection.transaction():
                self._make(connection)
            connection.execute("SELECT pg_advisory_unlock(%s)", (self._advisory,))

    def _version(self, connection: psycopg.Connection[Any]) -> int | None:
        [(exists,)] = connection.execute("SELECT to_regclass('facts') IS NOT NULL")
        if not exists:
            return None
        found = connection.execute("SELECT value FROM facts WHERE name = 'version'").fetchone()
        return None if found is None else int(found[0])

    def _make(self, connection: psycopg.Connection[Any]) -> None:
        found = self._version(connection)
        steps = [] if found is None else migration(found, self._kind.version, self._kind.migrations, self._kind.noun)
        if found is None:
            if not self._create:
                raise self._kind.missing(self.title)
            [(schema,)] = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", (f'"{self._schema}"',))
            if not schema:
                name: Any = self._schema
                connection.execute(f'CREATE SCHEMA "{name}"')
            elif connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s", (self._schema,)).fetchone():
                raise StorageError(
                    f"holds tables that are not those of a {self._kind.noun}. Name another schema: `?schema=NAME` at the end of the URL."
                )
        for statement in (*steps, *self._kind.tables, _CLIENTS):
            text: Any = statement
            connection.execute(text)
        connection.execute(
            "INSERT INTO facts VALUES ('version', %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (str(self._kind.version),),
        )

    def _problem(self, error: psycopg.Error) -> StorageError:
        text = f"cannot be used: {_text(error)}."
        if (error.sqlstate or "") in _ADVICE:
            return StorageError(f"{text} {_ADVICE[error.sqlstate or '']}", "failed")
        if isinstance(error, self._psycopg.OperationalError):
            return StorageError(
                f"{text} Check that the server can be reached. The same call continues from the {self._kind.noun}.",
                "failed",
            )
        if isinstance(error, self._psycopg.DataError):
            return StorageError(text, "unstorable")
        return StorageError(
            f"{text} Check that the user of the URL owns the schema, and that nothing but a {self._kind.noun} is in it."
        )


def _without_schema(kind: Kind, url: str) -> tuple[str, str]:
    """Return a URL without the parameter `schema`, which is none of libpq, and its value."""
    start = _BEFORE_PARAMETERS.match(url)
    place = start.end() if start else len(url)
    parameters = url[place + 1 :].split("&") if url[place:] else []
    names = [unquote(each.partition("=")[2]) for each in parameters if each.startswith("schema=")]
    schema = names[-1] if names else kind.schema
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", schema) or schema.startswith("pg_"):
        raise kind.refused(
            f"The `schema` of a {kind.noun} must be a name of letters, digits and underscores, got {schema!r:.100}."
        )
    rest = "&".join(each for each in parameters if not each.startswith("schema="))
    return url[:place] + ("?" + rest if rest else ""), schema


def _settings(kind: Kind, url: str) -> dict[str, Any]:
    found = parsed(url)
    # A password whose special characters are not encoded ends up in other parts.
    if found is None or any("@" in str(found.get(name, "")) for name in ("host", "port", "dbname")):
        raise kind.refused(
            f"The URL of the {kind.noun} is not one of PostgreSQL. Write `postgresql://user:password@host:port/database`, and "
            "percent-encode special characters of the password."
        )
    return found


def _title(settings: Mapping[str, Any], schema: str) -> str:
    user, port = settings.get("user"), settings.get("port")
    return (
        f"postgresql://{f'{user}@' if user else ''}{settings.get('host', '')}{f':{port}' if port else ''}/{settings.get('dbname', '')}"
        + (f"?schema={schema}" if schema else "")
    )


def _text(error: BaseException) -> str:
    return without_passwords(" ".join(str(error).split())).rstrip(".") or type(error).__name__


def open_store(kind: Kind, address: str | os.PathLike[str], *, create: bool = True) -> Store:
    """Open the database of a URL of PostgreSQL, or of a path."""
    text = os.fspath(address)
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresStore(kind, text, create=create)
    return SQLiteStore(kind, text, create=create)
