"""Record a session once, replay it without any process, and see what changed.

The agent has a hook and a tool of its own: in the replay they are called with the same inputs, and what they answer is compared.
"""

# scripted: Reply(ToolCall("mcp__shop__price", {"article": "tea"})), Reply("Tea costs 2.50.")

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import hackamore
from hackamore import HookContext, Options, hooks, tool
from hackamore.testing import CassetteMismatchError, cassette

asked: list[str] = []


@tool
def price(article: str) -> float:
    """Return the price of an article."""
    return {"tea": 2.5}[article]


async def look(call: hooks.PreToolUseHookInput, context: HookContext) -> None:
    asked.append(f"{call.tool_name} {call.tool_input}")


OPTIONS = Options(
    mcp_servers={"shop": [price]},
    allowed_tools=["mcp__shop__price"],
    hooks={"PreToolUse": look},
)


async def ask(question: str) -> str:
    with cassette("price.jsonl"):
        answer = await hackamore.run(question, OPTIONS)
    return answer.text


async def main() -> None:
    recorded = await ask("What does tea cost?")  # asks the CLI, and writes the file

    began = time.perf_counter()
    replayed = await ask("What does tea cost?")  # asks the file
    print(f"{replayed!r} again after {(time.perf_counter() - began) * 1000:.0f} ms")
    assert replayed == recorded
    assert len(asked) == 2, asked
    assert asked[0] == asked[1]

    difference = ""
    try:
        await ask("What does coffee cost?")
    except CassetteMismatchError as error:
        difference = str(error)
    print(difference)
    assert "coffee" in difference  # a changed prompt does not go unnoticed

    print(f"`hackamore trace show {Path('price.jsonl')}` shows what happened.")


if __name__ == "__main__":
    asyncio.run(main())
