"""SQLite databases that programs share: opened on first use, made or checked for their version, and changed in short transactions.

POSIX drops all locks that a process has on a file as soon as the process closes any descriptor of that file. SQLite knows this, and closes
no descriptor while one of its connections in the process has a lock. So nothing here opens a file beside SQLite that is there already.

No connection crosses a fork. SQLite keeps the locks of a file for the whole process: a child that inherits a connection takes them for its
own, also for the connections that it opens itself, and its writes are lost. It cannot close the connection either if another
thread was in it. So `os.fork` closes the files first, and both processes open them again.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import weakref
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

T = TypeVar("T")
Problem: TypeAlias = Literal["busy", "damaged", "failed", "full", "moved", "unstorable", "version"]

_BUSY = 5
_CODES: dict[int, Problem] = {1: "damaged", _BUSY: "busy", 6: "busy", 11: "damaged", 13: "full", 26: "damaged"}
"""Problems by the primary error codes of SQLite. 1 is an error of a statement: a table is missing."""
_AGAIN_SECONDS = 0.005
_LEAST_SECONDS = 0.1
"""How long a call waits for another program at least, if it had to wait for another thread first."""
_FORK_SECONDS = 5.0
"""How long a new database waits for a fork. The thread that delays the fork may itself wait for the database."""
_LOG, _SHARED = "-wal", "-shm"


class StorageError(Exception):
    """A file cannot be used; the text continues a sentence that begins with its name. If `retryable`, the call may succeed later."""

    def __init__(self, text: str, problem: Problem = "version") -> None:
        super().__init__(text)
        self.problem: Problem = problem
        self.retryable: bool = problem in ("busy", "damaged", "failed", "full")


def unstorable(error: UnicodeEncodeError) -> StorageError:
    """Return the error for a text that no database takes."""
    return StorageError(f"cannot store a text with half of a surrogate pair: {error.object!r:.100}.", "unstorable")


def migration(found: int, version: int, steps: Mapping[int, Sequence[str]] | None, noun: str = "file") -> list[str]:
    """Return the statements from the version that was found to the present one, step by step; raise StorageError if there is no way."""
    if found > version:
        raise StorageError(
            f"has version {found}, and this Hackamore knows up to {version}. Update Hackamore, or use another {noun}."
        )
    try:
        return [] if steps is None else [statement for each in range(found, version) for statement in steps[each]]
    except KeyError:
        raise StorageError(
            f"has version {found}, which is too old for this Hackamore. Finish it with the one that made it, or use another {noun}."
        ) from None


class Database:
    """A database in a file, or in memory. Its methods may be called from any thread; none holds a lock of the file when it returns.

    Before each call the files under the path are compared with those that were opened. Once one of them is gone or another one, every
    call is refused until `close`: an empty file must not take the place of the one that is lost.

    A fork waits for the calls of other threads. The child has a copy of a database in memory.

    Args:
        path: the file, which is created, readable by its owner only; None for a database in memory. A relative path counts from the working
            directory of this moment.
        busy_seconds: for how long a call waits for another program's transaction.
        synchronous: `NORMAL`, or `FULL` to have each transaction on the disk when it returns.
        migrations: for each older version, the statements that lead to the next one.
        application: marks the file as one of its kind; a database without this mark is refused. 0 for none.
        noun: the kind of file, for errors.
        page: the bytes of a page of a new file. A transaction writes every page that it changes: small ones suit many small changes.
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
        noun: str = "SQLite file",
        page: int = 4_096,
    ) -> None:
        self.path: str | None = path
        self._file = "" if path is None else absolute(path)
        self._real = self._file
        self._tables = tables
        self._version = version
        self._busy_seconds = busy_seconds
        self._migrations = migrations
        self._application = application
        self._noun = noun
        self._page = page
        self._synchronous = synchronous
        self._lock = threading.RLock()  # a signal handler that forks may interrupt a call
        self._inside = False
        self._connection: sqlite3.Connection | None = None
        self._marks: dict[str, tuple[int, int]] = {}
        self._refusal = ""
        _forks.add(self)

    # -- the file ------------------------------------------------------------------------------------------------------

    def _opened(self, until: float) -> sqlite3.Connection:
        if self._refusal:
            raise StorageError(self._refusal, "moved")
        if self._connection is not None:
            self._compare("", _LOG, _SHARED)
            self._connection.execute(f"PRAGMA busy_timeout = {self._rest(until) * 1000:.0f}")
            return self._connection
        import sqlite3

        while self._connection is None:
            if self._marks:  # closed by a fork, and not by the user: it has to be the same file
                self._compare("")
            elif self._file:
                self._real = os.path.realpath(self._file)
                _create(self._real)
            before = _mark(self._file)
            if before in _forks.left:
                raise StorageError(
                    "cannot be used in this process: C code has forked it while another thread used the file. Use `os.fork`, or fork "
                    "before the file is used.",
                    "failed",
                )
            try:
                connection = self._connect(sqlite3, self._rest(until))
            except sqlite3.Error:
                if before == _mark(self._file) or time.monotonic() >= until:
                    raise
                continue
            if before == _mark(self._file):
                self._connection = connection
                self._marks.clear()
                self._compare("", _LOG, _SHARED)
            else:  # which one was opened is not known
                connection.close()
        return self._connection

    def _rest(self, until: float) -> float:
        """Return for how long a call may still wait for other programs: the calls of many threads do not wait one after the other."""
        return min(self._busy_seconds, max(until - time.monotonic(), _LEAST_SECONDS))

    def _connect(self, module: ModuleType, seconds: float) -> sqlite3.Connection:
        from urllib.parse import quote

        place = f"file://{quote(os.fsencode(self._real))}?mode=rw" if self._file else ":memory:"
        connection: sqlite3.Connection = module.connect(
            place, seconds, isolation_level=None, check_same_thread=False, uri=bool(self._file)
        )
        try:
            made = self._check_kind(connection)
            if self._file:
                connection.execute(f"PRAGMA page_size = {self._page}")
                _use_write_ahead_log(connection, seconds)
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            if not made or _version(connection) != self._version:
                connection.execute("BEGIN IMMEDIATE")
                self._make(connection)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _compare(self, *endings: str) -> None:
        """Compare files with those that were opened; note those that are seen for the first time."""
        for ending in endings if self._file else ():
            mark = _mark(f"{self._real}{ending}" if ending else self._file)
            if mark != self._marks.get(ending, mark):
                what = f"its file {os.path.basename(self._real)}{ending}" if ending else "it"
                self._refusal = (
                    f"cannot be used any more: {what} was {'replaced' if mark else 'deleted or moved'} while this program used it. An "
                    "empty file must not take its place: put it back if its content counts, and then call `close()` or make a new object."
                )
                raise StorageError(self._refusal, "moved")
            if mark is not None:
                self._marks[ending] = mark

    def _check_kind(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file has tables; refuse those of something else, before the file is changed."""
        # The mark comes with the tables: it is read after them, in case another program makes them now.
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        if tables and mark != self._application and self._application:
            raise StorageError(f"holds tables that are not those of a {self._noun}. Name another file.")
        return bool(tables)

    def _make(self, connection: sqlite3.Connection) -> None:
        found = _version(connection)
        made = self._check_kind(connection)
        if made and found == self._version:
            return  # another program made them while this one waited
        for statement in migration(found, self._version, self._migrations if made else None):
            connection.execute(statement)
        for statement in self._tables:
            connection.execute(statement)
        if self._application:
            connection.execute(f"PRAGMA application_id = {self._application}")
        connection.execute(f"PRAGMA user_version = {self._version}")

    # -- calls ---------------------------------------------------------------------------------------------------------

    def transaction(self, work: Callable[[sqlite3.Connection], T], *, reads: bool = False) -> T:
        """Call a function in one transaction; with `reads` it sees one state of the database, and no other program waits for it.

        Raises:
            StorageError: the file cannot be used; nothing was changed.
        """

        def inside(connection: sqlite3.Connection) -> T:
            try:
                # Ctrl-C may come while it waits, and raises when the transaction has begun.
                connection.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
                result = work(connection)
                self._compare("", _LOG, _SHARED)  # it may have waited long
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

        return self.look(inside)

    def look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function that only reads, without a transaction; return what it returns. No other program waits for it."""
        import sqlite3

        until = time.monotonic() + self._busy_seconds
        try:
            with self._lock:
                if self._inside:
                    raise StorageError(
                        "cannot be used in the middle of another call of the same thread, as in a signal handler. Call it later.",
                        "busy",
                    )
                connection = self._opened(until)
                if connection.in_transaction:  # a second Ctrl-C has stopped the end of a call
                    connection.execute("ROLLBACK")
                self._inside = True
                try:
                    return work(connection)
                finally:
                    self._inside = False
        except (sqlite3.Error, OSError, UnicodeEncodeError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StorageError:
        if isinstance(error, UnicodeEncodeError):
            return unstorable(error)
        if isinstance(error, OSError):
            return StorageError(
                f"cannot be used: {error.strerror or error}. Check that its folder exists and is writable.", "failed"
            )
        problem = _CODES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "failed")
        if problem == "busy":
            advice = f"Another program held it for more than {self._busy_seconds:g} s."
        elif problem == "full":
            advice = "Free some space: nothing was lost, and the same call continues."
        elif "I/O" in str(error):
            advice = "Check that the disk has space and can be written: the same call continues."
        else:
            advice = f"Check that it is a {self._noun} of Hackamore on a local disk, and that its folder is writable."
        return StorageError(f"cannot be used: {str(error).rstrip('.')}. {advice}", problem)

    def close(self) -> None:
        """Close it; the next call opens it again. A database in memory is lost."""
        with self._lock:
            self._shut()
            self._marks.clear()
            self._refusal = ""

    def _shut(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # -- forks ---------------------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait for the call of another thread, and close the file. `after_fork` of the parent process follows."""
        self._lock.acquire()
        if self._file:
            self._shut()

    def after_fork(self, *, in_child: bool) -> None:
        """Allow calls again."""
        lock = self._lock
        if not in_child:
            with suppress(RuntimeError):  # Ctrl-C came while the fork waited for it
                lock.release()
            return
        self._lock = threading.RLock()
        self._inside = False
        if not self._file:
            return
        # C code may have forked, and called only the functions for the child. The locks stay with the parent.
        if lock.acquire(blocking=False):
            self._shut()
        else:  # another thread was in it, perhaps opening it, and does not come back
            _forks.left[self._marks.get("") or _mark(self._file)] = self._connection
            self._connection = None

    def __del__(self) -> None:
        connection = self.__dict__.get("_connection")
        if connection is not None:
            connection.close()


def absolute(path: str) -> str:
    """Return a path that keeps its meaning in another working directory, and with symbolic links: `link/../file` is not `file`."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


_creating = threading.Lock()


def _create(path: str) -> None:
    """Make an empty file, readable by its owner only, if there is none.

    Only a new file is opened and closed here, one at a time: no connection of this process can have a lock on it.
    """
    try:
        with _creating:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
        if os.stat(path).st_nlink > 1 and not os.path.isdir(path):
            raise OSError(
                errno.EMLINK,
                "it has more than one name (hard links), and SQLite keeps a log for each name: programs would destroy it. Copy it, and use "
                "the copy",
            ) from None


def _mark(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _use_write_ahead_log(connection: sqlite3.Connection, seconds: float) -> None:
    """Let a database keep a write-ahead log. SQLite itself does not wait if two programs make the log at the same time."""
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


class _Forks:
    """Takes all databases over a fork, one at a time. `left` are connections that this process must not touch, by their files."""

    def __init__(self) -> None:
        self.left: dict[tuple[int, int] | None, object] = {}
        self._lock = threading.RLock()
        self._databases: weakref.WeakSet[Database] = weakref.WeakSet()
        self._waiting: list[Database] = []

    def add(self, database: Database) -> None:
        """Take a new database, not in the middle of a fork."""
        mine = self._lock.acquire(timeout=_FORK_SECONDS)
        self._databases.add(database)
        if mine:
            self._lock.release()

    def before(self) -> None:
        """Close all files."""
        self._lock.acquire()
        for database in list(self._databases):
            self._waiting.append(database)
            database.before_fork()

    def after_in_parent(self) -> None:
        """Allow calls again."""
        while self._waiting:
            self._waiting.pop().after_fork(in_child=False)
        self._lock.release()

    def after_in_child(self) -> None:
        """Allow calls in the copy."""
        self._lock = threading.RLock()
        self._waiting.clear()
        with ExitStack() as stack:  # one that fails leaves none of the others as it was
            for database in self._databases:
                stack.callback(database.after_fork, in_child=True)


_forks = _Forks()
os.register_at_fork(before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child)
