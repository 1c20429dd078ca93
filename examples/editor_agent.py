"""An agent for editors with three tools: `hackamore acp --options editor_agent.py`. Run alone, the program plays the editor."""

# scripted: Reply(ToolCall("mcp__desk__ticket", {"number": 7})), Reply(ToolCall("mcp__desk__assign", {"number": 7, "to": "ada"})),
#   Reply("Ticket 7 is assigned to Ada.", expect_text="ada")

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from typing import Any

import acp
from acp import schema

from hackamore import Options, Policy, Rule, tool

TICKETS: dict[int, dict[str, Any]] = {7: {"title": "The login page is slow", "to": None}}


@tool(read_only=True)
def tickets() -> list[int]:
    """List the numbers of the open tickets."""
    return sorted(TICKETS)


@tool(read_only=True)
def ticket(number: int) -> dict[str, Any]:
    """Return a ticket."""
    return TICKETS[number]


@tool
def assign(number: int, to: str) -> str:
    """Assign a ticket to a person."""
    TICKETS[number]["to"] = to
    return f"{number} is assigned to {to}"


# Reading needs no person. The editor asks its user about everything else.
options = Options(
    mcp_servers={"desk": [tickets, ticket, assign]},
    policy=Policy([Rule(name="read", tool=["mcp__desk__ticket", "mcp__desk__tickets", "Read"], decision="allow")]),
)


class Editor:
    """A small client: it prints what it gets, and says yes."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if update.session_update == "agent_message_chunk":
            print("text:", update.content.text)
        elif update.session_update == "tool_call":
            print("call:", update.title)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> schema.RequestPermissionResponse:
        print("asked:", tool_call.title, [option.name for option in options])
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn: Any) -> None: ...


async def main() -> None:
    client: Any = Editor()
    command = [sys.executable, "-m", "hackamore", "acp", "--options", __file__]
    async with acp.spawn_agent_process(client, *command, env=dict(os.environ), transport_kwargs={"stderr": None}) as (
        agent,
        _,
    ):
        await agent.initialize(1)
        made = await agent.new_session(cwd=tempfile.gettempdir())
        prompt: list[Any] = [schema.TextContentBlock(type="text", text="Assign ticket 7 to Ada.")]
        answer = await agent.prompt(session_id=made.session_id, prompt=prompt)
        print("end:", answer.stop_reason)


if __name__ == "__main__":
    asyncio.run(main())
