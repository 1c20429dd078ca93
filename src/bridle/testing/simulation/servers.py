"""The handshake of a simulated CLI, and the servers of the host that it talks to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.facts import AGENTS, COMMANDS
from bridle.testing.simulation.launch import MODELS, VERSION

if TYPE_CHECKING:
    from bridle.testing.simulation.simulation import Simulation
    from bridle.testing.simulation.waits import Steps

PROTOCOL_VERSION = "2025-11-25"


class Refusal(Exception):  # noqa: N818 - an answer like others
    """A control request that is answered with an error."""

    def __init__(self, text: str, code: str | None = None) -> None:
        self.text = text
        self.code = code
        super().__init__(text)


Answer = dict[str, Any] | None


def initialize(sim: Simulation, request_id: str, request: dict[str, Any]) -> None:
    """Take the handshake: hooks, servers, agents."""
    state = sim.state
    if sim.initialized:
        sim.conversation.tools.tasks.report()
    sim.initialized = True
    hooks = request.get("hooks")
    if isinstance(hooks, dict):
        state.hooks = {event: matchers for event, matchers in hooks.items() if isinstance(matchers, list)}
    if isinstance(agents := request.get("agents"), dict):
        state.agents = agents
    if isinstance(title := request.get("title"), str):
        state.title = title
    names = [name for name in request.get("sdkMcpServers") or () if isinstance(name, str)]
    if not names:
        sim.connection.send_response(request_id, _server_info(sim, has_hooks=bool(state.hooks)))
        return
    sim.servers_ready = False
    sim.begin(_greet_servers(sim, request_id, names))


def _greet_servers(sim: Simulation, request_id: str, names: list[str]) -> Steps[None]:
    found = yield from _connect(sim, names)
    sim.connection.send_response(request_id, _server_info(sim, has_hooks=bool(sim.state.hooks)))
    sim.flush()
    yield from _list_tools(sim, found)
    sim.servers_ready = True


def _connect(sim: Simulation, names: list[str]) -> Steps[list[str]]:
    information = {"name": "claude-code", "title": "Claude Code", "version": VERSION}
    parameters = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": information}
    sent = []
    for name in names:
        message = {"method": "initialize", "params": parameters, "jsonrpc": "2.0", "id": 0}
        sent.append((name, sim.ask("mcp_message", {"server_name": name, "message": message})))
    found = []
    for name, request_id in sent:
        yield sim.until_answered(request_id)
        if _result(sim.answer(request_id)) is not None:
            found.append(name)
            sim.state.servers[name] = []
    return found


def _list_tools(sim: Simulation, names: list[str]) -> Steps[None]:
    for name in names:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        request_id = sim.ask("mcp_message", {"server_name": name, "message": message})
        yield sim.until_answered(request_id)
        sim.answer(request_id)
        message = {"method": "tools/list", "jsonrpc": "2.0", "id": 1}
        request_id = sim.ask("mcp_message", {"server_name": name, "message": message})
        yield sim.until_answered(request_id)
        result = _result(sim.answer(request_id)) or {}
        tools = result.get("tools")
        sim.state.servers[name] = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _result(answer: Any) -> dict[str, Any] | None:
    response = answer.get("mcp_response") if isinstance(answer, dict) else None
    result = response.get("result") if isinstance(response, dict) else None
    return result if isinstance(result, dict) else None


def _server_info(sim: Simulation, *, has_hooks: bool) -> dict[str, Any]:
    info: dict[str, Any] = {
        "commands": [{"name": name, "description": name, "argumentHint": "", "builtin": True} for name in COMMANDS],
        "agents": [{"name": name, "description": name} for name in [*AGENTS, *sim.state.agents]],
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": models(),
        "account": {"tokenSource": "none", "apiKeySource": "none", "apiProvider": "firstParty"},
        "pid": os.getpid(),
        "claude_code_version": VERSION,
        "current_permission_mode": sim.state.mode,
        "hook_on_failure_supported": True,
        "hooks_when_unanswered_kept": 0,
        "other_hook_ask_outranks_host": True,
        "session_state": "running" if sim.busy else "idle",
        "fast_mode_state": "off",
        "capabilities": [],
    }
    if has_hooks:
        info["hooks_applied"] = True
    return info


def models() -> list[dict[str, Any]]:
    """Return the models that can be chosen."""
    return [
        {"value": name, "resolvedModel": model, "displayName": name.title(), "description": model}
        for name, model in MODELS.items()
    ]


def set_servers(sim: Simulation, request_id: str, request: dict[str, Any]) -> Steps[None]:
    """Replace the servers that were added while the session ran."""
    state = sim.state
    servers = request.get("servers")
    wanted = servers if isinstance(servers, dict) else {}
    inside = [name for name, config in wanted.items() if isinstance(config, dict) and config.get("type") == "sdk"]
    removed = [name for name in state.dynamic_servers if name not in wanted]
    errors = {name: "the simulated CLI starts no servers" for name in wanted if name not in inside}
    for name in removed:
        state.servers.pop(name, None)
    state.dynamic_servers = [name for name in state.dynamic_servers if name in wanted]
    added = [name for name in inside if name not in state.servers]
    found = yield from _connect(sim, added)
    state.dynamic_servers += found
    yield from _list_tools(sim, found)
    errors |= {name: "the server did not answer" for name in added if name not in found}
    sim.connection.send_response(request_id, {"added": found, "removed": removed, "errors": errors})
    sim.flush()


def call_tool(sim: Simulation, request: dict[str, Any]) -> Answer:
    """Call a tool without the model."""
    server = str(request.get("tool", "")).removeprefix("mcp__").partition("__")[0]
    if server in sim.state.servers:
        raise Refusal("mcp_call does not support SDK MCP servers.")
    raise Refusal(f"MCP server not connected: {server}")


def server_status(sim: Simulation, request: dict[str, Any]) -> Answer:
    """Tell the state of all servers."""
    state = sim.state
    servers = []
    for name, tools in state.servers.items():
        disabled = name in state.disabled_servers
        listed = [{"name": tool.get("name"), "annotations": tool.get("annotations") or {}} for tool in tools]
        server = {"name": name, "status": "disabled" if disabled else "connected", "scope": "dynamic"}
        servers.append(server if disabled else {**server, "tools": listed})
    return {"mcpServers": servers}


def _known_server(sim: Simulation, request: dict[str, Any]) -> str:
    name = str(request.get("serverName"))
    if name not in sim.state.servers:
        raise Refusal(f"Server not found: {name}")
    return name


def toggle(sim: Simulation, request: dict[str, Any]) -> Answer:
    """Switch a server on or off."""
    name = _known_server(sim, request)
    if request.get("enabled"):
        sim.state.disabled_servers.discard(name)
    else:
        sim.state.disabled_servers.add(name)
    return None


def reconnect(sim: Simulation, request: dict[str, Any]) -> Answer:
    """Connect a server again."""
    _known_server(sim, request)
    return None


def read_resource(sim: Simulation, request: dict[str, Any]) -> Answer:
    """Read a resource of a server."""
    name = _known_server(sim, request)
    raise Refusal(f"Server {name} has no resource {request.get('uri')}")


def override(sim: Simulation, request: dict[str, Any]) -> Answer:
    """Narrow the permission mode for one server."""
    name = request.get("serverName")
    if name not in sim.state.servers:
        warning = f"MCP server '{name}' is not known; "
        more = "no override was present to clear." if request.get("mode") is None else "the override applies later."
        return {"warning": warning + more}
    return {}
