"""The answers of a simulated CLI to control requests that only read, or that change only the state of the session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from bridle.testing.simulation.facts import AGENTS, COMMANDS
from bridle.testing.simulation.launch import MODELS, PERMISSION_MODES, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.testing.simulation.state import SessionState

__all__ = ["ANSWERS", "Answer", "Refusal", "server_info"]

Answer: TypeAlias = dict[str, Any] | None


class Refusal(Exception):  # noqa: N818 - an answer like others
    """A control request that is answered with an error."""

    def __init__(self, text: str, code: str | None = None) -> None:
        self.text = text
        self.code = code
        super().__init__(text)


def server_info(state: SessionState, *, busy: bool) -> dict[str, Any]:
    """Return the answer to the handshake."""
    info: dict[str, Any] = {
        "commands": [{"name": name, "description": name, "argumentHint": "", "builtin": True} for name in COMMANDS],
        "agents": [{"name": name, "description": name} for name in [*AGENTS, *state.agents]],
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": _models(),
        "account": {"tokenSource": "none", "apiKeySource": "none", "apiProvider": "firstParty"},
        "pid": os.getpid(),
        "claude_code_version": VERSION,
        "current_permission_mode": state.mode,
        "hook_on_failure_supported": True,
        "hooks_when_unanswered_kept": 0,
        "other_hook_ask_outranks_host": True,
        "session_state": "running" if busy else "idle",
        "fast_mode_state": "off",
        "capabilities": [],
    }
    if state.hooks:
        info["hooks_applied"] = True
    return info


def _models() -> list[dict[str, Any]]:
    return [
        {"value": name, "resolvedModel": model, "displayName": name.title(), "description": model}
        for name, model in MODELS.items()
    ]


# -- changes ----------------------------------------------------------------------------------------------------------


def _set_mode(state: SessionState, request: dict[str, Any]) -> Answer:
    mode = request.get("mode")
    if mode not in PERMISSION_MODES:
        raise Refusal(f"Cannot set permission mode: must be one of {', '.join(PERMISSION_MODES)}", "invalid_mode")
    state.mode = str(mode)
    return {"mode": mode}


def _flag_settings(state: SessionState, request: dict[str, Any]) -> Answer:
    for name, value in dict(request.get("settings") or {}).items():
        if value is None:
            state.settings.pop(name, None)
        else:
            state.settings[name] = value
    return None


def _update_settings(state: SessionState, request: dict[str, Any]) -> Answer:
    if not request.get("settings"):
        raise Refusal("update_settings requires at least one key")
    state.settings |= dict(request.get("settings") or {})
    return {}


# -- reports ----------------------------------------------------------------------------------------------------------


def _settings(state: SessionState, request: dict[str, Any]) -> Answer:
    return {"effective": state.settings, "sources": [], "applied": {"model": state.model, "effort": "medium"}}


def _rules(state: SessionState, request: dict[str, Any]) -> Answer:
    rules = [
        {"rule": rule, "behavior": behavior, "source": "session"}
        for behavior, listed in (("allow", state.allowed), ("deny", state.denied))
        for rule in listed
    ]
    cwd = state.launch.cwd
    return {"state": {"rules": rules, "workspaceDirectories": [], "originalCwd": cwd, "managedOnly": False}}


def _context(state: SessionState, request: dict[str, Any]) -> Answer:
    used = 1_000 + 15 * state.replies
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
        "model": state.model,
        "memoryFiles": [],
        "mcpTools": [],
        "agents": [],
        "isAutoCompactEnabled": True,
        "apiUsage": None,
    }


def _usage(state: SessionState, request: dict[str, Any]) -> Answer:
    return {
        "session": {
            "total_cost_usd": round(state.cost, 8),
            "total_api_duration_ms": 0,
            "total_duration_ms": 0,
            "total_lines_added": 0,
            "total_lines_removed": 0,
            "model_usage": {},
        },
        "subscription_type": None,
        "rate_limits_available": False,
        "rate_limits": None,
        "behaviors": None,
    }


def _cost(state: SessionState, request: dict[str, Any]) -> Answer:
    tokens = f"{10 * state.replies} input, {5 * state.replies} output"
    return {"text": f"Estimated cost:        ${state.cost:.4f}\nUsage:                 {tokens}"}


def _hooks(state: SessionState, request: dict[str, Any]) -> Answer:
    policy = {"disabledByPolicy": False, "managedOnly": False, "pluginOnly": False, "allDisabled": False}
    return {"events": list(state.hooks), "hooks": [], "eventCatalog": [], "policy": policy}


def _read_file(state: SessionState, request: dict[str, Any]) -> Answer:
    path = str(request.get("path"))
    try:
        absolute = os.path.join(state.launch.cwd, path)
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


def _suggest_files(state: SessionState, request: dict[str, Any]) -> Answer:
    query = str(request.get("query"))
    try:
        names = sorted(os.listdir(state.launch.cwd))
    except OSError:
        names = []
    found = [{"path": name} for name in names if query and query in name]
    return {"suggestions": found[:15], "cwd": state.launch.cwd}


def _rewind(state: SessionState, request: dict[str, Any]) -> Answer:
    if not state.launch.checkpoints:
        raise Refusal("File rewinding is not enabled.")
    if request.get("user_message_id") not in state.checkpoints:
        raise Refusal("No file checkpoint found for this message.")
    return {"canRewind": True, "skippedLinks": 0}


def _task_output(state: SessionState, request: dict[str, Any]) -> Answer:
    if request.get("task_id") not in state.background:
        raise Refusal("get_task_output: no shell or Monitor task with that task_id in this session")
    return {"output": "", "truncated": False}


def _always(answer: Answer) -> Callable[[SessionState, dict[str, Any]], Answer]:
    return lambda state, request: answer


_RELOADED: Answer = {"commands": [], "agents": [], "plugins": [], "mcpServers": [], "error_count": 0}
ANSWERS: dict[str, Callable[[SessionState, dict[str, Any]], Answer]] = {
    "set_permission_mode": _set_mode,
    "set_max_thinking_tokens": _always(None),
    "get_context_usage": _context,
    "get_usage": _usage,
    "get_settings": _settings,
    "list_models": _always({"models": _models()}),
    "list_permission_rules": _rules,
    "get_hooks_listing": _hooks,
    "background_tasks": _always({}),
    "get_task_output": _task_output,
    "read_file": _read_file,
    "seed_read_state": _always(None),
    "reload_plugins": _always(_RELOADED),
    "reload_skills": _always({"skills": []}),
    "reload_output_styles": _always({"available_output_styles": ["default"]}),
    "apply_flag_settings": _flag_settings,
    "update_settings": _update_settings,
    "get_session_cost": _cost,
    "get_binary_version": _always({"version": VERSION}),
    "file_suggestions": _suggest_files,
    "set_has_subscribers": _always(None),
    "rewind_files": _rewind,
}
"""The control requests that need nothing but the state of the session."""
