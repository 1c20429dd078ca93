"""Stop the model: in the middle of a text, while a tool runs, after a timeout. The session stays usable every time."""

# scripted: Reply("word " * 500, chunk=10, delay=0.05), Reply(ToolCall("Bash", {"command": "echo begun; sleep 60",
#   "description": "wait"})), Stall(then="too late"), Repeat("Here I am.")

from __future__ import annotations

import asyncio

import hackamore
from hackamore import Options, StreamEvent, TurnTimeoutError
from hackamore.hooks import HookContext, HookMatcher, PreToolUseHookInput

tool_begins = asyncio.Event()


async def look(call: PreToolUseHookInput, context: HookContext) -> None:
    tool_begins.set()


OPTIONS = Options(
    include_partial_messages=True,
    allowed_tools=["Bash(echo *)", "Bash(sleep *)"],
    hooks={"PreToolUse": HookMatcher("Bash", look)},
)


async def main() -> None:
    async with hackamore.Session(OPTIONS) as session:
        # While it writes.
        turn = await session.send("Tell a very long story.")
        async for message in turn:
            if isinstance(message, StreamEvent) and message.text_delta:
                await session.interrupt()
                break
        result = await turn.result()
        print(turn.state, result.terminal_reason)

        # While a tool works, and with a prompt that waits: both are given up.
        turn = await session.send("Wait for a minute.")
        waiting = await session.send("And then say so.")
        await tool_begins.wait()
        receipt = await session.interrupt(cancel_queued=True)
        await turn.result()
        print(turn.state, "and withdrawn:", receipt.cancelled == [waiting.id])

    # With a timeout: Hackamore interrupts a turn that takes too long.
    impatient = OPTIONS.replace(timeouts=hackamore.Timeouts(turn=8))
    async with hackamore.Session(impatient) as session:
        try:
            await (await session.send("Think for as long as you like.")).result()
        except TurnTimeoutError as error:
            print("too slow:", error)
        result = await (await session.send("Are you there?")).result()
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
