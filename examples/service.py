"""A service: one conversation for each customer, many at the same time, each with its own rules, in one program.

The pool keeps a few CLI processes. Customers who are silent have none, and resume their conversation when they return.
"""

# scripted: Repeat("Your order is on its way.")

from __future__ import annotations

import asyncio

import hackamore
from hackamore import HackamoreError, Options, SessionPool, Timeouts, ToolServer, tool, tool_server

OPTIONS = Options(tools=[], allowed_tools=["mcp__shop__orders"], timeouts=Timeouts(turn=120))


class Service:
    """Answers customers."""

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool
        self._shops: dict[str, ToolServer] = {}

    async def ask(self, name: str, text: str) -> str:
        """Return the answer to a customer. Questions of one customer wait for each other, those of others do not."""
        shop = self._shops.setdefault(name, shop_of(name))
        try:
            async with self._pool.conversation(name, mcp_servers={"shop": shop}) as session:
                return (await (await session.send(text)).result()).text
        except HackamoreError as error:  # the CLI died, or a timeout expired: the next question resumes
            return f"Sorry, something went wrong ({type(error).__name__})."


def shop_of(name: str) -> ToolServer:
    """Return the tools of one customer: no customer sees the orders of another."""

    @tool(read_only=True)
    def orders() -> list[str]:
        """Return the orders of this customer."""
        return [f"tea for {name}"]

    return tool_server("shop", [orders])


async def main() -> None:
    async with hackamore.SessionPool(OPTIONS, warm=0, max_live=3) as pool:
        service = Service(pool)

        async def customer(name: str) -> None:
            print(name, await service.ask(name, "Where is my order?"))
            print(name, await service.ask(name, "And when does it come?"))  # the same conversation, in any process

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(customer(f"customer {number}"))


if __name__ == "__main__":
    asyncio.run(main())
