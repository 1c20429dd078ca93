"""A program with a pool that has a conversation with an open turn, and then does what a test wants: `block` its event loop, or wait."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import hackamore
from hackamore.pool import SQLiteRegistry
from tests.pool.conftest import stand_in


async def main(folder: Path, what: str) -> None:
    registry = SQLiteRegistry(folder / "registry.db")
    async with (
        hackamore.SessionPool(stand_in(folder), warm=0, registry=registry, timeout=None) as pool,
        pool.conversation("a") as session,
    ):
        await (await session.send("one")).result()
        async for message in await session.send("!hang"):
            if isinstance(message, hackamore.AssistantMessage):  # it is queued first: the CLI keeps it later
                break
        print(session.pid, flush=True)
        if what == "block":
            time.sleep(600)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
