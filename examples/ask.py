"""Ask once and read the messages as they come. Works on asyncio and on trio."""

from __future__ import annotations

import anyio

import hackamore
from hackamore import AssistantMessage, ResultMessage, TextBlock, ToolUseBlock


async def main() -> None:
    async with hackamore.query("What is 2 + 2? Answer with the number only.") as stream:
        async for message in stream:
            match message:
                case AssistantMessage(content=blocks):
                    for block in blocks:
                        match block:
                            case TextBlock(text=text):
                                print(text)
                            case ToolUseBlock(name=name, input=arguments):
                                print(f"[{name}] {arguments}")
                case ResultMessage(is_error=failed, num_turns=turns, total_cost_usd=cost):
                    print("failed" if failed else "done", f"in {turns} turn(s), {cost} US dollars")


if __name__ == "__main__":
    anyio.run(main)
