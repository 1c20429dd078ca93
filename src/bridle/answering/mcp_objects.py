"""Server objects of the `mcp` package, served inside of this process: one run of such a server for each connection of a session.

The package's own in-memory transport is between us and the server: JSON-RPC messages go in as the CLI sent them, and what the server
sends comes out. A run is a coroutine that the shell of the session starts, on whatever event loop it has; everything else may be
called from any thread. The package is loaded when a run begins, and not before.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import msgspec

from bridle.errors import OptionsError, printable
from bridle.tools import mcp_instance, rpc_error

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GRACE_SECONDS", "McpRun", "check_package"]

logger = logging.getLogger("bridle")

GRACE_SECONDS = 2.0
"""How long a server has to end after its input has ended, before it is cancelled."""

_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_CAPABILITIES = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""What a server may ask of its client, and what the client must have declared to be asked."""


class _Package(NamedTuple):
    """What is used of the `mcp` package; the names are the same from 1.9 to 2.3."""

    streams: Any
    wrap: Any
    decode: Callable[[bytes], Any]
    notification_options: Any


def _load() -> _Package:
    from mcp.server.lowlevel import NotificationOptions
    from mcp.shared.memory import create_client_server_memory_streams
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(JSONRPCMessage)
    return _Package(create_client_server_memory_streams, SessionMessage, adapter.validate_json, NotificationOptions)


def check_package(name: str, server: Any) -> None:
    """See that a server object can be served.

    Raises:
        OptionsError: the `mcp` package is missing or too old, or the object has no server inside.
    """
    field = f"mcp_servers.{name}"
    try:
        _load()
    except ImportError as error:
        raise OptionsError(
            f"`{field}` is a server object of the `mcp` package, which is missing or too old ({error}). Install `bridle[mcp]`, which "
            "takes 1.9 or later, or make the server with `bridle.tool_server`, which needs no package.",
            field=field,
        ) from None
    inner = mcp_instance(server)
    if not callable(getattr(inner, "run", None)) or not callable(getattr(inner, "create_initialization_options", None)):
        raise OptionsError(
            f"`{field}` looks like a server object of the `mcp` package and has no low-level server inside: it cannot be served by this "
            "version of Bridle.",
            field=field,
        )


class _Head(msgspec.Struct):
    id: Any = None
    method: Any = None
    params: msgspec.Raw = msgspec.Raw()


_head = msgspec.json.Decoder(_Head).decode


class McpRun:
    """One connection to a server.

    Args:
        server: the server object.
        name: under which the CLI knows it.
        answered: takes each answer of the server: its id, and the message. Called in the event loop of the run.
        sent: takes each notification of the server, and each request of it that the CLI may be asked.

    Attributes:
        initialized: True once an `initialize` was put in: the next one belongs to another connection.
        closing: True once it is to end.
    """

    def __init__(
        self,
        server: Any,
        name: str,
        *,
        answered: Callable[[Any, dict[str, Any]], None],
        sent: Callable[[dict[str, Any]], None],
    ) -> None:
        self.name = name
        self.initialized = False
        self.closing = False
        self._server = mcp_instance(server)
        self._answered = answered
        self._sent = sent
        self._inbox: deque[bytes] = deque()
        self._wake: Callable[[], None] | None = None
        self._capabilities: frozenset[str] = frozenset()
        self._event: anyio.Event | None = None
        self._closed: anyio.Event | None = None

    # -- from any thread -----------------------------------------------------------------------------------------------

    def put(self, message: bytes) -> None:
        """Hand a message to the server; in order, and without waiting."""
        if not self.closing:
            self._inbox.append(message)
            self._look()

    def cancel(self, message_id: Any) -> None:
        """Tell the server that nobody waits for an answer any more: it cancels what works on it."""
        params = {"requestId": message_id, "reason": "nobody waits for it any more"}
        self.put(msgspec.json.encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))

    def close(self) -> None:
        """End it: its input ends, and if that does not end the server within `GRACE_SECONDS`, it is cancelled."""
        self.closing = True
        self._look()

    def _look(self) -> None:
        wake = self._wake
        if wake is not None:
            try:
                wake()
            except RuntimeError:
                return  # the event loop has ended, and the run with it

    # -- in its event loop ---------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Run the server until it is closed.

        Raises:
            Exception: what the server raised; a group of one is unpacked.
        """
        closed = self._closed = anyio.Event()
        self._wake = self._waker()
        if self.closing:
            return
        package = _load()
        crash: Exception | None = None
        async with (
            package.streams() as ((read, write), (server_read, server_write)),
            anyio.create_task_group() as group,
        ):
            group.start_soon(self._listen, read)
            group.start_soon(self._feed, package, write)
            group.start_soon(self._see_it_end, closed, group.cancel_scope)
            try:
                await self._server.run(server_read, server_write, self._initialization(package))
            except Exception as error:
                crash = error
            group.cancel_scope.cancel()
        while isinstance(crash, ExceptionGroup) and len(crash.exceptions) == 1:
            crash = crash.exceptions[0]
        if crash is not None:
            raise crash

    def _waker(self) -> Callable[[], None]:
        trio = sys.modules.get("trio")
        post: Callable[[Callable[[], None]], object]
        if trio is not None and trio.lowlevel.in_trio_task():
            post = trio.lowlevel.current_trio_token().run_sync_soon
        else:
            import asyncio

            post = asyncio.get_running_loop().call_soon_threadsafe

        def woken() -> None:
            if self._event is not None:
                self._event.set()
            if self.closing and self._closed is not None:
                self._closed.set()

        def wake() -> None:
            post(woken)

        return wake

    def _initialization(self, package: _Package) -> Any:
        # That its lists may change is always said: the CLI listens to changes only of servers that say so.
        options = package.notification_options(tools_changed=True, prompts_changed=True, resources_changed=True)
        try:
            return self._server.create_initialization_options(options)
        except TypeError:  # overridden, without the argument
            return self._server.create_initialization_options()

    async def _feed(self, package: _Package, write: Any) -> None:
        while True:
            event = self._event = anyio.Event()  # before looking: what comes afterwards sets it
            while self._inbox:
                await self._feed_one(package, write, self._inbox.popleft())
            if self.closing:
                break
            await event.wait()
        await write.aclose()

    async def _see_it_end(self, closed: anyio.Event, scope: anyio.CancelScope) -> None:
        """Cancel a server that outlives its connection: one that does not read would keep us from closing its input, too."""
        await closed.wait()
        await anyio.sleep(GRACE_SECONDS)
        logger.warning("MCP server %r did not end within %g s of the end of its input", self.name, GRACE_SECONDS)
        scope.cancel()

    async def _feed_one(self, package: _Package, write: Any, message: bytes) -> None:
        try:
            decoded = package.decode(message)
        except ValueError as error:
            identifier = _head(message).id
            if identifier is not None:
                text = f"Not a JSON-RPC message that the `mcp` package can read: {printable(str(error), 300)}"
                self._answered(identifier, rpc_error(identifier, _INVALID_REQUEST, text))
            return
        if getattr(getattr(decoded, "root", decoded), "method", None) == "initialize":
            self._capabilities = _declared(message)
        try:
            await write.send(package.wrap(decoded))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # the server has closed its side: its end is told by itself

    async def _listen(self, read: Any) -> None:
        async for item in read:
            if isinstance(item, Exception):
                logger.debug("MCP server %r: %s", self.name, item)
                continue
            message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            message.setdefault("jsonrpc", "2.0")
            if message.get("params", ...) is None:
                del message["params"]
            method = message.get("method")
            if method is None:
                self._answered(message.get("id"), message)
            elif "id" not in message:
                self._sent(message)
            else:
                self._asked(method, message)

    def _asked(self, method: str, message: dict[str, Any]) -> None:
        """Take that the server asks something of its client."""
        if method == "ping":
            self.put(msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": {}}))
        elif _CAPABILITIES.get(method) in self._capabilities:
            self._sent(message)
        else:
            text = f"`{printable(method, 100)}` cannot be asked here: Claude Code does not offer it to servers inside of a program."
            self.put(msgspec.json.encode(rpc_error(message["id"], _METHOD_NOT_FOUND, text)))


class _Declared(msgspec.Struct):
    capabilities: dict[str, Any] = {}


def _declared(message: bytes) -> frozenset[str]:
    try:
        return frozenset(msgspec.json.decode(_head(message).params, type=_Declared).capabilities)
    except msgspec.DecodeError:
        return frozenset()
