"""Databases of journals that fail: full disks, files of something else, other versions, lost connections."""

from __future__ import annotations

import math
import os
import resource
import secrets
import select
import shutil
import socket
import socketserver
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import psycopg
import pytest

from hackamore import Budget
from hackamore.errors import JournalError
from hackamore.fleet.journal import Journal, open_journal
from hackamore.fleet.journal.journal import KIND
from hackamore.fleet.journal.tables import VERSION
from hackamore.fleet.task import Spec
from hackamore.storage import postgres_store as postgres
from hackamore.storage import stores as store
from hackamore.storage.postgres_store import PostgresStore
from tests.contract import shows
from tests.fleet.journal_model import HOLDERS
from tests.support.forking import Baton, Fork
from tests.support.journals import open_tasks
from tests.support.leaks import open_descriptors
from tests.support.patience import patience

if TYPE_CHECKING:
    from tests.support.servers import Postgres


def add(journal: Journal, *names: str) -> None:
    journal.add([(name, Spec(prompt=f"Do {name}")) for name in names])


def names(journal: Journal) -> list[str]:
    return [row.task for row in journal.rows()]


def refusal(address: str, **more: Any) -> JournalError:
    with pytest.raises(JournalError) as caught:
        open_journal(address, **more)
    return caught.value


# -- both --------------------------------------------------------------------------------------------------------------


def test_a_journal_that_is_not_there(address: str) -> None:
    for _ in range(2):
        error = refusal(address, create=False)
        assert f"There is no journal {address!r}" in str(error)
        assert error.retryable is False
    journal = open_journal(address)
    add(journal, "a")
    assert names(open_journal(address, create=False)) == ["a"]
    journal.close()


def set_version(journal: Journal, version: int) -> None:
    journal.store.transaction(lambda cursor: cursor.rows("ALTER TABLE tasks DROP COLUMN branch"))
    mark_version(journal, version)


def mark_version(journal: Journal, version: int) -> None:
    if "://" in journal.store.address:
        journal.fact("version", str(version))
    else:
        journal.store.look(lambda cursor: cursor.rows(f"PRAGMA user_version = {version}"))
    journal.close()


def columns(journal: Journal) -> int:
    return len(journal.store.look(lambda cursor: cursor.rows("SELECT * FROM tasks"))[0])


def test_a_newer_version_is_refused(address: str, journal: Journal) -> None:
    add(journal, "a")
    set_version(journal, VERSION + 1)
    for error in (refusal(address), refusal(address, create=False)):
        assert (
            f"journal {address!r} has version {VERSION + 1}, and this Hackamore knows up to {VERSION}. Update Hackamore"
            in str(error)
        )
        assert not error.retryable
    with pytest.raises(JournalError, match="Update Hackamore"):
        add(journal, "b")  # this one was opened before


def test_an_older_version_is_migrated_or_refused(
    address: str, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(journal, "a")
    before = columns(journal)
    set_version(journal, 1)
    error = refusal(address)
    assert "has version 1, which is too old for this Hackamore" in str(error)
    assert not error.retryable
    steps = dict.fromkeys(range(2, VERSION), ("SELECT 1",))
    broken = {**steps, 1: ("ALTER TABLE tasks ADD COLUMN branch TEXT", "ALTER TABLE nothing ADD COLUMN x TEXT")}
    monkeypatch.setattr("hackamore.fleet.journal.journal.KIND", KIND._replace(migrations=broken))
    assert "nothing" in str(refusal(address))  # all of it, or nothing
    monkeypatch.setattr("hackamore.fleet.journal.journal.KIND", KIND._replace(migrations={**steps, 1: broken[1][:1]}))
    migrated = open_journal(address)
    assert columns(migrated) == before
    assert names(migrated) == ["a"]
    assert migrated.id == journal.id
    migrated.close()
    assert names(open_journal(address)) == ["a"]


def test_the_counts_of_a_journal_of_version_2(address: str, journal: Journal) -> None:
    add(journal, *"abcde")
    journal.cancel(["b"])
    journal.lease(HOLDERS[0], 2, ["a", "c"], time.time())
    before = journal.counts()
    for statement in ("DROP TABLE counts", "CREATE INDEX due ON tasks (state, number)"):
        journal.store.transaction(lambda cursor, statement=statement: cursor.rows(statement))  # type: ignore[misc]
    mark_version(journal, 2)
    with closing(open_journal(address)) as migrated:
        assert migrated.counts() == before
        assert {state: count for state, count in before.items() if count} == {"queued": 2, "leased": 2, "cancelled": 1}
        migrated.cancel(["a", "d"])
        assert migrated.counts() == before | {"queued": 1, "cancelled": 2}


def test_a_failing_call_changes_nothing(journal: Journal) -> None:
    def work(cursor: store.Cursor) -> None:
        cursor.rows("INSERT INTO facts (name, value) VALUES ('lost', 'x')")
        raise ZeroDivisionError

    def wrong(cursor: store.Cursor) -> None:
        cursor.rows("INSERT INTO facts (name, value) VALUES ('lost', 'x')")
        cursor.rows("INSERT INTO facts (name, value) VALUES ('lost', 'x')")

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            journal.store.transaction(work)
        with pytest.raises(JournalError, match=r"cannot be used: .*(?i:unique)"):
            journal.store.transaction(wrong)
        with pytest.raises(JournalError, match="cannot be used"):
            journal.store.look(lambda cursor: cursor.rows("SELECT x FROM nothing"))
        assert journal.fact("lost") is None
    add(journal, "a")


def test_a_statement_with_half_of_a_surrogate_pair(journal: Journal) -> None:
    for call in (journal.store.transaction, journal.store.look):
        with pytest.raises(JournalError) as caught:
            call(lambda cursor: cursor.rows("SELECT :text", text="\ud83c"))
        text = f"The journal {journal.store.title!r} cannot store a text with half of a surrogate pair: '\\ud83c'."
        assert str(caught.value) == text
        assert not caught.value.retryable


# -- SQLite ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def fill_up(journal: Journal) -> tuple[list[str], JournalError]:
    """Add tasks until the disk is full; return those that the journal took, and the error."""
    taken: list[str] = []
    while True:
        name = f"task-{len(taken)}-{'x' * 100}"
        try:
            add(journal, name)
        except JournalError as error:
            return taken, error
        taken.append(name)
        assert len(taken) < 10_000


def check_full(journal: Journal, path: Path, more_space: Callable[[], object]) -> JournalError:
    taken, error = fill_up(journal)
    assert taken
    assert error.retryable
    with suppress(JournalError):  # a few bytes may be left
        add(journal, "y" * 200)
        taken.append("y" * 200)
    assert names(journal) == taken
    more_space()
    add(journal, "after")
    assert names(journal) == [*taken, "after"]
    journal.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return error


def test_what_a_call_has_written_is_on_the_disk(path: Path) -> None:
    journal = open_journal(path)
    assert journal.store.look(lambda cursor: cursor.rows("PRAGMA synchronous")) == [(2,)]  # FULL


def test_a_full_database(path: Path) -> None:
    journal = open_journal(path)
    journal.store.look(lambda cursor: cursor.rows("PRAGMA max_page_count = 60"))
    error = check_full(
        journal, path, lambda: journal.store.look(lambda cursor: cursor.rows("PRAGMA max_page_count = 100000"))
    )
    assert "cannot be used: database or disk is full. Free some space: nothing was lost" in str(error)


def test_a_disk_without_space(path: Path) -> None:
    def child(baton: Baton) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        journal = open_journal(path)
        add(journal, "before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, most))
        taken, error = fill_up(journal)
        assert "cannot be used: disk I/O error. Check that the disk has space" in str(error)
        assert error.retryable
        assert names(journal) == ["before", *taken]
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        add(journal, "after")
        assert names(journal) == ["before", *taken, "after"]
        journal.close()

    Fork(child).wait()
    assert names(open_journal(path))[-1] == "after"


def test_a_file_that_may_not_be_written() -> None:
    folder = Path(tempfile.mkdtemp(prefix="hackamore-journal-"))  # others may look into it
    try:
        folder.chmod(0o755)
        path = folder / "journal.db"
        journal = open_journal(path)
        add(journal, "a")
        journal.close()
        path.chmod(0o444)

        def child(baton: Baton) -> None:
            if os.geteuid() == 0:
                os.setuid(65534)
            error = refusal(str(path))
            assert "cannot be used: Permission denied. Check that its folder exists and is writable." in str(error)
            assert "cannot be used: Permission denied" in str(refusal(str(folder / "new.db")))

        Fork(child).wait()
        assert names(open_journal(path)) == ["a"]
    finally:
        shutil.rmtree(folder)


def test_files_of_something_else_stay_as_they_are(tmp_path: Path) -> None:
    text, other, ledger = tmp_path / "text.db", tmp_path / "other.db", tmp_path / "budget.db"
    text.write_text("This is no database. " * 200)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE tasks (id TEXT)")
    connection.close()
    budget = Budget(usd=1.0, path=ledger)
    assert budget.spent.usd == 0
    budget.close()
    before = {path: path.read_bytes() for path in (text, other, ledger)}
    assert "file is not a database. Check that it is a journal of Hackamore" in str(refusal(str(text)))
    for path in (other, ledger):
        error = refusal(str(path))
        assert "holds tables that are not those of a journal. Name another file." in str(error)
        assert not error.retryable
    assert {path: path.read_bytes() for path in before} == before
    assert "Check that its folder exists" in str(refusal(str(tmp_path / "missing" / "journal.db")))
    assert "cannot be used" in str(refusal(str(tmp_path)))
    empty = tmp_path / "empty.db"
    empty.touch()
    add(open_journal(empty), "a")


# -- Postgres ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def admin(postgres_server: Postgres) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def pg(postgres_address: str) -> Iterator[Journal]:
    journal = open_journal(postgres_address)
    yield journal
    journal.close()


def backend(journal: Journal) -> int:
    """Return the process of the server that the journal talks to."""
    [(pid,)] = journal.store.look(lambda cursor: cursor.rows("SELECT pg_backend_pid()"))
    return int(pid)


def end(admin: psycopg.Connection[Any], pid: int) -> None:
    """End the connection of a journal, and wait until it has ended."""
    assert admin.execute("SELECT pg_terminate_backend(%s, %s)", (pid, int(patience(30)) * 1000)).fetchone() == (True,)


def test_a_connection_that_was_lost_between_calls(pg: Journal, admin: psycopg.Connection[Any]) -> None:
    add(pg, "a")
    end(admin, backend(pg))
    add(pg, "b")
    end(admin, backend(pg))
    assert names(pg) == ["a", "b"]
    end(admin, backend(pg))
    pg.close()
    assert names(pg) == ["a", "b"]


def test_a_connection_that_is_lost_inside_a_transaction(
    pg: Journal, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(cursor: store.Cursor) -> None:
        cursor.rows("INSERT INTO facts (name, value) VALUES ('lost', 'x')")
        [(pid,)] = cursor.rows("SELECT pg_backend_pid()")
        end(admin, pid)
        cursor.rows("SELECT 1")

    with pytest.raises(JournalError, match="Check that the server can be reached") as caught:
        pg.store.transaction(work)
    assert caught.value.retryable
    ignored: list[object] = []  # errors in functions that run at a fork
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)

    def child(baton: Baton) -> None:
        assert ignored == []
        assert pg.fact("child", "x") == "x"

    Fork(child).wait()
    assert pg.fact("lost") is None
    assert pg.fact("kept", "x") == "x"


def test_a_server_that_is_gone_for_a_while(pg: Journal, postgres_server: Postgres) -> None:
    add(pg, "a")
    postgres_server.kill()
    try:
        for call in (lambda: add(pg, "b"), lambda: names(pg)):
            with pytest.raises(JournalError, match="Check that the server can be reached") as caught:
                call()
            assert caught.value.retryable
    finally:
        postgres_server.start()
    add(pg, "c")
    assert names(pg) == ["a", "c"]


class Wire(socketserver.ThreadingTCPServer):
    """A port between journals and the server, which can be cut at a commit.

    Attributes:
        target: the port of the server.
        cut: None, "before", "after" or "late": where the next commit loses its connection.
        arrives: lets a commit that is late arrive at the server.
        refuses: how many connections it refuses.
        cuts: how many connections were cut.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.cut: str | None = None
        self.arrives = threading.Event()
        self.refuses = 0.0
        self.cuts = 0
        super().__init__(("127.0.0.1", 0), _Ends)


class _Ends(socketserver.BaseRequestHandler):
    """Both ends of a connection."""

    server: Wire
    answer_is_lost = False

    def handle(self) -> None:
        if self.server.refuses:
            self.server.refuses -= 1
        else:
            with suppress(ConnectionError), socket.create_connection(("127.0.0.1", self.server.target)) as target:
                while self.pass_on(self.request, target):
                    pass

    def pass_on(self, client: socket.socket, target: socket.socket) -> bool:
        """Pass on what has come; return False if one side has ended, or the connection is cut."""
        for end in select.select([client, target], [], [])[0]:
            data = end.recv(65536)
            if end is client and b"COMMIT\0" in data and self.server.cut is not None:
                where, self.server.cut = self.server.cut, None
                self.server.cuts += 1
                if where == "before":
                    return False
                if where == "late":
                    client.shutdown(socket.SHUT_RDWR)
                    self.server.arrives.wait(patience(60))
                    target.sendall(data)
                    target.shutdown(socket.SHUT_WR)  # or the server may wait for the rest of what the client sends
                    target.settimeout(patience(60))
                    while target.recv(65536):
                        pass
                    return False
                self.answer_is_lost = True
            if end is target and self.answer_is_lost:
                return False
            (target if end is client else client).sendall(data)
            if not data:
                return False
        return True


@contextmanager
def wired(server: Postgres, address: str) -> Iterator[tuple[Wire, Journal]]:
    with Wire(server.port) as wire:
        thread = threading.Thread(target=wire.serve_forever, args=(0.01,))
        thread.start()
        port = wire.server_address[1]
        journal = open_journal(address.replace(f":{server.port}/", f":{port}/") + "&sslmode=disable")
        try:
            yield wire, journal
        finally:
            journal.close()
            wire.shutdown()
            thread.join()


def test_a_commit_whose_answer_is_lost_counts_once(
    postgres_server: Postgres, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_RECONNECT_SECONDS", 0.01)
    others = [open_journal(postgres_address) for _ in range(2)]
    for number, other in enumerate(others):
        other.fact(f"other {number}", "x")
    with wired(postgres_server, postgres_address) as (wire, journal):
        for number in range(3):
            wire.cut, wire.refuses = "after", number  # a server that starts again refuses some
            add(journal, f"task-{number}")
            assert names(journal) == [f"task-{each}" for each in range(number + 1)]
        assert wire.cuts == 3
        for left in (2, 1):
            others.pop().close()  # it forgets its own commits, and no others
            assert journal.store.look(lambda cursor: cursor.rows("SELECT count(*) FROM clients")) == [(left,)]


def test_a_commit_that_did_not_arrive(postgres_server: Postgres, postgres_address: str) -> None:
    with wired(postgres_server, postgres_address) as (wire, journal):
        journal.fact("before", "x")
        wire.cut = "before"
        with pytest.raises(JournalError, match="Check that the server can be reached") as caught:
            add(journal, "a")
        assert caught.value.retryable
        assert names(journal) == []
        add(journal, "a")
        assert names(journal) == ["a"]
        assert wire.cuts == 1


def test_a_commit_that_arrives_after_the_connection_was_lost_is_waited_for(
    postgres_server: Postgres, postgres_address: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "IDLE_SECONDS", int(patience(60)))
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with wired(postgres_server, postgres_address) as (wire, journal), ThreadPoolExecutor(1) as threads:
        wire.cut = "late"
        adding = threads.submit(add, journal, "a")
        until = time.monotonic() + patience(30)
        while not adding.done() and admin.execute(waiting).fetchone() is None and time.monotonic() < until:
            pass
        gave_up = adding.done()
        wire.arrives.set()
        adding.result(patience(60))
        assert not gave_up
        assert names(journal) == ["a"]
        assert wire.cuts == 1


def test_a_commit_of_which_nothing_can_be_known(
    postgres_server: Postgres, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with wired(postgres_server, postgres_address) as (wire, journal):
        monkeypatch.setattr(postgres, "BUSY_SECONDS", 0.1)
        wire.cut = "after"
        wire.refuses = math.inf
        with pytest.raises(
            JournalError,
            match=r"was lost during a commit \(.*connection.*\), and the server cannot report whether it was done: .*connection",
        ) as caught:
            add(journal, "a")
        assert not caught.value.retryable
        wire.refuses = 0
        assert names(journal) == ["a"]


def test_what_is_lost_before_the_commit_was_not_done(
    postgres_server: Postgres, postgres_address: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with wired(postgres_server, postgres_address) as (wire, journal):
        monkeypatch.setattr(postgres, "BUSY_SECONDS", 0.1)

        def work(cursor: store.Cursor) -> None:
            cursor.rows("INSERT INTO facts (name, value) VALUES ('lost', 'x')")
            [(pid,)] = cursor.rows("SELECT pg_backend_pid()")
            wire.refuses = math.inf
            end(admin, pid)
            cursor.rows("SELECT 1")

        with pytest.raises(JournalError, match="Check that the server can be reached") as caught:
            journal.store.transaction(work)
        assert caught.value.retryable
        wire.refuses = 0
        assert journal.fact("lost") is None


def test_a_transaction_that_idles_loses_its_turn(postgres_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "IDLE_SECONDS", 1)
    sleeper, other = open_journal(postgres_address), open_journal(postgres_address)
    began, over = threading.Event(), threading.Event()
    errors: list[JournalError] = []

    def work(cursor: store.Cursor) -> None:
        cursor.rows("INSERT INTO facts (name, value) VALUES ('lost', 'x')")
        cursor.rows("SELECT 1")
        began.set()
        assert over.wait(patience(30))

    def sleep() -> None:
        try:
            sleeper.store.transaction(work)
        except JournalError as error:
            errors.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    assert began.wait(patience(30))
    add(other, "a")  # after the server has ended the other transaction
    over.set()
    thread.join()
    assert errors[0].retryable
    assert sleeper.fact("lost") is None
    assert names(sleeper) == ["a"]
    sleeper.close()
    other.close()


@pytest.mark.parametrize(
    ("state", "text", "retryable"),
    [
        ("25P03", "It was not used for too long inside a transaction. The same call may be made again.", True),
        ("53100", "Free some space: nothing was lost, and the same call continues.", True),
        ("55P03", "Another program held it for more than 30 s.", True),
        ("57P01", "Check that the server can be reached. The same call continues from the journal.", True),
        ("22003", "at RAISE.", False),
        ("42501", "Check that the user of the URL owns the schema, and that nothing but a journal is in it.", False),
    ],
)
def test_errors_of_the_server_say_what_to_do(pg: Journal, state: str, text: str, *, retryable: bool) -> None:
    before = backend(pg)
    with pytest.raises(JournalError, match="cannot be used: ") as caught:
        pg.store.transaction(
            lambda cursor: cursor.rows(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$")
        )
    assert str(caught.value).endswith(text)
    assert caught.value.retryable is retryable
    add(pg, "a")
    assert backend(pg) == before  # nothing is wrong with the connection


def test_a_call_does_not_wait_for_ever_for_another_program(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "BUSY_SECONDS", 1.0)
    one, two = open_journal(postgres_address), open_journal(postgres_address)
    with pytest.raises(JournalError, match="Another program held it") as caught:
        one.store.transaction(lambda cursor: two.fact("two", "x"))
    assert caught.value.retryable
    assert two.fact("two", "x") == "x"
    one.close()
    two.close()


def test_a_server_that_cannot_be_reached_is_noticed_within_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}

    def connect(**settings: Any) -> None:
        found.update(settings)
        raise psycopg.OperationalError("The server is gone.")

    monkeypatch.setattr(psycopg, "connect", connect)
    assert refusal("postgresql://tester@db.example/agents").retryable
    assert found["keepalives_idle"] + found["keepalives_interval"] * found["keepalives_count"] == 30
    assert (found["tcp_user_timeout"], found["connect_timeout"]) == (30_000, 10)
    assert found["fallback_application_name"] == "hackamore"
    refusal("postgresql://tester@db.example/agents?connect_timeout=3&keepalives_idle=7")
    assert (found["connect_timeout"], found["keepalives_idle"]) == ("3", "7")


@pytest.mark.parametrize(
    ("url", "settings", "title"),
    [
        ("//tester@db.example/agents", {"user": "tester", "host": "db.example", "dbname": "agents"}, ""),
        ("//db.example:7/agents", {"host": "db.example", "port": "7", "dbname": "agents"}, ""),
        ("///agents?schema=nightly", {"dbname": "agents"}, ""),
        ("//?schema=nightly", {}, "///?schema=nightly"),
        ("///agents?schema=hackamore_fleet", {"dbname": "agents"}, "///agents"),
        # libpq takes this password as it is.
        (
            "//me:a?b=c@db.example?schema=nightly",
            {"user": "me", "password": "a?b=c", "host": "db.example"},
            "//me@db.example/?schema=nightly",
        ),
        (
            "///agents?user=me&schema=first&application_name=x&schema=%4Eightly_2",
            {"user": "me", "application_name": "x", "dbname": "agents"},
            "//me@/agents?schema=Nightly_2",
        ),
    ],
)
@pytest.mark.parametrize("said", ["no route to host X.", ""])
def test_urls(monkeypatch: pytest.MonkeyPatch, url: str, settings: dict[str, str], title: str, said: str) -> None:
    found: dict[str, Any] = {}

    def connect(**settings: Any) -> None:
        found.update(settings)
        raise psycopg.OperationalError(said)

    monkeypatch.setattr(psycopg, "connect", connect)
    text = f"The journal 'postgresql:{title or url}' cannot be used: {said or 'OperationalError.'} Check that the server can be "
    assert str(refusal(f"postgresql:{url}")) == text + "reached. The same call continues from the journal."
    named = {name: value for name, value in found.items() if name in {"user", "password", "host", "port", "dbname"}}
    assert found == found | settings
    assert named == {name: value for name, value in settings.items() if name != "application_name"}


@pytest.mark.parametrize("schema", ["", "a b", "1a", "ä", "a%22b", "pg_temp", "x" * 64])
def test_names_that_no_schema_of_a_journal_has(schema: str) -> None:
    error = refusal(f"postgresql://db.example/agents?schema={schema}")
    name = unquote(schema)
    assert str(error) == f"The `schema` of a journal must be a name of letters, digits and underscores, got {name!r}."
    assert not error.retryable


def test_psycopg_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError) as caught:
        open_journal("postgresql://db.example/agents")
    text = "a journal in PostgreSQL needs `psycopg`; run: pip install 'hackamore[postgres]'"
    assert (str(caught.value), caught.value.name) == (text, "psycopg")


@pytest.mark.parametrize(("of_the_server", "used"), [("off", "on"), ("local", "local")])
def test_a_commit_is_on_the_disk_whatever_the_server_prefers(
    postgres_address: str, of_the_server: str, used: str
) -> None:
    journal = open_journal(f"{postgres_address}&options={quote(f'-c synchronous_commit={of_the_server}')}")
    assert journal.store.look(lambda cursor: cursor.rows("SELECT current_setting('synchronous_commit')")) == [(used,)]
    journal.close()


def test_journals_of_one_database_are_independent(postgres_server: Postgres, postgres_address: str) -> None:
    one, two = open_journal(postgres_address), open_journal(postgres_address + "_two")

    def work(cursor: store.Cursor) -> None:
        cursor.rows("INSERT INTO facts (name, value) VALUES ('one', 'x')")
        two.fact("two", "x")  # it waits for no transaction of the other journal
        assert one.store.address != two.store.address

    one.store.transaction(work)
    assert (one.fact("one"), one.fact("two"), two.fact("one"), two.fact("two")) == ("x", None, None, "x")
    assert one.id != two.id
    one.close()
    two.close()


@shows("fleet.journal.together")
@pytest.mark.timeout(180)
def test_two_programs_make_the_tables_at_the_same_time(postgres_server: Postgres) -> None:
    errors: list[BaseException] = []

    def make(address: str, together: threading.Barrier) -> None:
        together.wait(patience(30))
        try:
            open_journal(address).close()
        except BaseException as error:
            errors.append(error)

    for _ in range(20):
        together = threading.Barrier(2)
        address = f"{postgres_server.url}?schema=test_{secrets.token_hex(6)}"
        threads = [threading.Thread(target=make, args=(address, together)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_program_waits_while_another_one_makes_the_tables(
    postgres_address: str, admin: psycopg.Connection[Any]
) -> None:
    """The server stops the first one behind its first table."""
    schema = postgres_address.rpartition("=")[2]
    stop: list[Any] = [
        f"""CREATE FUNCTION stop_{schema}() RETURNS event_trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF current_setting('search_path') LIKE '%{schema}%' THEN PERFORM pg_advisory_xact_lock_shared(7); END IF;
        END $$""",
        f"CREATE EVENT TRIGGER stop_{schema} ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION stop_{schema}()",
        f"DROP EVENT TRIGGER stop_{schema}",
    ]
    *before, after = stop
    for statement in ("SELECT pg_advisory_lock(7)", *before):
        admin.execute(statement)
    programs: list[Future[Journal]] = []
    with ThreadPoolExecutor(2) as threads:
        try:
            for count in (1, 2):
                programs.append(threads.submit(open_journal, postgres_address))
                until = time.monotonic() + patience(30)
                while admin.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() != (count,):
                    assert time.monotonic() < until
        finally:
            admin.execute("SELECT pg_advisory_unlock(7)")
        one, two = (program.result(patience(60)) for program in programs)
    admin.execute(after)
    assert one.id == two.id
    one.close()
    two.close()


def test_a_schema_of_something_else(postgres_address: str, admin: psycopg.Connection[Any]) -> None:
    schema: Any = postgres_address.rpartition("=")[2]
    admin.execute(f"CREATE SCHEMA {schema}")
    admin.execute(f"CREATE TABLE {schema}.tasks (id TEXT)")
    error = refusal(postgres_address)
    assert (
        f"{postgres_address!r} holds tables that are not those of a journal. Name another schema: `?schema=NAME`"
        in str(error)
    )
    admin.execute(f"DROP TABLE {schema}.tasks")
    add(open_journal(postgres_address), "a")


def test_the_order_is_that_of_the_tasks_whatever_the_server_plans(postgres_address: str) -> None:
    plan = " ".join(f"-c enable_{scan}=off" for scan in ("indexscan", "indexonlyscan", "bitmapscan"))
    journal = open_journal(f"{postgres_address}&options={quote(plan)}")
    me, _, gone, _ = HOLDERS
    every, now = ["c", "a", "b"], 1e9

    def mix(table: str = "tasks", number: str = "number", condition: str = "true") -> None:
        """Move rows inside of their table: a change writes a row again, in another place."""
        for at in range(100):
            found = journal.store.look(lambda cursor: cursor.rows(f"SELECT {number} FROM {table} WHERE {condition}"))
            if found != sorted(found):
                return
            touch = f"UPDATE {table} SET {number} = {number} WHERE {number} = {at % 3 + 1} AND {condition}"
            journal.store.transaction(lambda cursor, touch=touch: cursor.rows(touch))  # type: ignore[misc]
        pytest.fail("the rows stay in their order")

    add(journal, *every)
    for _ in range(2):
        mix()
        leases = journal.lease(gone, 3, set(every), now)
        assert [lease.task for lease in leases] == every
        mix()
        assert journal.lost() == every
        for lease in reversed(leases):
            journal.begin(lease, gone, trace=None)
        mix()
        last = journal.last_change()
        assert journal.reclaim(me) == 3
        assert [change.task for change in journal.changes(last)] == every
    mix()
    assert names(journal) == every
    assert list(open_tasks(journal)) == every
    last = journal.last_change()
    journal.cancel(None)
    mix("changes")
    assert [change.number for change in journal.changes()] == list(range(1, last + 4))
    assert [change.task for change in journal.changes(last)] == every
    mix("attempts", "attempt", "task = 'c'")
    assert [attempt.attempt for attempt in journal.attempts("c")] == [1, 2]
    assert [attempt for attempt, *_ in journal.unsettled("c", 9)] == [1, 2]
    journal.close()


def test_threads_share_one_connection(pg: Journal, postgres_address: str, admin: psycopg.Connection[Any]) -> None:
    threads = [threading.Thread(target=add, args=(pg, f"task-{number}")) for number in range(16)]
    for thread in threads:
        thread.start()
    schema = postgres_address.rpartition("=")[2]
    users: Any = (
        "SELECT count(DISTINCT pid) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation "
        f"WHERE relnamespace = '{schema}'::regnamespace"
    )
    assert admin.execute(users).fetchall()[0][0] <= 1
    for thread in threads:
        thread.join()
    assert len(names(pg)) == 16


def sockets() -> set[str]:
    return {name for name in open_descriptors().values() if name.startswith("socket:")}


def test_a_fork_leaves_the_connection_to_its_parent(pg: Journal, postgres_address: str) -> None:
    pg.close()
    before = sockets()
    mine = backend(pg)
    its_own = sockets() - before
    began, over = threading.Event(), threading.Event()

    def work(cursor: store.Cursor) -> None:
        cursor.rows("INSERT INTO facts (name, value) VALUES ('parent', 'x')")
        began.set()
        assert over.wait(patience(30))

    thread = threading.Thread(target=pg.store.transaction, args=(work,))
    thread.start()
    assert began.wait(patience(30))

    def child(baton: Baton) -> None:
        assert not sockets() & its_own  # else the server would not notice the end of the parent
        assert backend(pg) != mine  # the lock of the parent's thread is not its own
        assert pg.fact("parent") is None
        baton.pass_on()
        assert pg.fact("child", "x") == "x"
        assert pg.fact("parent") == "x"
        pg.close()

    fork = Fork(child)
    fork.baton.take()
    over.set()
    thread.join()
    fork.wait()
    assert backend(pg) == mine
    assert pg.fact("child") == "x"
    assert pg.store.look(lambda cursor: cursor.rows("SELECT count(*) FROM clients")) == [(1,)]


def test_a_call_inside_a_call_is_refused(pg: Journal) -> None:
    def work(cursor: store.Cursor) -> None:
        cursor.rows("SELECT 1")
        add(pg, "a")

    with pytest.raises(JournalError, match="called inside one of its own transactions"):
        pg.store.transaction(work)
    add(pg, "b")
    assert names(pg) == ["b"]


SECRET = "hunter%2F2"


def test_no_text_has_the_password(
    postgres_server: Postgres, postgres_address: str, admin: psycopg.Connection[Any]
) -> None:
    address = postgres_address.replace("tester@", f"tester:{SECRET}@")
    journal = open_journal(address)
    assert journal.store.address == address
    port = postgres_server.port
    errors: list[BaseException] = []
    for url in (
        address.replace(f":{port}/", ":1/"),
        address.replace("/postgres?", "/missing?"),
        f"postgresql://tester:hun/ter2@127.0.0.1:{port}/postgres",
        f"postgresql://tester:ter2@hun@127.0.0.1:{port}/postgres",
        "postgresql://tester:s@hun:ter2@127.0.0.1/postgres",
        f"postgresql://tester:%zz{SECRET}@127.0.0.1:{port}/postgres",
        f"postgresql://tester:{SECRET}@127.0.0.1:{port}/postgres?nonsense=1",
        f"{address}&application_name=x&sslmode=nonsense",
        f"postgresql://127.0.0.1:{port}/postgres?user=nobody-here&password={SECRET}",
        f"postgresql://tester:{SECRET}@127.0.0.1:{port}/postgres?schema=a%22b",
    ):
        errors.append(refusal(url))

    def work(cursor: store.Cursor) -> None:
        [(pid,)] = cursor.rows("SELECT pg_backend_pid()")
        end(admin, pid)
        cursor.rows("SELECT 1")

    with pytest.raises(JournalError) as caught:
        journal.store.transaction(work)
    errors.append(caught.value)
    how = (
        "Write `postgresql://user:password@host:port/database`, and percent-encode special characters of the password."
    )
    assert str(errors[2]) == f"The URL of the journal is not one of PostgreSQL. {how}"
    texts = [repr(journal), repr(journal.store), journal.store.title]
    texts += ["".join(traceback.format_exception(error)) for error in errors]
    for text in texts:
        assert "hun" not in text.replace("unhunted", "")
        assert "ter2" not in text
    journal.close()


def test_settings_of_libpq_are_passed_on(pg: Journal, postgres_address: str) -> None:
    journal = open_journal(postgres_address.replace("?", "?application_name=night%20shift&") + "&connect_timeout=3")
    assert isinstance(journal.store, PostgresStore)
    found = journal.store.look(
        lambda cursor: cursor.rows(
            "SELECT current_setting('application_name'), current_setting('lock_timeout'), "
            "current_setting('idle_in_transaction_session_timeout')"
        )
    )
    assert found == [("night shift", "30s", "10s")]
    assert journal.id == pg.id
    assert journal.store.title == pg.store.title == postgres_address
    journal.close()
