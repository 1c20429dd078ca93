"""The frames of a simulated CLI, shaped like those of the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore.testing.simulation.facts import ERRORS, FACTS, FINAL_USAGE, FRAMES, TIME, USAGE, model_usage
from hackamore.testing.simulation.launch import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hackamore.testing.simulation.state import SessionState, Turn


def init(state: SessionState, uuids: Sequence[str]) -> dict[str, Any]:
    """Return the frame that begins each turn."""
    frame = FRAMES["init"] | {
        "cwd": state.launch.cwd,
        "tools": state.tools(),
        "mcp_servers": [
            {"name": name, "status": "disabled" if name in state.disabled_servers else "connected", "source": "sdk"}
            for name in state.servers
        ],
        "model": state.model,
        "permissionMode": state.mode,
        "claude_code_version": VERSION,
        "agents": [*FACTS["agents"], *state.agents],
    }
    if uuids:
        frame["user_message_uuids"] = list(uuids)
    return frame


def _message(message_id: str, model: str, content: list[Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def assistant(model: str, message_id: str, block: Mapping[str, Any], parent: str | None = None) -> dict[str, Any]:
    """Return a frame with one block of a reply."""
    return {
        "type": "assistant",
        "message": {**_message(message_id, model, [block], USAGE), "context_management": None},
        "parent_tool_use_id": parent,
        "timestamp": TIME,
    }


def failure(message_id: str, status: int, text: str, **more: Any) -> dict[str, Any]:
    """Return the frame in which the CLI reports an error of the API, with further fields."""
    from hackamore.testing.model.steps import ERROR_TYPES  # loaded late: most scripts have no use for it

    frame = assistant("<synthetic>", message_id, {"type": "text", "text": text})
    frame["message"] |= {"stop_reason": "stop_sequence", "stop_sequence": "", "usage": FACTS["no_usage"]}
    return {
        **frame,
        "error": ERRORS.get(status, "server_error" if status >= 500 else "unknown"),
        "is_api_error_message": True,
        "api_error_status": status,
        "api_error_type": ERROR_TYPES.get(status, "api_error"),
        **more,
    }


def usage_limit(kind: str, resets_at: int) -> dict[str, Any]:
    """Return the frame that reports a limit of the plan that is used up."""
    window = {"utilization": 1, "resetsAt": resets_at, "status": "rejected"}
    info = {
        "status": "rejected",
        "resetsAt": resets_at,
        "rateLimitType": kind,
        "isUsingOverage": False,
        "unifiedWindows": {kind: window},
    }
    return {"type": "rate_limit_event", "rate_limit_info": info}


def result(state: SessionState, turn: Turn, elapsed: float, **more: Any) -> dict[str, Any]:
    """Return the frame that ends a turn."""
    duration = round(elapsed * 1000) + 1
    frame: dict[str, Any] = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": duration,
        "duration_api_ms": duration,
        "stop_reason": "end_turn",
        "session_id": state.session_id,
        "total_cost_usd": round(state.cost, 8),
        "usage": {
            "input_tokens": 10 * turn.replies,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 5 * turn.replies,
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
        },
        "modelUsage": model_usage(state.by_model),
        "permission_denials": state.denials,
        "terminal_reason": "completed",
        "fast_mode_state": "off",
        "subagent_stats": state.agent_stats,
        "queued_turn_count": 0,
        "result_index": state.results,
        "model_usage_since_last_result": model_usage(state.since_last_result()),
    }
    uuids = [*turn.uuids, *turn.joined]
    if uuids:
        frame["user_message_uuid"] = turn.uuids[-1] if turn.uuids else uuids[0]
        frame["user_message_uuids"] = uuids
    return {**frame, **more}


def refusal(session_id: str, text: str) -> dict[str, Any]:
    """Return the result of a CLI that does not start."""
    return FRAMES["refusal"] | {"session_id": session_id, "errors": [text]}


# -- partial messages -------------------------------------------------------------------------------------------------


def stream(message_id: str, event: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a frame with one event of the model's stream."""
    return {
        "type": "stream_event",
        "event": event,
        "parent_tool_use_id": None,
        "api_message_id": message_id,
        **more,
    }


def message_start(model: str, message_id: str) -> dict[str, Any]:
    """Return the event that begins a reply."""
    return {"type": "message_start", "message": _message(message_id, model, [], USAGE)}


def message_delta(stop_reason: str | None) -> dict[str, Any]:
    """Return the event with the reason why a reply ended; None for one that an interrupt cuts off."""
    delta: dict[str, Any] = {"stop_reason": stop_reason, "stop_sequence": None}
    if stop_reason is not None:
        return {"type": "message_delta", "delta": delta, "usage": FINAL_USAGE}
    delta |= {"container": None, "stop_details": None}
    return {"type": "message_delta", "delta": delta, "usage": FACTS["cut_off_usage"], "context_management": None}
