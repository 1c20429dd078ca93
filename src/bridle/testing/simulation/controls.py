"""The control requests of the host to a simulated CLI."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.answers import ANSWERS, Answer, Refusal, server_info
from bridle.testing.simulation.launch import resolve_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.hooks import Hooks
    from bridle.testing.simulation.scheduler import Scheduler
    from bridle.testing.simulation.servers import Servers
    from bridle.testing.simulation.tasks import Tasks
    from bridle.testing.simulation.waits import Steps

__all__ = ["Controls"]


class Controls:
    """Answers control requests, immediately or after further exchanges with the host."""

    def __init__(self, core: Core, hooks: Hooks, tasks: Tasks, servers: Servers, scheduler: Scheduler) -> None:
        self.state, self.turn, self.output, self.questions = core.state, core.turn, core.output, core.questions
        self.prompts, self.script = core.prompts, core.script
        self.hooks, self.tasks, self.servers, self.scheduler = hooks, tasks, servers, scheduler
        self._initialized = False
        self._later: dict[str, Callable[[str, dict[str, Any]], Steps[None]]] = {
            "initialize": self._initialize,
            "set_model": self._set_model,
            "mcp_set_servers": self.servers.replace,
            "register_repo_root": self._register_root,
        }
        self._now: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "set_mcp_permission_mode_override": self.servers.override,
            "mcp_status": self.servers.status,
            "mcp_call": self.servers.call_tool,
            "mcp_reconnect": self.servers.reconnect,
            "mcp_toggle": self.servers.toggle,
            "mcp_read_resource": self.servers.read_resource,
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
                self.output.refuse(request_id, refusal.text, refusal.code)
                return
            self.output.respond(request_id, answer)
            if self.state.mode != mode:
                self.output.system("status", status=None, permissionMode=self.state.mode)

    def _answer_now(self, subtype: str, request: dict[str, Any]) -> Answer:
        if subtype in self._now:
            return self._now[subtype](request)
        if subtype in ANSWERS:
            return ANSWERS[subtype](self.state, request)
        raise Refusal(f"Unsupported control request subtype: {subtype}", "unsupported_request")

    # -- with further exchanges ---------------------------------------------------------------------------------------

    def _initialize(self, request_id: str, request: dict[str, Any]) -> Steps[None]:
        """Take the handshake: hooks, servers, agents."""
        state, servers = self.state, self.servers
        if self._initialized:
            self.tasks.report()
        self._initialized = True
        if isinstance(hooks := request.get("hooks"), dict):
            state.hooks = {event: matchers for event, matchers in hooks.items() if isinstance(matchers, list)}
        if isinstance(agents := request.get("agents"), dict):
            state.agents = agents
        names = [name for name in request.get("sdkMcpServers") or () if isinstance(name, str)]
        servers.ready = not names
        found = yield from servers.connect(names)
        self.output.respond(request_id, server_info(state, busy=self.prompts.busy))
        yield from servers.list_tools(found)
        servers.ready = True

    def _interrupt(self, request_id: str, request: dict[str, Any]) -> None:
        running, prompts = self.turn.running, self.prompts
        asked = running and self.questions.asks_permission
        if running:
            self.questions.cancel_all()
        if request.get("cancel_queued") is True:
            prompts.cancel_all()
        queued = [prompt.uuid for prompt in prompts.waiting if prompt.uuid is not None]
        self.output.respond(request_id, {"still_queued": queued})
        if asked:
            prompts.report_state("running")
        if running:
            self.scheduler.interrupt()

    def _set_model(self, request_id: str, request: dict[str, Any]) -> Steps[None]:
        state, hooks = self.state, self.hooks
        model = request.get("model")
        name = model if isinstance(model, str) else state.launch.model
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
        if switches and state.results:
            text = f"Set model to `{name or 'default'} ({to_model})`"
            self.output.user(f"<local-command-stdout>{text}</local-command-stdout>", isReplay=True)
        self.output.respond(request_id, {"model": to_model})
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
            self.output.refuse(request_id, text, None)
            return
        self.output.respond(request_id, {"directory": absolute})
        fields = {"directory": absolute, "source": "register_repo_root"}
        yield from self.hooks.run("DirectoryAdded", fields, effort=False)

    # -- immediately --------------------------------------------------------------------------------------------------

    def _rename(self, request: dict[str, Any]) -> Answer:
        self.state.title = str(request.get("title"))
        self.output.system("session_title_changed", title=self.state.title)
        return None

    def _stop_task(self, request: dict[str, Any]) -> Answer:
        task_id = str(request.get("task_id"))
        if task_id in self.state.background:
            self.tasks.over(task_id, "stopped", None, 143)
        return {}

    def _cancel_prompt(self, request: dict[str, Any]) -> Answer:
        return {"cancelled": self.prompts.cancel(request.get("message_uuid"))}
