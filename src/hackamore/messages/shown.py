"""Messages for people: one line for `print`, Markdown and HTML for notebooks. Control characters are escaped in all of them."""

from __future__ import annotations

import re
from typing import Any

from hackamore.errors import escape_terminal

_LONGEST = 120
_IDS = re.compile(r"(^|_)(uuids?|ids?|raw)$")
_FENCE = re.compile(r"(`{3,}[^`]*|~{3,}.*)$")


def one_line(text: str, room: int = _LONGEST) -> str:
    """Return `text` as one line of at most `room` characters that is safe for a terminal."""
    plain = escape_terminal(" ".join(text[: 4 * room].split()), 4 * room)
    return plain if len(plain) <= room and len(text) <= 4 * room else f"{plain[: room - 3].rstrip()}..."


def line(message: Any) -> str:
    """Return a message as one line: its kind and the facts that a reader wants first."""
    kind = f"{message.type} {getattr(message, 'subtype', None) or ''}".strip()
    if message.type == "result":
        facts = _result(message)
    elif message.type in ("assistant", "user"):
        facts = _spoken(message)
    elif message.type == "stream_event":
        facts = _piece(message)
    else:
        facts = ", ".join(_facts(message))
    return one_line(f"{kind}: {facts}" if facts else kind)


def _spoken(message: Any) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    return " | ".join(_block(block) for block in content)


def _block(block: Any) -> str:
    text = getattr(block, "text", None)
    if (raw := getattr(block, "content_raw", None)) is not None:
        return f"({'failed' if getattr(block, 'is_error', None) else 'result'}) {text or _raw(raw)}"
    if text is not None:
        return str(text)
    if block.type == "thinking":
        return f"(thinking) {block.thinking}".rstrip()
    if (name := getattr(block, "name", None)) is not None:
        return f"{name}({_raw(block.input_raw)})"
    return f"({block.type})"


def _raw(payload: Any) -> str:
    return bytes(payload[: 4 * _LONGEST] if isinstance(payload, bytes) else memoryview(payload)[: 4 * _LONGEST]).decode(
        "utf-8", "replace"
    )


def _result(message: Any) -> str:
    facts = [f"{message.num_turns} turn{'' if message.num_turns == 1 else 's'}", f"{message.duration_ms / 1000:.1f} s"]
    if message.total_cost_usd is not None:
        facts.append(f"${message.total_cost_usd:.4f}")
    text = message.result or "; ".join(message.errors)
    return f"{', '.join(facts)}: {text}" if text else ", ".join(facts)


def _piece(message: Any) -> str:
    for name in ("text_delta", "thinking_delta", "input_json_delta"):
        if (piece := getattr(message, name)) is not None:
            return f"{name} {piece!r}"
    return str(message.event_type)


def _facts(message: Any) -> list[str]:
    found = []
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name in ("type", "subtype", "problem") or _IDS.search(name) or value in (None, "", False):
            continue
        if isinstance(value, (str, int, float)):
            found.append(f"{name}={value}")
        elif isinstance(value, list) and value:
            found.append(f"{len(value)} {name}")
    return found[:5]


def html(text: str) -> str:
    """Return text as HTML code, with nothing in it that HTML reads."""
    safe = (
        escape_terminal(text, 20_000)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
    )
    return f"<code>{safe}</code>"


def markdown(text: str) -> str:
    """Return the Markdown of a model without HTML: `<` and `&` are escaped, except inside fenced code."""
    lines = []
    fence = ""
    for part in text.split("\n"):
        if fence:
            # CommonMark: the closing fence is at least as long, of the same character, and has nothing behind it.
            if part.rstrip() and set(part.rstrip()) == {fence[0]} and len(part.rstrip()) >= len(fence):
                fence = ""
            lines.append(part)
        elif _FENCE.match(part):
            fence = part[: len(part) - len(part.lstrip(part[0]))]
            lines.append(part)
        else:
            lines.append(part.replace("&", "&amp;").replace("<", "&lt;"))
    return "\n".join(lines)
