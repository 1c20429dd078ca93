"""Conversations of a pool that wait for a person, on the real CLI: no process meanwhile, and the answer continues them."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import Allow, ApprovalPendingError, Approvals, Deny, ElicitationResult, sync
from hackamore.aio.pool import CheckOut
from hackamore.checked.functions import Reach
from hackamore.permissions import decode_permission_request
from hackamore.pool import ConversationHibernated
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transports.process.processes import descendants
from tests.answering.test_dialogs import SERVER
from tests.approvals.waiting import LOST, start, wait_until, writer
from tests.contract import shows
from tests.support.leaks import alive, wait_gone
from tests.support.patience import patience
from tests.support.talking import got

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell

Open = Callable[..., Approvals]


def pool_of(shell: Shell, options: Any, folder: Path, **more: Any) -> Any:
    kind = sync.SessionPool if shell.blocking else hackamore.SessionPool
    return kind(
        options, **{"warm": 0, "max_live": 2, "timeout": patience(60), "registry": folder / "registry.db", **more}
    )


async def enter(block: Any) -> Any:
    return await block.__aenter__() if is_async(block) else block.__enter__()


async def leave(block: Any) -> None:
    await block.__aexit__(None, None, None) if is_async(block) else block.__exit__(None, None, None)


def is_async(block: Any) -> bool:
    return isinstance(block, (hackamore.SessionPool, CheckOut))


async def say(pool: Any, key: str, prompt: str) -> Any:
    """Send a prompt in a conversation; return its result and the process that had it."""
    block = pool.conversation(key)
    session = await enter(block)
    try:
        turn = await got(session.send(prompt))
        return await got(turn.result()), session.pid
    finally:
        await leave(block)


async def continue_one(shell: Shell, approvals: Approvals, pool: Any) -> Any:
    """Continue the next conversation as the loop of the guide does, and leave the loop when it is done."""
    results: list[Any] = []
    if shell.blocking:
        for waiting in approvals.answered():
            if results:
                return results[0]
            results.append((await say(pool, waiting.conversation, waiting.prompt))[0])
            approvals.done(waiting)
            return results[0]
    else:
        async for waiting in approvals.answered():
            async with pool.conversation(waiting.conversation) as session:
                turn = await session.send(waiting.prompt)
                results.append(await turn.result())
            approvals.done(waiting)
            return results[0]
    raise AssertionError("the loop ended")


@shows("approvals.pool.hibernates")
def test_a_conversation_that_waits_has_no_process_and_the_answer_continues_it(
    shell: Shell, driving: Driving, real_cli: RealCLI, opened: Open, tmp_path: Path
) -> None:
    target = real_cli.cwd / "made.txt"

    async def scenario() -> None:
        with ScriptedModel(Repeat(writer)) as model:
            asking = opened(hold=0.1)
            pool = pool_of(shell, driving(model, approvals=asking), tmp_path)
            await enter(pool)
            events = pool.events()
            result, pid = await say(pool, "anna", f"Write {target}")
            [request] = asking.pending(conversation="anna")
            assert (result.is_error, result.pending_approvals) == (True, (request.id,))
            with pytest.raises(ApprovalPendingError, match="has not run") as caught:
                result.raise_for_error()
            assert (caught.value.requests, caught.value.retryable) == ((request.id,), False)
            while not isinstance(event := await got(events.next_item(timeout=patience(60))), ConversationHibernated):
                assert event is not None
            assert (event.key, event.reason) == ("anna", "approval")
            until = time.monotonic() + patience(30)
            while alive(pid):
                assert time.monotonic() < until
                await shell.let_others_run()
            await leave(pool)

            assert not target.exists()
            opened().answer(request.id, Allow(), by="ada")
            later = opened()
            other = pool_of(shell, driving(model, approvals=later), tmp_path)
            await enter(other)
            result = await continue_one(shell, later, other)
            assert (result.text, result.is_error, result.pending_approvals) == ("Done.", False, ())
            await leave(other)

    shell.play(scenario)
    assert target.read_text() == "one"
    [request] = opened().history()
    assert (request.state, request.conversation) == ("used", "anna")


@shows("approvals.pool.denied")
def test_the_model_reads_the_denial_of_a_call_that_waited(
    shell: Shell, driving: Driving, real_cli: RealCLI, opened: Open, tmp_path: Path
) -> None:
    approvals, target = opened(hold=0.1), real_cli.cwd / "made.txt"
    prompts: list[str] = []

    def give_up(request: Any) -> Any:
        prompts.append(request.prompt_text)
        return writer(request) if "A person has answered" not in request.prompt_text else "I leave it."

    async def scenario() -> None:
        with ScriptedModel(Repeat(give_up)) as model:
            pool = pool_of(shell, driving(model, approvals=approvals), tmp_path)
            await enter(pool)
            await say(pool, "anna", f"Write {target}")
            [request] = approvals.pending()
            opened().answer(request.id, Deny("Use the other folder."), by="ada")
            result = await continue_one(shell, approvals, pool)
            assert result.text == "I leave it."
            await leave(pool)

    shell.play(scenario)
    assert "Use the other folder." in prompts[-1]
    assert not target.exists()
    assert [request.state for request in approvals.history()] == ["lapsed"]


@shows("approvals.pool.killed")
@pytest.mark.parametrize("kept", [True, False], ids=["a transcript", "no transcript"])
def test_the_answer_continues_a_conversation_of_a_killed_program(
    shell: Shell, driving: Driving, real_cli: RealCLI, opened: Open, tmp_path: Path, kept: bool
) -> None:
    target, approvals = real_cli.cwd / "made.txt", opened()
    with ScriptedModel(Repeat(writer)) as model:
        options = driving(model)
        program = start(tmp_path, "anna", f"Write {target}", options, hold=300)
        transcripts = real_cli.directory / "claude-config" / "projects"
        try:
            [request] = wait_until(approvals.pending, "no request")
            if kept:  # else the CLI may be killed before it has written it
                wait_until(
                    lambda: any("tool_use" in path.read_text() for path in transcripts.rglob("*.jsonl")), "no call"
                )
        finally:
            family = [pid for pid, _ in descendants(program.pid)]
            program.send_signal(signal.SIGKILL)
            program.wait()
        if not kept:
            assert all(map(wait_gone, family))  # the CLI may write until it is killed as well
            for path in transcripts.rglob("*.jsonl"):
                path.unlink()
        assert approvals.claim() is None
        opened().answer(request.id, Allow(), by="ada")

        async def scenario() -> None:
            pool = pool_of(shell, driving(model, approvals=approvals), tmp_path)
            await enter(pool)
            result = await continue_one(shell, approvals, pool)
            assert result.text == ("Done." if kept else LOST)
            await leave(pool)

        shell.play(scenario)
    assert target.exists() == kept
    assert [(request.state, request.answered_by) for request in approvals.history()] == [
        ("used" if kept else "lapsed", "ada")
    ]


@shows("approvals.pool.released")
def test_a_conversation_that_could_not_be_continued_comes_again(opened: Open) -> None:
    approvals = opened(hold=0)
    asked = decode_permission_request({"tool_name": "Bash", "input": {"command": "make"}})
    asked.__dict__["(session)"] = Reach(
        lambda: None, "talk"
    )  # without a conversation it would wait for the whole timeout
    asyncio.run(approvals.permit(asked))
    approvals.answer(approvals.pending()[0].id, Allow(), by="ada")

    with pytest.raises(RuntimeError, match="no room"):
        for _ in approvals.answered():
            assert opened().claim() is None
            raise RuntimeError("no room")
    again = opened().claim()
    assert again is not None
    opened().release(again)

    async def fails() -> None:
        async for _ in approvals.answered():
            raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        asyncio.run(fails())
    assert opened().claim() is not None


@shows("approvals.pool.servers")
def test_a_request_of_a_server_waits_and_its_answer_reaches_the_repeated_call(
    shell: Shell, driving: Driving, real_cli: RealCLI, opened: Open, tmp_path: Path
) -> None:
    approvals, program = opened(hold=0.1), real_cli.directory / "server.py"
    program.write_text(SERVER)
    call = Reply(ToolCall("mcp__ask__greet"))

    async def scenario() -> None:
        with ScriptedModel(call, call, Repeat("Done.")) as model:
            options = driving(
                model,
                approvals=approvals,
                settings='{"permissions": {"allow": ["mcp__ask__greet"]}}',
                mcp_servers={"ask": {"command": sys.executable, "args": [str(program)]}},
            )
            pool = pool_of(shell, options, tmp_path)
            await enter(pool)
            result = await talk(pool, "anna", "Greet me.")
            [request] = approvals.pending()
            assert (request.kind, request.tool, result.pending_approvals) == ("elicitation", "ask", (request.id,))
            opened().answer(request.id, ElicitationResult.accept({"name": "Ann"}), by="ada")
            waiting = approvals.claim()
            assert waiting is not None
            result = await talk(pool, waiting.conversation, waiting.prompt)
            assert (result.text, result.pending_approvals) == ("Done.", ())
            assert "Ann" in model.requests[-1].newest_text
            await leave(pool)

    async def talk(pool: Any, key: str, prompt: str) -> Any:
        block = pool.conversation(key)
        session = await enter(block)
        while (await got(session.get_mcp_status())).mcp_servers[0].status == "pending":
            await shell.let_others_run()
        result = await got((await got(session.send(prompt))).result())
        await leave(block)
        return result

    shell.play(scenario)
    assert [request.state for request in approvals.history()] == ["used"]


@shows("approvals.pool.stopped")
def test_a_request_outlives_the_stop_of_its_pool(
    shell: Shell, driving: Driving, real_cli: RealCLI, opened: Open, tmp_path: Path
) -> None:
    approvals, target = opened(), real_cli.cwd / "made.txt"

    async def scenario() -> None:
        with ScriptedModel(Repeat(writer)) as model:
            pool = pool_of(shell, driving(model, approvals=approvals), tmp_path)
            await enter(pool)
            block = pool.conversation("anna", on_leave="finish")
            session = await enter(block)
            await got(session.send(f"Write {target}"))
            until = time.monotonic() + patience(30)
            while not approvals.pending():
                assert time.monotonic() < until
                await shell.let_others_run()
            await leave(block)
            await leave(pool)
            [request] = approvals.pending()
            opened().answer(request.id, Allow(), by="ada")
            other = pool_of(shell, driving(model, approvals=approvals), tmp_path)
            await enter(other)
            assert (await continue_one(shell, approvals, other)).text == "Done."
            await leave(other)

    shell.play(scenario)
    assert target.read_text() == "one"
