"""SQLite databases that programs share: opened on first use, made or checked for their version, and changed in short transactions.

No connection crosses a fork. SQLite keeps the locks of a file for the whole process: a child that inherits a connection takes them for its
own, also for the connections that it opens itself, and its writes are lost. It cannot close the connection either if another
thread was in it. So `os.fork` closes the files first, and both processes open them again.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Database", "NewerVersionError", "OlderVersionError", "OtherFileError", "use_write_ahead_log"]

T = TypeVar("T")

_BUSY = 5
_AGAIN_SECONDS = 0.005


class NewerVersionError(Exception):
    """A newer version of Bridle wrote the file.

    Args:
        version: the version of its tables.
    """

    def __init__(self, version: int) -> None:
        super().__init__(f"A newer version of Bridle wrote the file: its tables have version {version}. Update Bridle.")
        self.version: int = version


class OlderVersionError(Exception):
    """An older version of Bridle wrote the file, and nothing leads from its tables to those of this version.

    Args:
        version: the version of its tables.
    """

    def __init__(self, version: int) -> None:
        super().__init__(f"An older version of Bridle wrote the file: its tables have version {version}.")
        self.version: int = version


class OtherFileError(Exception):
    """The file is a database of something else."""


def use_write_ahead_log(connection: sqlite3.Connection, seconds: float) -> None:
    """Let a database keep a write-ahead log.

    Args:
        connection: the database.
        seconds: how long to wait for other programs. SQLite itself does not wait if two make the log at the same time.

    Raises:
        sqlite3.Error: the file cannot be used.
    """
    import sqlite3

    until = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != _BUSY or time.monotonic() >= until:
                raise
        time.sleep(_AGAIN_SECONDS)


class Database:
    """A database in a file, or in memory. Its methods may be called from any thread; none holds a lock of the file when it returns.

    A fork waits for the calls of other threads. The child has a copy of a database in memory.

    Args:
        path: the file, which is created, readable by its owner only; None for a database in memory.
        tables: the statements that make its tables.
        version: the version of these tables.
        busy_seconds: for how long a call waits for another program's transaction.
        synchronous: `NORMAL`, or `FULL` to have each transaction on the disk when it returns.
        migrations: for each older version, the statements that lead to the next one.
        application: marks the file as one of its kind; a database without this mark is refused. 0 for none.

    Attributes:
        path: the file.
    """

    def __init__(
        self,
        path: str | None,
        tables: Sequence[str],
        version: int,
        busy_seconds: float,
        synchronous: str = "NORMAL",
        *,
        migrations: Mapping[int, Sequence[str]] | None = None,
        application: int = 0,
    ) -> None:
        self.path: str | None = path
        self._tables = tables
        self._version = version
        self._busy_seconds = busy_seconds
        self._synchronous = synchronous
        self._migrations = migrations
        self._application = application
        self._lock = threading.RLock()  # a signal handler that forks may interrupt a call
        self._connection: sqlite3.Connection | None = None
        _databases.add(self)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        import sqlite3

        if self.path is not None:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self.path or ":memory:", timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            self._check_kind(connection)
            if self.path is not None:
                use_write_ahead_log(connection, self._busy_seconds)
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("BEGIN IMMEDIATE")
            self._make(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _check_kind(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file has tables; refuse those of something else, before the file is changed."""
        # The mark comes with the tables: it is read after them, in case another program makes them now.
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        if tables and mark != self._application and self._application:
            raise OtherFileError(self.path)
        return bool(tables)

    def _make(self, connection: sqlite3.Connection) -> None:
        """Make the tables, or bring those of an older version up to date."""
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found > self._version:
            raise NewerVersionError(found)
        if self._check_kind(connection) and self._migrations is not None:
            for version in range(found, self._version):
                if version not in self._migrations:
                    raise OlderVersionError(found)
                for statement in self._migrations[version]:
                    connection.execute(statement)
        for statement in self._tables:
            connection.execute(statement)
        if self._application:
            connection.execute(f"PRAGMA application_id = {self._application}")
        connection.execute(f"PRAGMA user_version = {self._version}")

    def transaction(self, work: Callable[[sqlite3.Connection], T], *, reads: bool = False) -> T:
        """Call a function in one transaction; return what it returns.

        Args:
            work: the function.
            reads: True if it only reads: it sees one state of the database, and no other program waits for it.

        Raises:
            OSError, sqlite3.Error: the file cannot be used; nothing was changed.
            NewerVersionError, OlderVersionError, OtherFileError: the file is not of this version.
        """
        with self._lock:
            connection = self._opened()
            connection.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
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
            NewerVersionError, OlderVersionError, OtherFileError: the file is not of this version.
        """
        with self._lock:
            return work(self._opened())

    def close(self) -> None:
        """Close it; the next call opens it again. A database in memory is lost."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def before_fork(self) -> None:
        """Wait for the call of another thread, and close the file. `after_fork` of the parent process follows."""
        self._lock.acquire()
        if self.path is not None:
            self.close()

    def after_fork(self, *, in_child: bool) -> None:
        """Allow calls again."""
        if not in_child:
            self._lock.release()
            return
        self._lock = threading.RLock()
        if self.path is not None:
            self.close()  # still open if C code forked, and called only the functions for the child

    def __del__(self) -> None:
        connection = self.__dict__.get("_connection")
        if connection is not None:
            connection.close()


class _Forks:
    """Takes all databases over a fork; one fork at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Database] = []

    def before(self) -> None:
        self._lock.acquire()
        for database in list(_databases):
            self._waiting.append(database)
            database.before_fork()

    def after_in_parent(self) -> None:
        while self._waiting:
            self._waiting.pop().after_fork(in_child=False)
        self._lock.release()

    def after_in_child(self) -> None:
        self._lock = threading.Lock()
        self._waiting.clear()
        for database in list(_databases):
            database.after_fork(in_child=True)


_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_forks = _Forks()
os.register_at_fork(before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child)
