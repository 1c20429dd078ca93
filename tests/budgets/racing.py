"""Sessions that spend a budget together until it refuses, each against its own simulated CLI.

Also a program: `racing.py FILE USD SESSIONS`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hackamore
from hackamore import Budget, Options, Price
from hackamore.testing import Script, SimulatedCLI

PRICES = {"claude-opus-5-5": Price(input=1000, output=2000)}
"""A reply of the simulated CLI has 10 tokens in and 5 out: it costs two cents."""
REPLY = 0.02


def simulated() -> SimulatedCLI:
    """Return a CLI whose model calls a tool and then answers, on every prompt."""
    script = Script(forever=True).user().calls("Bash", {"command": "ls"}, result="README.md").says("One file.")
    return SimulatedCLI(script, per_session=True)


class Calls:
    """Counts the model calls of a session, as its CLI does."""

    def __init__(self) -> None:
        self.count = 0

    def see(self, message: Any) -> None:
        """Take a message of the session."""
        if message.type == "result":  # a reply that was cut off has as many tokens in as any other
            self.count = max(self.count, sum(used.input_tokens for used in message.model_usage.values()) // 10)


async def spend(options: Options) -> int:
    """Send prompts until the budget refuses one; return the model calls that the CLI counted."""
    import anyio

    calls = Calls()
    async with hackamore.Session(options, transport=simulated()) as session:

        async def count() -> None:
            async for message in session.messages():
                calls.see(message)

        async with anyio.create_task_group() as group:
            group.start_soon(count)
            await anyio.lowlevel.checkpoint()
            while True:
                try:
                    await (await session.send("What is here?")).result()
                except hackamore.BudgetExceededError as error:
                    if not error.sent:
                        break
            await session.finish()
    return calls.count


async def race(options: Options, sessions: int) -> int:
    """Let sessions spend at the same time; return the model calls of all."""
    import anyio

    counts: list[int] = []

    async def one() -> None:
        counts.append(await spend(options))

    async with anyio.create_task_group() as group:
        for _ in range(sessions):
            group.start_soon(one)
    return sum(counts)


if __name__ == "__main__":
    import anyio

    budget = Budget(usd=float(sys.argv[2]), path=Path(sys.argv[1]), prices=PRICES)
    print(anyio.run(race, Options(budget=budget), int(sys.argv[3])))
