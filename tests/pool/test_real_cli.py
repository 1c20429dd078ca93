"""Pools on the real CLI: histories, limits, and how much sooner a warm session answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import hackamore
from hackamore import Options
from hackamore.testing import ScriptedModel
from tests.contract import shows
from tests.support.leaks import alive
from tests.support.patience import factor, patience
from tests.support.sizes import size

if TYPE_CHECKING:
    from tests.conftest import RealCLI

ROUNDS = 5
# Each prompt of 60 conversations is resumed: about 185 s of a processor.
CONVERSATIONS = size("conversations")


def options_for(real_cli: RealCLI, model: ScriptedModel) -> Options:
    return Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=real_cli.env(model), inherit_env=False)


async def first_message(session: hackamore.Session) -> None:
    turn = await session.send("hello")
    async for message in turn:
        if message.type == "assistant":
            break
    await turn.result()


@shows("pool.sessions.soon")
def test_a_warm_session_is_there_immediately(real_cli: RealCLI) -> None:
    took: dict[str, list[float]] = {"cold": [], "check-out": [], "warm": []}

    async def scenario() -> None:
        with ScriptedModel(*["hello"] * 2 * ROUNDS) as model:
            options = options_for(real_cli, model)
            async with hackamore.SessionPool(options, warm=1, max_live=2) as pool:
                for _ in range(ROUNDS):
                    began = time.monotonic()
                    async with hackamore.Session(options) as session:
                        await first_message(session)
                        took["cold"].append(time.monotonic() - began)
                    await pool.wait_warm(timeout=patience(60))
                    began = time.monotonic()
                    async with pool.session() as session:
                        took["check-out"].append(time.monotonic() - began)
                        await first_message(session)
                        took["warm"].append(time.monotonic() - began)

    anyio.run(scenario)
    best = {name: min(times) for name, times in took.items()}  # a busy machine slows down single rounds
    assert best["check-out"] < 0.005 * factor(), took
    assert best["warm"] * 2 < best["cold"], took


def history(request: Any) -> list[str]:
    """The prompts of the user in a request of the CLI."""
    return [word for message in request.messages if message["role"] == "user" for word in words(message["content"])]


def words(content: Any) -> list[str]:
    texts = [content] if isinstance(content, str) else [block.get("text", "") for block in content]
    return [word for text in texts for word in text.split() if word.startswith("prompt-")]


async def talk(real_cli: RealCLI, conversations: int, prompts: int, max_live: int) -> None:
    pids: set[int] = set()
    with ScriptedModel(*["ok"] * conversations * prompts) as model:
        options = options_for(real_cli, model)
        async with hackamore.SessionPool(options, warm=1, max_live=max_live, timeout=None) as pool:

            async def converse(key: int) -> None:
                for number in range(prompts):
                    async with pool.conversation(f"user-{key}") as session:
                        turn = await session.send(f"prompt-{key}-{number}")
                        assert (await turn.result()).text == "ok"
                        assert session.pid is not None
                        pids.add(session.pid)
                    assert sum(map(alive, pids)) <= pool.stats().live <= max_live

            async with anyio.create_task_group() as group:
                for key in range(conversations):
                    group.start_soon(converse, key)
        seen = [history(request) for request in model.requests]
    assert len(seen) == conversations * prompts
    for key in range(conversations):
        mine = [words for words in seen if words[-1].startswith(f"prompt-{key}-")]
        assert mine == [[f"prompt-{key}-{number}" for number in range(count + 1)] for count in range(prompts)]
    assert not any(map(alive, pids))


@shows("pool.conversations.history")
@pytest.mark.timeout(120)
def test_each_prompt_sees_its_whole_history(real_cli: RealCLI) -> None:
    anyio.run(talk, real_cli, 3, 2, 2)


@pytest.mark.timeout(1800)
def test_many_conversations(real_cli: RealCLI) -> None:
    anyio.run(talk, real_cli, CONVERSATIONS, 3, 4)
