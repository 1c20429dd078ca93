"""Tools in a program of their own: an MCP client starts it, and calls them. The client here is the CLI."""

# scripted: Reply(ToolCall("mcp__shop__price", {"article": "tea", "amount": 3})), Reply("13.50 euros.", expect_text="13.5")

from __future__ import annotations

import sys

import hackamore.sync
from hackamore import Options, tool, tool_server
from hackamore.sync import serve_stdio

PRICES = {"tea": 4.5, "coffee": 7.0}


@tool(read_only=True)
def price(article: str, amount: int = 1) -> float:
    """Return the price of an article in euros."""
    print("the price of", article)  # goes to stderr: stdout belongs to the client
    return PRICES[article] * amount


def main() -> None:
    # Other MCP clients, such as editors and other SDKs, take the same command and arguments.
    shop = {"command": sys.executable, "args": [__file__, "serve"]}
    options = Options(mcp_servers={"shop": shop}, allowed_tools=["mcp__shop__price"])
    print(hackamore.sync.run("What do three packets of tea cost?", options).text)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve_stdio(tool_server("shop", [price]))
    else:
        main()
