"""The SQLite registry alone: its file, its leases, and what it says when the file cannot be used."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hackamore.errors import RegistryError
from hackamore.pool import MemoryRegistry, SQLiteRegistry
from hackamore.pool import registry as module
from hackamore.pool.registry import Beat, Held, Record, RegistryRow
from hackamore.storage.holders import holder_name, process_name
from tests.contract import shows

FAR = "m|boot|pid:[1]|7|9|0badcafe"
ONE = Record("session-1", "/somewhere", said=True)


class Clock:
    """Stands in for the clocks of the observers: one for signs, and that of the wall."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.db"


Opened = Callable[[], SQLiteRegistry]


@pytest.fixture
def opened(path: Path, clock: Clock) -> Iterator[Opened]:
    """Return a function that opens the file once more, as another program does."""
    all_of_them: list[SQLiteRegistry] = []

    def make() -> SQLiteRegistry:
        all_of_them.append(SQLiteRegistry(path, lease_seconds=15))
        all_of_them[-1].sightings.clock = clock
        return all_of_them[-1]

    yield make
    for registry in all_of_them:
        registry.close()


@shows("pool.registry.file")
def test_what_one_connection_stores_another_reads(opened: Opened) -> None:
    one, two = opened(), opened()
    assert one.acquire("a", "me") == Held(taken=True, record=None)
    assert one.save("a", "me", ONE)
    assert two.acquire("a", "you") == Held(taken=False, holder="me")
    assert not two.save("a", "you", Record("other", "/"))
    assert one.beat("me", ["a"]) == Beat(wanted=("a",))
    two.release("a", "you")  # it waits no longer, and had nothing else to give back
    assert one.beat("me", ["a"]) == Beat()
    one.release("a", "me")
    assert two.acquire("a", "you") == Held(taken=True, record=ONE)
    assert one.beat("me", ["a"]) == Beat(lost=("a",))
    assert not one.save("a", "me", Record("late", "/"))
    two.forget("a")
    assert two.beat("you", ["a"]) == Beat(lost=("a",))
    assert one.acquire("a", "me") == Held(taken=True, record=None)


@shows("pool.registry.file")
def test_the_list_of_conversations_has_those_with_a_session(opened: Opened) -> None:
    one, two = opened(), opened()
    records = {
        "b": Record("session-b", "/b"),
        "c": Record("session-c", "/c", said=True),
        "a": Record("session-a", "/a", said=True, process="m|boot|space|7|9"),
    }
    assert one.acquire("empty", "one").taken
    for key, record in records.items():
        assert one.acquire(key, f"holder of {key}").taken
        assert one.save(key, f"holder of {key}", record)
    one.release("b", "holder of b")
    rows = [RegistryRow(key, records[key], None if key == "b" else f"holder of {key}") for key in "abc"]
    assert two.conversations() == rows
    assert [two.conversations(key) for key in "abc"] == [[row] for row in rows]
    assert two.conversations("empty") == two.conversations("none") == []
    assert two.conversations("_") == two.conversations("%") == []
    for key, record in records.items():
        one.release(key, f"holder of {key}")
        assert two.acquire(key, "two") == Held(taken=True, record=record)


def test_a_lease_is_given_back_alone(opened: Opened) -> None:
    registry = opened()
    for key in "abc":
        assert registry.acquire(key, "one").taken
    assert not registry.acquire("b", "two").taken
    registry.release("a", "one")
    registry.forget("c")
    assert registry.beat("one", ["a", "b", "c"]) == Beat(wanted=("b",), lost=("a", "c"))
    assert [registry.acquire(key, "three").taken for key in "abc"] == [True, False, True]


def test_the_file_is_of_its_owner_only(path: Path, opened: Opened) -> None:
    opened().acquire("a", "me")
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {"registry.db": 0o600, "registry.db-wal": 0o600, "registry.db-shm": 0o600}


@shows("pool.registry.expires")
def test_the_lease_of_a_holder_elsewhere_ends_when_its_heartbeat_does(path: Path, opened: Opened, clock: Clock) -> None:
    dead, other = opened(), opened()
    dead.acquire("a", FAR)
    dead.save("a", FAR, ONE)
    assert other.acquire("a", "other") == Held(taken=False, holder=FAR)  # a new observer waits for the whole time
    clock.now += 14.9
    assert not other.acquire("a", "other").taken
    clock.now += 0.2
    assert other.acquire("a", "other") == Held(taken=True, record=ONE)
    assert dead.beat(FAR, ["a"]) == Beat(lost=("a",))
    assert not dead.save("a", FAR, Record("late", "/"))
    with closing(sqlite3.connect(path)) as connection:  # nothing is left of it
        assert connection.execute("SELECT holder FROM holders").fetchall() == [("other",)]
    dead.release("a", FAR)
    assert other.save("a", "other", ONE)


@shows("pool.registry.expires")
def test_the_lease_of_a_holder_elsewhere_that_sends_heartbeats_does_not_end(opened: Opened, clock: Clock) -> None:
    alive, other = opened(), opened()
    alive.acquire("a", FAR)
    for _ in range(100):
        clock.now += 14
        assert alive.beat(FAR, ["a"]).lost == ()
        assert not other.acquire("a", "other").taken
    assert alive.save("a", FAR, ONE)


@shows("pool.registry.expires")
def test_the_lease_of_this_process_does_not_end(opened: Opened, clock: Clock) -> None:
    mine, other = opened(), opened()
    mine.acquire("a", me := holder_name())
    for _ in range(3):
        assert other.acquire("a", holder_name()) == Held(taken=False, holder=me)
        clock.now += 1e9  # it sends no heartbeat at all
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        gone = f"{process_name(process.pid)}|0badcafe"
    assert mine.acquire("b", gone).taken
    assert other.acquire("b", "other").taken  # at once


@shows("pool.registry.clocks")
@pytest.mark.parametrize("step", [16, -61, 86_400, -86_400])
def test_a_step_of_the_wall_clock_frees_nothing(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    holder, observer = opened(), opened()
    for key, name in (("far", FAR), ("near", holder_name())):
        assert holder.acquire(key, name).taken
        assert not observer.acquire(key, "observer").taken
    now = time.time() + step
    monkeypatch.setattr(time, "time", lambda: now)
    clock.now += 14
    fresh = opened()
    for registry in (observer, fresh):
        assert not registry.acquire("far", "observer").taken
        assert not registry.acquire("near", "observer").taken
    assert holder.beat(FAR, ["far"]) == Beat(wanted=("far",))


def test_a_database_that_fails_keeps_heartbeats_out(path: Path, opened: Opened, clock: Clock) -> None:
    alive, other = opened(), opened()
    alive.acquire("a", FAR)
    assert not other.acquire("a", "other").taken
    clock.now += 100
    breaker = sqlite3.connect(path, isolation_level=None)
    breaker.execute("ALTER TABLE holders RENAME TO gone")
    with pytest.raises(RegistryError, match="no such table"):
        other.acquire("a", "other")
    breaker.execute("ALTER TABLE gone RENAME TO holders")
    breaker.close()
    assert not other.acquire("a", "other").taken


def test_who_waited_first_gets_it_first(opened: Opened, clock: Clock) -> None:
    registry = opened()
    registry.acquire("a", "one")
    registry.save("a", "one", ONE)
    assert not registry.acquire("a", "two").taken
    assert not registry.acquire("a", "three").taken
    assert registry.beat("one", ["a"]) == Beat(wanted=("a",))
    registry.release("a", "one")
    assert not registry.acquire("a", "three").taken
    assert not registry.acquire("a", "one").taken
    assert registry.acquire("a", "two") == Held(taken=True, record=ONE)
    assert registry.beat("two", ["a"]) == Beat()


def test_one_who_stopped_waiting_keeps_nobody_out(opened: Opened, clock: Clock) -> None:
    registry = opened()
    registry.acquire("a", "one")
    registry.save("a", "one", ONE)
    assert not registry.acquire("a", "two").taken
    registry.release("a", "one")
    assert not registry.acquire("a", "three").taken
    clock.now += 3.1
    assert registry.acquire("a", "three").taken
    assert opened().beat("three", ["a"]) == Beat(), "an old request does not count again for a new program"


def test_each_conversation_is_waited_for_by_itself(opened: Opened, clock: Clock) -> None:
    registry = opened()
    for key in "ab":
        assert registry.acquire(key, "one").taken
        assert registry.save(key, "one", ONE)
        assert not registry.acquire(key, "two").taken
        registry.release(key, "one")
    for taken in (False, False, True):
        assert [registry.acquire(key, "three").taken for key in "ab"] == [taken, taken]
        clock.now += 1.5


def test_one_who_waits_keeps_others_out_while_its_process_runs(opened: Opened, clock: Clock) -> None:
    registry = opened()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        gone = f"{process_name(process.pid)}|0badcafe"
    for waiter, keeps in ((holder_name(), True), (FAR, True), (gone, False)):
        assert registry.acquire(waiter, "one").taken
        assert registry.save(waiter, "one", ONE)
        assert not registry.acquire(waiter, waiter).taken
        assert registry.beat("one", [waiter]).wanted == ((waiter,) if keeps else ())
        registry.release(waiter, "one")
        assert registry.acquire(waiter, "three").taken is not keeps


def test_a_heartbeat_keeps_its_own_holder_alive_alone(opened: Opened, clock: Clock) -> None:
    registry, observer = opened(), opened()
    registry.acquire("a", FAR)
    registry.acquire("b", "one")
    taken = []
    for _ in range(5):
        registry.beat("one", ["b"])
        taken.append(observer.acquire("a", "other").taken)
        clock.now += 5
    assert taken == [False, False, False, True, True]


def test_a_holder_that_takes_another_conversation_is_alive(opened: Opened, clock: Clock) -> None:
    registry, observer = opened(), opened()
    for key in "abcde":
        registry.acquire(key, FAR)
        assert not observer.acquire("a", "other").taken
        clock.now += 14


def test_a_lease_that_another_has_is_not_given_back(opened: Opened) -> None:
    registry = opened()
    assert registry.acquire("a", "one").taken  # it has no session yet
    registry.release("a", "two")
    assert not registry.acquire("a", "three").taken


def test_one_who_asks_again_and_again_still_waits(opened: Opened, clock: Clock) -> None:
    registry = opened()
    registry.acquire("a", "one")
    for _ in range(4):
        assert not registry.acquire("a", "two").taken
        assert registry.beat("one", ["a"]) == Beat(wanted=("a",))
        clock.now += 2


def test_a_conversation_without_a_session_leaves_no_row(path: Path, opened: Opened) -> None:
    registry = opened()
    registry.acquire("a", "me")
    registry.release("a", "me")
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM conversations").fetchone() == (0,)
    connection.close()


@shows("pool.registry.refused")
def test_a_newer_file_is_refused(path: Path) -> None:
    SQLiteRegistry(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(
        RegistryError, match=r"registry\.db' has version 7, and this Hackamore knows up to 2\. Update Hackamore"
    ):
        SQLiteRegistry(path)
    assert path.read_bytes() == before


@shows("pool.registry.refused")
def test_an_older_file_is_refused(path: Path) -> None:
    SQLiteRegistry(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(RegistryError, match=r"has version 1, which is too old for this Hackamore"):
        SQLiteRegistry(path)


@shows("pool.registry.refused")
@pytest.mark.parametrize(
    "content", [b"this is text, and long enough to be no SQLite file" * 99, b"SQLite format 3\0" * 99]
)
def test_a_file_that_is_something_else_is_refused_and_kept(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(
        RegistryError, match=r"registry\.db' cannot be used: .*Check that it is a SQLite file of Hackamore"
    ):
        SQLiteRegistry(path)
    assert path.read_bytes() == content


@shows("pool.registry.refused")
def test_a_file_of_another_application_is_refused_and_kept(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE conversations (id INTEGER PRIMARY KEY, title TEXT)")
    connection.close()
    with pytest.raises(RegistryError, match="has version 0, which is too old"):
        SQLiteRegistry(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.close()


def test_a_file_that_is_damaged_later(path: Path, opened: Opened) -> None:
    registry = opened()
    registry.acquire("a", "me")
    registry.close()
    path.write_bytes(b"x" * 9999)
    with pytest.raises(RegistryError, match="cannot be used: file is not a database"):
        registry.acquire("a", "me")
    path.unlink()  # the next call opens it again
    assert registry.acquire("a", "me").taken


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"No such file or directory\. Check that its folder exists"):
        SQLiteRegistry(tmp_path / "nowhere" / "registry.db")


def test_a_file_that_stays_locked(path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUSY_SECONDS", 0.05)
    registry = opened()
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(RegistryError, match="database is locked"):
        registry.acquire("a", "me")
    with pytest.raises(RegistryError, match="database is locked"):
        opened()
    blocker.execute("ROLLBACK")
    blocker.close()
    assert registry.acquire("a", "me").taken


def test_a_file_that_is_locked_for_a_moment(path: Path, opened: Opened) -> None:
    registry = opened()
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.1, blocker.execute, ["ROLLBACK"])
    timer.start()
    assert registry.acquire("a", "me").taken
    timer.join()
    blocker.close()


@shows("pool.registry.lease")
def test_many_threads_and_connections_take_one_lease_at_a_time(opened: Opened) -> None:
    registries = [opened(), opened()]
    holders: list[str] = []
    most, failures = [0], []

    def work(me: str, registry: SQLiteRegistry) -> None:
        try:
            done = 0
            while done < 10:
                if not registry.acquire("a", me).taken:
                    time.sleep(0.001)
                    continue
                holders.append(me)
                most[0] = max(most[0], len(holders))
                done += registry.save("a", me, Record(me, "/"))
                holders.remove(me)
                registry.release("a", me)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"holder-{n}", registries[n % 2])) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert most == [1]


def test_registries_say_what_they_are(path: Path) -> None:
    with closing(SQLiteRegistry(path)) as registry:
        assert (repr(registry), registry.lease_seconds) == (f"SQLiteRegistry({str(path)!r})", 15.0)
        assert registry.blocking
    memory = MemoryRegistry()
    assert (repr(memory), memory.lease_seconds, memory.blocking) == ("MemoryRegistry()", 3600.0, False)


@pytest.mark.parametrize(
    ("value", "name"), [(ONE, "said"), (Held(taken=True), "taken"), (Beat(), "lost"), (RegistryRow("a", ONE), "holder")]
)
def test_answers_of_a_registry_do_not_change(value: object, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(value, name, None)
    assert len({value, value}) == 1


@pytest.mark.parametrize("seconds", [0, -1, None])
def test_lease_seconds_are_checked(path: Path, seconds: float | None) -> None:
    with pytest.raises((ValueError, TypeError), match=f"must be a positive number, got {seconds}"):
        SQLiteRegistry(path, lease_seconds=seconds)  # type: ignore[arg-type]
    assert not path.exists()
