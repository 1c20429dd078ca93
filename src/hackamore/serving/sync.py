"""Tools on the standard streams of a program without an event loop: `hackamore.sync.serve_stdio`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio

from hackamore.errors import escape_terminal
from hackamore.serving.stdio import check_server, serve_until_signal

if TYPE_CHECKING:
    from hackamore.tools import ToolServer


def serve_stdio(server: ToolServer) -> None:
    """Serve tools to an MCP client that started this program: read requests from stdin and write answers to stdout.

    The call returns when the client closes stdin, and after SIGINT or SIGTERM. Open calls are then cancelled, and have 1.5 seconds to end.
    Coroutines run in an event loop of this call, plain functions in threads. Meanwhile `print` writes to stderr, and stdin is empty for
    your code. The exception of a tool is logged with its traceback, and the client gets an error result.
    `hackamore.serve_stdio` is the same to await.

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
    check_server(server)
    if sys.stdin is not None and sys.stdin.isatty():
        name = escape_terminal(server.name, 100)
        sys.stderr.write(
            f"Tool server {name!r} waits for an MCP client on stdin. An MCP client starts this program. Ctrl-C ends it.\n"
        )
    anyio.run(serve_until_signal, server)
