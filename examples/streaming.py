"""Print the text while the model writes it."""

# scripted: Reply(Thinking("A short one."), "The quick brown fox jumps over the lazy dog.", chunk=4, delay=0.01)

from __future__ import annotations

import asyncio

import hackamore
from hackamore import Options, ResultMessage, StreamEvent


async def main() -> None:
    async with hackamore.query("Write one sentence.", Options(include_partial_messages=True)) as stream:
        async for message in stream:
            # The complete AssistantMessage comes as well; what is printed here are its pieces.
            if isinstance(message, StreamEvent) and message.text_delta and message.parent_tool_use_id is None:
                print(message.text_delta, end="", flush=True)
            elif isinstance(message, ResultMessage):
                print(f"\n({message.duration_ms} ms)")


if __name__ == "__main__":
    asyncio.run(main())
