"""Leaving the loop early while the CLI works and ignores SIGTERM: when do the CLI and the shell of its tool stop?"""

from __future__ import annotations

import asyncio
import contextlib
import time

from claim import compare, when_stopped


async def _report(begin: float) -> str:
    left = time.monotonic() - begin
    return f"leaving took {left:.1f} s; after that {await when_stopped(15)}"


async def hackamore(path: str) -> str:
    import hackamore
    from hackamore import AssistantMessage, Options

    async with hackamore.query("Work.", Options(cli_path=path)) as stream:
        async for message in stream:
            if isinstance(message, AssistantMessage):
                break
        await asyncio.sleep(0.5)
        begin = time.monotonic()
    return await _report(begin)


async def official(path: str) -> str:
    from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, query

    stream = query(prompt="Work.", options=ClaudeAgentOptions(cli_path=path))
    async with contextlib.aclosing(stream):  # type: ignore[type-var]
        async for message in stream:
            if isinstance(message, AssistantMessage):
                break
        await asyncio.sleep(0.5)
        begin = time.monotonic()
    return await _report(begin)


compare(
    "Leaving the loop early; the CLI ignores SIGTERM, and its tool runs a shell",
    "works",
    hackamore,
    official,
    {"leaving a query early; the CLI ignores SIGTERM": lambda found: "still runs" not in found},
)
