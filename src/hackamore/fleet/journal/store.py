"""The database of a journal: `Store` is what the journal needs of one; `SQLiteStore` is a file on a local disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hackamore.errors import JournalError
from hackamore.fleet.journal.tables import MIGRATIONS, TABLES, VERSION
from hackamore.storage.sqlite import Database, StorageError, absolute

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
BUSY_SECONDS = 30.0
"""How long a call waits for the transactions of other programs."""
_APPLICATION = 0x42724A6C
"""Marks a SQLite file as a journal (`PRAGMA application_id`)."""


class Cursor(Protocol):
    """The statements of a transaction. They have named parameters: `:name`."""

    def rows(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Execute a statement; return its rows."""

    def many(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        """Execute a statement for each set of values."""


class Store(Protocol):
    """A database with the tables of a journal. Its methods may be called from any thread, and raise a `JournalError` if it fails.

    Attributes:
        address: opens the same journal in another process: a path, or a URL.
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
    """A journal in a SQLite file.

    Args:
        path: the file; it is created, readable by its owner only. Its folder must exist, on a local disk.
        create: False refuses a file that does not exist.

    Raises:
        JournalError: the file cannot be used, or a newer version of Hackamore wrote it.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.address: str = absolute(os.fspath(path))
        self.title: str = os.fspath(path)
        if not create and not os.path.exists(self.address):
            raise missing_journal(self.title)
        self._database = Database(
            self.address,
            TABLES,
            VERSION,
            BUSY_SECONDS,
            "FULL",
            migrations=MIGRATIONS,
            application=_APPLICATION,
            noun="journal",
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
            raise failed(self.title, error) from error.__cause__

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()


def failed(title: str, error: StorageError) -> JournalError:
    """Return the error of a journal whose database cannot be used."""
    found = JournalError(f"The journal {title!r} {error}")
    found.retryable = error.retryable
    return found


def refused(text: str) -> JournalError:
    """Return an error of a call that fails again if it is repeated."""
    error = JournalError(text)
    error.retryable = False
    return error


def missing_journal(title: str) -> JournalError:
    """Return the error for a journal that is not there, and must not be made."""
    return refused(f"There is no journal {title!r}. Check the address; `hackamore fleet run` makes one.")
