"""The adapters on real servers: the conformance suite, two writers, lost answers, errors of missing packages."""

from __future__ import annotations

import io
import json
import secrets
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import boto3  # type: ignore[import-untyped]
import psycopg
import pytest
import redis
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from hackamore import StoreConflictError, StoreError
from hackamore.testing import check_session_store
from hackamore.transcripts import stores
from hackamore.transcripts.stores import MemoryStore, PostgresStore, RedisStore, S3Store, SQLiteStore
from hackamore.transcripts.stores.keys import Positions
from tests.support.forking import Baton, Fork
from tests.support.servers import Postgres, Redis
from tests.transcripts.stores.conftest import Make

KEY: Any = {"project_key": "-work", "session_id": "11111111-2222-4333-8444-555555555555"}


def entry(number: int) -> dict[str, Any]:
    return {"type": "user", "uuid": f"{number:08}-2222-4333-8444-555555555555", "n": number}


def numbers(entries: list[Any] | None) -> list[int]:
    return [each["n"] for each in entries or []]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_adapter_conforms(make_store: Make, backend: str) -> None:
    report = check_session_store(make_store, backend=backend)
    report.raise_for_failures()
    left_out = set() if make_store is MemoryStore else {"summaries"}
    assert {finding.check for finding in report.of("skipped")} == left_out


def test_a_second_writer_is_refused_and_nothing_is_mixed(making: Callable[[str], Make], kind: str) -> None:
    make = making(kind)

    async def scenario() -> None:
        first, second = make(), make()
        await first.append(KEY, [entry(1)])
        assert numbers(await second.load(KEY)) == [1]
        await second.append(KEY, [entry(2)])
        with pytest.raises(StoreConflictError):
            await first.append(KEY, [entry(3)])
        await second.append(KEY, [entry(4)])
        assert numbers(await make().load(KEY)) == [1, 2, 4]
        assert numbers(await first.load(KEY)) == [1, 2, 4]  # it has seen them now, and may go on
        await first.append(KEY, [entry(5)])
        with pytest.raises(StoreConflictError):
            await second.append(KEY, [entry(6)])

    anyio.run(scenario)


def test_two_writers_that_both_found_nothing_are_not_mixed(making: Callable[[str], Make], kind: str) -> None:
    make = making(kind)

    async def scenario() -> None:
        first, second = make(), make()
        assert (await first.load(KEY), await second.load(KEY)) == (None, None)
        await first.append(KEY, [entry(1)])
        with pytest.raises(StoreConflictError):
            await second.append(KEY, [entry(2)])
        assert numbers(await second.load(KEY)) == [1]
        await first.delete(KEY)
        assert await second.load(KEY) is None
        await second.append(KEY, [entry(3)])  # it knows of the deletion
        assert numbers(await make().load(KEY)) == [3]

    anyio.run(scenario)


@pytest.mark.parametrize("seen", [True, False])
def test_appends_at_the_same_time_come_one_after_the_other(
    making: Callable[[str], Make], kind: str, seen: bool
) -> None:
    make = making(kind)

    async def scenario() -> None:
        stores = [make() for _ in range(4)]
        await make().append(KEY, [entry(0)])
        taken: list[int] = []

        async def append(number: int, store: Any) -> None:
            with suppress(StoreConflictError):
                await store.append(KEY, [entry(number), entry(number + 1)])
                taken.append(number)

        for store in stores if seen else ():
            assert numbers(await store.load(KEY)) == [0]
        async with anyio.create_task_group() as group:
            for number, store in enumerate(stores):
                group.start_soon(append, 10 * number + 10, store)
        _, *found = numbers(await make().load(KEY))
        assert found[1::2] == [number + 1 for number in found[::2]]
        assert sorted(found[::2]) == sorted(taken)
        # On S3, a writer that knows nothing is also refused if another one takes its number.
        assert len(taken) in ([1] if seen else range(1, 5) if kind == "s3" else [4])

    anyio.run(scenario)


@pytest.mark.parametrize("place", ["sqlite", "redis", "postgres"])
def test_both_processes_of_a_fork_append(making: Callable[[str], Make], place: str) -> None:
    store = making(place)()
    others: Any = {**KEY, "session_id": "99999999-2222-4333-8444-555555555555"}
    anyio.run(store.append, KEY, [entry(1)])

    def child(baton: Baton) -> None:
        anyio.run(store.append, others, [entry(2)])
        baton.pass_on()
        baton.take()
        anyio.run(store.append, others, [entry(3)])
        assert numbers(anyio.run(store.load, KEY)) == [1, 4]

    fork = Fork(child)
    fork.baton.take()
    store.close()
    anyio.run(store.append, KEY, [entry(4)])
    fork.baton.pass_on()
    fork.wait()
    assert numbers(anyio.run(store.load, KEY)) == [1, 4]
    assert numbers(anyio.run(store.load, others)) == [2, 3]


def test_a_file_that_is_lost_is_an_error_until_it_is_closed(making: Callable[[str], Make], tmp_path: Path) -> None:
    store = making("sqlite")()
    anyio.run(store.append, KEY, [entry(1)])
    (tmp_path / "sessions.db").rename(tmp_path / "moved.db")
    calls = {
        "append": partial(store.append, KEY, [entry(2)]),
        "load": partial(store.load, KEY),
        "delete": partial(store.delete, KEY),
        "list_sessions": partial(store.list_sessions, "-work"),
        "list_subkeys": partial(store.list_subkeys, KEY),
        "find_session": partial(store.find_session, KEY["session_id"]),
    }
    for operation, call in calls.items():
        with pytest.raises(
            StoreError, match=r"sessions\.db' cannot be used any more: it was deleted or moved"
        ) as caught:
            anyio.run(call)
        assert caught.value.operation == operation
        assert not caught.value.retryable
    (tmp_path / "moved.db").rename(tmp_path / "sessions.db")
    store.close()
    assert numbers(anyio.run(store.load, KEY)) == [1]


def test_titles_and_tags_of_others_are_no_conflict(making: Callable[[str], Make], kind: str) -> None:
    make = making(kind)

    async def scenario() -> None:
        first, second = make(), make()
        await first.append(KEY, [entry(1)])
        await second.append(KEY, [{"type": "custom-title", "customTitle": "t", "n": 2}])
        await first.append(KEY, [entry(3)])
        await second.append(KEY, [{"type": "tag", "tag": "x", "n": 4}])
        await first.append(KEY, [entry(5)])
        assert numbers(await make().load(KEY)) == [1, 2, 3, 4, 5]

    anyio.run(scenario)


def test_an_entry_with_a_known_uuid_counts_once(making: Callable[[str], Make], kind: str) -> None:
    make = making(kind)

    async def scenario() -> None:
        store = make()
        known = {"type": "user", "uuid": "u-1", "n": 1}
        await store.append(KEY, [known, {"type": "user", "uuid": "u-2", "n": 2}])
        await store.append(KEY, [known, {"type": "tag", "n": 3}, known])
        await store.append(KEY, [{"type": "tag", "n": 3}])
        assert numbers(await store.load(KEY)) == [1, 2, 3, 3]

    anyio.run(scenario)


def test_an_append_whose_answer_was_lost_can_be_repeated(making: Callable[[str], Make], kind: str) -> None:
    make = making(kind)

    async def scenario() -> None:
        first, second = make(), make()
        await first.append(KEY, [entry(1)])
        await second.load(KEY)
        await first.append(KEY, [entry(2), {"type": "last-prompt", "n": 3}])
        await make().append(KEY, [{"type": "tag", "tag": "x", "n": 4}])
        # `second` stands for `first` before the answer came: it knows nothing of the append.
        await second.append(KEY, [entry(2), {"type": "last-prompt", "n": 3}])
        await second.append(KEY, [entry(5)])
        assert numbers(await make().load(KEY)) == [1, 2, 3, 4, 5]

    anyio.run(scenario)


@pytest.mark.parametrize("place", ["memory", "sqlite", "redis", "postgres"])
def test_the_copy_with_the_last_append_is_found_first_whatever_the_clock_does(
    making: Callable[[str], Make], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = making(place)()
    early: Any = {**KEY, "project_key": "-late-in-the-alphabet"}

    def append(key: Any, seconds: int, number: int) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: (1_700_000_000 + seconds) * 10**9)
        anyio.run(store.append, key, [entry(number)])

    def listed(key: Any) -> list[int]:
        found = anyio.run(store.list_sessions, key["project_key"])
        return [each["mtime"] // 1_000 - 1_700_000_000 for each in found]

    append(early, 10, 1)
    append(KEY, 20, 2)
    assert anyio.run(store.find_session, KEY["session_id"]) == [KEY, early]
    append(KEY, 5, 3)  # the clock was set back
    assert anyio.run(store.find_session, KEY["session_id"]) == [KEY, early]
    append(early, 30, 4)
    assert anyio.run(store.find_session, KEY["session_id"]) == [early, KEY]
    assert (listed(early), listed(KEY)) == ([30], [20])


def test_a_deleted_session_can_be_stored_again(make_store: Make) -> None:
    part: Any = {**KEY, "subpath": "subagents/agent-1"}

    async def scenario() -> None:
        store = make_store()
        for key in (KEY, part):
            await store.append(key, [entry(1), entry(2)])
        await store.delete(KEY)
        assert await store.list_subkeys(KEY) == []
        for key in (KEY, part):
            await store.append(key, [entry(1), entry(2)])
            assert numbers(await store.load(key)) == [1, 2]

    anyio.run(scenario)


def test_an_empty_id_is_no_id(make_store: Make) -> None:
    async def scenario() -> None:
        store, unnamed = make_store(), [{"type": "user", "uuid": "", "n": number} for number in range(3)]
        await store.append(KEY, unnamed[:2])
        await store.append(KEY, unnamed[2:])
        assert await store.load(KEY) == unnamed

    anyio.run(scenario)


def test_a_session_is_found_in_any_project(make_store: Make) -> None:
    async def scenario() -> None:
        store = make_store()
        assert await store.find_session(KEY["session_id"]) == []
        await store.append({**KEY, "project_key": "-elsewhere"}, [entry(1)])
        assert await store.find_session(KEY["session_id"]) == [{**KEY, "project_key": "-elsewhere"}]
        await store.delete({**KEY, "project_key": "-elsewhere"})
        assert await store.find_session(KEY["session_id"]) == []

    anyio.run(scenario)


def test_a_session_of_the_same_id_in_another_project_has_its_own_parts(make_store: Make) -> None:
    async def scenario() -> None:
        store = make_store()
        keys: list[Any] = [KEY, {**KEY, "project_key": "-elsewhere"}, {**KEY, "session_id": "another"}]
        for number, key in enumerate(keys):
            await store.append(key, [entry(number)])
            await store.append({**key, "subpath": f"subagents/agent-{number}"}, [entry(number)])
        for number, key in enumerate(keys):
            assert await store.list_subkeys(key) == [f"subagents/agent-{number}"]
        await store.delete(keys[0])
        for number, key in enumerate(keys[1:], 1):
            assert await store.list_subkeys(key) == [f"subagents/agent-{number}"]
            assert numbers(await store.load(key)) == [number]
            assert numbers(await store.load({**key, "subpath": f"subagents/agent-{number}"})) == [number]

    anyio.run(scenario)


@pytest.fixture(params=["sqlite", "redis", "postgres", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("redis", "RedisStore", "redis"), ("psycopg", "PostgresStore", "postgres"), ("boto3", "S3Store", "s3")],
)
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, name: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError) as caught:
        getattr(stores, name)("x")
    assert str(caught.value) == f"`{package}` is not installed; run: pip install 'hackamore[{extra}]'"
    assert caught.value.name == package


def test_the_adapters_are_loaded_when_they_are_used() -> None:
    code = (
        "import sys, hackamore.transcripts.stores, hackamore\n"
        "hackamore.Options(session_store=hackamore.transcripts.stores.MemoryStore())\n"
        "assert 'PostgresStore' in dir(hackamore.transcripts.stores)\n"
        "print([name for name in ('sqlite3', 'redis', 'psycopg', 'boto3') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"project_key": "-work\0"}, ValueError, "a key must not contain a NUL character"),
        ({"subpath": "subagents/\0"}, ValueError, "a key must not contain a NUL character"),
        ({"session_id": ""}, ValueError, "a key needs `project_key` and `session_id`"),
        ({"project_key": ""}, ValueError, "a key needs `project_key` and `session_id`"),
        ({"session_id": 7}, TypeError, "a part of a key must be a str, got 7 (int)"),
    ],
)
def test_a_key_that_servers_cannot_keep_is_refused(
    making: Callable[[str], Make], wrong: Any, error: type[Exception], text: str
) -> None:
    for place in ("memory", "sqlite"):
        with pytest.raises(error) as caught:
            anyio.run(making(place)().append, {**KEY, **wrong}, [entry(1)])
        assert str(caught.value) == text


def test_a_deletion_forgets_what_was_seen_of_the_deleted_alone() -> None:
    main, part, other = ("-p", "s", ""), ("-p", "s", "a"), ("-p", "s", "b")
    elsewhere = [("-q", "s", ""), ("-p", "t", ""), ("-p", "t", "a")]
    positions = Positions()
    places = [main, part, other, *elsewhere]
    for position, place in enumerate(places):
        positions.saw(place, position)
    positions.forget(part)
    assert [positions.seen(place) for place in places] == [0, None, 2, 3, 4, 5]
    positions.forget(main)
    assert [positions.seen(place) for place in places] == [None, None, None, 3, 4, 5]


def test_entries_come_in_order_wherever_the_server_has_put_them(postgres_server: Postgres) -> None:
    scans = " ".join(f"-c enable_{scan}=off" for scan in ("indexscan", "indexonlyscan", "bitmapscan"))
    prefix = f"test{secrets.token_hex(6)}_"
    other: Any = {**KEY, "session_id": "other"}

    async def scenario() -> None:
        with PostgresStore(postgres_server.url, prefix=prefix, options=scans) as store:
            await store.append(other, [entry(number) for number in range(500)])
            await store.append(KEY, [entry(number) for number in range(500)])
            await store.delete(other)
            with psycopg.connect(postgres_server.url, autocommit=True) as connection:
                vacuum: Any = f"VACUUM {prefix}entries"
                connection.execute(vacuum)  # new rows take the place of those that are gone
            await store.append(KEY, [entry(number) for number in range(500, 600)])
            assert numbers(await store.load(KEY)) == list(range(600))

    anyio.run(scenario)


def test_the_tables_of_postgres_may_be_in_a_schema(postgres_server: Postgres) -> None:
    schema = f"agents{secrets.token_hex(6)}"
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA {schema}")
        for prefix in ("one_", "two_"):
            with PostgresStore(postgres_server.url, prefix=f"{schema}.{prefix}") as store:
                anyio.run(store.append, KEY, [entry(1)])
            with PostgresStore(postgres_server.url, prefix=f"{schema}.{prefix}") as store:  # the tables are there
                assert numbers(anyio.run(store.load, KEY)) == [1]
        names = "SELECT indexname FROM pg_indexes WHERE schemaname = %s AND indexname NOT LIKE '%%pkey'"
        found = sorted(name for (name,) in admin.execute(names, (schema,)))
    assert found == [
        f"{prefix}{name}" for prefix in ("one_", "two_") for name in ("entries_uuid", "transcripts_session")
    ]


@pytest.mark.parametrize("count", [999, 1_000, 1_001, 2_001])
def test_a_long_transcript_comes_in_order_from_redis(making: Callable[[str], Make], count: int) -> None:
    store = making("redis")()
    entries: list[Any] = [{"n": number} for number in range(count)]
    anyio.run(store.append, KEY, entries)
    assert numbers(anyio.run(store.load, KEY)) == [*range(count)]


def test_a_client_of_redis_may_decode_what_it_reads(redis_server: Redis) -> None:
    part: Any = {**KEY, "subpath": "subagents/agent-1"}
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        store = RedisStore(client=client, prefix=secrets.token_hex(6))
        for key in (KEY, part):
            anyio.run(store.append, key, [entry(1)])
        assert numbers(anyio.run(store.load, KEY)) == [1]
        assert [each["session_id"] for each in anyio.run(store.list_sessions, "-work")] == [KEY["session_id"]]
        assert anyio.run(store.list_subkeys, KEY) == [part["subpath"]]
        assert anyio.run(store.find_session, KEY["session_id"]) == [KEY]


class Bucket:
    """A client of S3 that keeps objects in memory: two on a page, each a second later than the one before."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, dict[str, str], datetime]] = {}
        self.deletions: list[int] = []
        self.refusal = "PreconditionFailed"
        self.stuck: list[str] = []
        self.clock = 0

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str = "", Metadata: Any = None) -> None:
        assert (Bucket, IfNoneMatch) in {("bucket", "*"), ("bucket", "")}
        if IfNoneMatch and Key in self.objects:
            raise ClientError({"Error": {"Code": self.refusal}}, "PutObject")
        self.clock += 1
        self.objects[Key] = Body, Metadata or {}, datetime.fromtimestamp(self.clock, UTC)

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        return {"Metadata": self.objects[Key][1]}

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        return {"Body": io.BytesIO(self.objects[Key][0])}

    def get_paginator(self, name: str) -> Bucket:
        assert name == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str, Delimiter: str = "") -> Iterator[dict[str, Any]]:
        found = sorted((name, kept[2]) for name, kept in self.objects.items() if name.startswith(Prefix))
        if Delimiter:
            folders = {Prefix + name[len(Prefix) :].partition(Delimiter)[0] + Delimiter for name, _ in found}
            yield {"CommonPrefixes": [{"Prefix": each} for each in sorted(folders)]}
        for start in range(0, len(found), 2):
            yield {"Contents": [{"Key": name, "LastModified": at} for name, at in found[start : start + 2]]}
        yield {}

    def delete_objects(self, *, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:
        names = [each["Key"] for each in Delete["Objects"]]
        self.deletions.append(len(names))
        for name in names:
            if name not in self.stuck:
                self.objects.pop(name, None)
        return {"Errors": [{"Key": name} for name in names if name in self.stuck]} if self.stuck else {}


def test_s3_keeps_an_append_as_a_numbered_object() -> None:
    bucket = Bucket()
    other: Any = {**KEY, "project_key": "-late in/the alphabet"}
    store = S3Store("bucket", client=bucket)
    anyio.run(store.append, other, [entry(1)])
    anyio.run(store.append, KEY, [entry(1)])
    anyio.run(store.append, KEY, [entry(2), entry(3)])
    session = KEY["session_id"]
    assert [*bucket.objects] == [
        f"hackamore/parts/-late%20in%2Fthe%20alphabet/{session}/_/000000000000",
        f"hackamore/sessions/-late%20in%2Fthe%20alphabet/{session}",
        f"hackamore/projects/{session}/-late%20in%2Fthe%20alphabet",
        f"hackamore/parts/-work/{session}/_/000000000000",
        f"hackamore/sessions/-work/{session}",
        f"hackamore/projects/{session}/-work",
        f"hackamore/parts/-work/{session}/_/000000000001",
    ]
    assert anyio.run(store.find_session, session) == [KEY, other]
    anyio.run(store.append, other, [entry(2)])
    assert anyio.run(store.find_session, session) == [other, KEY]
    (listed,) = anyio.run(store.list_sessions, "-work")
    kept = bucket.objects[f"hackamore/sessions/-work/{session}"][2]
    assert listed == {"session_id": session, "mtime": int(kept.timestamp()) * 1_000}
    assert numbers(anyio.run(store.load, KEY)) == [1, 2, 3]


def test_a_writer_to_s3_that_has_read_is_refused_behind_another_one() -> None:
    bucket = Bucket()
    reader, writer = S3Store("bucket", client=bucket), S3Store("bucket", client=bucket, prefix="/hackamore")
    anyio.run(writer.append, KEY, [entry(1)])
    assert numbers(anyio.run(reader.load, KEY)) == [1]
    anyio.run(writer.append, KEY, [entry(2)])
    with pytest.raises(StoreConflictError) as caught:
        anyio.run(reader.append, KEY, [entry(3)])
    assert caught.value.session_id == KEY["session_id"]
    assert numbers(anyio.run(reader.load, KEY)) == [1, 2]
    for number, bucket.refusal in enumerate(("ConditionalRequestConflict", "412", "409"), 3):
        tags: list[Any] = [{"type": "tag", "n": number * factor} for factor in (1, 10)]
        anyio.run(S3Store("bucket", client=bucket).append, KEY, tags[:1])
        anyio.run(reader.append, KEY, tags[1:])  # behind the tag of the other one
    assert numbers(anyio.run(reader.load, KEY)) == [1, 2, 3, 30, 4, 40, 5, 50]
    bucket.refusal = "AccessDenied"
    with pytest.raises(ClientError, match="AccessDenied"):
        anyio.run(writer.append, KEY, [entry(4)])


def test_an_entry_that_comes_in_two_appends_to_s3_counts_once() -> None:
    store = S3Store("bucket", client=Bucket())
    unnamed: Any = [{"type": "tag", "uuid": uuid, "n": 9} for uuid in ("", 7, None)]
    for batch in ([entry(1), entry(2)], [entry(2), entry(3)], [entry(1), *unnamed], unnamed):
        anyio.run(store.append, KEY, batch)
    assert numbers(anyio.run(store.load, KEY)) == [1, 2, 3, *[9] * 6]


def test_a_session_in_s3_is_deleted_a_thousand_objects_at_a_time() -> None:
    bucket = Bucket()
    store = S3Store("bucket", client=bucket)
    part: Any = {**KEY, "subpath": "subagents/agent-1"}
    another: Any = {**part, "subpath": "subagents/agent-10"}
    for key in (part, part, KEY, another):
        anyio.run(store.append, key, [entry(len(bucket.objects))])
    folder = f"hackamore/parts/-work/{KEY['session_id']}/_"
    for number in range(1, 1_000):
        bucket.put_object(Bucket="bucket", Key=f"{folder}/{number:012d}", Body=b"{}")
    anyio.run(store.delete, part)
    assert anyio.run(store.list_subkeys, KEY) == ["subagents/agent-10"]
    bucket.stuck = [f"{folder}/000000000007"]
    with pytest.raises(OSError, match=f"^1 objects could not be deleted, such as '{bucket.stuck[0]}'$"):
        anyio.run(store.delete, KEY)
    assert anyio.run(store.list_sessions, "-work") == []  # what is left is not listed
    bucket.stuck = []
    anyio.run(store.delete, KEY)
    assert bucket.objects == {}
    assert bucket.deletions == [2, 1_000, 6]


class Closing:
    """A client that does nothing."""

    def __init__(self) -> None:
        self.closed = 0

    def register_script(self, script: str) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("given", [True, False])
def test_a_client_is_closed_by_the_one_who_made_it(monkeypatch: pytest.MonkeyPatch, *, given: bool) -> None:
    client = Closing()
    asked: list[Any] = []

    def make(where: str, **options: Any) -> Closing:
        asked.append((where, options))
        return client

    monkeypatch.setattr(boto3, "client", make)
    monkeypatch.setattr(redis.Redis, "from_url", make)
    with S3Store("bucket", client=client) if given else S3Store("bucket", region_name="here"):
        pass
    with RedisStore(client=client) if given else RedisStore(socket_timeout=3):
        pass
    assert client.closed == (0 if given else 2)
    made = [("s3", {"region_name": "here"}), ("redis://localhost:6379/0", {"socket_timeout": 3})]
    assert asked == ([] if given else made)


@pytest.mark.parametrize("at_once", [1, 25])
def test_a_file_is_little_larger_than_its_entries(tmp_path: Path, at_once: int) -> None:
    entries = [entry(number) | {"text": "x" * (1_000 + number * 997 % 2_000)} for number in range(200)]
    entries += [entry(200 + number) | {"text": "x" * 10_000 * number} for number in range(3)]

    async def scenario() -> None:
        with SQLiteStore(tmp_path / "sessions.db") as store:
            for start in range(0, len(entries), at_once):
                await store.append(KEY, entries[start : start + at_once])
            assert await store.load(KEY) == entries

    anyio.run(scenario)
    assert (tmp_path / "sessions.db").stat().st_size < 1.3 * len(json.dumps(entries))


def test_a_file_of_the_first_version_is_migrated(tmp_path: Path) -> None:
    part: Any = KEY | {"subpath": "subagents/agent-1"}
    rows = [("", 0, entry(1)), ("", 1, {"type": "title", "n": 2}), ("", 2, entry(3)), (part["subpath"], 0, entry(1))]
    of = KEY["project_key"], KEY["session_id"]
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        connection.executescript(FIRST_VERSION)
        for name, following in (("", 3), (part["subpath"], 1)):
            connection.execute(
                "INSERT INTO hackamore_transcripts VALUES (?, ?, ?, 1, ?, 7, 'seen')", (*of, name, following)
            )
        for name, number, each in rows:
            values = (*of, name, number, each.get("uuid"), json.dumps(each).encode())
            connection.execute("INSERT INTO hackamore_entries VALUES (?, ?, ?, ?, ?, ?)", values)
        connection.commit()

    async def scenario() -> None:
        with SQLiteStore(tmp_path / "sessions.db") as store:
            assert await store.list_sessions("-work") == [{"session_id": of[1], "mtime": 7}]
            assert await store.load(KEY) == [each for name, _, each in rows if not name]
            await store.append(KEY, [entry(3), entry(4)])
            assert numbers(await store.load(KEY)) == [1, 2, 3, 4]
            assert numbers(await store.load(part)) == [1]
            await store.delete(part)
            assert (await store.list_subkeys(KEY), numbers(await store.load(KEY))) == ([], [1, 2, 3, 4])

    anyio.run(scenario)


def test_a_file_may_have_tables_of_its_user(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        connection.executescript("CREATE TABLE mine (id); INSERT INTO mine VALUES (1)")
        with SQLiteStore(tmp_path / "sessions.db") as store:
            anyio.run(store.append, KEY, [entry(1)])
            assert numbers(anyio.run(store.load, KEY)) == [1]
        assert connection.execute("SELECT id FROM mine").fetchall() == [(1,)]


FIRST_VERSION = """
    CREATE TABLE hackamore_transcripts (
        project TEXT NOT NULL, session TEXT NOT NULL, part TEXT NOT NULL,
        position INTEGER NOT NULL, next INTEGER NOT NULL, mtime INTEGER NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (project, session, part)
    ) WITHOUT ROWID;
    CREATE INDEX hackamore_transcripts_session ON hackamore_transcripts (session);
    CREATE TABLE hackamore_entries (
        project TEXT NOT NULL, session TEXT NOT NULL, part TEXT NOT NULL, number INTEGER NOT NULL, uuid TEXT, entry BLOB NOT NULL,
        PRIMARY KEY (project, session, part, number)
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX hackamore_entries_uuid ON hackamore_entries (project, session, part, uuid) WHERE uuid IS NOT NULL;
    PRAGMA user_version = 1;
"""


def test_a_prefix_of_tables_must_be_a_name() -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        PostgresStore("", prefix="x; DROP TABLE users; --")
