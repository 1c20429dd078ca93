"""An interrupt while a thousand messages are unread: does it get through?"""

from __future__ import annotations

import asyncio

from claim import Clock, compare

PATIENCE = 10


async def hackamore(path: str) -> str:
    from hackamore import Options, Session

    async with Session(Options(cli_path=path)) as session:
        turn = await session.send("Write a lot.")
        await asyncio.sleep(1)
        clock = Clock()
        await asyncio.wait_for(session.interrupt(), PATIENCE)
        return f"interrupted after {clock}, unread messages are kept: {sum([1 async for _ in turn])}"


async def official(path: str) -> str:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

    async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=path)) as client:
        await client.query("Write a lot.")
        await asyncio.sleep(1)
        clock = Clock()
        try:
            await asyncio.wait_for(client.interrupt(), PATIENCE)
        except TimeoutError:
            return f"`interrupt()` still waits after {clock}"
        return f"interrupted after {clock}"


compare(
    "`interrupt()` while 1000 messages are unread",
    "floods",
    hackamore,
    official,
    {"`interrupt()` while 1000 messages are unread": lambda found: "still waits" not in found},
)
