"""What a simulated CLI answers to control requests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation_frames import AGENTS, COMMANDS
from bridle.testing.simulation_launch import MODELS, PERMISSION_MODES, VERSION, resolve_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.protocol.events import RequestReceived
    from bridle.testing.simulation import Simulation
    from bridle.testing.simulation_waits import Steps

__all__ = ["answer_request"]

PROTOCOL_VERSION = "2025-11-25"


class _Refusal(Exception):  # noqa: N818 - an answer like others
    def __init__(self, text: str, code: str | None = None) -> None:
        self.text = text
        self.code = code
        super().__init__(text)


_Answer = dict[str, Any] | None


def answer_request(sim: Simulation, event: RequestReceived) -> None:
    """Answer a control request, now or (`initialize` with servers) as soon as the host has answered ours."""
    request = event.frame.request
    sim.run.note(f"the host asks {event.subtype}")
    if event.subtype == "initialize":
        _initialize(sim, event.request_id, request)
        return
    if event.subtype == "interrupt":
        _interrupt(sim, event.request_id, request)
        return
    if event.subtype == "mcp_set_servers":
        sim.begin(_set_servers(sim, event.request_id, request))
        return
    handler = _HANDLERS.get(event.subtype)
    if handler is None:
        sim.connection.send_error(
            event.request_id, f"Unsupported control request subtype: {event.subtype}", "unsupported_request"
        )
        return
    try:
        answer = handler(sim, request)
    except _Refusal as refusal:
        sim.connection.send_error(event.request_id, refusal.text, refusal.code)
        return
    sim.connection.send_response(event.request_id, answer)
    if event.subtype == "set_permission_mode":
        sim.flush()
        sim.emit({"type": "system", "subtype": "status", "status": None, "permissionMode": sim.state.mode})


# -- the handshake ----------------------------------------------------------------------------------------------------


def _initialize(sim: Simulation, request_id: str, request: dict[str, Any]) -> None:
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
        "models": _models(),
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


def _models() -> list[dict[str, Any]]:
    return [
        {"value": name, "resolvedModel": model, "displayName": name.title(), "description": model}
        for name, model in MODELS.items()
    ]


# -- interrupts -------------------------------------------------------------------------------------------------------


def _interrupt(sim: Simulation, request_id: str, request: dict[str, Any]) -> None:
    asked = sim.conversation.in_turn and sim.waits_for_permission
    sim.interrupt()
    if request.get("cancel_queued") is True:
        for prompt in sim.prompts:
            sim.report_prompt(prompt.uuid, "cancelled")
        sim.prompts.clear()
    queued = [prompt.uuid for prompt in sim.prompts if prompt.uuid is not None]
    sim.connection.send_response(request_id, {"still_queued": queued})
    sim.flush()
    if asked:
        sim.report_state("running")
    sim.throw_interrupt()


# -- servers ----------------------------------------------------------------------------------------------------------


def _set_servers(sim: Simulation, request_id: str, request: dict[str, Any]) -> Steps[None]:
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


def _call_tool(sim: Simulation, request: dict[str, Any]) -> _Answer:
    server = str(request.get("tool", "")).removeprefix("mcp__").partition("__")[0]
    if server in sim.state.servers:
        raise _Refusal(f"mcp_call does not support SDK MCP servers. Invoke {server} directly.")
    raise _Refusal(f"MCP server not connected: {server}")


def _server_status(sim: Simulation, request: dict[str, Any]) -> _Answer:
    state = sim.state
    servers = []
    for name, tools in state.servers.items():
        disabled = name in state.disabled_servers
        listed = [{"name": tool.get("name"), "description": tool.get("description", "")} for tool in tools]
        server = {"name": name, "status": "disabled" if disabled else "connected", "scope": "dynamic"}
        servers.append(server if disabled else {**server, "tools": listed})
    return {"mcpServers": servers}


def _known_server(sim: Simulation, request: dict[str, Any]) -> str:
    name = str(request.get("serverName"))
    if name not in sim.state.servers:
        raise _Refusal(f"Server not found: {name}")
    return name


def _toggle(sim: Simulation, request: dict[str, Any]) -> _Answer:
    name = _known_server(sim, request)
    if request.get("enabled"):
        sim.state.disabled_servers.discard(name)
    else:
        sim.state.disabled_servers.add(name)
    return None


def _reconnect(sim: Simulation, request: dict[str, Any]) -> _Answer:
    _known_server(sim, request)
    return None


def _read_resource(sim: Simulation, request: dict[str, Any]) -> _Answer:
    name = _known_server(sim, request)
    raise _Refusal(f"Server {name} has no resource {request.get('uri')}")


def _override(sim: Simulation, request: dict[str, Any]) -> _Answer:
    name = request.get("serverName")
    if name not in sim.state.servers:
        warning = f"MCP server '{name}' is not known; "
        more = "no override was present to clear." if request.get("mode") is None else "the override applies later."
        return {"warning": warning + more}
    return {}


# -- settings ---------------------------------------------------------------------------------------------------------


def _set_mode(sim: Simulation, request: dict[str, Any]) -> _Answer:
    mode = request.get("mode")
    if mode not in PERMISSION_MODES:
        raise _Refusal(f"Cannot set permission mode: must be one of {', '.join(PERMISSION_MODES)}", "invalid_mode")
    sim.state.mode = str(mode)
    return {"mode": mode}


def _set_model(sim: Simulation, request: dict[str, Any]) -> _Answer:
    model = request.get("model")
    name = model if isinstance(model, str) else sim.launch.model
    sim.state.model = resolve_model(name)
    if sim.state.results:
        text = f"Set model to `{name or 'default'} ({sim.state.model})`"
        sim.emit(sim.state.user(f"<local-command-stdout>{text}</local-command-stdout>", isReplay=True))
    return {"model": sim.state.model}


def _flag_settings(sim: Simulation, request: dict[str, Any]) -> _Answer:
    for name, value in dict(request.get("settings") or {}).items():
        if value is None:
            sim.state.settings.pop(name, None)
        else:
            sim.state.settings[name] = value
    return None


def _update_settings(sim: Simulation, request: dict[str, Any]) -> _Answer:
    if not request.get("settings"):
        raise _Refusal("update_settings requires at least one key")
    sim.state.settings |= dict(request.get("settings") or {})
    return {}


def _settings(sim: Simulation, request: dict[str, Any]) -> _Answer:
    return {
        "effective": sim.state.settings,
        "sources": [],
        "applied": {"model": sim.state.model, "effort": "medium"},
    }


def _rename(sim: Simulation, request: dict[str, Any]) -> _Answer:
    sim.state.title = str(request.get("title"))
    sim.emit({"type": "system", "subtype": "session_title_changed", "title": sim.state.title})
    return None


def _rules(sim: Simulation, request: dict[str, Any]) -> _Answer:
    state = sim.state
    rules = [{"rule": rule, "behavior": "allow", "source": "session"} for rule in state.allowed]
    rules += [{"rule": rule, "behavior": "deny", "source": "session"} for rule in state.denied]
    return {
        "state": {
            "rules": rules,
            "workspaceDirectories": [],
            "originalCwd": sim.launch.cwd,
            "managedOnly": False,
        }
    }


# -- what is told -----------------------------------------------------------------------------------------------------


def _context(sim: Simulation, request: dict[str, Any]) -> _Answer:
    used = 1_000 + 15 * sim.state.replies
    window = 1_000_000
    free = window - used
    return {
        "categories": [
            {"id": "messages", "name": "Messages", "tokens": used, "color": "purple", "kind": "used"},
            {"id": "free_space", "name": "Free space", "tokens": free, "color": "promptBorder", "kind": "free"},
        ],
        "totalTokens": used,
        "maxTokens": window,
        "rawMaxTokens": window,
        "percentage": round(100 * used / window),
        "gridRows": [],
        "model": sim.state.model,
        "memoryFiles": [],
        "mcpTools": [],
        "agents": [],
        "isAutoCompactEnabled": True,
        "apiUsage": None,
    }


def _usage(sim: Simulation, request: dict[str, Any]) -> _Answer:
    return {
        "session": {
            "total_cost_usd": round(sim.state.cost, 8),
            "total_api_duration_ms": 0,
            "total_duration_ms": round(sim.state.elapsed * 1000),
            "total_lines_added": 0,
            "total_lines_removed": 0,
            "model_usage": {},
        },
        "subscription_type": None,
        "rate_limits_available": False,
        "rate_limits": None,
        "behaviors": None,
    }


def _cost(sim: Simulation, request: dict[str, Any]) -> _Answer:
    tokens = f"{10 * sim.state.replies} input, {5 * sim.state.replies} output"
    return {"text": f"Estimated cost:        ${sim.state.cost:.4f}\nUsage:                 {tokens}"}


def _hooks(sim: Simulation, request: dict[str, Any]) -> _Answer:
    policy = {"disabledByPolicy": False, "managedOnly": False, "pluginOnly": False, "allDisabled": False}
    return {"events": list(sim.state.hooks), "hooks": [], "eventCatalog": [], "policy": policy}


def _read_file(sim: Simulation, request: dict[str, Any]) -> _Answer:
    path = str(request.get("path"))
    try:
        absolute = os.path.join(sim.launch.cwd, path)
        limit = request.get("max_bytes")
        with open(absolute, "rb") as file:
            data = file.read(limit if isinstance(limit, int) else -1)
    except OSError:
        raise _Refusal(f"read denied: {path}") from None
    return {
        "contents": data.decode("utf-8", "replace"),
        "absPath": absolute,
        "lossy": False,
        "requested_path": path,
    }


def _suggest_files(sim: Simulation, request: dict[str, Any]) -> _Answer:
    query = str(request.get("query"))
    try:
        names = sorted(os.listdir(sim.launch.cwd))
    except OSError:
        names = []
    found = [{"path": name} for name in names if query and query in name]
    return {"suggestions": found[:15], "cwd": sim.launch.cwd}


def _rewind(sim: Simulation, request: dict[str, Any]) -> _Answer:
    if not sim.launch.checkpoints:
        raise _Refusal("File rewinding is not enabled.")
    if request.get("user_message_id") not in sim.state.checkpoints:
        raise _Refusal("No file checkpoint found for this message.")
    return {"canRewind": True, "skippedLinks": 0}


def _stop_task(sim: Simulation, request: dict[str, Any]) -> _Answer:
    task_id = str(request.get("task_id"))
    if task_id in sim.state.background:
        sim.conversation.tools.tasks.over(task_id, "stopped", None, 143)
    return {}


def _task_output(sim: Simulation, request: dict[str, Any]) -> _Answer:
    if request.get("task_id") not in sim.state.background:
        raise _Refusal("get_task_output: no shell or Monitor task with that task_id in this session")
    return {"output": "", "truncated": False}


def _withdraw(sim: Simulation, request: dict[str, Any]) -> _Answer:
    for prompt in sim.prompts:
        if prompt.uuid == request.get("message_uuid"):
            sim.prompts.remove(prompt)
            sim.report_prompt(prompt.uuid, "cancelled")
            return {"cancelled": True}
    return {"cancelled": False}


def _register_root(sim: Simulation, request: dict[str, Any]) -> _Answer:
    directory = str(request.get("directory"))
    absolute = os.path.normpath(os.path.join(sim.launch.cwd, directory))
    if not absolute.startswith(sim.launch.cwd.rstrip("/") + "/"):
        raise _Refusal(f"register_repo_root: {directory} is not a subdirectory of the session's working directory")
    return {}


def _nothing(sim: Simulation, request: dict[str, Any]) -> _Answer:
    return None


def _empty(sim: Simulation, request: dict[str, Any]) -> _Answer:
    return {}


_HANDLERS: dict[str, Callable[[Simulation, dict[str, Any]], _Answer]] = {
    "set_permission_mode": _set_mode,
    "set_model": _set_model,
    "set_max_thinking_tokens": _nothing,
    "set_mcp_permission_mode_override": _override,
    "mcp_status": _server_status,
    "mcp_call": _call_tool,
    "mcp_reconnect": _reconnect,
    "mcp_toggle": _toggle,
    "mcp_read_resource": _read_resource,
    "get_context_usage": _context,
    "get_usage": _usage,
    "get_settings": _settings,
    "list_models": lambda sim, request: {"models": _models()},
    "list_permission_rules": _rules,
    "get_hooks_listing": _hooks,
    "stop_task": _stop_task,
    "background_tasks": _empty,
    "get_task_output": _task_output,
    "read_file": _read_file,
    "seed_read_state": _nothing,
    "reload_plugins": lambda sim, request: {
        "commands": [],
        "agents": [],
        "plugins": [],
        "mcpServers": [],
        "error_count": 0,
    },
    "reload_skills": lambda sim, request: {"skills": []},
    "reload_output_styles": lambda sim, request: {"available_output_styles": ["default"]},
    "apply_flag_settings": _flag_settings,
    "update_settings": _update_settings,
    "rename_session": _rename,
    "get_session_cost": _cost,
    "get_binary_version": lambda sim, request: {"version": VERSION},
    "file_suggestions": _suggest_files,
    "cancel_async_message": _withdraw,
    "register_repo_root": _register_root,
    "set_has_subscribers": _nothing,
    "rewind_files": _rewind,
}
