"""Any mix of faults, in a conversation with hooks, permissions, tools and background work: every wait ends, in a typed way."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from hackamore import HackamoreError, Timeouts, TurnTimeoutError, tool, tool_server
from hackamore.hooks import HookMatcher
from hackamore.permissions import Allow
from hackamore.testing import Script
from hackamore.testing.faults import Corrupt, Cut, Drop, Duplicate, Fault, Reorder, Silence, Split
from tests.support.seeds import seeded
from tests.support.shell import Shell
from tests.support.talking import got
from tests.testing.faults.talk import behind, talking


@tool
def price(article: str) -> float:
    """Return a price."""
    return 2.5


def script() -> Script:
    conversation = Script()
    conversation.user().thinks("Hm.").says("I look.").calls("Bash", {"command": "ls"}, result="x")
    conversation.calls("mcp__shop__price", {"article": "tea"}).says("Done.")
    conversation.user().calls("Bash", {"command": "sleep 1", "run_in_background": True}).says("Started.")
    return conversation.task_ends().says("Ended.")


def options() -> dict[str, Any]:
    look = HookMatcher(hooks=[lambda asked, context: None])
    return {
        "hooks": {"PreToolUse": [look], "Stop": [look]},
        "can_use_tool": lambda request: Allow(),
        "mcp_servers": {"shop": tool_server("shop", [price])},
        "include_partial_messages": True,
        "timeouts": Timeouts(initialize=0.5, turn=0.5, control=0.5, stop_grace=0.1, kill_grace=0.1),
    }


def mixed(seed: int) -> list[Fault]:
    random = Random(seed)
    faults: list[Fault] = []
    for _ in range(random.randint(1, 2)):
        likely = random.choice([0.02, 0.1, 0.5])
        kinds: list[Fault] = [
            Cut(random.randrange(15_000), exit_code=random.choice([None, 0, 1, -9])),
            Silence(random.randrange(15_000), direction=random.choice(["inbound", "outbound"])),
            Corrupt(probability=likely, how=random.choice(["cut", "byte", "utf8", "noise"])),
            Drop(probability=likely),
            Duplicate(probability=likely),
            Reorder(probability=likely),
        ]
        faults.append(random.choice(kinds))
    if random.random() < 0.3:
        faults.append(Split(None, most=500))
    return faults


@pytest.mark.parametrize("seed", [*map(seeded, range(8)), 13, 35], ids=[*map(str, range(8)), "13", "35"])
def test_every_wait_ends_whatever_happens(shell: Shell, seed: int) -> None:
    ended: list[str] = []

    async def scenario() -> None:
        try:
            async with talking(shell, behind(script(), *mixed(seed), seed=seed), **options()) as session:
                for _ in range(2):
                    turn = await got(session.send("go"))
                    try:
                        await got(turn.result())
                    except TurnTimeoutError as error:
                        ended.append(error.kind)
                    else:
                        ended.append(turn.state.name)
        except HackamoreError as error:
            ended.append(type(error).__name__)

    shell.play(scenario)
    assert ended
