"""A service: one conversation for each customer, many at once, each with its own rules, in one process.

A session is a process of its own (some 200 MB for the CLI, little here), so the number is bounded and idle ones are ended; whoever comes
back is resumed.
"""

# scripted: Repeat("Your order is on its way.")

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Self

import bridle
from bridle import BridleError, Options, Timeouts, tool, tool_server

AT_ONCE = 3
OPTIONS = Options(tools=[], timeouts=Timeouts(turn=120))


@dataclass
class Conversation:
    """One customer."""

    name: str
    session: bridle.Session | None = None
    session_id: str | None = None
    turns: asyncio.Lock = field(default_factory=asyncio.Lock)


class Service:
    """Answers customers; `async with` it, so that no process stays."""

    def __init__(self) -> None:
        self._conversations: dict[str, Conversation] = {}
        self._places = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(self._end(conversation) for conversation in self._conversations.values()))

    async def ask(self, name: str, text: str) -> str:
        """Return the answer to a customer. Questions of one customer wait for each other, those of others do not."""
        conversation = self._conversations.setdefault(name, Conversation(name))
        async with conversation.turns:
            session = conversation.session or await self._begin(conversation)
            try:
                result = await (await session.send(text)).result()
            except BridleError as error:  # the CLI died, or a deadline passed: the next question begins anew
                await self._end(conversation)
                return f"Sorry, something went wrong ({type(error).__name__})."
            return (result.result if result else None) or ""

    async def idle(self, name: str) -> None:
        """End a conversation for now: its process is gone, and the next question resumes it."""
        conversation = self._conversations[name]
        async with conversation.turns:
            await self._end(conversation)

    async def _begin(self, conversation: Conversation) -> bridle.Session:
        @tool(read_only=True)
        def orders() -> list[str]:
            """Return the orders of this customer."""  # a tool of this session alone: nobody sees another one's
            return [f"tea for {conversation.name}"]

        await self._places.acquire()
        options = OPTIONS.replace(
            resume=conversation.session_id,
            mcp_servers={"shop": tool_server("shop", [orders])},
            allowed_tools=["mcp__shop__orders"],
        )
        try:
            conversation.session = await bridle.start_session(options=options)
        except BaseException:
            self._places.release()
            raise
        return conversation.session

    async def _end(self, conversation: Conversation) -> None:
        session, conversation.session = conversation.session, None
        if session is not None:
            conversation.session_id = session.session_id
            await session.stop()
            self._places.release()


async def main() -> None:
    async with Service() as service:

        async def customer(name: str) -> None:
            print(name, await service.ask(name, "Where is my order?"))
            await service.idle(name)
            print(name, await service.ask(name, "And when does it come?"))  # in a new process, the same conversation
            await service.idle(name)

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(customer(f"customer {number}"))


if __name__ == "__main__":
    asyncio.run(main())
