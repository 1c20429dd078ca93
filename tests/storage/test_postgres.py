"""The connection of a store or journal to PostgreSQL."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from hackamore.storage.postgres import Postgres, parsed
from tests.support.forking import Baton, Fork
from tests.support.patience import patience
from tests.support.servers import Postgres as Server


class Prepared:
    """Counts the connections that were prepared; the first ones fail."""

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.connections: list[psycopg.Connection[Any]] = []

    def prepare(self, connection: psycopg.Connection[Any]) -> None:
        self.connections.append(connection)
        if len(self.connections) <= self.fails:
            raise RuntimeError("not prepared")


def made(server: Server, prepared: Prepared, **more: Any) -> Postgres:
    settings = parsed(server.url)
    assert settings is not None
    return Postgres({**settings, **more}, prepared.prepare)


@pytest.fixture
def admin(postgres_server: Server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


def pid(connection: psycopg.Connection[Any]) -> int:
    [(found,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    return int(found)


def test_a_server_that_is_gone_is_noticed_within_half_a_minute_unless_the_user_wants_it_otherwise(
    postgres_server: Server,
) -> None:
    prepared = Prepared()
    usual, chosen = made(postgres_server, prepared), made(postgres_server, prepared, keepalives_idle=7)
    found = usual.opened().info.get_parameters()
    assert int(found["keepalives_idle"]) + int(found["keepalives_interval"]) * int(found["keepalives_count"]) == 30
    assert (found["connect_timeout"], found["tcp_user_timeout"]) == ("10", "30000")
    assert found["fallback_application_name"] == "hackamore"
    assert chosen.opened().info.get_parameters()["keepalives_idle"] == "7"
    for each in (usual, chosen):
        each.close()


def test_a_lost_connection_is_made_again_and_prepared(postgres_server: Server, admin: psycopg.Connection[Any]) -> None:
    prepared = Prepared()
    server = made(postgres_server, prepared)
    first = server.use(pid)
    assert server.use(pid) == first
    assert admin.execute("SELECT pg_terminate_backend(%s, %s)", (first, int(patience(30)) * 1000)).fetchone() == (True,)
    assert server.use(pid) != first
    assert len(prepared.connections) == 2
    server.close()
    assert all(each.closed for each in prepared.connections)
    assert server.use(pid) != first
    server.close()


def test_a_store_that_is_forgotten_leaves_no_connection(
    postgres_server: Server, admin: psycopg.Connection[Any]
) -> None:
    server = made(postgres_server, prepared := Prepared())
    number = server.use(pid)
    connection = prepared.connections.pop()
    del server
    assert connection.closed
    until = time.monotonic() + patience(30)
    while admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (number,)).fetchone() is not None:
        assert time.monotonic() < until


def test_an_error_of_a_statement_is_raised_and_keeps_the_connection(postgres_server: Server) -> None:
    prepared = Prepared()
    server = made(postgres_server, prepared)
    with pytest.raises(psycopg.errors.UndefinedTable):
        server.use(lambda connection: connection.execute("SELECT * FROM no_such_table_here"))
    server.use(pid)
    assert len(prepared.connections) == 1
    server.close()


def test_a_connection_that_cannot_be_prepared_is_closed(postgres_server: Server) -> None:
    prepared = Prepared(fails=1)
    server = made(postgres_server, prepared)
    with pytest.raises(RuntimeError, match="not prepared"):
        server.opened()
    assert prepared.connections[0].closed
    server.use(pid)
    assert len(prepared.connections) == 2
    server.close()


def test_text_that_is_not_a_connection_string() -> None:
    assert parsed("postgres:/agents:secret@db") is None
    assert parsed("postgresql://tester@db.example/agents") == {
        "user": "tester",
        "host": "db.example",
        "dbname": "agents",
    }


def test_a_fork_leaves_the_connection_to_its_parent(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server = made(postgres_server, prepared := Prepared())
    client, mine = server.client, server.use(pid)
    prepared.connections.clear()
    ignored: list[object] = []  # warnings of `psycopg`, which are errors here
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    locked = threading.Event()
    over = threading.Event()

    def hold() -> None:
        with server.lock:
            locked.set()
            assert over.wait(patience(30))

    thread = threading.Thread(target=hold)
    thread.start()
    assert locked.wait(patience(30))

    def child(baton: Baton) -> None:
        with server.lock:  # that of the parent's thread is not its own
            assert server.client != client
            assert server.use(pid) != mine
            server.close()
        assert ignored == []

    try:
        Fork(child).wait()
    finally:
        over.set()
        thread.join()
    assert (server.client, server.use(pid)) == (client, mine)
    assert prepared.connections == []
    server.close()
