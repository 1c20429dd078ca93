"""The calls of a reply: their ids, and the `PreToolUse` hooks that are called while the reply is still streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.names import seen_name, split_server

if TYPE_CHECKING:
    from bridle.testing.script import steps
    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.hooks import Hooks
    from bridle.testing.simulation.names import Agent

__all__ = ["OpenCalls"]


class OpenCalls:
    """The calls that have no result yet."""

    def __init__(self, core: Core, hooks: Hooks) -> None:
        self.state, self.turn = core.state, core.turn
        self.hooks = hooks
        self._asked: dict[str, list[tuple[str, float | None]]] = {}

    def meta(self, call: steps.Calls, call_id: str) -> dict[str, Any]:
        """Return the part of the call's frame that describes it."""
        server, name = split_server(call.tool)
        if server not in self.state.servers:
            return {}
        meta = {"id": call_id, "display_name": name.replace("_", " ").title()}
        if self.state.has_tool(call.tool):
            meta |= {"server_display_name": server, "tool_name": name}
        return {"tool_use_meta": [meta]}

    def open(self, call_id: str, call: steps.Calls, agent: Agent | None) -> None:
        """Note a call, and call its `PreToolUse` hooks."""
        self.turn.open_calls[call_id] = call
        if self.hooks.has("PreToolUse") and self.state.has_tool(call.tool):
            fields = {"tool_name": seen_name(call.tool), "tool_input": call.input, "tool_use_id": call_id}
            self._asked[call_id] = self.hooks.send("PreToolUse", fields, tool_use_id=call_id, agent=agent)

    def take_hooks(self, call_id: str) -> list[tuple[str, float | None]]:
        """Return the hook requests of a call."""
        return self._asked.pop(call_id, [])
