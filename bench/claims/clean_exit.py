"""A CLI that exits with status 0 while a control request is open: how long does the caller wait? Takes a minute."""

from __future__ import annotations

from claim import Clock, compare, shown


async def hackamore(path: str) -> str:
    from hackamore import Options, Session

    async with Session(Options(cli_path=path)) as session:
        await session.send("Work.")
        clock = Clock()
        try:
            await session.interrupt()
        except Exception as error:
            return f"after {clock}: {shown(error)}"
    return f"after {clock}: no error"


async def official(path: str) -> str:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

    async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=path)) as client:
        await client.query("Work.")
        clock = Clock()
        try:
            await client.interrupt()
        except Exception as error:
            return f"after {clock}: {shown(error)}"
    return f"after {clock}: no error"


compare(
    "The CLI exits with status 0 while `interrupt()` waits for its response",
    "waits",
    hackamore,
    official,
    {
        "the CLI exits cleanly while `interrupt()` waits": lambda found: found.startswith(
            ("after 0", "after 1", "after 2")
        )
    },
)
