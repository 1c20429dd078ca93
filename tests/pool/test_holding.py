"""Programs that hold a conversation and are stopped, blocked, killed or forget their pool."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hackamore
from hackamore import Options, sync
from hackamore.errors import PoolTimeoutError
from hackamore.pool import SQLiteRegistry
from hackamore.storage.holders import holder_name
from hackamore.transports.process.processes import descendants
from tests.contract import shows
from tests.pool.conftest import MakePool, say
from tests.support.leaks import alive
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.stopping import stop_between_transactions
from tests.support.talking import Held

pytestmark = pytest.mark.timeout(300)


@contextmanager
def program(folder: Path, what: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a program that holds the conversation "a", with an open turn; give it and its CLI."""
    command = [sys.executable, "-m", "tests.pool.keeping", str(folder), what]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def beats(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT beat FROM holders").fetchall()
    connection.close()
    return found


@shows("pool.registry.stopped")
@pytest.mark.parametrize("what", ["block", "stop"])
def test_a_program_that_does_nothing_keeps_its_conversation(options: Options, tmp_path: Path, what: str) -> None:
    path = tmp_path / "registry.db"
    with program(tmp_path, what) as (process, cli):
        if what == "stop":
            stop_between_transactions(process, path)
        else:
            before, until = beats(path), time.monotonic() + patience(30)
            while beats(path) == before:  # they come although the event loop is blocked
                assert time.monotonic() < until
                time.sleep(0.02)
        registry = SQLiteRegistry(path)
        for later in (0.0, 100.0, 86_400.0):
            registry.sightings.clock = lambda later=later: time.monotonic() + later  # type: ignore[misc]
            assert not registry.acquire("a", holder_name()).taken

        async def ask() -> None:
            async with hackamore.SessionPool(options, warm=0, registry=registry, timeout=0.2) as pool:
                with pytest.raises(
                    PoolTimeoutError, match=f"another program runs it .process {process.pid}."
                ) as caught:
                    async with pool.conversation("a"):
                        pass
                assert caught.value.holder == f"process {process.pid}"

        asyncio.run(ask())
        registry.close()
        assert alive(cli)
        process.send_signal(signal.SIGCONT)


@shows("pool.registry.orphans")
@pytest.mark.parametrize("watched", [True, False])
def test_the_cli_of_a_killed_program_ends_first(options: Options, tmp_path: Path, watched: bool) -> None:
    with program(tmp_path, "wait") as (process, cli):
        if not watched:
            [watchdog] = [pid for pid, _ in descendants(process.pid) if pid != cli]
            os.kill(watchdog, signal.SIGKILL)
            os.kill(cli, signal.SIGSTOP)  # it does not see the end of its input
        process.kill()
        process.wait()

        async def ask() -> list[str]:
            path = tmp_path / "registry.db"
            async with (
                hackamore.SessionPool(options, warm=0, registry=path, timeout=patience(30)) as pool,
                pool.conversation("a") as session,
            ):
                assert not alive(cli)
                prompts: list[str] = json.loads((await (await session.send("two")).result()).text)["prompts"]
                return prompts

        assert asyncio.run(ask()) == ["one", "!hang", "two"]
    assert "overlap" not in (tmp_path / "log").read_text()


@shows("pool.registry.forgotten")
def test_a_pool_that_is_forgotten_gives_its_conversations_back(shell: Shell, pool_of: MakePool, tmp_path: Path) -> None:
    path = tmp_path / "registry.db"

    async def scenario() -> None:
        pool = pool_of(registry=path)
        entered = Held(pool)
        await entered.__aenter__()
        async with Held(pool.conversation("a")) as session:
            await say(session, "one")
        del entered, session, pool
        gc.collect()
        async with Held(pool_of(registry=path)) as other, Held(other.conversation("a")) as session:
            assert (await say(session, "two"))["prompts"] == ["one", "two"]

    shell.play(scenario)


@shows("pool.registry.forgotten")
def test_a_pool_whose_event_loop_has_ended_gives_its_conversations_back(options: Options, tmp_path: Path) -> None:
    registry = SQLiteRegistry(tmp_path / "registry.db")
    kept = []

    async def leave() -> None:
        kept.append(pool := hackamore.SessionPool(options, warm=0, registry=registry))
        await pool.start()
        async with pool.conversation("a") as session:
            await (await session.send("one")).result()

    asyncio.run(leave())
    me, until = holder_name(), time.monotonic() + patience(30)
    while not registry.acquire("a", me).taken:
        assert time.monotonic() < until
        time.sleep(0.02)
    registry.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("call", ["stop", "conversation", "forget"])
def test_a_fork_of_a_program_is_refused_by_its_pool(options: Options, call: str) -> None:
    def attempt(pool: sync.SessionPool) -> None:
        if call == "stop":
            pool.stop()
        elif call == "forget":
            pool.forget("k")
        else:
            with pool.conversation("other", timeout=2):
                pass

    with sync.SessionPool(options, warm=0, timeout=patience(30)) as pool:
        with pool.conversation("k") as session:
            session.send("hello").result()
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a child that hangs fails the test
            try:
                attempt(pool)
            except RuntimeError as error:
                os._exit(0 if "is a fork" in str(error) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pool.conversation("k") as session:
            assert "again" in (session.send("again").result().text or "")
