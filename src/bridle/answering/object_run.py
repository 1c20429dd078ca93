"""One connection to a server object of the `mcp` package: the messages in both directions, and nothing that waits.

`bridle.waiting.mcp_objects.serve` moves the messages between a run and the package.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.answering.rpc import Head
from bridle.errors import printable
from bridle.tools import mcp_instance
from bridle.tools.server import INVALID_REQUEST, METHOD_NOT_FOUND, rpc_error

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ObjectRun"]

_CAPABILITIES = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
"""Requests of a server, and the capability that the client must have declared for each."""


class ObjectRun:
    """One connection to a server object.

    `put`, `cancel` and `close` are called where the core may be touched, the other methods in the event loop of the run.

    Args:
        server: the server object.
        name: the name under which the CLI knows it.
        answered: takes the id and the message of each answer.
        sent: takes each notification of the server, and each request that the CLI can answer.

    Attributes:
        server: the low-level server.
        inbox: messages that the server has not got yet.
        wake: makes the event loop look at `inbox` and `closing`; set by the loop.
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
        self.server = mcp_instance(server)
        self.name = name
        self.inbox: deque[bytes] = deque()
        self.wake: Callable[[], None] | None = None
        self.initialized = False
        self.closing = False
        self._answered = answered
        self._sent = sent
        self._capabilities: frozenset[str] = frozenset()

    def put(self, message: bytes) -> None:
        """Hand a message to the server; in order, and without waiting."""
        if not self.closing:
            self.inbox.append(message)
            self._look()

    def cancel(self, message_id: Any) -> None:
        """Tell the server that an answer is not needed: it cancels the work on it."""
        params = {"requestId": message_id, "reason": "nobody waits for it any more"}
        self.put(msgspec.json.encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))

    def close(self) -> None:
        """End the input of the server; one that does not end by itself is cancelled."""
        self.closing = True
        self._look()

    def _look(self) -> None:
        if self.wake is not None:
            try:
                self.wake()
            except RuntimeError:
                return  # the event loop has ended, and the run with it

    def unreadable(self, message: bytes, error: ValueError) -> None:
        """Answer a message that the package cannot read."""
        message_id = Head.of(message).id
        if message_id is not None:
            text = f"Not a JSON-RPC message that the `mcp` package can read: {printable(str(error), 300)}"
            self._answered(message_id, rpc_error(message_id, INVALID_REQUEST, text))

    def note_initialize(self, message: bytes) -> None:
        """Remember what the client declares in its `initialize`."""
        try:
            declared = msgspec.json.decode(Head.of(message).params, type=_Declared).capabilities
        except msgspec.DecodeError:
            declared = {}
        self._capabilities = frozenset(declared)

    def received(self, message: dict[str, Any]) -> None:
        """Take a message that the server sent."""
        message.setdefault("jsonrpc", "2.0")
        if message.get("params", ...) is None:
            del message["params"]
        method = message.get("method")
        if method is None:
            self._answered(message.get("id"), message)
        elif "id" not in message or _CAPABILITIES.get(method) in self._capabilities:
            self._sent(message)
        elif method == "ping":
            self.put(msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": {}}))
        else:
            text = f"`{printable(method, 100)}` cannot be asked here: Claude Code does not offer it to servers inside of a program."
            self.put(msgspec.json.encode(rpc_error(message["id"], METHOD_NOT_FOUND, text)))


class _Declared(msgspec.Struct):
    capabilities: dict[str, Any] = {}
