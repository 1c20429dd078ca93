"""The conversion of an MCP tool's result for model, hooks and host, as the real CLI (2.1.328) does it."""

from __future__ import annotations

import json
from typing import Any

from bridle.testing.simulation.results import Outcome, flat_text

__all__ = ["server_outcome"]

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_LARGEST_PLAIN = 1e21
"""JavaScript writes whole numbers from here on with an exponent."""


def server_outcome(tool: str, server: str, result: dict[str, Any], folder: str) -> Outcome:
    """Return the result of a tool in the forms for the model, the hooks and the host.

    Args:
        tool: its whole name, `mcp__SERVER__NAME`.
        server: the server.
        result: the server's response to `tools/call`.
        folder: the folder where the real CLI keeps pictures and other files; nothing is written.
    """
    content = result.get("content")
    items = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    if result.get("isError") is True:
        # Only texts are shown, and no other part of it.
        text = flat_text([item for item in items if item.get("type") == "text"])
        return Outcome(text or "Command failed with no output", None, failed=True)
    meta, structured = result.get("_meta"), result.get("structuredContent")
    links = [_without_type(item) for item in items if item.get("type") == "resource_link"]
    shown: Any
    if isinstance(structured, dict):
        structured = _as_javascript(structured)
        text = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
        others = _blocks([item for item in items if item.get("type") != "text"], server, folder)
        shown = [*others, {"type": "text", "text": text}] if others else text
    else:
        structured = None
        shown = _blocks(items, server, folder)
    whole = {"content": shown, "_meta": meta, "structuredContent": structured, "resourceLinks": links or None}
    silent = isinstance(shown, list) and all(block["type"] == "text" and not block["text"].strip() for block in shown)
    return Outcome(
        f"({tool} completed with no output)" if silent else shown,
        shown,
        whole={name: value for name, value in whole.items() if value is not None} if len(_set(whole)) > 1 else None,
    )


def _set(fields: dict[str, Any]) -> list[str]:
    return [name for name, value in fields.items() if value is not None]


def _blocks(items: list[dict[str, Any]], server: str, folder: str) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        place = f"{folder}/mcp-{server}-blob-{number}"
        match item.get("type"):
            case "text":
                blocks.append(_text(str(item.get("text", ""))))
            case "image" | "audio" as kind:
                blocks += _blob(f"[{kind.title()} from {server}] ", item.get("data"), item.get("mimeType"), place)
            case "resource_link":
                about = f" ({item['description']})" if item.get("description") else ""
                blocks.append(_text(f"[Resource link: {item.get('name')}] {item.get('uri')}{about}"))
            case "resource":
                found = item.get("resource")
                resource = found if isinstance(found, dict) else {}
                title = f"[Resource from {server} at {resource.get('uri')}] "
                if "blob" in resource:
                    picture = resource.get("mimeType") in _PICTURES
                    blocks += [_text(title)] if picture else []
                    blocks += _blob(title, resource["blob"], resource.get("mimeType"), place)
                else:
                    blocks.append(_text(f"{title}{resource.get('text', '')}"))
            case _:
                blocks.append(item)
    return blocks


def _blob(title: str, data: object, mime_type: object, place: str) -> list[dict[str, Any]]:
    """Return a picture and where it is kept, or for other bytes where they are kept."""
    kind = str(mime_type or "")
    path = f"{place}.{kind.rpartition('/')[2].partition('+')[0] or 'bin'}"
    if kind in _PICTURES:
        source = {"type": "base64", "media_type": kind, "data": data}
        return [{"type": "image", "source": source}, _text(f"[Image: source: {path}]")]
    encoded = str(data or "").rstrip("=")
    size = len(encoded) * 3 // 4
    return [_text(f"{title}Binary content ({kind or 'unknown type'}, {size} bytes) saved to {path}")]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _without_type(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "type"}


def _as_javascript(value: Any) -> Any:
    """Return a value as it is after JavaScript has read it: whole numbers have no point."""
    match value:
        case dict():
            return {name: _as_javascript(part) for name, part in value.items()}
        case list():
            return [_as_javascript(part) for part in value]
        case float() if value.is_integer() and abs(value) < _LARGEST_PLAIN:
            return int(value)
        case _:
            return value
