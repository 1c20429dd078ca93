"""Shared SQLite files: forks, and files that are lost or replaced."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from sys import _current_frames  # documented, in spite of its name
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from hackamore.storage import sqlite as sqlite_module
from hackamore.storage.sqlite import Database, StorageError
from tests.storage import forking_in_c
from tests.storage.noting import TABLES, note, notes
from tests.support.forking import Baton, Fork
from tests.support.patience import patience
from tests.support.sizes import size


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "notes.db")


@pytest.fixture
def database(path: str) -> Iterator[Database]:
    database = Database(path, TABLES, 1, patience(5))
    yield database
    database.close()


def is_locked(path: str) -> bool:
    """Return whether another program could not write now."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            assert "locked" in str(error)
            return True
        other.execute("ROLLBACK")
        return False


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


@pytest.mark.parametrize("page", [1_024, 4_096])
def test_a_small_change_writes_one_page_of_the_chosen_size(path: str, page: int) -> None:
    with closing(Database(path, TABLES, 1, patience(5), page=page)) as database:
        note(database, "first")
        before = os.stat(f"{path}-wal").st_size
        note(database, "second")
        assert os.stat(f"{path}-wal").st_size - before == page + 24  # the header of a page in the log


def test_a_file_without_a_log_that_another_program_writes_is_busy_until_it_has_written(path: str) -> None:
    """SQLite itself waits for a lock, but not to begin a log."""
    database = Database(path, TABLES, 1, 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="database is locked") as caught:
            note(database, "too early")
        assert (caught.value.problem, caught.value.retryable) == ("busy", True)
        other.execute("COMMIT")
    note(database, "later")
    assert notes(database) == ["later"]
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


def test_a_call_that_waits_while_its_process_forks_continues(path: str) -> None:
    class Awaited(Database):
        """Lets a thread call it as soon as it is ready for the fork."""

        def before_fork(self) -> None:
            super().before_fork()
            thread.start()
            until = time.monotonic() + patience(30)
            while Database.look.__code__ not in codes(_current_frames().get(thread.ident or 0)):
                assert time.monotonic() < until
                time.sleep(0.001)

    def codes(frame: FrameType | None) -> Iterator[object]:
        while frame is not None:
            yield frame.f_code
            frame = frame.f_back

    database = Awaited(path, TABLES, 1, patience(5))
    thread = threading.Thread(target=note, args=(database, "thread"), daemon=True)
    Fork(lambda _: None).wait()
    thread.join(patience(30))
    assert not thread.is_alive()
    assert notes(database) == ["thread"]
    database.close()


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


# -- the file under the path -------------------------------------------------------------------------------------------


@contextmanager
def interrupted(at: str) -> Iterator[None]:
    """Raise `KeyboardInterrupt` as soon as SQLite has begun a transaction, or is about to execute the next statement."""

    def look(frame: FrameType, event: str, called: object) -> None:
        connection = getattr(called, "__self__", None)
        if not isinstance(connection, sqlite3.Connection) or not connection.in_transaction:
            return
        if event == "c_return" and at == "begin":
            sys.setprofile(None)
            raise KeyboardInterrupt
        if event == "c_call" and at == "work":
            raise KeyboardInterrupt

    before = sys.getprofile()
    with pytest.raises(KeyboardInterrupt):
        sys.setprofile(look)
        try:
            yield
        finally:
            sys.setprofile(before)


@pytest.mark.parametrize("at", ["begin", "work"])
def test_an_interrupted_call_leaves_no_transaction(database: Database, path: str, at: str) -> None:
    note(database, "before")
    with interrupted(at):
        note(database, "interrupted")
    note(database, "after")
    other = Database(path, TABLES, 1, 0)
    note(other, "other")
    other.close()
    assert notes(database) == ["before", "after", "other"]


def test_a_second_interrupt_in_the_roll_back_leaves_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if statement == "ROLLBACK" and self is held and not twice:
                twice.append(True)
                raise KeyboardInterrupt
            return super().execute(statement, *values)

    held: sqlite3.Connection | None = None
    twice: list[bool] = []
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Interrupted))
    database = Database(path, TABLES, 1, patience(5))

    def work(connection: sqlite3.Connection) -> None:
        nonlocal held
        held = connection
        connection.execute("INSERT INTO notes VALUES ('interrupted')")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.transaction(work)
    assert twice
    assert notes(database) == []
    note(database, "after")
    assert notes(database) == ["after"]
    database.close()


def test_a_call_in_the_middle_of_another_one_is_refused(database: Database) -> None:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes VALUES ('outer')")
        with pytest.raises(StorageError) as caught:
            note(database, "inner")
        text = "cannot be used in the middle of another call of the same thread, as in a signal handler. Call it later."
        assert (str(caught.value), caught.value.problem) == (text, "busy")
        assert caught.value.retryable

    database.transaction(work)
    note(database, "after")
    assert notes(database) == ["outer", "after"]


def test_nobody_writes_between_the_looks_and_the_changes_of_a_call(database: Database, path: str) -> None:
    def work(connection: sqlite3.Connection) -> None:
        assert connection.execute("SELECT * FROM notes").fetchall() == []
        assert is_locked(path)

    database.transaction(work)
    assert not is_locked(path)


def test_a_call_that_only_reads_sees_one_state_and_keeps_nobody_waiting(database: Database, path: str) -> None:
    note(database, "before")
    other = Database(path, TABLES, 1, 0)

    def work(connection: sqlite3.Connection) -> list[list[tuple[str]]]:
        states = [connection.execute("SELECT text FROM notes").fetchall()]
        note(other, "meanwhile")
        return [*states, connection.execute("SELECT text FROM notes").fetchall()]

    assert database.transaction(work, reads=True) == [[("before",)], [("before",)]]
    assert database.look(work) == [[("before",), ("meanwhile",)], [("before",), ("meanwhile",), ("meanwhile",)]]
    other.close()


class Statements(list[str]):
    """Statements that are executed while no other program can write."""

    def __init__(self, path: str, *statements: str) -> None:
        super().__init__(statements)
        self._path = path

    def __iter__(self) -> Iterator[str]:
        assert is_locked(self._path)
        return super().__iter__()


def test_one_program_makes_the_tables_and_brings_them_up_to_date(path: str) -> None:
    tables = Statements(path, *TABLES)
    first = Database(path, tables, 1, 5)
    note(first, "old")
    first.close()
    steps = {
        1: Statements(path, "ALTER TABLE notes ADD COLUMN two TEXT DEFAULT 'a'"),
        2: Statements(path, "UPDATE notes SET two = two || 'b'", "ALTER TABLE notes ADD COLUMN three TEXT"),
    }
    for _ in range(2):
        third = Database(path, tables, 3, 5, migrations=steps)
        assert third.look(lambda connection: connection.execute("SELECT * FROM notes").fetchall()) == [
            ("old", "ab", None)
        ]
        third.close()
    with pytest.raises(StorageError, match="has version 3, and this Hackamore knows up to 2") as caught:
        notes(Database(path, tables, 2, 5, migrations=steps))
    assert (caught.value.problem, caught.value.retryable) == ("version", False)
    with pytest.raises(StorageError, match="has version 3, which is too old"):
        notes(Database(path, tables, 5, 5, migrations={4: []}))
    with pytest.raises(StorageError, match="no such table: missing"):
        notes(Database(path, tables, 5, 5, migrations={3: ["DELETE FROM notes"], 4: ["DELETE FROM missing"]}))
    assert notes(Database(path, tables, 3, 5, migrations=steps)) == ["old"]


def test_a_file_that_has_the_version_and_no_tables_gets_them(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with closing(Database(path, TABLES, 2, 5, migrations={})) as database:
        note(database, "first")
        assert notes(database) == ["first"]


def test_tables_that_another_program_makes_meanwhile_are_used(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = ["CREATE TABLE notes (text TEXT)"]
    use_log = getattr(sqlite_module, name := "_use_write_ahead_log")

    def late(connection: sqlite3.Connection, seconds: float) -> None:
        monkeypatch.undo()
        note(Database(path, tables, 1, 5), "other")
        use_log(connection, seconds)

    monkeypatch.setattr(sqlite_module, name, late)
    assert notes(Database(path, tables, 1, 5)) == ["other"]


def test_a_file_of_something_else_is_refused_as_it_is(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (text TEXT)")
    before = Path(path).read_bytes()
    with pytest.raises(StorageError, match="those of a journal") as caught:
        notes(Database(path, TABLES, 1, 5, application=7, noun="journal"))
    assert not caught.value.retryable
    assert Path(path).read_bytes() == before
    assert not os.path.exists(path + "-wal")
    for turn in range(2):
        mine = Database(path + ".mine", TABLES, 1, 5, application=7)
        note(mine, "here")
        assert len(notes(mine)) == turn + 1
        mine.close()
    with pytest.raises(StorageError, match="those of a journal"):
        notes(Database(path + ".mine", TABLES, 1, 5, application=8, noun="journal"))


def test_threads_that_wait_for_another_program_do_not_wait_one_after_the_other(path: str) -> None:
    database = Database(path, TABLES, 1, 1.0)
    note(database, "before")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    with ThreadPoolExecutor(10) as threads:
        calls = [threads.submit(note, database, "late") for _ in range(10)]
    assert [type(call.exception()) for call in calls] == [StorageError] * 10
    assert time.monotonic() - began < patience(5)
    other.close()
    note(database, "after")
    assert notes(database) == ["before", "after"]
    database.close()


def test_a_call_waits_for_other_programs_as_long_as_is_left(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now, step = 0.0, 0.125

    def monotonic() -> float:
        nonlocal now
        now += step
        return now

    monkeypatch.setattr(sqlite_module, "time", SimpleNamespace(monotonic=monotonic))
    database = Database(path, TABLES, 1, 1.0)

    def waits() -> int:
        return database.look(lambda connection: int(connection.execute("PRAGMA busy_timeout").fetchone()[0]))

    assert waits() == 875  # the look at the clock before the call, and the one after other threads
    step = 0.25
    assert waits() == 750
    step = 5.0
    assert waits() == 100  # other threads took all of it
    database.close()
    step, database = 0.01, Database(path, TABLES, 1, 0.0)
    assert (waits(), waits()) == (0, 0)  # it does not wait at all
    database.close()


KIND = "Check that it is a SQLite file of Hackamore on a local disk, and that its folder is writable."
LATER = "Another program held it for more than"
SPACE = "Free some space: nothing was lost, and the same call continues."


@pytest.mark.parametrize(
    ("code", "problem", "text", "advice"),
    [
        (sqlite3.SQLITE_ERROR, "damaged", "no such table: notes", KIND),
        (sqlite3.SQLITE_BUSY, "busy", "database is locked", LATER),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "busy", "database is locked", LATER),
        (sqlite3.SQLITE_LOCKED, "busy", "database table is locked", LATER),
        (sqlite3.SQLITE_CORRUPT, "damaged", "database disk image is malformed.", KIND),
        (sqlite3.SQLITE_FULL, "full", "database or disk is full", SPACE),
        (sqlite3.SQLITE_NOTADB, "damaged", "file is not a database", KIND),
        (
            sqlite3.SQLITE_IOERR,
            "failed",
            "disk I/O error",
            "Check that the disk has space and can be written: the same",
        ),
        (sqlite3.SQLITE_READONLY_DBMOVED, "failed", "attempt to write a readonly database", KIND),
        (None, "failed", "an error of Python's module", KIND),
    ],
)
def test_an_error_of_sqlite_says_what_the_problem_is(
    database: Database, code: int | None, problem: str, text: str, advice: str
) -> None:
    error = sqlite3.OperationalError(text)
    if code is not None:
        error.sqlite_errorcode = code

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes VALUES ('lost')")
        raise error

    with pytest.raises(StorageError) as caught:
        database.transaction(work)
    assert (caught.value.problem, caught.value.retryable) == (problem, True)
    assert str(caught.value).startswith(f"cannot be used: {text.rstrip('.')}. {advice}")
    assert caught.value.__cause__ is error
    assert notes(database) == []


def test_a_text_that_is_no_unicode_is_refused_and_changes_nothing(database: Database) -> None:
    with pytest.raises(StorageError, match=r"half of a surrogate pair: '\\ud800'") as caught:
        database.transaction(
            lambda connection: [connection.execute("INSERT INTO notes VALUES (?)", (text,)) for text in ("a", "\ud800")]
        )
    assert (caught.value.problem, caught.value.retryable) == ("unstorable", False)
    assert notes(database) == []


@pytest.mark.parametrize(("level", "number"), [("NORMAL", 1), ("FULL", 2), (None, 1)])
def test_how_sure_a_transaction_is_when_it_returns(path: str, level: str | None, number: int) -> None:
    database = Database(path, TABLES, 1, 5, *([] if level is None else [level]))
    assert database.look(lambda connection: connection.execute("PRAGMA synchronous").fetchone()) == (number,)
    database.close()


def remove(path: str) -> None:
    for ending in ("", "-wal", "-shm"):
        Path(path + ending).unlink()


def replace(path: str) -> None:
    remove(path)
    note(Database(path, TABLES, 1, 5), "other")


@pytest.mark.parametrize("use", [lambda database: note(database, "before"), notes], ids=["written", "read"])
@pytest.mark.parametrize("lose", [remove, replace, lambda path: Path(path).rename(path + ".old")])
def test_a_file_that_is_lost_is_refused_until_it_is_closed(
    database: Database, path: str, lose: Callable[[str], object], use: Callable[[Database], object]
) -> None:
    use(database)
    lose(path)
    here = os.path.exists(path)
    for _ in range(3):
        for call in (note, lambda database, _: notes(database)):
            what = f"cannot be used any more: it was {'replaced' if here else 'deleted or moved'} while"
            with pytest.raises(StorageError, match=what) as caught:
                call(database, "late")
            assert (caught.value.problem, caught.value.retryable) == ("moved", False)
    assert os.path.exists(path) == here  # none was made
    database.close()
    note(database, "after")
    assert notes(database) == ["other", "after"] if here else ["after"]


@pytest.mark.parametrize("use", [lambda database: note(database, "before"), notes], ids=["written", "read"])
@pytest.mark.parametrize("ending", ["-wal", "-shm"])
def test_a_log_that_is_lost_is_refused(
    database: Database, path: str, ending: str, use: Callable[[Database], object]
) -> None:
    use(database)
    Path(path + ending).unlink()
    with pytest.raises(StorageError, match=rf"its file notes\.db{ending} was deleted"):
        note(database, "late")


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_a_file_that_is_lost_in_a_call_does_not_take_its_change(database: Database, path: str, ending: str) -> None:
    note(database, "before")

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes VALUES ('lost')")
        os.rename(path + ending, f"{path}{ending}.old")

    with pytest.raises(StorageError, match="moved while this program used it"):
        database.transaction(work)
    os.rename(f"{path}{ending}.old", path + ending)
    database.close()
    assert notes(database) == ["before"]


def test_a_file_that_comes_back_stays_refused(database: Database, path: str) -> None:
    note(database, "before")
    Path(path).rename(path + ".old")
    with pytest.raises(StorageError, match="deleted or moved"):
        note(database, "late")
    Path(path + ".old").rename(path)
    with pytest.raises(StorageError, match="deleted or moved"):
        note(database, "late")
    database.close()
    assert notes(database) == ["before"]


def test_a_file_that_is_lost_over_a_fork_is_refused_in_both_processes(database: Database, path: str) -> None:
    note(database, "before")

    def child(baton: Baton) -> None:
        baton.take()
        with pytest.raises(StorageError, match="deleted or moved"):
            note(database, "child")

    fork = Fork(child)
    Path(path).unlink()
    fork.baton.pass_on()
    fork.wait()
    with pytest.raises(StorageError, match="deleted or moved"):
        note(database, "parent")
    assert not os.path.exists(path)


def test_a_link_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to("one.db")  # which is not there yet
    database = Database(str(link), TABLES, 1, 5)
    note(database, "one")
    assert (tmp_path / "one.db-wal").exists()
    note(Database(str(tmp_path / "two.db"), TABLES, 1, 5), "two")
    link.unlink()
    link.symlink_to("two.db")
    with pytest.raises(StorageError, match="replaced"):
        note(database, "late")
    database.close()
    assert notes(database) == ["two"]
    database.close()


def test_a_relative_path_keeps_its_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    database = Database("notes.db", TABLES, 1, 5)
    note(database, "one")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    note(database, "two")
    database.close()
    assert notes(database) == ["one", "two"]
    database.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_path_through_a_link_means_what_it_means_to_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there/inner").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here/link").symlink_to(tmp_path / "there/inner")
    monkeypatch.chdir(tmp_path / "here")
    for name in ("link/../notes.db", str(tmp_path / "here/link/../notes.db")):
        database = Database(name, TABLES, 1, 5)
        note(database, "here")
        database.close()
    assert notes(Database(str(tmp_path / "there/notes.db"), TABLES, 1, 5)) == ["here", "here"]
    assert not (tmp_path / "here/notes.db").exists()


def test_a_file_with_two_names_is_refused(database: Database, path: str) -> None:
    note(database, "before")
    database.close()
    os.link(path, path + ".link")
    for name in (path, path + ".link"):
        with pytest.raises(StorageError, match=r"more than one name .* use the copy\. Check") as caught:
            notes(Database(name, TABLES, 1, 5))
        assert isinstance(caught.value.__cause__, OSError)
        assert (caught.value.__cause__.errno, caught.value.problem) == (errno.EMLINK, "failed")
    os.unlink(path + ".link")
    assert notes(database) == ["before"]


def test_a_folder_is_no_file_with_many_names(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    with pytest.raises(StorageError, match="unable to open database file"):
        notes(Database(str(tmp_path), TABLES, 1, 5))


@pytest.mark.parametrize("right", [os.R_OK, os.W_OK])
def test_a_file_that_may_only_be_read_or_written_is_refused(
    database: Database, path: str, monkeypatch: pytest.MonkeyPatch, right: int
) -> None:
    note(database, "before")
    database.close()
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & ~right)  # the user of the tests may do everything
    with pytest.raises(StorageError, match=r"cannot be used: Permission denied\. Check that its folder exists"):
        notes(database)
    monkeypatch.undo()
    assert notes(database) == ["before"]


def test_an_absolute_path_needs_no_working_directory(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    note(Database(database.path, TABLES, 1, 5), "here")
    assert notes(database) == ["here"]


@pytest.mark.parametrize("name", ["a b?c#d%41.db", "\udcff.db", "ü:x=1&mode=ro.db"])
def test_any_name_of_a_file(tmp_path: Path, name: str) -> None:
    database = Database(str(tmp_path / name), TABLES, 1, 5)
    note(database, "here")
    assert {os.fsdecode(each.name) for each in tmp_path.iterdir()} == {name, f"{name}-wal", f"{name}-shm"}
    database.close()


def test_files_are_deleted_and_made_again_while_they_are_opened(path: str) -> None:
    """Each call either keeps its note in a file that is under the path, or refuses: no note is in another file only."""
    over = threading.Event()

    def disturb() -> None:
        while not over.is_set():
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(path + ending)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        outcomes = set()
        for _ in range(size("deletions of databases")):
            database = Database(path, TABLES, 1, patience(5))
            try:
                note(database, "here")
                outcomes.add("kept")
            except StorageError as error:
                outcomes.add(error.problem)
            database.close()
    finally:
        over.set()
        thread.join()
    assert outcomes <= {"kept", "moved", "damaged", "failed", "full"}
    note(database, "after")
    assert notes(database)[-1] == "after"
    database.close()


# -- forks by C code, and interrupted ones -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param("between_calls", marks=pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs Linux")),
        "in_calls",
        "while_opening",
        "interrupted",
    ],
)
def test_a_fork_that_databases_are_not_ready_for(scene: str, path: str) -> None:
    Fork(lambda _: forking_in_c.SCENES[scene](path)).wait()


def test_databases_are_made_while_another_thread_forks(tmp_path: Path) -> None:
    over = threading.Event()
    failed: list[BaseException] = []

    def make(name: str) -> None:
        try:
            while not over.is_set():
                database = Database(str(tmp_path / name), TABLES, 1, patience(5))
                note(database, "x")
                database.close()
        except BaseException as error:
            failed.append(error)

    def note_all(_: Baton) -> None:
        for number in range(3):
            note(Database(str(tmp_path / f"{number}.db"), TABLES, 1, patience(5)), "y")

    threads = [threading.Thread(target=make, args=(f"{number}.db",)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            Fork(note_all).wait()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failed == []
    for number in range(3):
        assert notes(Database(str(tmp_path / f"{number}.db"), TABLES, 1, 5)).count("y") == 30
