"""`ToolAnnotations`: the class of `mcp` that also takes other fields and the names in snake_case."""

from __future__ import annotations

from typing import Any

from mcp.types import ToolAnnotations as McpToolAnnotations

_SNAKE = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint", "max_result_size_chars")


class ToolAnnotations(McpToolAnnotations, extra="allow"):
    maxResultSizeChars: int | None = None  # noqa: N815 - the name on the wire

    def __init__(self, **data: Any) -> None:
        for name in set(_SNAKE) & data.keys():
            first, *more = name.split("_")
            data.setdefault(first + "".join(map(str.capitalize, more)), data[name])
        super().__init__(**{name: value for name, value in data.items() if name not in _SNAKE})
