"""In-process tools: Python functions that the model can call.

::

    from bridle.tools import tool, tool_server

    @tool(read_only=True)
    async def price(article: str, amount: int = 1) -> float:
        "Return the price of an article in euros."
        return PRICES[article] * amount

    shop = tool_server("shop", [price])

The schema comes from the signature, arguments are checked and converted before the function is called, and what it returns becomes
a result. No package is needed for it. This package is pure: it says what to call and how to answer; running is for the shells.
"""

from __future__ import annotations

from bridle.tools.arguments import ArgumentsError
from bridle.tools.content import Audio, ContentItem, EmbeddedResource, Image, ResourceLink, ToolError, ToolResult
from bridle.tools.context import ToolContext
from bridle.tools.declared import Tool, tool
from bridle.tools.kinds import ServerKind, mcp_instance, server_kind
from bridle.tools.server import CancelledCall, ToolCallPlan, ToolServer, rpc_error, tool_server

__all__ = [
    "ArgumentsError",
    "Audio",
    "CancelledCall",
    "ContentItem",
    "EmbeddedResource",
    "Image",
    "ResourceLink",
    "ServerKind",
    "Tool",
    "ToolCallPlan",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "ToolServer",
    "mcp_instance",
    "rpc_error",
    "server_kind",
    "tool",
    "tool_server",
]
