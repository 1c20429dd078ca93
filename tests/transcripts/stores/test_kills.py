"""Servers that are killed in the middle of appends: what was acknowledged is there, in order and once; an append is whole or not there."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from hackamore.transcripts.stores import RedisStore, SQLiteStore
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.servers import Postgres, Redis, Server
from tests.support.sizes import size
from tests.transcripts.stores.conftest import Make

KEY: Any = {"project_key": "-work", "session_id": "11111111-2222-4333-8444-555555555555"}
BATCH = 20
ROUNDS = size("kills of servers and writers")

pytestmark = pytest.mark.timeout(240 + 10 * ROUNDS)


def batch(number: int) -> list[Any]:
    return [
        {"type": "user", "uuid": f"{number:06}-{part}", "n": number, "part": part, "text": "x" * 500}
        for part in range(BATCH)
    ]


def check(entries: list[Any] | None, acknowledged: int) -> int:
    """Check the entries; return the number of whole appends."""
    seen = [(each["n"], each["part"]) for each in entries or []]
    whole, rest = divmod(len(seen), BATCH)
    assert rest == 0, "half an append is there"
    assert seen == [(number, part) for number in range(whole) for part in range(BATCH)]
    assert whole >= acknowledged, "an append that was acknowledged is lost"
    assert whole <= acknowledged + 1
    return whole


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_a_server_that_is_killed(making: Callable[[str], Make], kind: str, request: pytest.FixtureRequest) -> None:
    make = making(kind)
    server: Server = request.getfixturevalue(f"{kind}_server")
    assert isinstance(server, (Redis, Postgres))
    chance = random.Random(f"{kind} {seeded(0)}")
    acknowledged = 0
    for _ in range(ROUNDS):
        store = make()
        begun = threading.Event()

        async def write(store: Any = store, begun: threading.Event = begun) -> None:
            nonlocal acknowledged
            acknowledged = check(await store.load(KEY), acknowledged)
            while True:
                await store.append(KEY, batch(acknowledged))
                acknowledged += 1
                begun.set()

        failed: list[BaseException] = []

        def run(write: Any = write, failed: list[BaseException] = failed) -> None:
            try:
                anyio.run(write)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert begun.wait(patience(30)), failed
        thread.join(chance.random() * 0.1)
        server.kill()
        thread.join(patience(30))
        assert not thread.is_alive()
        assert failed
        assert not isinstance(failed[0], AssertionError), failed[0]
        store.close()
        server.start()
    acknowledged = check(anyio.run(make().load, KEY), acknowledged)
    assert acknowledged >= ROUNDS


@pytest.mark.parametrize("where", ["HSET", "ZADD", "EXEC"])
@pytest.mark.parametrize("late", [False, True])
def test_a_server_that_dies_while_it_writes_its_file_keeps_an_append_whole(
    redis_server: Redis, where: str, late: bool
) -> None:
    """Redis 7.0.15 cuts the last command off and leaves the beginning of its transaction, to which the next one is added."""
    prefix = f"cut{where}{late}"

    def new() -> Any:
        return RedisStore(redis_server.url, prefix=prefix)

    def again() -> None:
        redis_server.kill()
        redis_server.start()

    for number in range(2):
        anyio.run(new().append, KEY, batch(number))
    redis_server.kill()
    (file,) = redis_server.folder.glob("appendonlydir/*.incr.aof")
    written = file.read_bytes()
    cut = written.index(f"\r\n{where}\r\n".encode(), written.rindex(b"\r\nMULTI\r\n")) + (
        1_000 if where == "HSET" else 3
    )
    with file.open("r+b") as opened:
        opened.truncate(cut)
    redis_server.start()
    assert check(anyio.run(new().load, KEY), 1) == 1
    if late:
        anyio.run(new().append, {**KEY, "session_id": "22222222-2222-4333-8444-555555555555"}, batch(0))
        again()
    anyio.run(new().append, KEY, batch(1))
    for _ in range(2):
        again()
        assert check(anyio.run(new().load, KEY), 2) == 2


WRITER = """
import sys, anyio
from hackamore.transcripts.stores import SQLiteStore
from tests.transcripts.stores.test_kills import KEY, batch
async def write():
    store = SQLiteStore(sys.argv[1])
    number = len(await store.load(KEY) or []) // 20
    while True:
        await store.append(KEY, batch(number))
        number += 1
        print(number, flush=True)
anyio.run(write)
"""


def test_a_writer_of_sqlite_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    chance = random.Random(seeded(1))
    acknowledged = 0
    for _ in range(ROUNDS):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        )
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 20)):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        with process:
            numbers = process.stdout.read().split()  # with what was read ahead
        acknowledged = int(numbers[-1]) if numbers else acknowledged
        with SQLiteStore(path) as store:
            acknowledged = check(anyio.run(store.load, KEY), acknowledged)
