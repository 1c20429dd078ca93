"""A store between two statements of a call, while another one writes: nothing is mixed, lost or half read."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
import redis

from hackamore import StoreConflictError, StoreError
from hackamore.transcripts.stores import PostgresStore, RedisStore, SQLiteStore
from tests.support.connections import opened
from tests.support.patience import patience
from tests.support.servers import Postgres, Redis
from tests.transcripts.stores.test_adapters import KEY, entry, numbers

__all__ = ["opened"]


class Stop:
    """Stops the first statement with a text behind its end, until it may go on."""

    def __init__(self, text: str) -> None:
        self.reached, self.released = threading.Event(), threading.Event()
        stop = self

        class Cursor(psycopg.Cursor[Any]):
            def execute(self, query: Any, *arguments: Any, **more: Any) -> Any:
                done = super().execute(query, *arguments, **more)
                if text in query and not stop.reached.is_set():
                    stop.reached.set()
                    assert stop.released.wait(patience(30))
                return done

        self.cursor = Cursor


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.fixture
def on_postgres(postgres_server: Postgres) -> Iterator[Callable[..., PostgresStore]]:
    made: list[PostgresStore] = []
    prefix = f"stop{time.time_ns()}_"

    def make(stop: Stop | None = None) -> PostgresStore:
        more = {"cursor_factory": stop.cursor} if stop is not None else {}
        made.append(PostgresStore(postgres_server.url, prefix=prefix, **more))
        return made[-1]

    yield make
    for store in made:
        store.close()


def wait_for_lock(server: Postgres, waiting: Future[Any]) -> None:
    """Wait until a statement waits for the lock of another one, or is over."""
    until = time.monotonic() + patience(30)
    with psycopg.connect(server.url, autocommit=True) as watcher:
        while not waiting.done():
            if watcher.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone() is not None:
                return
            assert time.monotonic() < until
            time.sleep(0.005)


def test_programs_make_the_tables_of_postgres_one_after_the_other(
    on_postgres: Callable[..., PostgresStore], postgres_server: Postgres, threads: ThreadPoolExecutor
) -> None:
    stop = Stop("CREATE TABLE")
    first = threads.submit(anyio.run, on_postgres(stop).append, KEY, [entry(1)])
    assert stop.reached.wait(patience(30))
    second = threads.submit(anyio.run, on_postgres().load, KEY)
    wait_for_lock(postgres_server, second)
    stop.released.set()
    assert first.result(patience(30)) is None
    assert second.result(patience(30)) in (None, [entry(1)])


@pytest.mark.parametrize("known", [True, False])
def test_an_append_to_postgres_waits_for_the_one_that_has_begun(
    on_postgres: Callable[..., PostgresStore], postgres_server: Postgres, threads: ThreadPoolExecutor, known: bool
) -> None:
    stop = Stop("INSERT INTO")
    begun, other, reader = on_postgres(stop), on_postgres(), on_postgres()
    if known:
        anyio.run(reader.append, KEY, [entry(1)])
        anyio.run(other.load, KEY)
    first = threads.submit(anyio.run, begun.append, KEY, [entry(2)])
    assert stop.reached.wait(patience(30))
    second = threads.submit(anyio.run, other.append, KEY, [entry(3)])
    wait_for_lock(postgres_server, second)
    stop.released.set()
    first.result(patience(30))
    if known:  # what it had seen is not the end any more
        with pytest.raises(StoreConflictError):
            second.result(patience(30))
        assert numbers(anyio.run(reader.load, KEY)) == [1, 2]
    else:
        second.result(patience(30))
        assert numbers(anyio.run(reader.load, KEY)) == [2, 3]


def test_a_deletion_in_postgres_comes_before_an_append_or_behind_it(
    on_postgres: Callable[..., PostgresStore], postgres_server: Postgres, threads: ThreadPoolExecutor
) -> None:
    stop = Stop("INSERT INTO")
    begun, other = on_postgres(stop), on_postgres()
    anyio.run(other.append, KEY, [entry(1)])
    first = threads.submit(anyio.run, begun.append, KEY, [entry(2)])
    assert stop.reached.wait(patience(30))
    second = threads.submit(anyio.run, other.delete, KEY)
    wait_for_lock(postgres_server, second)
    stop.released.set()
    first.result(patience(30))
    second.result(patience(30))
    assert anyio.run(other.load, KEY) is None
    anyio.run(other.append, KEY, [entry(3)])
    assert numbers(anyio.run(other.load, KEY)) == [3]


def test_a_load_from_postgres_sees_one_state(
    on_postgres: Callable[..., PostgresStore], threads: ThreadPoolExecutor
) -> None:
    stop = Stop("SELECT position")
    reader, writer = on_postgres(stop), on_postgres()
    anyio.run(writer.append, KEY, [entry(1)])
    loading = threads.submit(anyio.run, reader.load, KEY)
    assert stop.reached.wait(patience(30))
    anyio.run(writer.append, KEY, [entry(2)])
    stop.released.set()
    assert numbers(loading.result(patience(30))) == [1]
    with pytest.raises(StoreConflictError):
        anyio.run(reader.append, KEY, [entry(3)])


def before(connection: sqlite3.Connection, text: str, call: Callable[[], Any]) -> None:
    """Call a function before the next statement with a text begins."""

    def watch(statement: str) -> None:
        if text in statement:
            connection.set_trace_callback(None)
            call()

    connection.set_trace_callback(watch)


def test_an_append_to_sqlite_keeps_others_out_from_its_beginning(
    tmp_path: Path, opened: list[sqlite3.Connection]
) -> None:
    path = tmp_path / "sessions.db"
    with SQLiteStore(path) as store, SQLiteStore(path, timeout=0.05) as impatient:
        anyio.run(store.append, KEY, [entry(1)])
        anyio.run(impatient.load, KEY)
        refused: list[StoreError] = []

        def disturb() -> None:
            try:
                anyio.run(impatient.append, KEY, [entry(2)])
            except StoreError as error:
                refused.append(error)

        before(opened[0], "INSERT OR IGNORE", disturb)
        anyio.run(store.append, KEY, [entry(3)])
        assert [error.retryable for error in refused] == [True]
        with pytest.raises(StoreConflictError):
            anyio.run(impatient.append, KEY, [entry(2)])
        assert numbers(anyio.run(impatient.load, KEY)) == [1, 3]


def test_a_load_from_sqlite_sees_one_state_and_holds_up_no_writer(
    tmp_path: Path, opened: list[sqlite3.Connection]
) -> None:
    path = tmp_path / "sessions.db"
    with SQLiteStore(path) as reader, SQLiteStore(path, timeout=0.05) as writer:
        anyio.run(writer.append, KEY, [entry(1)])
        anyio.run(reader.load, KEY)
        before(opened[1], "SELECT piece", lambda: anyio.run(writer.append, KEY, [entry(2)]))
        assert numbers(anyio.run(reader.load, KEY)) == [1]
        with pytest.raises(StoreConflictError):
            anyio.run(reader.append, KEY, [entry(3)])
        assert numbers(anyio.run(reader.load, KEY)) == [1, 2]


def test_a_load_from_redis_has_not_seen_what_comes_meanwhile(redis_server: Redis) -> None:
    prefix = f"stop{time.time_ns()}"
    with RedisStore(redis_server.url, prefix=prefix) as writer:
        anyio.run(writer.append, KEY, [entry(1)])

        class Slow(redis.Redis):
            def hmget(self, name: Any, keys: Any, *more: Any) -> Any:
                if not more:  # the entries, after the position and their number
                    anyio.run(writer.append, KEY, [entry(2)])
                return super().hmget(name, keys, *more)

        with Slow.from_url(redis_server.url) as client:
            reader = RedisStore(client=client, prefix=prefix)
            assert numbers(anyio.run(reader.load, KEY)) == [1]
            with pytest.raises(StoreConflictError):
                anyio.run(reader.append, KEY, [entry(3)])
        assert numbers(anyio.run(writer.load, KEY)) == [1, 2]
