"""Tools on the standard streams of a program, on asyncio and trio: `hackamore.serve_stdio`."""

from __future__ import annotations

import signal
import threading

import anyio

from hackamore.aio.serving import Serving
from hackamore.errors import OptionsError
from hackamore.runtime.log import logger
from hackamore.runtime.stdio import standard_streams
from hackamore.tools import ToolServer


async def serve_stdio(server: ToolServer) -> None:
    """Serve tools to an MCP client on stdin and stdout, until the client closes stdin.

    Signals are left to the program. A cancelled call ends the service in the same order. The rest is as in `hackamore.sync.serve_stdio`.

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
    check_server(server)
    with standard_streams() as (source, target):
        await Serving(server).run(source, target)


def check_server(server: object) -> None:
    """Raise OptionsError for what is not a tool server."""
    if not isinstance(server, ToolServer):
        raise OptionsError(
            f"`serve_stdio` takes a tool server, got {type(server).__name__}. Make one: `tool_server('name', [...])`.",
            field="server",
        )


async def serve_until_signal(server: ToolServer) -> None:
    """Serve until the client closes stdin, SIGINT or SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        await serve_stdio(server)  # only the main thread may handle signals
        return
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:

            async def end_on_signal() -> None:
                async for number in signals:
                    logger.debug("%s ends the tool server", number.name)
                    group.cancel_scope.cancel()
                    return

            group.start_soon(end_on_signal)
            await serve_stdio(server)
            group.cancel_scope.cancel()
