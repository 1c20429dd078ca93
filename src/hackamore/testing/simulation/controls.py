"""The control requests of the host to a simulated CLI, and the MCP servers in the host's process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from hackamore.testing.simulation.core import Part
from hackamore.testing.simulation.facts import FACTS, FRAMES
from hackamore.testing.simulation.launch import MODELS, PERMISSION_MODES, VERSION, resolve_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hackamore.testing.simulation.core import Core, Steps
    from hackamore.testing.simulation.hooks import Hooks
    from hackamore.testing.simulation.state import SessionState
    from hackamore.testing.simulation.tasks import Tasks

Answer: TypeAlias = dict[str, Any] | None


class Refusal(Exception):  # noqa: N818 - an answer like others
    """A control request that is answered with an error."""

    def __init__(self, text: str, code: str | None = None) -> None:
        self.text = text
        self.code = code
        super().__init__(text)


def _server_info(state: SessionState, *, busy: bool) -> dict[str, Any]:
    info = FRAMES["server_info"] | {
        "commands": [
            {"name": name, "description": name, "argumentHint": "", "builtin": True} for name in FACTS["commands"]
        ],
        "agents": [{"name": name, "description": name} for name in [*FACTS["agents"], *state.agents]],
        "models": _models(),
        "pid": os.getpid(),
        "claude_code_version": VERSION,
        "current_permission_mode": state.mode,
        "session_state": "running" if busy else "idle",
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
    if request.get("detail", "full") not in ("summary", "full"):
        raise Refusal("get_context_usage: detail must be 'summary' or 'full'")
    used = 1_000 + 15 * state.replies
    window: int = FRAMES["context_usage"]["maxTokens"]
    categories = [
        {"id": "messages", "name": "Messages", "tokens": used, "color": "purple", "kind": "used"},
        {"id": "free_space", "name": "Free space", "tokens": window - used, "color": "promptBorder", "kind": "free"},
    ]
    facts = {"totalTokens": used, "percentage": round(100 * used / window), "model": state.model}
    return FRAMES["context_usage"] | facts | {"categories": categories}


def _usage(state: SessionState, request: dict[str, Any]) -> Answer:
    return FRAMES["usage"] | {"session": FRAMES["session_usage"] | {"total_cost_usd": round(state.cost, 8)}}


def _is_plugin(value: object) -> bool:
    return isinstance(value, dict) and value.get("type") == "local" and os.path.isabs(str(value.get("path")))


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


PROTOCOL_VERSION = "2025-11-25"


class Controls(Part):
    """Answers control requests, immediately or after further exchanges with the host. `servers_ready`: their tools are listed."""

    def __init__(self, core: Core, hooks: Hooks, tasks: Tasks) -> None:
        super().__init__(core)
        self.hooks = hooks
        self.tasks = tasks
        self.servers_ready: bool = True
        self._initialized = False
        self._later: dict[str, Callable[[str, dict[str, Any]], Steps[None]]] = {
            "initialize": self._initialize,
            "set_model": self._set_model,
            "mcp_set_servers": self._replace_servers,
            "register_repo_root": self._register_root,
        }
        self._now: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "set_mcp_permission_mode_override": self._override,
            "mcp_status": self._server_status,
            "mcp_call": self._call_tool,
            "mcp_reconnect": self._reconnect,
            "mcp_toggle": self._toggle,
            "mcp_read_resource": self._read_resource,
            "reload_plugins": self._reload_plugins,
            "stop_task": self._stop_task,
            "rename_session": self._rename,
            "cancel_async_message": self._cancel_prompt,
        }

    def answer(self, subtype: str, request_id: str, request: dict[str, Any]) -> None:
        """Answer a control request."""
        self.script.note(f"the host asks {subtype}")
        if subtype == "interrupt":
            self._interrupt(request_id, request)
        elif subtype in self._later:
            self.scheduler.begin(self._later[subtype](request_id, request))
        else:
            mode = self.state.mode
            try:
                answer = self._answer_now(subtype, request)
            except Refusal as refusal:
                self.host.refuse(request_id, refusal.text, refusal.code)
                return
            self.host.respond(request_id, answer)
            if self.state.mode != mode:
                self.host.system("status", status=None, permissionMode=self.state.mode)

    def _answer_now(self, subtype: str, request: dict[str, Any]) -> Answer:
        if subtype in self._now:
            return self._now[subtype](request)
        if subtype in ANSWERS:
            return ANSWERS[subtype](self.state, request)
        raise Refusal(f"Unsupported control request subtype: {subtype}", "unsupported_request")

    # -- with further exchanges ---------------------------------------------------------------------------------------

    def _initialize(self, request_id: str, request: dict[str, Any]) -> Steps[None]:
        state = self.state
        if self._initialized:
            self.tasks.report()
        self._initialized = True
        if isinstance(hooks := request.get("hooks"), dict):
            state.hooks = {event: matchers for event, matchers in hooks.items() if isinstance(matchers, list)}
        if isinstance(agents := request.get("agents"), dict):
            state.agents = agents
        # The handshake of some clients names the servers in the host's process, others announce them on the command line.
        named = [name for name in request.get("sdkMcpServers") or () if isinstance(name, str)]
        names = list(dict.fromkeys([*state.launch.sdk_servers, *named]))
        names = [name for name in names if not self._take_manifest(name, request.get("sdkMcpServerManifests"))]
        self.servers_ready = not names
        found = yield from self._connect(names)
        self.host.respond(request_id, _server_info(state, busy=self.host.busy))
        yield from self._list_tools(found)
        self.servers_ready = True

    def _interrupt(self, request_id: str, request: dict[str, Any]) -> None:
        running, host = self.turn.running, self.host
        named, word = request.get("for_user_message_uuids"), {}
        if isinstance(named, list) and request.get("cancel_queued") is not True:
            current = {*self.turn.uuids, *self.turn.joined}
            word["turn"] = "spared" if current.isdisjoint(named) and current else "stopped" if running else "idle"
            running = word["turn"] == "stopped"
        asked = running and self.host.asks_permission
        if running:
            self.host.cancel_all()
        if request.get("cancel_queued") is True:
            host.cancel_prompts(host.prompts)
        queued = [prompt.uuid for prompt in host.prompts if prompt.uuid is not None]
        self.host.respond(request_id, {"still_queued": queued, **word})
        if asked:
            host.report_state("running")
        if running:
            self.scheduler.interrupt()

    def _set_model(self, request_id: str, request: dict[str, Any]) -> Steps[None]:
        state, hooks = self.state, self.hooks
        model = request.get("model")
        name = model if isinstance(model, str) else None
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
        if switches and state.results and state.replies:
            shown = to_model if name in (None, to_model) else f"{name} ({to_model})"
            text = f"<local-command-stdout>Set model to `{shown}`</local-command-stdout>"
            self.host.user(text, isReplay=True)
        self.host.respond(request_id, {"model": to_model})
        if switches:
            yield from hooks.run("PostModelSwitch", switch, effort=False)

    def _register_root(self, request_id: str, request: dict[str, Any]) -> Steps[None]:
        directory, cwd = str(request.get("directory")), self.state.launch.cwd
        absolute = os.path.normpath(os.path.join(cwd, directory))
        if not absolute.startswith(cwd.rstrip("/") + "/"):
            text = (
                f"register_repo_root: {directory} is not a subdirectory of the session's working directory or of a launch-time --add-dir "
                "root that still leads where it first did"
            )
            self.host.refuse(request_id, text, None)
            return
        self.host.respond(request_id, {"directory": absolute})
        fields = {"directory": absolute, "source": "register_repo_root"}
        yield from self.hooks.run("DirectoryAdded", fields, effort=False)

    # -- immediately --------------------------------------------------------------------------------------------------

    def _rename(self, request: dict[str, Any]) -> Answer:
        self.state.title = str(request.get("title"))
        self.host.system("session_title_changed", title=self.state.title)
        return None

    def _reload_plugins(self, request: dict[str, Any]) -> Answer:
        if request.get("refuse_if_busy") is True and self.host.busy:
            raise Refusal("a turn is running", "reload_plugins_busy")
        if not all(_is_plugin(plugin) for plugin in request.get("add_plugins") or ()):
            raise Refusal(
                'reload_plugins add_plugins must be a list of { type: "local", path } entries with absolute paths'
            )
        return {"commands": [], "agents": [], "plugins": [], "mcpServers": [], "error_count": 0}

    def _stop_task(self, request: dict[str, Any]) -> Answer:
        task_id = str(request.get("task_id"))
        if task_id in self.state.background:
            self.tasks.over(task_id, "stopped", None, 143)
        return {}

    def _cancel_prompt(self, request: dict[str, Any]) -> Answer:
        found = [prompt for prompt in self.host.prompts if prompt.uuid == request.get("message_uuid")][:1]
        self.host.cancel_prompts(found)
        return {"cancelled": bool(found)}

    # -- the MCP servers in the host's process --------------------------------------------------------------------------

    def _take_manifest(self, name: str, manifests: Any) -> bool:
        """Use the tools of a server from the handshake, if they are there: then it gets no request for them."""
        manifest = manifests.get(name) if isinstance(manifests, dict) else None
        result = manifest.get("toolsListResult") if isinstance(manifest, dict) else None
        tools = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(tools, list):
            return False
        self.state.servers[name] = [tool for tool in tools if isinstance(tool, dict)]
        return True

    def _connect(self, names: Iterable[str]) -> Steps[list[str]]:
        information = {"name": "claude-code", "title": "Claude Code", "version": VERSION}
        params = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": information}
        # Their steps run in turn, so that every request is sent before the first response is awaited.
        greetings = [(name, self.host.message(name, "initialize", 0, params)) for name in names]
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

    def _list_tools(self, names: Iterable[str]) -> Steps[None]:
        for name in names:
            yield from self.host.message(name, "notifications/initialized")
            result = _result((yield from self.host.message(name, "tools/list", 1))) or {}
            tools = result.get("tools")
            listed = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
            self.state.servers[name] = listed

    def _replace_servers(self, request_id: str, request: dict[str, Any]) -> Steps[None]:
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
        found = yield from self._connect(added)
        state.dynamic_servers += found
        yield from self._list_tools(found)
        errors |= {name: "the server did not answer" for name in added if name not in found}
        self.host.respond(request_id, {"added": found, "removed": removed, "errors": errors})

    # -- answers ------------------------------------------------------------------------------------------------------

    def _call_tool(self, request: dict[str, Any]) -> Answer:
        server = str(request.get("tool", "")).removeprefix("mcp__").partition("__")[0]
        if server in self.state.servers:
            raise Refusal(
                f"mcp_call does not support SDK MCP servers. SDK servers are caller-provided — invoke {server} directly."
            )
        raise Refusal(f"MCP server not connected: {server}")

    def _server_status(self, request: dict[str, Any]) -> Answer:
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

    def _toggle(self, request: dict[str, Any]) -> Answer:
        disabled = self.state.disabled_servers
        change = disabled.discard if request.get("enabled") else disabled.add
        change(self._known(request))
        return None

    def _reconnect(self, request: dict[str, Any]) -> Answer:
        self._known(request)
        return None

    def _read_resource(self, request: dict[str, Any]) -> Answer:
        raise Refusal(f"Server {self._known(request)} has no resource {request.get('uri')}")

    def _override(self, request: dict[str, Any]) -> Answer:
        """Answer `set_mcp_permission_mode_override`: narrow the permission mode for one server."""
        name = request.get("serverName")
        if name in self.state.servers:
            return {}
        more = "no override was present to clear." if request.get("mode") is None else "the override applies later."
        return {"warning": f"MCP server '{name}' is not known; {more}"}


def _result(response: dict[str, Any] | None) -> dict[str, Any] | None:
    result = response.get("result") if isinstance(response, dict) else None
    return result if isinstance(result, dict) else None
