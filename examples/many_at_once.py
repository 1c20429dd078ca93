"""Many queries, a few at a time. Each is a process of its own, so the machine sets the limit.

If one fails, the task group cancels the others, and none of their processes stays.
"""

from __future__ import annotations

import asyncio

import bridle
from bridle import Options, Timeouts

AT_ONCE = 3
OPTIONS = Options(tools=[], max_turns=1, persist_session=False, timeouts=Timeouts(turn=120))


async def main() -> None:
    prompts = [f"What is {number} + 2? Answer with the number only." for number in range(6)]
    free = asyncio.Semaphore(AT_ONCE)

    async def ask(prompt: str) -> tuple[str, float | None]:
        async with free:
            answer = await bridle.run(prompt, OPTIONS)
            return answer.text, answer.cost

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(prompt)) for prompt in prompts]
    answers = [task.result() for task in tasks]
    for prompt, (text, _) in zip(prompts, answers, strict=True):
        print(prompt, text)
    print(f"together {sum(cost or 0 for _, cost in answers):.4f} US dollars")


if __name__ == "__main__":
    asyncio.run(main())
