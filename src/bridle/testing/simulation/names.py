"""What the parts of a simulated CLI call tools and subagents."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Agent", "seen_name", "split_server"]

_ALIASES = {"Task": "Agent"}
"""Names that hooks and permission questions see instead of the model's."""


class Agent(NamedTuple):
    """A subagent that runs.

    Attributes:
        id: its id.
        tool_use_id: the call that started it.
        kind: its type.
        description: what its task is called.
        background: whether the turn goes on meanwhile.
    """

    id: str
    tool_use_id: str
    kind: str
    description: str
    background: bool

    @property
    def fields(self) -> dict[str, Any]:
        """What its frames carry."""
        return {"agent_id": self.id, "subagent_type": self.kind, "task_description": self.description}


def split_server(tool: str) -> tuple[str | None, str]:
    """Return the server and the name of a tool; None where it is no tool of a server."""
    if not tool.startswith("mcp__"):
        return None, tool
    server, _, name = tool[5:].partition("__")
    return server, name


def seen_name(tool: str) -> str:
    """Return the name that hooks and questions use for a tool."""
    return _ALIASES.get(tool, tool)
