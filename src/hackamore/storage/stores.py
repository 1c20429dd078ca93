"""Databases of one kind, in SQLite or PostgreSQL: `Store` is what their users need; `SQLiteStore` is a file on a local disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from hackamore.storage.sqlite import Database, StorageError, absolute

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hackamore.errors import HackamoreError

T = TypeVar("T")
BUSY_SECONDS = 30.0
"""How long a call waits for the transactions of other programs."""


class Kind(NamedTuple):
    """A kind of database: the name for people, its error, its tables, and how it is known."""

    noun: str
    error: type[HackamoreError]
    tables: Sequence[str]  # one is `facts`, of names and values
    version: int  # of the tables; `migrations` has the statements that lead from each older one to the next
    migrations: Mapping[int, Sequence[str]]
    application: int  # marks a file of SQLite (`PRAGMA application_id`)
    schema: str  # of PostgreSQL, if the URL names none
    maker: str  # the command or program that makes one

    def failed(self, title: str, error: StorageError) -> HackamoreError:
        """Return the error for a database that cannot be used."""
        found = self.error(f"The {self.noun} {title!r} {error}")
        found.retryable = error.retryable
        return found

    def refused(self, text: str) -> HackamoreError:
        """Return an error of a call that fails again if it is repeated."""
        error = self.error(text)
        error.retryable = False
        return error

    def missing(self, title: str) -> HackamoreError:
        """Return the error for a database that is not there, and must not be made."""
        return self.refused(f"There is no {self.noun} {title!r}. Check the address; {self.maker} makes one.")


class Cursor(Protocol):
    """The statements of a transaction. They have named parameters: `:name`."""

    def rows(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Execute a statement; return its rows."""

    def many(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        """Execute a statement for each set of values."""


class Store(Protocol):
    """A database with the tables of its kind. Its methods may be called from any thread, and raise the error of the kind if it fails.

    Attributes:
        address: opens the same one in another process: a path, or a URL.
        title: the address for people, without a password.
    """

    address: str
    title: str

    def transaction(self, work: Callable[[Cursor], T]) -> T:
        """Call a function in one transaction that no other one overlaps; return what it returns. It is on the disk then."""

    def look(self, work: Callable[[Cursor], T]) -> T:
        """Call a function that only reads; return what it returns."""

    def close(self) -> None:
        """Close it; the next call opens it again."""


class _SQLiteCursor:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def many(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        self._connection.executemany(statement, values)


class SQLiteStore:
    """A database in a SQLite file.

    Args:
        kind: the kind of database.
        path: the file; it is created, readable by its owner only. Its folder must exist, on a local disk.
        create: False refuses a file that does not exist.

    Raises:
        HackamoreError: that of the kind: the file cannot be used, or a newer version of Hackamore wrote it.
    """

    def __init__(self, kind: Kind, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self._kind = kind
        self.address: str = absolute(os.fspath(path))
        self.title: str = os.fspath(path)
        if not create and not os.path.exists(self.address):
            raise kind.missing(self.title)
        self._database = Database(
            self.address,
            kind.tables,
            kind.version,
            BUSY_SECONDS,
            "FULL",
            migrations=kind.migrations,
            application=kind.application,
            noun=kind.noun,
            page=1_024,
        )
        self.look(lambda cursor: cursor.rows("SELECT 1"))

    def __repr__(self) -> str:
        return f"SQLiteStore({self.title!r})"

    def transaction(self, work: Callable[[Cursor], T]) -> T:
        """Call a function in one transaction that no other one overlaps; return what it returns."""
        return self._use(self._database.transaction, work)

    def look(self, work: Callable[[Cursor], T]) -> T:
        """Call a function that only reads; return what it returns."""
        return self._use(self._database.look, work)

    def _use(self, call: Callable[[Callable[[sqlite3.Connection], T]], T], work: Callable[[Cursor], T]) -> T:
        try:
            return call(lambda connection: work(_SQLiteCursor(connection)))
        except StorageError as error:
            raise self._kind.failed(self.title, error) from error.__cause__

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()
