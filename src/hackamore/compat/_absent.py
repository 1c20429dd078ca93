"""Private names of the official package that the layer does not have: importing them works, using one raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Absent:
    """Stands for a private class or function."""

    def __init__(self, *_: Any, **__: Any) -> None:
        kind = type(self)
        raise NotImplementedError(
            f"`{kind.__module__}.{kind.__name__}` is private in claude-agent-sdk, and hackamore.compat does not have it. "
            "docs/guides/compat.md lists what to use in its place."
        )


def names_of(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names are absent."""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name == "MCP_MAJOR":
            import mcp.types

            return 2 if hasattr(mcp.types, "jsonrpc_message_adapter") else 1
        return type(name, (Absent,), {"__module__": f"claude_agent_sdk._internal.{module}"})

    return find
