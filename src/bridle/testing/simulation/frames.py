"""The frames of a simulated CLI, shaped like those of the real one, and the state that shows in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.facts import (
    AGENTS,
    API_ERROR_TYPES,
    ASKING_TOOLS,
    CAPABILITIES,
    COMMANDS,
    ERRORS,
    FINAL_USAGE,
    NO_SUBAGENTS,
    NO_USAGE,
    TIME,
    TOOLS,
    USAGE,
    model_usage,
    price_of,
)
from bridle.testing.simulation.launch import VERSION, resolve_model
from bridle.testing.simulation.names import split_server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridle.testing.simulation.launch import Launch

__all__ = ["SessionState"]


class SessionState:
    """What a session remembers, and the frames that tell of it.

    Attributes:
        launch: how the CLI was started.
        model: the model in force.
        mode: the permission mode in force.
        allowed: rules that allow, those added on the way included.
        denied: rules that deny.
        servers: in-process MCP servers by name: their tools, once they were listed.
        hooks: by event: matchers with the ids of their callbacks.
        background: tasks that run in the background, by id.
        checkpoints: prompts that files can be restored to.
    """

    def __init__(self, launch: Launch, session_id: str) -> None:
        self.launch = launch
        self.session_id = session_id
        self.model = resolve_model(launch.model)
        self.mode = launch.permission_mode
        self.allowed = list(launch.allowed)
        self.denied = list(launch.disallowed)
        self.servers: dict[str, list[dict[str, Any]]] = {}
        self.disabled_servers: set[str] = set()
        self.dynamic_servers: list[str] = []
        self.hooks: dict[str, list[dict[str, Any]]] = {}
        self.agents: dict[str, Any] = {}
        self.background: dict[str, dict[str, Any]] = {}
        self.checkpoints: set[str] = set()
        self.title: str | None = None
        self.prompted = False
        self.settings: dict[str, Any] = {}
        self.replies = 0
        self.messages = 0
        self._by_model: dict[str, int] = {}
        self._by_model_before: dict[str, int] = {}
        self.results = 0
        self.denials: list[dict[str, Any]] = []
        self.elapsed = 0.0

    # -- what there is ------------------------------------------------------------------------------------------------

    @property
    def taken_away(self) -> set[str]:
        """Tools that whole-tool rules deny."""
        return {rule for rule in self.denied if "(" not in rule}

    def lacks(self, tool: str) -> bool:
        """Return whether a rule denies a tool, or the whole server that it belongs to."""
        server, _ = split_server(tool)
        return tool in self.taken_away or (server is not None and f"mcp__{server}" in self.taken_away)

    def tools(self) -> list[str]:
        """Return the names of the tools that the model may call."""
        launch = self.launch
        names = set(TOOLS if launch.tools is None else launch.tools)
        if launch.asks_host and launch.tools is None:
            names.update(ASKING_TOOLS)
        if launch.json_schema is not None:
            names.add("StructuredOutput")
        if launch.tools is None and "Bash" in self.taken_away:
            names.update(("Glob", "Grep"))  # what the shell does otherwise
            names.discard("Monitor")
        listed = sorted(names, key=lambda name: (name != "Task", name))
        for server, tools in sorted(self.servers.items()):
            if server not in self.disabled_servers:
                listed += sorted(f"mcp__{server}__{tool.get('name', '')}" for tool in tools)
        return [name for name in listed if not self.lacks(name)]

    def replied(self, times: int = 1) -> None:
        """Count what the model says."""
        self.replies += times
        self.messages += times
        self._by_model[self.model] = self._by_model.get(self.model, 0) + times

    def forget(self) -> None:
        """Begin to count anew: another conversation begins."""
        self.replies = 0
        self._by_model = {}
        self._by_model_before = {}
        self.prompted = False

    def results_before(self) -> None:
        """Take what was counted so far as the past."""
        self._by_model_before = {**self._by_model}

    @property
    def cost(self) -> float:
        """Everything so far, in US dollars."""
        return sum(price_of(model) * replies for model, replies in self._by_model.items())

    @property
    def transcript_path(self) -> str:
        """Where the real CLI would keep the conversation."""
        folder = self.launch.cwd.replace("/", "-")
        return f"/simulated/.claude/projects/{folder}/{self.session_id}.jsonl"

    # -- frames -------------------------------------------------------------------------------------------------------

    def init(self, uuids: Sequence[str]) -> dict[str, Any]:
        """The frame that begins each turn."""
        frame: dict[str, Any] = {
            "type": "system",
            "subtype": "init",
            "cwd": self.launch.cwd,
            "tools": self.tools(),
            "mcp_servers": [
                {"name": name, "status": "disabled" if name in self.disabled_servers else "connected", "source": "sdk"}
                for name in self.servers
            ],
            "model": self.model,
            "permissionMode": self.mode,
            "slash_commands": list(COMMANDS),
            "apiKeySource": "none",
            "claude_code_version": VERSION,
            "output_style": "default",
            "agents": [*AGENTS, *self.agents],
            "skills": [],
            "plugins": [],
            "capabilities": CAPABILITIES,
            "fast_mode_state": "off",
        }
        if uuids:
            frame["user_message_uuids"] = list(uuids)
        return frame

    def assistant(self, message_id: str, block: Mapping[str, Any], parent: str | None = None) -> dict[str, Any]:
        """A frame with one block of a reply."""
        return {
            "type": "assistant",
            "message": {
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "model": self.model,
                "content": [block],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": USAGE,
                "context_management": None,
            },
            "parent_tool_use_id": parent,
            "timestamp": TIME,
        }

    def failure(self, message_id: str, status: int, text: str) -> dict[str, Any]:
        """The frame in which the CLI itself speaks of an error of the API."""
        return {
            "type": "assistant",
            "message": {
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "model": "<synthetic>",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "stop_sequence",
                "stop_sequence": "",
                "usage": NO_USAGE,
                "context_management": None,
            },
            "parent_tool_use_id": None,
            "timestamp": TIME,
            "error": ERRORS.get(status, "server_error" if status >= 500 else "unknown"),
            "is_api_error_message": True,
            "api_error_status": status,
            "api_error_type": API_ERROR_TYPES.get(status, "api_error"),
        }

    def user(self, content: Any, parent: str | None = None, **more: Any) -> dict[str, Any]:
        """A frame that tells what the model is told."""
        return {
            "type": "user",
            "message": {"role": "user", "content": content},
            "parent_tool_use_id": parent,
            "timestamp": TIME,
            **more,
        }

    def result(self, uuids: Sequence[str], replies: int, **more: Any) -> dict[str, Any]:
        """The frame that ends a turn."""
        duration = round(self.elapsed * 1000) + 1
        frame: dict[str, Any] = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "duration_ms": duration,
            "duration_api_ms": duration,
            "num_turns": 1,
            "stop_reason": "end_turn",
            "session_id": self.session_id,
            "total_cost_usd": round(self.cost, 8),
            "usage": {
                "input_tokens": 10 * replies,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 5 * replies,
                "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
                "service_tier": "standard",
            },
            "modelUsage": model_usage(self._by_model),
            "permission_denials": self.denials,
            "terminal_reason": "completed",
            "fast_mode_state": "off",
            "subagent_stats": NO_SUBAGENTS,
            "queued_turn_count": 0,
            "result_index": self.results,
            "model_usage_since_last_result": model_usage(self._since_last_result()),
        }
        if uuids:
            frame["user_message_uuid"] = uuids[0]
            frame["user_message_uuids"] = list(uuids)
        frame.update(more)
        self.results += 1
        self._by_model_before = {**self._by_model}
        self.denials = []
        return frame

    def refusal(self, text: str) -> dict[str, Any]:
        """The result of a CLI that does not even begin."""
        return {
            "type": "result",
            "subtype": "error_during_execution",
            "is_error": True,
            "duration_ms": 0,
            "duration_api_ms": 0,
            "num_turns": 0,
            "stop_reason": None,
            "session_id": self.session_id,
            "total_cost_usd": 0,
            "usage": {"input_tokens": 0, "output_tokens": 0},
            "modelUsage": {},
            "permission_denials": [],
            "errors": [text],
            "result_index": 0,
        }

    def _since_last_result(self) -> dict[str, int]:
        counts = {model: count - self._by_model_before.get(model, 0) for model, count in self._by_model.items()}
        return {model: count for model, count in counts.items() if count}

    # -- partial messages ---------------------------------------------------------------------------------------------

    def stream(self, message_id: str, event: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """A frame with one event of the model's stream."""
        return {
            "type": "stream_event",
            "event": event,
            "parent_tool_use_id": None,
            "api_message_id": message_id,
            **more,
        }

    def message_start(self, message_id: str) -> dict[str, Any]:
        """The event that begins a reply."""
        message: dict[str, Any] = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": USAGE,
        }
        return {"type": "message_start", "message": message}

    def message_delta(self, stop_reason: str | None) -> dict[str, Any]:
        """The event that tells why a reply ended."""
        return {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": FINAL_USAGE if stop_reason is not None else USAGE,
        }
