"""Pools on asyncio, trio and threads."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

import hackamore
from hackamore import (
    ControlRejectedError,
    Options,
    OptionsError,
    PoolClosedError,
    PoolTimeoutError,
    SessionClosedError,
    SessionReturnedError,
    StartError,
)
from hackamore.pool import CallerQueued, MemoryRegistry, SessionCheckedOut, SQLiteRegistry
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.pool.conftest import MakePool, say
from tests.support.leaks import alive
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.talking import Held, each, got, raised, until


@shows("pool.sessions.fresh", "pool.warm.refilled")
def test_sessions(shell: Shell, pool_of: MakePool) -> None:
    async def scenario() -> None:
        async with Held(pool_of(warm=2)) as pool:
            await got(pool.wait_warm(timeout=patience(30)))
            events = pool.events()
            seen = []
            for number in range(3):
                async with Held(pool.session()) as session:
                    answer = await say(session, f"hello {number}")
                    assert answer["prompts"] == [f"hello {number}"]
                    seen.append(answer["pid"])
            assert len(set(seen)) == 3
            await got(pool.wait_warm(timeout=patience(30)))
            assert pool.stats().hits >= 2
            assert pool.stats().waits.count == 3
            await got(pool.stop())
            sources = [event.source async for event in each(events) if isinstance(event, SessionCheckedOut)]
            assert sources[:2] == ["ready", "ready"]
        assert not any(map(alive, seen))

    shell.play(scenario)


@shows("pool.conversations.continue", "pool.limits.lru")
def test_conversations_continue_on_any_process(shell: Shell, pool_of: MakePool) -> None:
    async def scenario() -> None:
        async with Held(pool_of(warm=1, max_live=2)) as pool:
            pids: dict[str, set[int]] = {}
            for turn in range(3):
                for key in ("a", "b", "c", "d"):
                    async with Held(pool.conversation(key)) as session:
                        answer = await say(session, f"{key}{turn}")
                        assert answer["prompts"] == [f"{key}{number}" for number in range(turn + 1)]
                        pids.setdefault(key, set()).add(answer["pid"])
                    assert pool.stats().live <= 2
            assert all(len(found) == 3 for found in pids.values())
            assert pool.stats().resumes == 8
            async with Held(pool.conversation("d")) as session:
                live = await say(session, "again")
            async with Held(pool.conversation("d")) as session:
                assert (await say(session, "and again"))["pid"] == live["pid"]

    shell.play(scenario)


@shows("pool.sessions.returned")
def test_a_returned_session_is_dead(shell: Shell, pool_of: MakePool) -> None:
    async def scenario() -> None:
        async with Held(pool_of()) as pool:
            async with Held(pool.conversation("a")) as session:
                await say(session, "hello")
                messages, events = session.messages(), session.events()
                turn = await got(session.send("!hang"))
            for call in (
                lambda: session.send("x"),
                lambda: session.interrupt(),
                lambda: session.wait_idle(),
                lambda: session.start(),
                lambda: session.stop(),
                lambda: session.finish(),
                lambda: session.messages(),
                lambda: session.events(),
                lambda: session.state,
                lambda: session.session_id,
                lambda: session.request("get_settings"),
                lambda: turn.result(),
                lambda: messages.next_item() if messages.unread == 0 else drained(messages),
            ):
                error = await raised(call, SessionReturnedError)
                assert "returned to its pool" in str(error)
            assert "returned" in repr(session)
            assert "SessionStopped" not in [type(event).__name__ async for event in each(events)]
            async with Held(pool.conversation("a")) as again:  # its turn still runs: it is the caller's conversation
                await got(again.interrupt())
                assert (await say(again, "next"))["prompts"] == ["hello", "!hang", "next"]

    async def drained(cursor: Any) -> None:
        async for _ in each(cursor):
            pass

    shell.play(scenario)


@shows("pool.limits.timeout")
def test_callers_wait_until_their_timeout(shell: Shell, pool_of: MakePool) -> None:
    async def scenario() -> None:
        async with Held(pool_of(max_live=1)) as pool, Held(pool.conversation("a")):
            error = await raised(lambda: Held(pool.session(timeout=0.05)).__aenter__(), PoolTimeoutError)
            assert (error.live, error.busy, error.waiting, error.max_live) == (1, 1, 1, 1)
            assert error.retryable
            assert isinstance(error, TimeoutError)
            error = await raised(lambda: Held(pool.conversation("a", timeout=0.05)).__aenter__(), PoolTimeoutError)
            assert "'a'" in str(error)
            assert pool.stats().waiting == 0
            assert pool.stats().timeouts == 2

    shell.play(scenario)


@shows("pool.death.holder")
@pytest.mark.parametrize("command", ["!die", "!die-first"])
def test_a_cli_that_dies(shell: Shell, pool_of: MakePool, command: str) -> None:
    async def scenario() -> None:
        async with Held(pool_of(warm=1)) as pool:
            async with Held(pool.conversation("a")) as session:
                await say(session, "one")
                turn = await got(session.send(command))
                await raised(lambda: turn.result(), SessionClosedError)
            async with Held(pool.conversation("a")) as session:
                kept = ["one", "!die"] if command == "!die" else ["one"]
                assert (await say(session, "two"))["prompts"] == [*kept, "two"]
            async with Held(pool.conversation("new")) as session:
                turn = await got(session.send("!die-first"))
                await raised(lambda: turn.result(), SessionClosedError)
            async with Held(pool.conversation("new")) as session:  # the disk knows nothing of it
                assert (await say(session, "two"))["prompts"] == ["two"]
                pid = session.pid
            deaths = pool.stats().deaths
            os.kill(pid, signal.SIGKILL)
            await until(shell, lambda: pool.stats().deaths > deaths)
            async with Held(pool.conversation("new")) as session:
                assert (await say(session, "three"))["prompts"] == ["two", "three"]
                await got(session.stop())
                await raised(lambda: session.send("x"), SessionClosedError)
            async with Held(pool.conversation("new")) as session:
                assert (await say(session, "four"))["prompts"] == ["two", "three", "four"]

    shell.play(scenario)


@shows("pool.warm.replaced")
def test_a_dead_warm_process_is_replaced(shell: Shell, pool_of: MakePool, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Held(pool_of(warm=1)) as pool:
            await got(pool.wait_warm(timeout=patience(30)))
            pid = int((tmp_path / "log").read_text().split()[1])
            os.kill(pid, signal.SIGKILL)
            await until(shell, lambda: pool.stats().deaths == 1)
            await got(pool.wait_warm(timeout=patience(30)))
            async with Held(pool.session()) as session:
                assert (await say(session, "x"))["pid"] != pid

    shell.play(scenario)


@shows("pool.differences.applied")
def test_differences(shell: Shell, pool_of: MakePool, options: Options) -> None:
    async def scenario() -> None:
        base = options.replace(model="base", permission_mode="default")
        async with Held(pool_of(options=base, warm=1)) as pool:
            await got(pool.wait_warm(timeout=patience(30)))
            async with Held(pool.session(model="other", permission_mode="plan")) as session:
                answer = await say(session, "x")
                assert (answer["model"], answer["mode"]) == ("other", "plan")
            assert pool.stats().hits == 1
            async with Held(pool.conversation("a", model="other")) as session:
                first = await say(session, "x")
                assert first["model"] == "other"
                await got(session.set_permission_mode("plan"))
            async with Held(pool.conversation("a")) as session:
                answer = await say(session, "x")
                assert (answer["pid"], answer["model"], answer["mode"]) == (first["pid"], "base", "default")
                await got(session.apply_flag_settings({"x": 1}))
            async with Held(pool.conversation("a")) as session:  # nothing says what that left behind
                assert (await say(session, "x"))["pid"] != first["pid"]
            named = {"TALKER_HOME": options.env["TALKER_HOME"], "TALKER_NAME": "mine"}
            async with Held(pool.conversation("a", env=named)) as session:
                answer = await say(session, "x")
                assert (answer["name"], len(answer["prompts"])) == ("mine", 4)
            async with Held(pool.conversation("a")) as session:
                assert (await say(session, "x"))["name"] == "base"
            await raised(lambda: Held(pool.session(model="refused")).__aenter__(), ControlRejectedError)
            assert pool.stats().busy == 0

    shell.play(scenario)


@shows("pool.start.errors")
def test_start_errors(shell: Shell, pool_of: MakePool, options: Options) -> None:
    async def scenario() -> None:
        async with Held(pool_of(options=options.replace(cli_path="/nowhere/claude"), warm=1)) as pool:
            await raised(lambda: Held(pool.session()).__aenter__(), StartError)
            await raised(lambda: Held(pool.conversation("a")).__aenter__(), StartError)
            assert pool.stats().start_failures >= 2
            assert pool.stats().live == 0

    shell.play(scenario)


@shows("pool.end.drain", "pool.end.closed")
def test_the_end(shell: Shell, pool_of: MakePool) -> None:
    async def scenario() -> None:
        pool = pool_of(warm=1, max_live=2)
        with pytest.raises(PoolClosedError, match="not started"):
            pool.session()
        await got(pool.start())
        held = Held(pool.conversation("a"))
        session = await held.__aenter__()
        await say(session, "x")
        pid = session.pid
        assert not await got(pool.drain(timeout=0.05))
        assert not alive(pid)
        await raised(lambda: session.send("x"), SessionClosedError)
        await held.__aexit__(None, None, None)
        with pytest.raises(PoolClosedError, match="stopped"):
            pool.session()
        await got(pool.stop())
        assert pool.stats().live == 0

    shell.play(scenario)


@shows("pool.conversations.settles")
def test_open_work_outlives_its_holder(shell: Shell, pool_of: MakePool) -> None:
    async def scenario() -> None:
        async with Held(pool_of(max_live=1, idle=0)) as pool:
            async with Held(pool.conversation("a")) as session:
                await got(session.send("!hang"))
            await raised(lambda: Held(pool.session(timeout=0.05)).__aenter__(), PoolTimeoutError)
            async with Held(pool.conversation("a")) as session:
                await got(session.interrupt())
                await got(session.wait_idle())
            async with Held(pool.session()) as session:
                await say(session, "x")
            assert pool.stats().hibernations == 1

    shell.play(scenario)


@shows("pool.registry.restart", "pool.registry.changed")
def test_a_registry_survives_the_pool(shell: Shell, pool_of: MakePool, tmp_path: Path) -> None:
    """The session id that a conversation has after `/clear` is stored when it is returned."""

    async def scenario() -> None:
        path = tmp_path / "registry.db"
        async with Held(pool_of(registry=path)) as pool:
            async with Held(pool.conversation("a")) as session:
                await say(session, "one")
            async with Held(pool.conversation("b")) as session:
                cleared = (await say(session, "!clear"))["session"]
            async with Held(pool.conversation("c")):
                pass
        assert path.stat().st_mode & 0o777 == 0o600
        async with Held(pool_of(registry=path)) as pool:
            async with Held(pool.conversation("a")) as session:
                assert (await say(session, "two"))["prompts"] == ["one", "two"]
            async with Held(pool.conversation("b")) as session:
                assert (await say(session, "two"))["session"] == cleared
            async with Held(pool.conversation("c")) as session:
                assert (await say(session, "one"))["prompts"] == ["one"]

    shell.play(scenario)


@shows("pool.registry.lease")
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_two_pools_share_a_registry(shell: Shell, pool_of: MakePool, tmp_path: Path, kind: str) -> None:
    async def scenario() -> None:
        registry = MemoryRegistry() if kind == "memory" else SQLiteRegistry(tmp_path / "registry.db")
        async with Held(pool_of(registry=registry)) as one, Held(pool_of(registry=registry)) as two:
            async with Held(one.conversation("a")) as session:
                await say(session, "one")
                await raised(lambda: Held(two.conversation("a", timeout=0.2)).__aenter__(), PoolTimeoutError)
            for number, pool in enumerate((two, one, two)):
                async with Held(pool.conversation("a")) as session:
                    assert len((await say(session, "next"))["prompts"]) == number + 2
        if isinstance(registry, SQLiteRegistry):
            registry.close()

    shell.play(scenario)


def test_a_forgotten_pool_ends_its_processes(shell: Shell, pool_of: MakePool, tmp_path: Path) -> None:
    async def scenario() -> None:
        pool = pool_of(warm=2)
        await got(pool.start())
        await got(pool.wait_warm(timeout=patience(30)))
        pids = [int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines()]
        del pool
        gc.collect()
        await until(shell, lambda: not any(map(alive, pids)))

    shell.play(scenario)


def test_a_forgotten_check_out_is_returned(shell: Shell, pool_of: MakePool) -> None:
    async def scenario() -> None:
        async with Held(pool_of(max_live=1)) as pool:
            check_out = Held(pool.conversation("a"))
            await say(await check_out.__aenter__(), "one")
            del check_out
            gc.collect()
            async with Held(pool.conversation("a")) as session:
                assert (await say(session, "two"))["prompts"] == ["one", "two"]

    shell.play(scenario)


@shows("pool.limits.memory")
def test_memory_limit(shell: Shell, pool_of: MakePool) -> None:
    async def scenario() -> None:
        async with Held(pool_of(max_live=9, memory_limit=1)) as pool:
            for key in ("a", "b", "a"):
                async with Held(pool.conversation(key)) as session:
                    await say(session, "x")
                assert pool.stats().live == 1
            assert pool.stats().evictions >= 2

    shell.play(scenario)


@shows("pool.sessions.checked")
def test_bad_arguments(pool_of: MakePool, options: Options, shell: Shell) -> None:
    for wrong in ({"max_live": 0}, {"warm": 3, "max_live": 2}, {"warm": -1}, {"max_starting": 0}, {"max_live": "x"}):
        with pytest.raises(OptionsError, match=f"`{next(iter(wrong))}`"):
            pool_of(**wrong)
    for field in ({"resume": "x"}, {"continue_conversation": True}):
        with pytest.raises(OptionsError, match=f"`{next(iter(field))}`"):
            pool_of(options=options.replace(**field))
    with pytest.raises(TypeError, match="TransportSource"):
        pool_of(transport=object())
    with pytest.raises(TypeError, match="Registry"):
        pool_of(registry=object())

    async def scenario() -> None:
        async with Held(pool_of()) as pool:
            with pytest.raises(OptionsError, match="modle"):
                pool.session(modle="x")
            with pytest.raises(OptionsError, match="`resume`"):
                pool.session(resume="x")
            with pytest.raises(OptionsError, match="persist_session"):
                pool.conversation("a", persist_session=False)
            with pytest.raises(TypeError, match="`key`"):
                pool.conversation("")

    shell.play(scenario)


def test_a_caller_that_is_cancelled_in_the_moment_of_its_turn_keeps_nothing(options: Options) -> None:
    """asyncio's own `Task.cancel` also ends a wait that has just succeeded."""

    async def scenario() -> None:
        async with hackamore.SessionPool(options, warm=0, max_live=1, timeout=patience(30)) as pool:

            async def wait() -> None:
                async with pool.conversation("a"):
                    raise AssertionError("it was cancelled")

            async with pool.conversation("a"):
                events = pool.events()
                waiting = asyncio.create_task(wait())
                while not isinstance(await events.next_item(timeout=patience(30)), CallerQueued):
                    pass
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (pool.stats().busy, pool.stats().waiting) == (0, 0)
            async with pool.conversation("a") as session:
                assert (await say(session, "x"))["prompts"] == ["x"]

    asyncio.run(scenario())


@shows("pool.sessions.cancelled")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancellation_loses_no_process(backend: str, options: Options) -> None:
    async def scenario() -> None:
        async with hackamore.SessionPool(options, warm=0, max_live=1) as pool:
            for delay in (0.0, 0.001, 0.01, 0.02, 0.03, 0.04, 0.05, 0.1):
                with anyio.move_on_after(delay):
                    async with pool.conversation("a") as session:
                        await session.send("!hang")
                        await anyio.sleep_forever()
                async with pool.conversation("a") as session:
                    await session.interrupt()
            async with pool.session() as session:
                assert (await say(session, "x"))["prompts"] == ["x"]
            assert (pool.stats().busy, pool.stats().waiting) == (0, 0)

    anyio.run(scenario, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_many_callers_at_once_leave_the_event_loop_to_other_tasks(backend: str) -> None:
    """Counted in callers, and not in seconds. Some leave again, in the queue or before, and the others are served in order."""
    callers, leaving = 80, {*range(0, 40, 2), *range(70, 80)}
    served: list[int] = []

    async def scenario(cli: SimulatedCLI) -> None:
        async with hackamore.SessionPool(warm=0, max_live=1, timeout=None, transport=cli) as pool:

            async def call(number: int, scope: anyio.CancelScope) -> None:
                with scope:
                    async with pool.conversation(f"user-{number}") as session:
                        served.append(number)
                        await say(session, "x")

            async with anyio.create_task_group() as group, pool.session() as session:
                await say(session, "x")
                scopes = [anyio.CancelScope() for _ in range(callers)]
                for number, scope in enumerate(scopes):
                    group.start_soon(call, number, scope)
                most = before = rounds = 0
                with anyio.fail_after(patience(30)):
                    while before < callers - len(leaving):
                        await anyio.lowlevel.checkpoint()
                        waiting, rounds = pool.stats().waiting, rounds + 1
                        most, before = max(most, waiting - before), waiting
                        if rounds == 3:
                            for number in leaving:
                                scopes[number].cancel()
                assert most <= callers / 2
            assert (pool.stats().busy, pool.stats().waiting) == (0, 0)

    with SimulatedCLI(Script(forever=True).user().says("{}"), per_session=True) as simulated:
        anyio.run(scenario, simulated, backend=backend)
    assert sorted(served) == sorted(set(range(callers)) - leaving)
    if backend == "asyncio":  # trio starts tasks in random order
        assert served == sorted(served)
