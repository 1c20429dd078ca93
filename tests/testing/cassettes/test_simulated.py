"""Cassettes of the simulated CLI: conversations of many shapes, recorded without a process and replayed on every shell."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from hackamore import Options, sync
from hackamore._engine.launch import build_plan
from hackamore._engine.session.core import SessionBase
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import Allow, Deny
from hackamore.testing import CassetteMismatchError, Script, SimulatedCLI, cassette
from hackamore.tools import tool, tool_server
from tests.support.seeds import seeded
from tests.support.shell import Backend, Shell
from tests.support.talking import each, got

BACKENDS: list[Backend] = ["asyncio", "trio", "threads"]


class Agent:
    def __init__(self) -> None:
        self.seen: list[Any] = []

        @tool
        async def price(article: str) -> float:
            """Return a price."""
            self.seen.append(("tool", article))
            return 2.5

        @tool
        def stock(article: str) -> str:
            """Fail."""
            self.seen.append(("tool", article))
            raise LookupError(article)

        self.options = Options(
            hooks={"PreToolUse": [HookMatcher(hooks=[self.hook])], "Stop": [HookMatcher(hooks=[self.stop])]},
            can_use_tool=self.decide,
            mcp_servers={"shop": tool_server("shop", [price, stock])},
        )

    def hook(self, asked: Any, context: Any) -> HookOutput | None:
        self.seen.append(("hook", asked.tool_name, dict(asked.tool_input)))
        return HookOutput.deny("guarded") if asked.tool_input.get("article") == "gold" else None

    async def stop(self, asked: Any, context: Any) -> None:
        self.seen.append(("stop",))

    def decide(self, request: Any) -> Allow | Deny:
        self.seen.append(("permission", request.tool_name, dict(request.input)))
        return Deny("no coffee") if request.input.get("article") == "coffee" else Allow()


def play(backend: Backend, path: Path, prompts: list[str], chooser: random.Random, transport: Any) -> tuple[Any, Any]:
    """Have a conversation; return what the agent was asked and what came."""
    shell, agent = Shell(backend), Agent()
    found: list[Any] = []

    async def scenario() -> None:
        import hackamore
        from hackamore import sync

        with cassette(path):
            made: SessionBase
            made = (
                sync.Session(agent.options, transport=transport)
                if shell.blocking
                else hackamore.Session(agent.options, transport=transport)
            )
            session: Any = made
            await got(session.start())
            for prompt in prompts:
                if chooser.random() < 0.3:
                    await got(session.set_model(f"model-{chooser.randrange(3)}"))
                turn = await got(session.send(prompt))
                found.append([message.type async for message in each(turn)])
                if chooser.random() < 0.5:
                    await got(session.wait_idle())
            await got(session.finish() if chooser.random() < 0.5 else session.stop())

    shell.play(scenario)
    return agent.seen, found


@pytest.mark.parametrize("number", range(12))
def test_any_conversation_is_replayed(number: int, tmp_path: Path) -> None:
    seed = seeded(number)
    chooser = random.Random(seed)
    script = Script()
    prompts = [f"prompt {number} for ann@example.com" for number in range(chooser.randrange(1, 5))]
    for prompt in prompts:
        script.user(prompt)
        for _ in range(chooser.randrange(4)):
            name = chooser.choice(["price", "stock"])
            script.calls(f"mcp__shop__{name}", {"article": chooser.choice(["tea", "coffee", "gold"])})
        script.says("Done.")
    tape = tmp_path / "tape.jsonl"
    recorded = play(chooser.choice(BACKENDS), tape, prompts, random.Random(seed), SimulatedCLI(script))
    assert b"ann@example.com" not in tape.read_bytes()
    for backend in BACKENDS:
        assert play(backend, tape, prompts, random.Random(seed), None) == recorded


@pytest.mark.parametrize(("prompts", "hinted"), [(["one", "two"], True), (["one"], False)])
def test_sessions_that_may_have_changed_places_are_told_how_to_keep_them(
    tmp_path: Path, prompts: list[str], hinted: bool
) -> None:
    def talk(prompt: str, cli: SimulatedCLI | None) -> None:
        with sync.Session(transport=cli) as session:
            session.send(prompt).result()

    with cassette(tmp_path / "tape.jsonl"):
        for prompt in prompts:
            talk(prompt, SimulatedCLI(Script().user(prompt).says("Yes.")))
    with pytest.raises(CassetteMismatchError, match="another prompt") as caught, cassette(tmp_path / "tape.jsonl"):
        talk("two", None)
    assert ("name them, transport=tape.transport(name=...)" in str(caught.value)) == hinted


def test_a_host_may_be_idle_for_longer_than_the_patience(tmp_path: Path) -> None:
    path, options = tmp_path / "idle.jsonl", Options()
    cli = SimulatedCLI(Script().user("one").says("One."))
    with cassette(path), sync.Session(options, transport=cli) as session:
        session.send("one").result()
        session.wait_idle()
    recorded = [json.loads(line) for line in path.read_bytes().splitlines()]
    plan = build_plan(options, prompt=None, session=True, base_environment={}, child_id="one", local=False)
    with cassette(path, patience=1e-6) as tape:
        transport, _ = tape.open(SimulatedCLI(Script()).for_sync, options, local=False, blocking=True, name=None)
        transport.start(plan)
        received = b""
        for line in recorded:
            if line.get("k") == "out":
                transport.send(json.dumps(line["f"]).encode() + b"\n")
                while data := transport.receive(0):
                    received += data
        assert b'"state":"idle"' in received
        assert transport.receive(0) is None
        transport.end_input()
        transport.stop(turn_open=False)
