"""The MCP servers in the host's process, as a simulated CLI connects them and answers about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.answers import Refusal
from bridle.testing.simulation.launch import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridle.testing.simulation.answers import Answer
    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.waits import Steps

__all__ = ["Servers"]

PROTOCOL_VERSION = "2025-11-25"


class Servers:
    """Connects servers, and answers the control requests about them.

    Attributes:
        ready: the servers of the handshake have listed their tools.
    """

    def __init__(self, core: Core) -> None:
        self.state, self.output, self.questions = core.state, core.output, core.questions
        self.ready = True

    def connect(self, names: Iterable[str]) -> Steps[list[str]]:
        """Connect servers; return those that answered."""
        information = {"name": "claude-code", "title": "Claude Code", "version": VERSION}
        params = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": information}
        # Their steps run in turn, so that every request is sent before the first response is awaited.
        greetings = [(name, self.questions.message(name, "initialize", 0, params)) for name in names]
        pauses = [next(greeting) for _, greeting in greetings]
        found = []
        for (name, greeting), pause in zip(greetings, pauses, strict=True):
            yield pause
            try:
                next(greeting)
            except StopIteration as done:
                if _result(done.value) is not None:
                    found.append(name)
                    self.state.servers[name] = []
        return found

    def list_tools(self, names: Iterable[str]) -> Steps[None]:
        """Ask servers for their tools."""
        for name in names:
            yield from self.questions.message(name, "notifications/initialized")
            result = _result((yield from self.questions.message(name, "tools/list", 1))) or {}
            tools = result.get("tools")
            listed = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
            self.state.servers[name] = listed

    def replace(self, request_id: str, request: dict[str, Any]) -> Steps[None]:
        """Answer `mcp_set_servers`: replace the servers that were added while the session ran."""
        state = self.state
        servers = request.get("servers")
        wanted = servers if isinstance(servers, dict) else {}
        inside = [name for name, config in wanted.items() if isinstance(config, dict) and config.get("type") == "sdk"]
        removed = [name for name in state.dynamic_servers if name not in wanted]
        errors = {name: "the simulated CLI starts no servers" for name in wanted if name not in inside}
        for name in removed:
            state.servers.pop(name, None)
        state.dynamic_servers = [name for name in state.dynamic_servers if name in wanted]
        added = [name for name in inside if name not in state.servers]
        found = yield from self.connect(added)
        state.dynamic_servers += found
        yield from self.list_tools(found)
        errors |= {name: "the server did not answer" for name in added if name not in found}
        self.output.respond(request_id, {"added": found, "removed": removed, "errors": errors})

    # -- answers ------------------------------------------------------------------------------------------------------

    def call_tool(self, request: dict[str, Any]) -> Answer:
        """Answer `mcp_call`: call a tool without the model."""
        server = str(request.get("tool", "")).removeprefix("mcp__").partition("__")[0]
        if server in self.state.servers:
            raise Refusal(
                f"mcp_call does not support SDK MCP servers. SDK servers are caller-provided — invoke {server} directly."
            )
        raise Refusal(f"MCP server not connected: {server}")

    def status(self, request: dict[str, Any]) -> Answer:
        """Answer `mcp_status`."""
        servers = []
        for name, tools in self.state.servers.items():
            disabled = name in self.state.disabled_servers
            listed = [{"name": tool.get("name"), "annotations": tool.get("annotations") or {}} for tool in tools]
            server = {"name": name, "status": "disabled" if disabled else "connected", "scope": "dynamic"}
            servers.append(server if disabled else {**server, "tools": listed})
        return {"mcpServers": servers}

    def _known(self, request: dict[str, Any]) -> str:
        name = str(request.get("serverName"))
        if name not in self.state.servers:
            raise Refusal(f"Server not found: {name}")
        return name

    def toggle(self, request: dict[str, Any]) -> Answer:
        """Answer `mcp_toggle`: switch a server on or off."""
        disabled = self.state.disabled_servers
        change = disabled.discard if request.get("enabled") else disabled.add
        change(self._known(request))
        return None

    def reconnect(self, request: dict[str, Any]) -> Answer:
        """Answer `mcp_reconnect`."""
        self._known(request)
        return None

    def read_resource(self, request: dict[str, Any]) -> Answer:
        """Answer `mcp_read_resource`."""
        raise Refusal(f"Server {self._known(request)} has no resource {request.get('uri')}")

    def override(self, request: dict[str, Any]) -> Answer:
        """Answer `set_mcp_permission_mode_override`: narrow the permission mode for one server."""
        name = request.get("serverName")
        if name in self.state.servers:
            return {}
        more = "no override was present to clear." if request.get("mode") is None else "the override applies later."
        return {"warning": f"MCP server '{name}' is not known; {more}"}


def _result(response: dict[str, Any] | None) -> dict[str, Any] | None:
    result = response.get("result") if isinstance(response, dict) else None
    return result if isinstance(result, dict) else None
