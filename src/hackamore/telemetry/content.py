"""Content of messages as the GenAI conventions write it: JSON of messages with parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.activity.tree import CALLS
from hackamore.messages import TextBlock, ThinkingBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def as_json(value: Any) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value, enc_hook=str).decode()


def prompt_json(content: str | Sequence[Any]) -> str:
    """Return a prompt as `gen_ai.input.messages`. Blocks without text are named by their type."""
    blocks: Sequence[Any] = [{"text": content}] if isinstance(content, str) else content
    return as_json([{"role": "user", "parts": [_prompt_part(block) for block in blocks]}])


def _prompt_part(block: Any) -> dict[str, Any]:
    if isinstance(block, dict):
        kind, text = block.get("type"), block.get("text")
    else:
        kind, text = getattr(block, "type", None), getattr(block, "text", None)
    return {"type": "text", "content": text} if isinstance(text, str) else {"type": str(kind)}


def parts_of(blocks: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the blocks of a response as parts."""
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "content": block.text})
        elif isinstance(block, ThinkingBlock):
            parts.append({"type": "reasoning", "content": block.thinking})
        elif isinstance(block, CALLS):
            parts.append({"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.input})
    return parts


def message_json(parts: list[dict[str, Any]], finish_reason: str | None) -> str:
    """Return a response as `gen_ai.output.messages`."""
    return as_json([{"role": "assistant", "parts": parts, "finish_reason": finish_reason or "unknown"}])
