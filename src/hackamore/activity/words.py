"""Texts of an agent on their way to a reader: safe for a terminal, and the argument that says most about a call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hackamore.errors import escape_unsafe

if TYPE_CHECKING:
    from collections.abc import Mapping

AGENT_TOOLS = frozenset({"Agent", "Task"})
"""Tools that start a subagent; the second one is the name of before."""
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_TELLING_TEXT = "command file_path notebook_path pattern path url query skill description prompt"
_TELLING = _TELLING_TEXT.split()


def clean(text: str) -> str:
    """Return `text` safe for a terminal, its newlines and tabs kept; CR LF counts as a newline."""
    text = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return escape_unsafe(text.replace("\r\n", "\n"))


def one_line(text: object) -> str:
    """Return the text of a value, safe for a terminal and on one line."""
    return clean(str(text)).replace("\n", " ")


def telling(arguments: Mapping[str, Any]) -> str | None:
    """Return the name of the argument that says most about a call; None if there is none of those that tools usually have."""
    return next((name for name in _TELLING if isinstance(value := arguments.get(name), str) and value), None)


def as_list(value: Any) -> list[Any]:
    """Return a list; an empty one if it is something else."""
    return value if isinstance(value, list) else []


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Return content blocks; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in as_list(content) if isinstance(block, dict)]


def text_of(content: Any) -> str:
    """Return content blocks as text; blocks of other kinds as their kind in brackets."""
    return "\n".join(
        str(block["text"]) if "text" in block else f"[{block.get('type', 'block')}]" for block in blocks_of(content)
    )
