"""Holders at random: nothing of one is seen by another, nor what it left behind."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

import hackamore
from hackamore import Allow, HookMatcher, HookOutput, Options, PermissionRequest, ResultMessage, tool
from hackamore.pool import PoolStats
from tests.contract import shows
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.sizes import size

INTERLEAVINGS = size("interleavings of holders")
USERS = 3
EXTRAS = ("model", "permission_mode", "env", "hooks", "can_use_tool", "mcp_servers")


class User:
    """A user of the pool: all that is theirs has their name in it."""

    def __init__(self, name: str, base: Options) -> None:
        self.name = name
        self.seen: list[str] = []
        self.expected: Counter[str] = Counter()

        def allow(request: PermissionRequest) -> Allow:
            self.seen.append(request.input["command"])
            return Allow(updated_input={"command": f"allowed by {name}"})

        def hook(call: Any, context: Any) -> HookOutput:
            self.seen.append(call.tool_input["command"])
            return HookOutput(system_message=f"hook of {name}")

        @tool
        def whose(text: str) -> str:
            """Say whose tool this is."""
            self.seen.append(text)
            return f"tool of {name}"

        self.differences: dict[str, Any] = {
            "model": f"model-{name}",
            "permission_mode": "plan",
            "env": {**base.env, "TALKER_NAME": f"env-{name}"},
            "hooks": {"PreToolUse": [HookMatcher("Bash", [hook])]},
            "can_use_tool": allow,
            "mcp_servers": {f"server-{name}": [whose]},
        }


async def hold(pool: hackamore.SessionPool, user: User, dice: random.Random, number: int) -> None:
    """Check a session out with some of a user's differences, and look at all that comes."""
    mine = user.name
    extras = [name for name in EXTRAS if dice.random() < 0.3]
    differences = {name: user.differences[name] for name in extras}
    keyed = dice.random() < 0.7
    leaves = dice.random() < 0.2
    changes = dice.choice(["", "", "model", "permission_mode", "settings"])
    check_out = pool.conversation(f"key-{mine}", **differences) if keyed else pool.session(**differences)
    async with check_out as session:
        messages = session.messages()
        turn = await session.send(f"!probe {mine} {number}")
        for name in ("hooks", "can_use_tool", "mcp_servers"):
            user.expected[f"!probe {mine} {number}"] += name in extras
        result = await turn.result()
        answer = json.loads(result.text)
        assert answer["name"] == (f"env-{mine}" if "env" in extras else "base")
        assert answer["model"] == (f"model-{mine}" if "model" in extras else "base")
        assert answer["mode"] == ("plan" if "permission_mode" in extras else "default")
        assert ("permission" in answer, "hook" in answer, "tool" in answer) == tuple(
            name in extras for name in ("can_use_tool", "hooks", "mcp_servers")
        )
        for name, text in (
            ("permission", f"allowed by {mine}"),
            ("hook", f"hook of {mine}"),
            ("tool", f"tool of {mine}"),
        ):
            assert name not in answer or text in json.dumps(answer[name])
        assert "flags" not in answer  # settings that cannot be undone end with their holder
        assert all(f" {mine}" in prompt for prompt in answer["prompts"])
        assert keyed or len(answer["prompts"]) == 1
        assert answer["session"] == session.session_id
        while True:
            message = await messages.next_item(timeout=patience(30))
            assert message is not None
            assert getattr(message, "session_id", answer["session"]) == answer["session"]
            if isinstance(message, ResultMessage):
                assert all(f" {mine}" in prompt for prompt in json.loads(message.result or "")["prompts"])
                if message.result == result.text:
                    break
        if changes == "model":
            await session.set_model(f"left by {mine}")
        elif changes == "permission_mode":
            await session.set_permission_mode("acceptEdits")
        elif changes == "settings":
            await session.apply_flag_settings({"of": mine})
        if leaves:
            await session.send(f"later {mine}")  # a turn that is open when the session is returned


async def interleave(options: Options, seed: int) -> PoolStats:
    dice = random.Random(seeded(seed))
    base = options.replace(model="base", permission_mode="default")
    users = [User(name, base) for name in "xyz"[:USERS]]
    async with hackamore.SessionPool(
        base, warm=1, max_live=dice.choice([1, 2, 3]), idle=dice.choice([0, 300]), timeout=None
    ) as pool:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(hold, pool, dice.choice(users), random.Random(f"{seeded(seed)} {number}"), number)
        stats = pool.stats()
    for user in users:
        assert Counter(user.seen) == +user.expected
    return stats


@shows("pool.sessions.isolated")
@pytest.mark.timeout(300 + 20 * INTERLEAVINGS)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_random_holders(backend: str, options: Options, tmp_path: Path) -> None:
    for seed in range(INTERLEAVINGS)[backend == "trio" :: 2]:
        try:
            anyio.run(interleave, options, seed, backend=backend)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        for path in tmp_path.glob("*.jsonl"):
            path.unlink()
