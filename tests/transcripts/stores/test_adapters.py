"""The adapters on real servers: the conformance suite, two writers, lost answers, errors of missing packages."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridle import StoreConflictError, StoreError
from bridle.testing import check_session_store
from bridle.transcripts.stores import MemoryStore, PostgresStore
from tests.support.forking import Baton, Fork
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
    assert {finding.check for finding in report.of("skipped")} == {"summaries"}


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


def test_both_processes_of_a_fork_append(making: Callable[[str], Make]) -> None:
    store = making("sqlite")()
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
    for call in (partial(store.append, KEY, [entry(2)]), partial(store.load, KEY), partial(store.delete, KEY)):
        with pytest.raises(
            StoreError, match=r"sessions\.db' cannot be used any more: it was deleted or moved"
        ) as caught:
            anyio.run(call)
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


@pytest.fixture(params=["sqlite", "redis", "postgres", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("redis", "RedisStore", "redis"), ("psycopg", "PostgresStore", "postgres"), ("boto3", "S3Store", "s3")],
)
def test_a_missing_package_is_named_with_its_extra(package: str, name: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"from bridle.transcripts.stores import {name}\n"
        f"try: {name}('x')\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"pip install 'bridle[{extra}]'" in done.stdout, done.stderr


def test_the_adapters_are_loaded_when_they_are_used() -> None:
    code = (
        "import sys, bridle.transcripts.stores, bridle\n"
        "bridle.Options(session_store=bridle.transcripts.stores.MemoryStore())\n"
        "assert 'PostgresStore' in dir(bridle.transcripts.stores)\n"
        "print([name for name in ('sqlite3', 'redis', 'psycopg', 'boto3') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"project_key": "-work\0"}, ValueError),
        ({"subpath": "subagents/\0"}, ValueError),
        ({"session_id": ""}, ValueError),
        ({"project_key": ""}, ValueError),
        ({"session_id": 7}, TypeError),
    ],
)
def test_a_key_that_servers_cannot_keep_is_refused(
    making: Callable[[str], Make], wrong: Any, error: type[Exception]
) -> None:
    for place in ("memory", "sqlite"):
        with pytest.raises(error, match="key"):
            anyio.run(making(place)().append, {**KEY, **wrong}, [entry(1)])


def test_a_prefix_of_tables_must_be_a_name() -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        PostgresStore("", prefix="x; DROP TABLE users; --")


class _Wrong(MemoryStore):
    pass


class _Reversing(_Wrong):
    async def load(self, key: Any) -> list[Any] | None:
        found = await super().load(key)
        return None if found is None else found[::-1]


class _Forgetful(_Wrong):
    async def delete(self, key: Any) -> None:
        if "subpath" in key:
            await super().delete(key)


class _Seconds(_Wrong):
    async def list_sessions(self, project_key: str) -> Any:
        return [{**each, "mtime": each["mtime"] // 1_000} for each in await super().list_sessions(project_key)]


class _Aliasing:
    def __init__(self) -> None:
        self.kept: dict[Any, Any] = {}

    def append(self, key: Any, entries: list[Any]) -> None:
        self.kept.setdefault(tuple(sorted(key.items())), []).extend(entries)

    def load(self, key: Any) -> Any:
        return self.kept.get(tuple(sorted(key.items())))


class _Raising(_Wrong):
    async def append(self, key: Any, entries: list[Any]) -> None:
        raise OSError("down")


@pytest.mark.parametrize(
    ("wrong", "fails"),
    [
        (_Reversing, "order"),
        (_Forgetful, "deleted"),
        (_Seconds, "listed"),
        (_Aliasing, "own-copy"),
        (_Raising, "order"),
        (object, "order"),
    ],
)
def test_the_suite_finds_what_is_wrong(wrong: Any, fails: str) -> None:
    report = check_session_store(wrong)
    assert fails in {finding.check for finding in report.of("fails")}
    if fails == "own-copy":
        report.raise_for_failures()  # sessions work without it
        return
    with pytest.raises(AssertionError):
        report.raise_for_failures()


def test_a_blocking_store_may_leave_out_what_is_optional() -> None:
    class Least(_Aliasing):
        def append(self, key: Any, entries: list[Any]) -> None:
            import copy

            super().append(key, copy.deepcopy(entries)) if entries else None

        def load(self, key: Any) -> Any:
            found = super().load(key)
            return None if found is None else list(found)

    report = check_session_store(Least)
    report.raise_for_failures()
    assert len(report.of("skipped")) == 5
    with pytest.raises(ValueError, match="no check"):
        check_session_store(Least, only=["nonsense"])
