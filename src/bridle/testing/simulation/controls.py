"""What a simulated CLI answers to control requests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.launch import PERMISSION_MODES, VERSION, resolve_model
from bridle.testing.simulation.servers import (
    Answer,
    Refusal,
    call_tool,
    initialize,
    models,
    override,
    read_resource,
    reconnect,
    server_status,
    set_servers,
    toggle,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.protocol.events import RequestReceived
    from bridle.testing.simulation.simulation import Simulation
    from bridle.testing.simulation.waits import Steps

__all__ = ["answer_request"]


def answer_request(sim: Simulation, event: RequestReceived) -> None:
    """Answer a control request, now or (`initialize` with servers) as soon as the host has answered ours."""
    request = event.frame.request
    sim.run.note(f"the host asks {event.subtype}")
    if event.subtype == "initialize":
        initialize(sim, event.request_id, request)
        return
    if event.subtype == "interrupt":
        _interrupt(sim, event.request_id, request)
        return
    if event.subtype == "set_model":
        sim.begin(_set_model(sim, event.request_id, request))
        return
    if event.subtype == "mcp_set_servers":
        sim.begin(set_servers(sim, event.request_id, request))
        return
    handler = _HANDLERS.get(event.subtype)
    if handler is None:
        sim.connection.send_error(
            event.request_id, f"Unsupported control request subtype: {event.subtype}", "unsupported_request"
        )
        return
    try:
        answer = handler(sim, request)
    except Refusal as refusal:
        sim.connection.send_error(event.request_id, refusal.text, refusal.code)
        return
    sim.connection.send_response(event.request_id, answer)
    if event.subtype == "set_permission_mode":
        sim.flush()
        sim.emit({"type": "system", "subtype": "status", "status": None, "permissionMode": sim.state.mode})


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


# -- settings ---------------------------------------------------------------------------------------------------------


def _set_mode(sim: Simulation, request: dict[str, Any]) -> Answer:
    mode = request.get("mode")
    if mode not in PERMISSION_MODES:
        raise Refusal(f"Cannot set permission mode: must be one of {', '.join(PERMISSION_MODES)}", "invalid_mode")
    sim.state.mode = str(mode)
    return {"mode": mode}


def _set_model(sim: Simulation, request_id: str, request: dict[str, Any]) -> Steps[None]:
    state, hooks = sim.state, sim.conversation.hooks
    model = request.get("model")
    name = model if isinstance(model, str) else sim.launch.model
    to_model = resolve_model(name)
    switch = {
        "from_model": state.model,
        "to_model": to_model,
        "requested_model": name or "default",
        "source": "sdk",
        "context_tokens": 15 * min(1, state.replies),
        "prompt_cache_warm": state.replies > 0,
        "cache_ttl": "5m",
        "estimated_cache_write_usd": 0,
        "pricing": "catalog",
    }
    switches = to_model != state.model
    if switches:
        yield from hooks.run("PreModelSwitch", switch, effort=False)
    state.model = to_model
    if state.results:
        text = f"Set model to `{name or 'default'} ({to_model})`"
        sim.emit(state.user(f"<local-command-stdout>{text}</local-command-stdout>", isReplay=True))
    sim.connection.send_response(request_id, {"model": to_model})
    sim.flush()
    if switches:
        yield from hooks.run("PostModelSwitch", switch, effort=False)


def _flag_settings(sim: Simulation, request: dict[str, Any]) -> Answer:
    for name, value in dict(request.get("settings") or {}).items():
        if value is None:
            sim.state.settings.pop(name, None)
        else:
            sim.state.settings[name] = value
    return None


def _update_settings(sim: Simulation, request: dict[str, Any]) -> Answer:
    if not request.get("settings"):
        raise Refusal("update_settings requires at least one key")
    sim.state.settings |= dict(request.get("settings") or {})
    return {}


def _settings(sim: Simulation, request: dict[str, Any]) -> Answer:
    return {
        "effective": sim.state.settings,
        "sources": [],
        "applied": {"model": sim.state.model, "effort": "medium"},
    }


def _rename(sim: Simulation, request: dict[str, Any]) -> Answer:
    sim.state.title = str(request.get("title"))
    sim.emit({"type": "system", "subtype": "session_title_changed", "title": sim.state.title})
    return None


def _rules(sim: Simulation, request: dict[str, Any]) -> Answer:
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


def _context(sim: Simulation, request: dict[str, Any]) -> Answer:
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


def _usage(sim: Simulation, request: dict[str, Any]) -> Answer:
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


def _cost(sim: Simulation, request: dict[str, Any]) -> Answer:
    tokens = f"{10 * sim.state.replies} input, {5 * sim.state.replies} output"
    return {"text": f"Estimated cost:        ${sim.state.cost:.4f}\nUsage:                 {tokens}"}


def _hooks(sim: Simulation, request: dict[str, Any]) -> Answer:
    policy = {"disabledByPolicy": False, "managedOnly": False, "pluginOnly": False, "allDisabled": False}
    return {"events": list(sim.state.hooks), "hooks": [], "eventCatalog": [], "policy": policy}


def _read_file(sim: Simulation, request: dict[str, Any]) -> Answer:
    path = str(request.get("path"))
    try:
        absolute = os.path.join(sim.launch.cwd, path)
        limit = request.get("max_bytes")
        with open(absolute, "rb") as file:
            data = file.read(limit if isinstance(limit, int) else -1)
    except OSError:
        raise Refusal(f"read denied: {path}") from None
    return {
        "contents": data.decode("utf-8", "replace"),
        "absPath": absolute,
        "lossy": False,
        "requested_path": path,
    }


def _suggest_files(sim: Simulation, request: dict[str, Any]) -> Answer:
    query = str(request.get("query"))
    try:
        names = sorted(os.listdir(sim.launch.cwd))
    except OSError:
        names = []
    found = [{"path": name} for name in names if query and query in name]
    return {"suggestions": found[:15], "cwd": sim.launch.cwd}


def _rewind(sim: Simulation, request: dict[str, Any]) -> Answer:
    if not sim.launch.checkpoints:
        raise Refusal("File rewinding is not enabled.")
    if request.get("user_message_id") not in sim.state.checkpoints:
        raise Refusal("No file checkpoint found for this message.")
    return {"canRewind": True, "skippedLinks": 0}


def _stop_task(sim: Simulation, request: dict[str, Any]) -> Answer:
    task_id = str(request.get("task_id"))
    if task_id in sim.state.background:
        sim.conversation.tools.tasks.over(task_id, "stopped", None, 143)
    return {}


def _task_output(sim: Simulation, request: dict[str, Any]) -> Answer:
    if request.get("task_id") not in sim.state.background:
        raise Refusal("get_task_output: no shell or Monitor task with that task_id in this session")
    return {"output": "", "truncated": False}


def _withdraw(sim: Simulation, request: dict[str, Any]) -> Answer:
    for prompt in sim.prompts:
        if prompt.uuid == request.get("message_uuid"):
            sim.prompts.remove(prompt)
            sim.report_prompt(prompt.uuid, "cancelled")
            return {"cancelled": True}
    return {"cancelled": False}


def _register_root(sim: Simulation, request: dict[str, Any]) -> Answer:
    directory = str(request.get("directory"))
    absolute = os.path.normpath(os.path.join(sim.launch.cwd, directory))
    if not absolute.startswith(sim.launch.cwd.rstrip("/") + "/"):
        raise Refusal(f"register_repo_root: {directory} is not a subdirectory of the session's working directory")
    sim.begin(_added(sim, absolute))
    return {"directory": absolute}


def _added(sim: Simulation, directory: str) -> Steps[None]:
    # After the answer, which this call comes before.
    sim.flush()
    fields = {"directory": directory, "source": "register_repo_root"}
    yield from sim.conversation.hooks.run("DirectoryAdded", fields, effort=False)


def _nothing(sim: Simulation, request: dict[str, Any]) -> Answer:
    return None


def _empty(sim: Simulation, request: dict[str, Any]) -> Answer:
    return {}


_HANDLERS: dict[str, Callable[[Simulation, dict[str, Any]], Answer]] = {
    "set_permission_mode": _set_mode,
    "set_max_thinking_tokens": _nothing,
    "set_mcp_permission_mode_override": override,
    "mcp_status": server_status,
    "mcp_call": call_tool,
    "mcp_reconnect": reconnect,
    "mcp_toggle": toggle,
    "mcp_read_resource": read_resource,
    "get_context_usage": _context,
    "get_usage": _usage,
    "get_settings": _settings,
    "list_models": lambda sim, request: {"models": models()},
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
