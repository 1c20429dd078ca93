"""Many queries, a few at a time. Each is a process of its own, so the machine sets the limit.

If one fails, `map` ends the others, and none of their processes stays.
"""

from __future__ import annotations

import asyncio

import hackamore
from hackamore import Options, Timeouts

AT_ONCE = 3
OPTIONS = Options(tools=[], max_turns=1, persist_session=False, timeouts=Timeouts(turn=120))


async def main() -> None:
    prompts = [f"What is {number} + 2? Answer with the number only." for number in range(6)]
    cost = 0.0
    async with hackamore.map(prompts, OPTIONS, workers=AT_ONCE) as answers:
        async for answer in answers:
            print(answer.text)
            cost += answer.cost or 0
    print(f"together {cost:.4f} US dollars")


if __name__ == "__main__":
    asyncio.run(main())
