"""Output of the Messages API for a `Reply`: the events of a stream, or one whole message. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hackamore.testing.model.steps import Text, Thinking, ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.testing.model.steps import Block, Reply


def message_events(
    reply: Reply, *, message_id: str, asked_model: str, new_tool_id: Callable[[], str]
) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed answer, as the Messages API would send them."""
    usage = _usage(reply)
    started = {**usage, "output_tokens": min(1, usage.get("output_tokens", 0))}
    yield {
        "type": "message_start",
        "message": {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": reply.model or asked_model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": started,
        },
    }
    for index, block in enumerate(reply.content):
        yield from block_events(index, _whole_block(block, new_tool_id), reply.chunk)
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": _stop_reason(reply), "stop_sequence": None},
        "usage": usage,
    }
    yield {"type": "message_stop"}


def whole_message(reply: Reply, *, message_id: str, asked_model: str, new_tool_id: Callable[[], str]) -> dict[str, Any]:
    """Return the answer to a request that did not ask for a stream."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": reply.model or asked_model,
        "content": [_whole_block(block, new_tool_id) for block in reply.content],
        "stop_reason": _stop_reason(reply),
        "stop_sequence": None,
        "usage": _usage(reply),
    }


def encode_event(event: Mapping[str, Any]) -> bytes:
    """Return one server-sent event as bytes."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _usage(reply: Reply) -> dict[str, Any]:
    given = reply.usage
    base = given if isinstance(given, Usage) else Usage()
    counts: dict[str, Any] = {
        "input_tokens": base.input_tokens,
        "output_tokens": base.output_tokens,
        "cache_creation_input_tokens": base.cache_creation_input_tokens,
        "cache_read_input_tokens": base.cache_read_input_tokens,
    }
    return counts if isinstance(given, Usage) else {**counts, **given}


def _stop_reason(reply: Reply) -> str:
    if reply.stop_reason is not None:
        return reply.stop_reason
    return "tool_use" if any(_is_call(block) for block in reply.content) else "end_turn"


def _is_call(block: Block) -> bool:
    return isinstance(block, ToolCall) or (isinstance(block, Mapping) and block.get("type") == "tool_use")


def _whole_block(block: Block, new_tool_id: Callable[[], str]) -> Mapping[str, Any]:
    match block:
        case str():
            return {"type": "text", "text": block}
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking():
            return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
        case ToolCall():
            return {"type": "tool_use", "id": block.id or new_tool_id(), "name": block.name, "input": dict(block.input)}
        case _:
            return block


def block_events(index: int, whole: Mapping[str, Any], chunk: int | None) -> Iterator[dict[str, Any]]:
    """Yield the events by which a block is streamed, in deltas of at most `chunk` characters."""
    deltas: list[dict[str, Any]] = []
    match whole:
        case {"type": "text", "text": str(text)}:
            start: Mapping[str, Any] = {**whole, "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(text, chunk)]
        case {"type": "thinking", "thinking": str(text)}:
            start = {**whole, "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(text, chunk)]
            deltas.append({"type": "signature_delta", "signature": whole.get("signature", "")})
        case {"type": "tool_use", "input": arguments}:
            start = {**whole, "input": {}}
            pieces = _pieces(json.dumps(arguments), chunk)
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        case _:
            start = whole
    yield {"type": "content_block_start", "index": index, "content_block": dict(start)}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _pieces(text: str, chunk: int | None) -> list[str]:
    if chunk is None or not text:
        return [text] if text else []
    return [text[start : start + chunk] for start in range(0, len(text), chunk)]
