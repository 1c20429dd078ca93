"""`ToolAnnotations`: the class of `mcp` that also takes other fields and the names in snake_case."""

from __future__ import annotations

from typing import Any

from mcp.types import ToolAnnotations as McpToolAnnotations

_WIRE = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
    "max_result_size_chars": "maxResultSizeChars",
}


class ToolAnnotations(McpToolAnnotations, extra="allow"):
    maxResultSizeChars: int | None = None  # noqa: N815 - the name on the wire

    def __init__(self, **data: Any) -> None:
        for name, wire in _WIRE.items():
            if name in data:
                data.setdefault(wire, data.pop(name))
        data = {name: value for name, value in data.items() if name not in _WIRE}
        super().__init__(**data)
