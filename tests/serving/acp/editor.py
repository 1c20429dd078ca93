"""An editor for tests: the client of `agent-client-protocol` on two pipes, which keeps what it was shown and answers by a rule."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from acp import schema
from acp.client.connection import ClientSideConnection

from hackamore.serving.acp.host import Agent
from hackamore.serving.acp.wire import StdioWire
from tests.support.patience import patience

Rule = Callable[[str, schema.ToolCallUpdate, list[schema.PermissionOption]], Any]


def chosen(option: str | None) -> schema.RequestPermissionResponse:
    """Return the answer that chooses an option; None cancels."""
    if option is None:
        return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
    outcome = schema.AllowedOutcome(outcome="selected", option_id=option)
    return schema.RequestPermissionResponse(outcome=outcome)


class Editor:
    """A client.

    Attributes:
        updates: what it was shown, by session.
        asked: the permission requests: session, call and options.
        rule: answers them: with the id of an option, None to cancel, or an awaitable of one.
        forms: the answers to forms, in order; without one it declines.
    """

    def __init__(self, rule: Rule | None = None) -> None:
        self.updates: dict[str, list[Any]] = {}
        self.asked: list[tuple[str, schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.rule: Rule = rule or (lambda session, call, options: options[0].option_id)
        self.forms: list[dict[str, Any]] = []
        self.elicited: list[tuple[str, Any]] = []
        self.changed = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.setdefault(session_id, []).append(update)
        self.changed.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append((session_id, tool_call, options))
        self.changed.set()
        answer = self.rule(session_id, tool_call, options)
        return chosen(await answer if asyncio.iscoroutine(answer) or asyncio.isfuture(answer) else answer)

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.elicited.append((message, mode))
        if not self.forms:
            return schema.DeclineElicitationResponse(action="decline")
        return schema.AcceptElicitationResponse(action="accept", content=self.forms.pop(0))

    def on_connect(self, conn: Any) -> None:
        pass

    def kinds(self, session_id: str) -> list[str]:
        """Return the kinds of the updates of a session."""
        return [each.session_update for each in self.updates.get(session_id, [])]

    def text(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        """Return the text of the chunks of a kind."""
        return "".join(each.content.text for each in self.updates.get(session_id, []) if each.session_update == kind)

    def calls(self, session_id: str) -> list[Any]:
        """Return the updates about tool calls."""
        return [each for each in self.updates.get(session_id, []) if each.session_update.startswith("tool_call")]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is true, which an update or a request may make true."""
        while not condition():
            self.changed.clear()
            if not condition():
                await self.changed.wait()


async def streams(source: int, target: int) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    """Return descriptors as streams."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(), os.fdopen(target, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop), reader


def paused(reader: asyncio.StreamReader, pause: bool) -> None:
    """Stop reading a pipe, or read on."""
    transport: Any = reader._transport  # type: ignore[attr-defined]  # noqa: SLF001 - a reader has no method for it
    (transport.pause_reading if pause else transport.resume_reading)()


@asynccontextmanager
async def piped(agent: Agent) -> AsyncIterator[tuple[asyncio.StreamWriter, asyncio.StreamReader]]:
    """Serve on two pipes; yield their other ends. The agent has ended afterwards."""
    source, to_agent = os.pipe()
    from_agent, target = os.pipe()
    serving = asyncio.create_task(agent.serve(StdioWire(source, target)))
    writer, reader = await streams(from_agent, to_agent)
    try:
        yield writer, reader
    finally:
        writer.close()
        await asyncio.wait_for(serving, patience(30))
        reader._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - it has no other end


@asynccontextmanager
async def connected(agent: Agent, editor: Editor, **capabilities: Any) -> AsyncIterator[ClientSideConnection]:
    """Serve an editor that has initialized; yield its connection."""
    async with piped(agent) as (writer, reader):
        connection = ClientSideConnection(cast(Any, editor), writer, reader, use_unstable_protocol=True)
        try:
            await connection.initialize(1, client_capabilities=schema.ClientCapabilities(**capabilities))
            yield connection
        finally:
            await connection.close()
