"""Shared SQLite files over a fork: both processes write, and nothing is lost."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridle.storage.sqlite import Database, StorageError
from tests.support.forking import Baton, Fork
from tests.support.patience import patience

TABLES = ("CREATE TABLE IF NOT EXISTS notes (text TEXT)",)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "notes.db")


@pytest.fixture
def database(path: str) -> Iterator[Database]:
    database = Database(path, TABLES, 1, patience(5))
    yield database
    database.close()


def note(database: Database, text: str) -> None:
    database.transaction(lambda connection: connection.execute("INSERT INTO notes VALUES (?)", (text,)))


def notes(database: Database) -> list[str]:
    return database.look(lambda connection: [text for (text,) in connection.execute("SELECT text FROM notes")])


def test_programs_that_open_a_new_file_at_once_wait_for_each_other(tmp_path: Path) -> None:
    for turn in range(30):
        databases = [Database(str(tmp_path / f"{turn}.db"), TABLES, 1, patience(5)) for _ in range(8)]
        together = threading.Barrier(8)

        def open_it(database: Database, together: threading.Barrier = together) -> None:
            together.wait()
            note(database, "here")

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(open_it, databases))
        assert notes(databases[0]) == ["here"] * 8
        for database in databases:
            database.close()


def test_the_child_of_a_fork_writes_first(database: Database, path: str) -> None:
    note(database, "before")

    def child(baton: Baton) -> None:
        note(database, "child 1")
        baton.pass_on()
        baton.take()
        note(database, "child 2")
        assert notes(database) == ["before", "child 1", "parent", "child 2"]

    fork = Fork(child)
    fork.baton.take()
    database.close()
    note(database, "parent")
    fork.baton.pass_on()
    fork.wait()
    assert notes(database) == ["before", "child 1", "parent", "child 2"]
    database.close()
    assert notes(Database(path, TABLES, 1, 5)) == ["before", "child 1", "parent", "child 2"]


def test_the_parent_of_a_fork_writes_first(database: Database, path: str) -> None:
    note(database, "before")

    def child(baton: Baton) -> None:
        baton.take()
        note(database, "child 1")
        baton.pass_on()
        baton.take()
        note(database, "child 2")
        database.close()

    fork = Fork(child)
    database.close()
    note(database, "parent 1")
    fork.baton.pass_on()
    fork.baton.take()
    note(database, "parent 2")
    database.close()
    fork.baton.pass_on()
    fork.wait()
    assert notes(database) == ["before", "parent 1", "child 1", "parent 2", "child 2"]
    database.close()
    assert notes(Database(path, TABLES, 1, 5)) == ["before", "parent 1", "child 1", "parent 2", "child 2"]


def test_a_fork_during_the_call_of_another_thread(database: Database) -> None:
    began, over = threading.Event(), threading.Event()

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes VALUES ('thread')")
        began.set()
        assert over.wait(patience(30))

    thread = threading.Thread(target=database.transaction, args=(work,))
    thread.start()
    assert began.wait(patience(30))
    threading.Timer(0.05, over.set).start()  # the fork waits for it
    fork = Fork(lambda baton: note(database, "child"))
    assert over.is_set()
    fork.wait()
    thread.join()
    assert notes(database) == ["thread", "child"]


def test_a_child_of_a_fork_has_a_copy_of_memory() -> None:
    database = Database(None, TABLES, 1, 5)
    note(database, "before")

    def child(baton: Baton) -> None:
        note(database, "child")
        assert notes(database) == ["before", "child"]

    Fork(child).wait()
    assert notes(database) == ["before"]
    database.close()


def test_a_fork_inside_a_call_ends_its_transaction(database: Database) -> None:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes VALUES ('lost')")
        Fork(lambda baton: note(database, "child")).wait()
        connection.execute("INSERT INTO notes VALUES ('lost')")

    with pytest.raises(StorageError, match="closed database"):
        database.transaction(work)
    assert notes(database) == ["child"]
