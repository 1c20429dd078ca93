"""An MCP server on standard input and output that asks the user which drink it is to be."""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("desk")


class Drink(BaseModel):
    """The form."""

    drink: str


@server.tool()
async def order(context: Context) -> str:
    """Order a drink."""
    answer = await context.elicit("Which drink?", Drink)
    return f"{answer.action}: {answer.data.drink if answer.action == 'accept' else 'nothing'}"


if __name__ == "__main__":
    server.run()
