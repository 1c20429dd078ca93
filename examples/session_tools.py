"""Tools that are functions of this program: the model calls them, and they see its objects."""

# scripted: Reply(ToolCall("mcp__shop__price", {"article": "tea", "amount": 3})), Reply(ToolCall("mcp__shop__order",
#   {"article": "mate", "amount": 1})), Reply("Three packets of tea cost 13.50 euros. There is no mate.")

from __future__ import annotations

import asyncio
from typing import Annotated

import hackamore
from hackamore import Options, ToolError, ToolResultBlock, UserMessage, tool

PRICES = {"tea": 4.5, "coffee": 7.0}


class Shop:
    """Any object: its methods become tools."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, int]] = []

    @tool(read_only=True)
    def price(self, article: str, amount: Annotated[int, "packets"] = 1) -> float:
        """Return the price of an article in euros."""
        return PRICES[article] * amount

    @tool
    async def order(self, article: str, amount: int) -> str:
        """Order an article."""
        if article not in PRICES:
            raise ToolError(f"There is no {article}. There are {' and '.join(PRICES)}.")
        self.orders.append((article, amount))
        return "It is ordered."


async def main() -> None:
    shop = Shop()
    options = Options(
        mcp_servers={"shop": [shop.price, shop.order]},
        allowed_tools=["mcp__shop__price", "mcp__shop__order"],
    )
    async with hackamore.Session(options) as session:
        results = []
        async for message in await session.send("What do three packets of tea cost? Order them, and some mate."):
            if isinstance(message, UserMessage) and isinstance(message.content, list):
                results += [block for block in message.content if isinstance(block, ToolResultBlock)]
        for result in results:
            print("error: " if result.is_error else "result:", result.content)
    assert "13.5" in str(results[0].content)
    assert results[1].is_error
    assert shop.orders == []


if __name__ == "__main__":
    asyncio.run(main())
