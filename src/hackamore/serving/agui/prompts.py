"""The prompt of a run: what its input adds to the conversation, which the CLI has kept."""

from __future__ import annotations

from typing import Any

from hackamore.serving.agui.failures import Refused


def prompt_of(given: Any) -> list[dict[str, Any]] | str:
    """Return the last user messages and the context of a `RunAgentInput` as a prompt; empty if it ends with another message."""
    blocks: list[dict[str, Any]] = []
    for message in reversed(given.messages):
        if message.role != "user":
            break
        content = message.content
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(map(_block, content))
        blocks[:0] = [part for part in parts if part.get("text") != ""]
    if blocks and given.context:
        lines = "\n".join(f"- {each.description}: {each.value}" for each in given.context)
        blocks.append({"type": "text", "text": f"Context of the application:\n{lines}"})
    return blocks[0]["text"] if len(blocks) == 1 and "text" in blocks[0] else blocks


def _block(part: Any) -> dict[str, Any]:
    if part.type == "text":
        return {"type": "text", "text": part.text}
    source = getattr(part, "source", None)
    if part.type in ("image", "document") and source is not None and source.type in ("data", "url"):
        if source.type == "url":
            return {"type": part.type, "source": {"type": "url", "url": source.value}}
        return {"type": part.type, "source": {"type": "base64", "media_type": source.mime_type, "data": source.value}}
    raise Refused(400, "invalid_request", f"Messages with a part of the type {part.type!r:.40} are not supported.")
