"""A server asks the user: a function answers its form, and declines what it does not know.

The server is this file, too: `python session_dialogs.py serve` speaks MCP over its standard input and output.
"""

# scripted: Reply(ToolCall("mcp__travel__book")), Reply("Your flight to Lima is booked.")

from __future__ import annotations

import asyncio
import json
import sys

import hackamore
from hackamore import ElicitationRequest, ElicitationResult, Options, ToolResultBlock, UserMessage

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "title": "Where to?"}}, "required": ["city"]}


async def on_elicitation(request: ElicitationRequest) -> ElicitationResult:
    """Called for each question of a server. If it raises, or there is none, the question is declined."""
    print(f"{request.mcp_server_name} asks: {request.message}")
    if request.mode == "form" and set(request.property_order) == {"city"}:
        return ElicitationResult.accept({"city": "Lima"})  # here a program would ask: input(...)
    return ElicitationResult.decline()


async def main() -> None:
    server = {"command": sys.executable, "args": [__file__, "serve"]}
    options = Options(
        mcp_servers={"travel": server}, allowed_tools=["mcp__travel__book"], on_elicitation=on_elicitation
    )
    async with hackamore.Session(options) as session:
        while any(entry.status == "pending" for entry in (await session.get_mcp_status()).mcp_servers):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        results = []
        async for message in await session.send("Book a flight."):
            if isinstance(message, UserMessage) and isinstance(message.content, list):
                results += [block.content for block in message.content if isinstance(block, ToolResultBlock)]
        print(results)
    assert "Lima" in str(results)


def serve() -> None:
    """A server with one tool, which asks where to. With the `mcp` package this is `await context.elicit(...)`."""
    for line in sys.stdin:
        message = json.loads(line)
        answer: dict[str, object] | None = None
        match message.get("method"):
            case "initialize":
                info = {"name": "travel", "version": "1"}
                answer = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                answer = {"tools": [{"name": "book", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                say(id=f"where {message['id']}", method="elicitation/create", params=question())
            case None if str(message.get("id")).startswith("where "):
                text = json.dumps(message.get("result"))
                say(id=int(message["id"].split()[1]), result={"content": [{"type": "text", "text": text}]})
            case _ if "id" in message:
                say(id=message["id"], error={"code": -32601, "message": "Method not found"})
        if answer is not None:
            say(id=message["id"], result=answer)


def question() -> dict[str, object]:
    return {"message": "Where do you want to go?", "requestedSchema": SCHEMA}


def say(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())
