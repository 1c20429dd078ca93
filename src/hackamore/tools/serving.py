"""Tools for other MCP clients: a server on the standard streams of a program of its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hackamore.tools.server import ToolServer

__all__ = ["serve_stdio"]


def serve_stdio(server: ToolServer) -> None:
    """Serve tools to an MCP client that started this program: read requests from stdin and write answers to stdout.

    The call returns when the client closes stdin, and after SIGINT or SIGTERM. Open calls are then cancelled, and have 1.5 seconds to end.
    Coroutines run in an event loop of this call, plain functions in threads. Meanwhile `print` writes to stderr, and stdin is empty for
    your code. The exception of a tool is logged with its traceback, and the client gets an error result.
    `hackamore.tools.aio.serve_stdio` is the same to await.

    Args:
        server: the tools, from `tool_server`.

    Raises:
        OptionsError: `server` is not a tool server.
        RuntimeError: an event loop runs in this thread, or the streams serve another tool server.

    Example:
        ::

            if __name__ == "__main__":
                serve_stdio(tool_server("shop", [price, stock]))
    """
    import_module("hackamore.aio.stdio").serve_blocking(server)  # by name: it stands above tools
