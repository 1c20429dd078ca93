"""`parse_message`: a frame of the CLI as the official package shows it.

One row for each class says where its fields are on the wire. A field without a default is required.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from hackamore.compat.claude_agent_sdk import _shapes as shapes
from hackamore.compat.claude_agent_sdk._errors import MessageParseError
from hackamore.options.observing import logger

_USER_BLOCKS: dict[str, Any] = {
    "text": shapes.TextBlock,
    "tool_use": shapes.ToolUseBlock,
    "tool_result": shapes.ToolResultBlock,
}
_BLOCKS: dict[str, Any] = {
    **_USER_BLOCKS,
    "thinking": shapes.ThinkingBlock,
    "server_tool_use": shapes.ServerToolUseBlock,
    "advisor_tool_result": shapes.ServerToolResultBlock,
}
_SYSTEM: dict[str, Any] = {
    "task_started": shapes.TaskStartedMessage,
    "task_progress": shapes.TaskProgressMessage,
    "task_notification": shapes.TaskNotificationMessage,
    "mirror_error": shapes.MirrorErrorMessage,
}
_LIMIT = {
    name: first + "".join(map(str.capitalize, more))
    for name, (first, *more) in ((row.name, row.name.split("_")) for row in fields(shapes.RateLimitInfo))
}


@cache
def _rows(kind: Any) -> tuple[tuple[str, bool, Any], ...]:
    return tuple(
        (row.name, row.default is MISSING and row.default_factory is MISSING, row.default) for row in fields(kind)
    )


def _read(kind: Any, frame: Any, wire: dict[str, str] | None = None, /, **given: Any) -> Any:
    """Return an object of a dataclass with the fields of a frame; raise KeyError if a required one is missing."""
    for name, required, default in _rows(kind):
        if name not in given:
            key = wire.get(name, name) if wire else name
            given[name] = frame[key] if required else frame.get(key, default)
    return kind(**given)


def _blocks(content: list[Any], kinds: dict[str, Any], data: dict[str, Any]) -> list[Any]:
    blocks = []
    for block in content:
        if not isinstance(block, dict):
            raise MessageParseError(f"Invalid content block (expected dict, got {type(block).__name__})", data)
        kind = kinds.get(block["type"])
        if kind is not None:
            blocks.append(_read(kind, block))
    return blocks


def _origin(data: dict[str, Any]) -> Any:
    origin = data.get("origin")
    return origin if isinstance(origin, dict) and isinstance(origin.get("kind"), str) else None


def _user(data: dict[str, Any]) -> Any:
    content = data["message"]["content"]
    if isinstance(content, list):
        content = _blocks(content, _USER_BLOCKS, data)
    return _read(shapes.UserMessage, data, content=content, origin=_origin(data))


def _assistant(data: dict[str, Any]) -> Any:
    message = data["message"]
    content = message["content"]
    if not isinstance(content, list):
        raise MessageParseError(f"Invalid assistant content (expected list, got {type(content).__name__})", data)
    inner = {name: message.get(name) for name in ("usage", "stop_reason")}
    return _read(
        shapes.AssistantMessage,
        data,
        content=_blocks(content, _BLOCKS, data),
        model=message.get("model", ""),
        message_id=message.get("id"),
        **inner,
    )


def _system(data: dict[str, Any]) -> Any:
    subtype = data["subtype"]
    if subtype == "task_updated":
        patch = data.get("patch") if isinstance(data.get("patch"), dict) else {}
        task = {"task_id": data.get("task_id", ""), "patch": patch, "status": (patch or {}).get("status")}
        return _read(shapes.TaskUpdatedMessage, data, data=data, **task)
    return _read(_SYSTEM.get(subtype, shapes.SystemMessage), data, data=data)


def _hook_event(data: dict[str, Any]) -> Any:
    name = data.get("hook_event") or data.get("hook_name") or data.get("hook_event_name") or ""
    return _read(shapes.HookEventMessage, data, data=data, hook_event_name=name)


def _result(data: dict[str, Any]) -> Any:
    deferred = data.get("deferred_tool_use")
    tool_use = _read(shapes.DeferredToolUse, deferred) if deferred else None
    return _read(
        shapes.ResultMessage, data, {"model_usage": "modelUsage"}, deferred_tool_use=tool_use, origin=_origin(data)
    )


def _rate_limit(data: dict[str, Any]) -> Any:
    info = data["rate_limit_info"]
    return _read(shapes.RateLimitEvent, data, rate_limit_info=_read(shapes.RateLimitInfo, info, _LIMIT, raw=info))


_READERS: dict[str, Any] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "result": _result,
    "stream_event": lambda data: _read(shapes.StreamEvent, data),
    "rate_limit_event": _rate_limit,
    "conversation_reset": lambda data: _read(shapes.ConversationResetMessage, data),
}


def parse_message(data: dict[str, Any]) -> shapes.Message | None:
    """Return the message of a frame, or None for an unknown type; raise MessageParseError if a required field is missing."""
    if not isinstance(data, dict):
        raise MessageParseError(f"Invalid message data type (expected dict, got {type(data).__name__})", data)
    kind = data.get("type")
    if not kind:
        raise MessageParseError("Message missing 'type' field", data)
    hook = kind == "system" and data.get("subtype") in ("hook_started", "hook_response")
    read = _hook_event if hook else _READERS.get(kind)
    if read is None:
        logger.debug("Skipping unknown message type: %s", kind)
        return None
    try:
        message: shapes.Message = read(data)
    except KeyError as error:
        raise MessageParseError(f"Missing required field in {kind} message: {error}", data) from error
    return message
