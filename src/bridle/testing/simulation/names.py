"""Names in a simulated CLI: of tools and servers, of subagents and background tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from bridle.testing.script.steps import Calls

__all__ = ["Agent", "Task", "seen_name", "split_server"]

_ALIASES = {"Task": "Agent"}
"""Names that hooks and permission questions use instead of the model's."""


class Agent(NamedTuple):
    """A subagent.

    Attributes:
        id: its id, also as a task.
        run_id: the id of its run.
        tool_use_id: the call that started it.
        kind: its type.
        description: the description of its task.
        background: whether the turn continues meanwhile.
    """

    id: str
    run_id: str
    tool_use_id: str
    kind: str
    description: str
    background: bool

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of its frames."""
        return {"agent_id": self.id, "subagent_type": self.kind, "task_description": self.description}


class Task(NamedTuple):
    """A background task: a command, or a subagent with the call that describes its work."""

    id: str
    run_id: str
    tool_use_id: str
    description: str
    agent: Agent | None = None
    call: Calls | None = None

    @property
    def shown(self) -> dict[str, Any]:
        """The task in the list of background tasks."""
        kind = {"task_type": "local_bash"}
        if self.agent is not None:
            kind = {"task_type": "local_agent", "subagent_type": self.agent.kind}
        return {"task_id": self.id, "run_id": self.run_id, **kind, "description": self.description}

    @property
    def running(self) -> dict[str, Any]:
        """The task in the input of hooks at the end of a turn."""
        kind = {"type": "shell", "command": self.description}
        if self.agent is not None:
            kind = {"type": "subagent", "agent_type": self.agent.kind}
        return {"id": self.id, "status": "running", "description": self.description, **kind}


def split_server(tool: str) -> tuple[str | None, str]:
    """Return the server and the name of a tool; None if it is not a tool of a server."""
    if not tool.startswith("mcp__"):
        return None, tool
    server, _, name = tool[5:].partition("__")
    return server, name


def seen_name(tool: str) -> str:
    """Return the name that hooks and questions use for a tool."""
    return _ALIASES.get(tool, tool)
