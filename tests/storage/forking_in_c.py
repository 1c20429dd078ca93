"""Forks as of C code, which calls only Python's functions for the child, and forks that are interrupted.

Each scene runs in a copy of the tests' process, which has no other threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sqlite3
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from hackamore.storage.sqlite import Database, StorageError
from tests.storage.noting import TABLES, locks, note, notes
from tests.support.forking import Fork
from tests.support.patience import patience

__all__ = ["SCENES"]

SECONDS = int(patience(20)) + 1


def in_copy(work: Callable[[], None]) -> None:
    """Run a function in a forked copy, and wait for it."""
    pid: int = ctypes.PyDLL(None).fork()
    if not pid:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        code = 1
        try:
            signal.alarm(SECONDS)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def made(path: str) -> Database:
    """Return a database."""
    return Database(path, TABLES, 1, patience(5))


def refused(*databases: Database) -> None:
    """Check that databases cannot be used in this process."""
    for database in databases:
        try:
            note(database, "child")
        except StorageError as error:
            assert "Use `os.fork`" in str(error), error
            assert (error.problem, error.retryable) == ("failed", True)
        else:
            raise AssertionError("it was used")


@contextmanager
def busy(*databases: Database) -> Iterator[None]:
    """Let a thread be in the middle of a call of each database."""
    over = threading.Event()
    threads = []
    for database in databases:
        began = threading.Event()

        def work(connection: sqlite3.Connection, began: threading.Event = began) -> None:
            connection.execute("INSERT INTO notes VALUES ('thread')")
            began.set()
            assert over.wait(SECONDS)

        threads.append(threading.Thread(target=database.transaction, args=(work,)))
        threads[-1].start()
        assert began.wait(SECONDS)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@contextmanager
def opening(database: Database, at: int) -> Iterator[None]:
    """Let a thread be opening a database: it looks at the file of its connection for the first or the second time."""
    began, over = threading.Event(), threading.Event()
    connect, stat = sqlite3.connect, os.stat
    looks: list[object] = []

    def connected(*values: Any, **more: Any) -> sqlite3.Connection:
        looks.append("connected")
        connection: sqlite3.Connection = connect(*values, **more)
        return connection

    def looked(path: Any, **more: Any) -> os.stat_result:
        if looks and path == database.path:
            looks.append(path)
            if len(looks) == at + 1:
                began.set()
                assert over.wait(SECONDS)
        return stat(path, **more)

    sqlite3.connect, os.stat = connected, looked  # type: ignore[assignment]
    thread = threading.Thread(target=note, args=(database, "thread"))
    thread.start()
    try:
        assert began.wait(SECONDS)
        sqlite3.connect, os.stat = connect, stat
        yield
    finally:
        over.set()
        thread.join()


def between_calls(path: str) -> None:
    """The locks and the log stay with the parent."""
    database = made(path)
    note(database, "before")
    before = locks(path)

    def child() -> None:
        note(database, "child")
        database.close()
        assert notes(made(path)) == ["before", "child"]

    in_copy(child)
    assert locks(path) == before
    assert os.path.exists(path + "-wal")
    note(database, "parent")
    assert notes(made(path)) == ["before", "child", "parent"]


def in_calls(path: str) -> None:
    """The child is refused each file that a thread was in."""
    databases = [made(path + name) for name in ("", "2", "3")]
    for database in databases:
        note(database, "before")
    with busy(*databases):
        in_copy(lambda: refused(*databases, made(path)))
    for database in databases:
        assert notes(database) == ["before", "thread"]


def while_opening(path: str) -> None:
    """A file that is not known yet is refused as well, and nothing keeps the others from being so."""
    first, second, *others = (made(path + name) for name in ("", "2", "3", "4"))
    with busy(*others):
        with opening(first, 1):
            in_copy(lambda: refused(first, *others))
        with opening(second, 2):
            in_copy(lambda: refused(second, made(path + "2"), *others))
    for each in (first, second, *others):
        assert notes(each) == ["thread"]


def interrupted(path: str) -> None:
    """Ctrl-C, which comes while a fork waits for a call of another thread, leaves no database locked."""
    database, *others = (made(path + name) for name in ("", "2", "3", "4"))
    came = threading.Event()

    def stop(_: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_name != "before_fork":
            frame = frame.f_back
        if frame is not None and not came.is_set():
            came.set()
            raise KeyboardInterrupt

    def press() -> None:
        while not came.wait(0.01):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    signal.signal(signal.SIGINT, stop)
    presses = threading.Thread(target=press)
    with busy(database):
        presses.start()
        Fork(lambda _: refused(database)).wait()
    presses.join()
    for each in (database, *others):
        thread = threading.Thread(target=note, args=(each, "parent"), daemon=True)
        thread.start()
        thread.join(SECONDS)
        assert notes(each)[-1:] == ["parent"], "it is still locked"


SCENES: dict[str, Callable[[str], None]] = {
    each.__name__: each for each in (between_calls, in_calls, while_opening, interrupted)
}
