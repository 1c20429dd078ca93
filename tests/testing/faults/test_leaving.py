"""Everything that makes somebody leave in the middle: disconnects, timeouts of others, a break, another task, another loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

import hackamore
import hackamore.sync
from hackamore import SessionClosedError
from hackamore.testing import Script
from tests.support.leaks import alive, wait_gone
from tests.support.patience import patience
from tests.support.query_fixtures import StandIn
from tests.support.shell import Shell
from tests.support.talking import first, got
from tests.testing.faults.talk import answered, behind, greeting, talking

LONG = [["frame", "init"], ["frame", "assistant"], ["sleep", 60]]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_that_disconnects_while_an_answer_streams(backend: Any, playing: StandIn) -> None:
    """A web server cancels the handler, in the middle of `async for`; nothing of the request stays."""
    pids: list[int] = []

    async def handler(streaming: anyio.Event) -> None:
        stream = hackamore.query("go", playing(*LONG))
        async for _ in stream:
            assert stream.pid is not None
            pids.append(stream.pid)
            streaming.set()

    async def scenario() -> None:
        streaming = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(handler, streaming)
            await streaming.wait()
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(wait_gone, pids[0])

    anyio.run(scenario, backend=backend)


def test_a_client_that_disconnects_without_an_event_loop(playing: StandIn) -> None:
    """A threaded web server closes the generator that it sends."""
    pids: list[int] = []

    def body() -> Any:
        stream = hackamore.sync.query("go", playing(*LONG))
        with stream:
            for message in stream:
                pids.append(stream.pid or 0)
                yield message.raw

    chunks = body()
    next(chunks)
    chunks.close()
    assert not alive(pids[0])


def test_a_wait_that_somebody_else_bounds(shell: Shell) -> None:
    """`asyncio.wait_for`, `move_on_after`: the waiting ends, the turn goes on and the session is usable."""

    async def scenario() -> None:
        script = Script().user().slow(30).says("At last.").user().says("Two.")
        async with talking(shell, behind(script, time_scale=0.01)) as session:
            turn = await got(session.send("go"))
            if shell.backend == "asyncio":
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(turn.result(), 0.05)
            elif shell.backend == "trio":
                with anyio.move_on_after(0.05) as scope:
                    await turn.result()
                assert scope.cancelled_caught
            result = await got(turn.result())
            assert result.result == "At last."
            assert await answered(session) == "Two."

    shell.play(scenario)


@pytest.mark.parametrize("how", ["break", "close", "forget", "raise"])
def test_leaving_in_the_middle_of_a_turn(shell: Shell, how: str, playing: StandIn) -> None:
    async def scenario() -> None:
        stream: Any = shell.query("go", playing(*LONG))
        await first(stream.__aiter__())
        pid = stream.pid
        assert alive(pid)
        if how == "forget":
            del stream
            gc.collect()
            assert wait_gone(pid)
            return
        if how == "raise":
            with pytest.raises(ZeroDivisionError):
                async with stream:
                    raise ZeroDivisionError
        await stream.close()
        assert not alive(pid)

    shell.play(scenario)


def test_a_session_is_closed_by_another_task_than_its_own(shell: Shell) -> None:
    async def scenario() -> None:
        async with talking(shell, behind(Script().user().interrupted())) as session:
            turn = await got(session.send("go"))

            async def wait() -> Any:
                try:
                    return await got(turn.result())
                except SessionClosedError as error:
                    return error

            async def close() -> None:
                await got(session.stop())

            outcome, error = await shell.meanwhile(wait, close)
            assert error is None
            # The stop interrupts first: the turn's result may come before the end, and says so.
            assert isinstance(outcome, SessionClosedError) or outcome.is_error

    shell.play(scenario)


def test_one_session_after_another_in_loops_of_their_own(shell: Shell) -> None:
    async def scenario() -> None:
        async with talking(shell, behind(greeting())) as session:
            assert await answered(session) == "Hello."

    for _ in range(3):
        shell.play(scenario)


def test_threads_each_with_a_loop_of_their_own(tmp_path: Path) -> None:
    texts: list[str | None] = []

    def run(backend: Any) -> None:
        async def main() -> None:
            texts.append((await hackamore.run("go", transport=behind(greeting()))).text)

        anyio.run(main, backend=backend)

    threads = [threading.Thread(target=run, args=(("asyncio", "trio")[n % 2],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience(30))
    assert texts == ["Hello."] * 8
