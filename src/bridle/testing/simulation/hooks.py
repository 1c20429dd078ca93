"""The hooks of a simulated CLI: which are called, with what, and what becomes of their answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.names import Agent, split_server

if TYPE_CHECKING:
    from bridle.testing.simulation.simulation import Simulation
    from bridle.testing.simulation.waits import Steps

__all__ = ["Hooks"]

_TOOL_EVENTS = frozenset({"PermissionRequest", "PostToolUse", "PostToolUseFailure", "PreToolUse"})
_WITHOUT_MODE = frozenset(
    {
        "DirectoryAdded",
        "MessageDisplay",
        "PostCompact",
        "PostModelSwitch",
        "PreCompact",
        "PreModelSwitch",
        "SessionEnd",
        "SessionStart",
        "StopFailure",
        "SubagentStart",
    }
)
"""Events whose input does not tell the permission mode."""


class Hooks:
    """Calls the hooks that the host has registered.

    Attributes:
        happened: hooks and permission questions of this turn, for what the script expects of them.
        stopped: a hook wants the turn to end.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.sim = simulation
        self.happened: list[tuple[str, str, Any, Any]] = []
        self.stopped = False

    def begin(self) -> None:
        """Begin a turn."""
        self.happened = []
        self.stopped = False

    def send(
        self,
        event: str,
        fields: dict[str, Any],
        *,
        tool_use_id: str | None = None,
        agent: Agent | None = None,
        effort: bool = True,
    ) -> list[tuple[str, float | None]]:
        """Call the hooks of an event; return the requests, each with its deadline."""
        sim, state = self.sim, self.sim.state
        sent: list[tuple[str, float | None]] = []
        subject = str(fields.get("tool_name") or fields.get("agent_type") or fields.get("trigger") or "")
        for matcher in state.hooks.get(event, ()):
            if not _matches(matcher.get("matcher"), subject):
                continue
            timeout = matcher.get("timeout")
            until = sim.clock() + timeout if isinstance(timeout, (int, float)) else None
            for callback_id in matcher.get("hookCallbackIds", ()):
                payload: dict[str, Any] = {
                    "session_id": state.session_id,
                    "transcript_path": state.transcript_path,
                    "cwd": sim.launch.cwd,
                }
                if state.prompted:
                    payload["prompt_id"] = "51b00000-0000-4000-8000-00000000beef"
                if event not in _WITHOUT_MODE:
                    payload["permission_mode"] = state.mode
                if agent is not None:
                    payload |= {"agent_id": agent.id, "agent_type": agent.kind}
                if effort:
                    payload["effort"] = {"level": "medium"}
                payload |= {"hook_event_name": event, **fields}
                if event in _TOOL_EVENTS and split_server(subject)[0] in state.servers:
                    payload["mcp_server"] = {"name": split_server(subject)[0], "source": "sdk"}
                request = {"callback_id": callback_id, "input": payload, "tool_use_id": tool_use_id or sim.new_id()}
                sent.append((sim.ask("hook_callback", request), until))
        return sent

    def collect(self, event: str, sent: list[tuple[str, float | None]]) -> Steps[list[dict[str, Any]]]:
        """Wait for the answers of hooks; one that is too late is withdrawn, and counts as a refusal before a tool."""
        sim = self.sim
        outputs = []
        for request_id, until in sent:
            yield sim.until_answered(request_id, until)
            late = not sim.answered(request_id)
            if late:
                sim.cancel(request_id)
            output = sim.answer(request_id)
            output = output if isinstance(output, dict) else {}
            if late and event == "PreToolUse":
                output = {"decision": "block", "reason": "the hook did not answer in time"}
            sim.run.note(f"the hook {event} answers {output}")
            self.happened.append(("hook", event, output, None))
            if output.get("continue") is False:
                self.stopped = True
            outputs.append(output)
        return outputs

    def run(
        self,
        event: str,
        fields: dict[str, Any],
        *,
        tool_use_id: str | None = None,
        agent: Agent | None = None,
        effort: bool = True,
    ) -> Steps[list[dict[str, Any]]]:
        """Call the hooks of an event and wait for their answers."""
        if event not in self.sim.state.hooks:
            return []
        sent = self.send(event, fields, tool_use_id=tool_use_id, agent=agent, effort=effort)
        outputs = yield from self.collect(event, sent)
        for output in outputs:
            self.say_system_message(event, fields, output)
        return outputs

    def say_system_message(self, event: str, fields: dict[str, Any], output: dict[str, Any]) -> None:
        """Tell the host what a hook wants the user to read."""
        if text := output.get("systemMessage"):
            name = f"{event}:{fields['tool_name']}" if "tool_name" in fields else event
            self.sim.emit(
                {
                    "type": "system",
                    "subtype": "informational",
                    "content": f"{name} says: {text}",
                    "level": "notice",
                }
            )


def _matches(matcher: Any, subject: str) -> bool:
    if not isinstance(matcher, str) or matcher in ("", "*") or not subject:
        return True
    if re.fullmatch(r"[A-Za-z0-9_|, -]+", matcher):
        return subject in [part.strip() for part in re.split(r"[|,]", matcher)]
    try:
        return re.search(matcher, subject) is not None
    except re.error:
        return False
