"""A server object of the `mcp` package inside of this program (`pip install "hackamore[mcp]"`), and one that takes its place."""

# scripted: Reply(ToolCall("mcp__notes__add", {"text": "buy tea"})), Reply("Noted."),
#   Reply(ToolCall("mcp__notes__count")), Reply("There is one note.")

from __future__ import annotations

import asyncio

from mcp.server.mcpserver import MCPServer  # before version 2 of `mcp`: mcp.server.fastmcp.FastMCP

import hackamore
from hackamore import Options, ResultMessage, tool

NOTES: list[str] = []

notes = MCPServer("notes")


@notes.tool()
async def add(text: str) -> str:
    """Keep a note."""
    NOTES.append(text)
    return "It is kept."


@tool(read_only=True)
def count() -> int:
    """Return how many notes there are."""
    return len(NOTES)


async def main() -> None:
    options = Options(mcp_servers={"notes": notes}, allowed_tools=["mcp__notes"])
    async with hackamore.Session(options) as session:
        await show(session, "Note that I have to buy tea.")
        # From now on another server has the name: the model finds its tools, and not those of the one before.
        change = await session.set_mcp_servers({"notes": [count]})
        assert (change.added, change.removed, change.errors) == (["notes"], ["notes"], {})
        await show(session, "How many notes are there?")
    assert NOTES == ["buy tea"]


async def show(session: hackamore.Session, prompt: str) -> None:
    async for message in await session.send(prompt):
        if isinstance(message, ResultMessage):
            print(message.text)


if __name__ == "__main__":
    asyncio.run(main())
