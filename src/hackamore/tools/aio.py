"""`serve_stdio` to await, on asyncio and trio, for a program that has an event loop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hackamore.tools.server import ToolServer

__all__ = ["serve_stdio"]


async def serve_stdio(server: ToolServer) -> None:
    """Serve tools to an MCP client on stdin and stdout, as `hackamore.tools.serve_stdio` does, until the client closes stdin.

    Signals are left to the program. A cancelled call ends the service in the same order.

    Args:
        server: the tools, from `tool_server`.

    Raises:
        OptionsError: `server` is not a tool server.
        RuntimeError: the streams serve another tool server.

    Example:
        ::

            async with database() as connection:
                await serve_stdio(tool_server("shop", tools_for(connection)))
    """
    await import_module("hackamore.aio.stdio").serve(server)  # by name: it stands above tools
