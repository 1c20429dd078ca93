"""Many conversations of one editor: a request that waits, few processes, a slow reader, a queue of prompts."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from acp import schema

import hackamore
from hackamore import Options
from hackamore.serving import acp
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.serving.acp.editor import Editor, connected, paused, piped
from tests.support.patience import patience

pytestmark = pytest.mark.anyio


def text(value: str) -> list[Any]:
    """Return a prompt of one text."""
    return [schema.TextContentBlock(type="text", text=value)]


def asking() -> Script:
    """Return a script that asks before it ends."""
    script = Script().user().says("I clean up.").calls("Bash", {"command": "rm x"}, result="gone")
    return script.says("Ready.").user().says("Again.")


@shows("acp.client.waiting")
async def test_four_conversations_end_while_the_fifth_waits_for_its_user(tmp_path: Path) -> None:
    release: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waiting: list[str] = []

    def decide(session: str, call: Any, options: Any) -> Any:
        if session != waiting[0]:
            return "allow"
        return release

    editor = Editor(decide)
    cli = SimulatedCLI(asking(), per_session=True)
    async with acp.agent(transport=cli) as agent, connected(agent, editor) as client:
        sessions = [(await client.new_session(cwd=str(tmp_path))).session_id for _ in range(5)]
        waiting.append(sessions[0])
        prompts = [asyncio.create_task(client.prompt(session_id=each, prompt=text("go"))) for each in sessions]
        done = await asyncio.wait_for(asyncio.gather(*prompts[1:]), patience(20))
        assert [each.stop_reason for each in done] == ["end_turn"] * 4
        await asyncio.wait_for(
            editor.until(lambda: any(one == sessions[0] for one, _, _ in editor.asked)), patience(20)
        )
        assert not prompts[0].done()
        # Other methods work as well, also in the conversation that waits.
        await client.set_session_mode(session_id=sessions[0], mode_id="acceptEdits")
        await client.new_session(cwd=str(tmp_path))
        release.set_result("allow")
        assert (await asyncio.wait_for(prompts[0], patience(20))).stop_reason == "end_turn"
    assert all(editor.text(each) == "I clean up.Ready." for each in sessions)


async def test_prompts_of_a_conversation_are_answered_in_order(tmp_path: Path) -> None:
    release: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    editor = Editor(lambda session, call, options: release)
    async with acp.agent(transport=SimulatedCLI(asking())) as agent, connected(agent, editor) as client:
        session = (await client.new_session(cwd=str(tmp_path))).session_id
        first = asyncio.create_task(client.prompt(session_id=session, prompt=text("one")))
        await asyncio.wait_for(editor.until(lambda: editor.asked), patience(20))
        second = asyncio.create_task(client.prompt(session_id=session, prompt=text("two")))
        release.set_result("allow")
        await asyncio.wait_for(asyncio.gather(first, second), patience(20))
        assert editor.text(session) == "I clean up.Ready.Again."


async def test_a_cancel_stops_the_prompts_that_wait_as_well(tmp_path: Path) -> None:
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    editor = Editor(lambda session, call, options: never)
    cli = SimulatedCLI(asking(), per_session=True)
    async with acp.agent(transport=cli) as agent, connected(agent, editor) as client:
        session = (await client.new_session(cwd=str(tmp_path))).session_id
        prompts = [asyncio.create_task(client.prompt(session_id=session, prompt=text("go"))) for _ in range(3)]
        await asyncio.wait_for(editor.until(lambda: editor.asked), patience(20))
        await client.cancel(session_id=session)
        done = await asyncio.wait_for(asyncio.gather(*prompts), patience(20))
        assert [each.stop_reason for each in done] == ["cancelled"] * 3
        assert editor.calls(session)[-1].status == "failed"


@shows("acp.client.many")
async def test_a_hundred_conversations_on_four_processes(tmp_path: Path) -> None:
    editor = Editor()
    cli = SimulatedCLI(Script().user().says("One.").user().says("Two."), per_session=True)
    most = 0
    async with acp.agent(max_live=4, transport=cli) as agent, connected(agent, editor) as client:
        sessions = [(await client.new_session(cwd=str(tmp_path))).session_id for _ in range(100)]
        for _ in range(2):
            prompts = [asyncio.create_task(client.prompt(session_id=each, prompt=text("go"))) for each in sessions]
            for prompt in prompts:
                assert (await asyncio.wait_for(prompt, patience(60))).stop_reason == "end_turn"
                most = max(most, agent.pool.stats().live)
        assert len(set(sessions)) == 100
        assert 1 <= most <= 4
    assert {editor.text(each) for each in sessions} == {"One.Two."}


@shows("acp.client.slow")
async def test_a_slow_reader_holds_up_its_turn_in_bounded_memory(tmp_path: Path) -> None:
    words = 10_000
    cli = SimulatedCLI(Script().user().says("word " * words, chunk=5), per_session=True)
    async with acp.agent(Options(), transport=cli) as agent, piped(agent) as (writer, reader):

        async def ask(number: int, method: str, params: Any) -> None:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            writer.write(json.dumps(message).encode() + b"\n")
            await writer.drain()

        await ask(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        answer = json.loads(await reader.readuntil(b"\n"))
        session = answer["result"]["sessionId"]
        # Nothing is read for a while. A pipe takes 64 KiB, and 10,000 updates are 1.6 MB: they wait in the session.
        tracemalloc.start()
        try:
            paused(reader, True)
            await ask(2, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
            for _ in range(1_000):
                await asyncio.sleep(0)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 40_000_000
        paused(reader, False)
        seen = 0
        while (message := json.loads(await asyncio.wait_for(reader.readuntil(b"\n"), patience(30)))).get("id") != 2:
            update = message["params"]["update"]
            seen += update["sessionUpdate"] == "agent_message_chunk"
        assert seen == words
        assert message["result"]["stopReason"] == "end_turn"


async def test_the_pool_of_a_program_keeps_its_keys_and_survives_a_restart(tmp_path: Path) -> None:
    cli = SimulatedCLI(Script().user().says("One.").user().says("Two."), per_session=True)
    for _ in range(2):
        editor = Editor()
        pool = hackamore.SessionPool(Options(), warm=0, registry=tmp_path / "r.db", transport=cli)
        async with pool, acp.agent(pool=pool) as agent, connected(agent, editor) as client:
            made = await client.initialize(1)
            assert made.agent_capabilities is not None
            assert made.agent_capabilities.session_capabilities is not None
            assert made.agent_capabilities.session_capabilities.list is None
            session = (await client.new_session(cwd=str(tmp_path))).session_id
            await client.prompt(session_id=session, prompt=text("go"))
            assert editor.text(session) == "One."
            assert session in {each.key for each in await pool.conversations()}
