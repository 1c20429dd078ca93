"""SQLite databases that programs share: opened on first use, made or checked for their version, and changed in short transactions."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

__all__ = ["Database", "NewerVersionError"]

T = TypeVar("T")


class NewerVersionError(Exception):
    """A newer version of Bridle wrote the file.

    Args:
        version: the version of its tables.
    """

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version: int = version


class Database:
    """A database in a file, or in memory. Its methods may be called from any thread; none holds a lock of the file when it returns.

    Args:
        path: the file, which is created, readable by its owner only; None for a database in memory.
        tables: the statements that make its tables.
        version: the version of these tables.
        busy_seconds: for how long a call waits for another program's transaction.

    Attributes:
        path: the file.
    """

    def __init__(self, path: str | None, tables: Sequence[str], version: int, busy_seconds: float) -> None:
        self.path: str | None = path
        self._pid = os.getpid()
        self._tables = tables
        self._version = version
        self._busy_seconds = busy_seconds
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None and self._pid == os.getpid():  # else a forked copy, which must not use it
            return self._connection
        import sqlite3

        if self.path is not None:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self.path or ":memory:", timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            if self.path is not None:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            if found > self._version:
                raise NewerVersionError(found)
            for statement in self._tables:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {self._version}")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        self._connection, self._pid = connection, os.getpid()
        return connection

    def transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function in one transaction; return what it returns.

        Raises:
            OSError, sqlite3.Error: the file cannot be used; nothing was changed.
            NewerVersionError: a newer version of Bridle wrote it.
        """
        with self._lock:
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

    def look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function that only reads, without a transaction; return what it returns. No other program waits for it.

        Raises:
            OSError, sqlite3.Error: the file cannot be used.
            NewerVersionError: a newer version of Bridle wrote it.
        """
        with self._lock:
            return work(self._opened())

    def close(self) -> None:
        """Close it; the next call opens it again. A database in memory is lost."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        connection = self.__dict__.get("_connection")
        if connection is not None and self._pid == os.getpid():
            connection.close()
