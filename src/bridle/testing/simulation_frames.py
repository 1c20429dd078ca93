"""The frames of a simulated CLI, shaped like those of the real one, and the state that shows in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation_launch import VERSION, resolve_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridle.testing.simulation_launch import Launch

__all__ = ["COMMANDS", "TIME", "SessionState"]

TIME = "2026-01-01T00:00:00.000Z"
"""What every frame says about the time: the same run gives the same frames."""
TOOLS = [
    "Task",
    "Bash",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterWorktree",
    "ExitWorktree",
    "ListAgents",
    "Monitor",
    "NotebookEdit",
    "Read",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "TaskStop",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
]
_ASKING_TOOLS = ("AskUserQuestion", "EnterPlanMode", "ExitPlanMode")
"""Tools that only exist where somebody can be asked."""
COMMANDS = ("compact", "context", "usage", "clear", "model")
AGENTS = ("claude", "Explore", "general-purpose", "Plan", "statusline-setup")
CAPABILITIES = [
    "interrupt_receipt_v1",
    "interrupt_cancel_queued_v1",
    "interrupt_send_now_v1",
    "interrupt_requeue_taken_v1",
    "msg_lifecycle_v1",
    "request_marker_lists_v1",
    "sdk_mcp_tools_list_changed",
    "sdk_mcp_manifests",
    "mcp_read_resource_v1",
]
_PRICES = {"haiku": (0.1, 0.5), "sonnet": (2.0, 10.0), "fable": (8.0, 40.0)}
"""Dollars for a million tokens in and out; what is not here costs what `opus` does."""
USAGE = {"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
_FINAL_USAGE = {**USAGE, "output_tokens": 5}
_NO_USAGE = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
}
_SUBAGENTS = {
    "spawned": 0,
    "requested": {"background": 0, "foreground": 0, "unset": 0},
    "started_in_background": 0,
    "max_depth": 0,
    "spawned_by_subagents": 0,
    "completed": 0,
    "failed": 0,
    "killed": {"parent": 0, "user": 0, "system": 0},
    "refused": {"depth_limit": 0, "concurrency_limit": 0, "budget": 0},
    "by_type": {},
}


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
        self.settings: dict[str, Any] = {}
        self.replies = 0
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

    def tools(self) -> list[str]:
        """Return the names of the tools that the model may call."""
        launch = self.launch
        names = set(TOOLS if launch.tools is None else launch.tools)
        if launch.asks_host and launch.tools is None:
            names.update(_ASKING_TOOLS)
        if launch.json_schema is not None:
            names.add("StructuredOutput")
        if launch.tools is None and "Bash" in self.taken_away:
            names.update(("Glob", "Grep"))  # what the shell does otherwise
            names.discard("Monitor")
        listed = sorted(names, key=lambda name: (name != "Task", name))
        for server, tools in sorted(self.servers.items()):
            if server not in self.disabled_servers:
                listed += sorted(f"mcp__{server}__{tool.get('name', '')}" for tool in tools)
        return [name for name in listed if name not in self.taken_away]

    def replied(self, times: int = 1) -> None:
        """Count what the model says."""
        self.replies += times
        self._by_model[self.model] = self._by_model.get(self.model, 0) + times

    def results_before(self) -> None:
        """Take what was counted so far as the past."""
        self._by_model_before = {**self._by_model}

    @property
    def cost(self) -> float:
        """Everything so far, in US dollars."""
        return sum(_price(model) * replies for model, replies in self._by_model.items())

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
                "usage": _NO_USAGE,
                "context_management": None,
            },
            "parent_tool_use_id": None,
            "timestamp": TIME,
            "error": _ERRORS.get(status, "server_error" if status >= 500 else "unknown"),
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
            "modelUsage": _model_usage(self._by_model),
            "permission_denials": self.denials,
            "terminal_reason": "completed",
            "fast_mode_state": "off",
            "subagent_stats": _SUBAGENTS,
            "queued_turn_count": 0,
            "result_index": self.results,
            "model_usage_since_last_result": _model_usage(self._since_last_result()),
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
            "usage": _FINAL_USAGE if stop_reason is not None else USAGE,
        }


def _price(model: str) -> float:
    """Return what a reply costs: ten tokens in and five out."""
    family = next((name for name in _PRICES if name in model), "")
    price_in, price_out = _PRICES.get(family, (4.0, 20.0))
    return (10 * price_in + 5 * price_out) / 1_000_000


def _model_usage(by_model: Mapping[str, int]) -> dict[str, Any]:
    return {
        model: {
            "inputTokens": 10 * replies,
            "outputTokens": 5 * replies,
            "cacheReadInputTokens": 0,
            "cacheCreationInputTokens": 0,
            "webSearchRequests": 0,
            "costUSD": round(replies * _price(model), 8),
            "contextWindow": 1_000_000,
            "maxOutputTokens": 128_000,
        }
        for model, replies in by_model.items()
    }


def block_events(index: int, block: Mapping[str, Any], chunk: int | None) -> list[dict[str, Any]]:
    """Return the events by which a block is streamed, without the one that ends it."""
    kind = block["type"]
    deltas: list[dict[str, Any]]
    if kind == "text":
        empty: dict[str, Any] = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": part} for part in pieces(str(block["text"]), chunk)]
    elif kind == "thinking":
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": part} for part in pieces(str(block["thinking"]), chunk)]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    else:
        empty = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    start = {"type": "content_block_start", "index": index, "content_block": empty}
    return [start, *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)]


def pieces(text: str, size: int | None) -> list[str]:
    """Return a text in pieces of at most `size` characters."""
    if size is None:
        return [text] if text else []
    return [text[start : start + size] for start in range(0, len(text), size)]


API_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_ERRORS = {
    400: "invalid_request",
    401: "authentication_failed",
    403: "authentication_failed",
    404: "model_not_found",
    429: "rate_limit",
    529: "overloaded",
}
RETRY_ERRORS = {401: "authentication_failed", 429: "rate_limit", 529: "overloaded"}


def failure_text(status: int, message: str) -> str:
    """Return what the CLI says about an error of the API."""
    text = f"API Error: {status} {message}"
    if status in (401, 403):
        return f"Failed to authenticate. {text}"
    if status >= 500:
        return f"{text}. This is a server-side issue, usually temporary — try again in a moment."
    return text
