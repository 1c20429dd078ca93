"""The requests of a simulated CLI to its host: hooks, permissions, and calls of MCP servers in the host's process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.waits import Pause

if TYPE_CHECKING:
    from bridle.protocol.connection import Connection
    from bridle.protocol.events import RequestResolved
    from bridle.testing.simulation.output import Output
    from bridle.testing.simulation.waits import Steps

__all__ = ["Questions"]


@dataclass(kw_only=True, eq=False, repr=False)
class Questions:
    """The open requests, and the responses that came.

    Attributes:
        closed: stdin has ended, so that each further request counts as answered with an error.
    """

    connection: Connection
    output: Output
    _answers: dict[str, Any] = field(default_factory=dict, init=False)
    _asked: dict[str, str] = field(default_factory=dict, init=False)
    _calls: dict[str, tuple[str, int]] = field(default_factory=dict, init=False)
    _numbers: dict[str, int] = field(default_factory=dict, init=False)
    closed: bool = field(default=False, init=False)

    def ask(self, subtype: str, fields: dict[str, Any]) -> str:
        """Send a request; return its id."""
        request_id = self.connection.send_request(subtype, fields)
        self._asked[request_id] = subtype
        if self.closed:
            self._answers[request_id] = None
        self.output.flush()
        return request_id

    def resolve(self, event: RequestResolved) -> None:
        """Keep the response to a request."""
        if event.request_id in self._asked:
            self._answers[event.request_id] = event.result.data if event.result is not None else None

    def answered(self, request_id: str) -> bool:
        """Return whether the host has answered, or cannot any more."""
        return request_id in self._answers

    def until_answered(self, request_id: str, until: float | None = None) -> Pause:
        """Return the pause until a response comes."""
        return Pause(lambda: request_id in self._answers, until)

    def answer(self, request_id: str) -> Any:
        """Return the response, and forget the request: an object, or None for an error or no response."""
        self._asked.pop(request_id, None)
        return self._answers.pop(request_id, None)

    def cancel(self, request_id: str) -> None:
        """Cancel a request."""
        self._asked.pop(request_id, None)
        if self.answered(request_id):
            return
        if request_id in self._calls:  # in the language of the server
            server, number = self._calls.pop(request_id)
            params = {"requestId": number, "reason": "AbortError: remote-cancel"}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            self.connection.send_request("mcp_message", {"server_name": server, "message": message})
        else:
            self.connection.cancel_request(request_id)
        self._answers[request_id] = None
        self.output.flush()

    def cancel_all(self) -> None:
        """Cancel every open request."""
        for request_id in [*self._asked]:
            self.cancel(request_id)

    @property
    def asks_permission(self) -> bool:
        """True while a permission request is open."""
        return any(subtype == "can_use_tool" and not self.answered(key) for key, subtype in self._asked.items())

    # -- servers in the host's process --------------------------------------------------------------------------------

    def message(
        self, server: str, method: str, number: int | None = None, params: dict[str, Any] | None = None
    ) -> Steps[dict[str, Any] | None]:
        """Send a JSON-RPC message to a server; return the response, None if there is none."""
        parts = {"method": method, "params": params, "jsonrpc": "2.0", "id": number}
        message = {name: value for name, value in parts.items() if value is not None}
        request_id = self.ask("mcp_message", {"server_name": server, "message": message})
        if number is not None:
            self._calls[request_id] = (server, number)
        yield self.until_answered(request_id)
        self._calls.pop(request_id, None)
        answer = self.answer(request_id)
        response = answer.get("mcp_response") if isinstance(answer, dict) else None
        return response if isinstance(response, dict) else None

    def call_tool(
        self, server: str, name: str, arguments: dict[str, Any], call_id: str
    ) -> Steps[dict[str, Any] | None]:
        """Call a tool of a server; return the JSON-RPC response, None if there is none."""
        number = self._numbers[server] = self._numbers.get(server, 1) + 1  # behind `initialize` and `tools/list`
        meta = {"claudecode/toolUseId": call_id, "progressToken": number}
        params = {"name": name, "arguments": arguments, "_meta": meta}
        return (yield from self.message(server, "tools/call", number, params))
