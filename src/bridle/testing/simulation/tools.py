"""The tool cycle of a simulated CLI: hooks before, permission, the tool, hooks after, and the result for the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.names import seen_name, split_server
from bridle.testing.simulation.results import flat_text

if TYPE_CHECKING:
    from bridle.testing.script import steps
    from bridle.testing.simulation.calls import OpenCalls
    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.hooks import Hooks
    from bridle.testing.simulation.names import Agent
    from bridle.testing.simulation.performers import Performers
    from bridle.testing.simulation.permissions import Permissions
    from bridle.testing.simulation.structured import StructuredOutput
    from bridle.testing.simulation.waits import Steps

__all__ = ["Tools"]

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT "
    "written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)
STOPPED = (
    " Correction to the text above: this call was stopped while running, not refused before it ran. It may have run in part or in full, "
    "and its changes may have been written. No permission prompt was involved. Work it started elsewhere (a remote command, a "
    "background process) may still be running, so check before starting the same work again. The instruction to stop and wait still "
    "stands."
)


class Tools:
    """Plays the cycle of the calls of a reply."""

    def __init__(
        self,
        core: Core,
        *,
        hooks: Hooks,
        calls: OpenCalls,
        permissions: Permissions,
        performers: Performers,
        structured: StructuredOutput,
    ) -> None:
        self.state, self.turn, self.output, self.script = core.state, core.turn, core.output, core.script
        self.hooks, self.calls, self.permissions, self.performers = hooks, calls, permissions, performers
        self.structured = structured

    def run(self, calls: list[tuple[str, steps.Calls]], agent: Agent | None) -> Steps[list[tuple[str, bool]]]:
        """Run the calls of one reply; return their results, and whether each is an error."""
        batch = []
        results: list[tuple[str, bool]] = []
        for call_id, call in calls:
            content, failed = yield from self._run_call(call_id, call, agent)
            if self.turn.deferred is not None:
                return results
            results.append((flat_text(content), failed))
            batch.append(
                {
                    "tool_name": call.tool,
                    "tool_input": call.input,
                    "tool_use_id": call_id,
                    "tool_response": content,
                }
            )
        if agent is None:
            self.turn.results = results
        if not self.structured.exhausted:
            hook_id = f"hook-{self.state.new_id()}"
            yield from self.hooks.run("PostToolBatch", {"tool_calls": batch}, tool_use_id=hook_id, agent=agent)
        return results

    def _run_call(self, call_id: str, call: steps.Calls, agent: Agent | None) -> Steps[tuple[Any, bool]]:
        if not self.state.has_tool(call.tool):
            text = f"Error: No such tool available: {call.tool}{self._why_missing(call.tool)}"
            told = f"<tool_use_error>{text}</tool_use_error>"
            self._tell(call_id, told, text, None, agent, failed=True)
            return told, True
        if agent is None:
            self.state.used.add(seen_name(call.tool))
        decision = yield from self.permissions.decide(call_id, call, self.calls.take_hooks(call_id), agent)
        if decision.deferred:
            self.turn.deferred = {"id": call_id, "name": call.tool, "input": call.input}
            return "", False
        if not decision.allowed:
            self._tell(call_id, decision.message, f"Error: {decision.message}", decision.meta, agent, failed=True)
            return decision.message, True
        self.script.note(f"the tool {call.tool} runs with {decision.input}")
        self.turn.started.add(call_id)
        outcome = yield from self.performers.perform(call_id, call, decision.input, self.run)
        text = flat_text(outcome.content)
        fields = {
            "tool_name": seen_name(call.tool),
            "tool_input": decision.input,
            "tool_use_id": call_id,
            "duration_ms": 1,
        }
        if outcome.failed:
            event, fields = "PostToolUseFailure", {**fields, "error": text, "is_interrupt": False}
            structured: Any = f"Error: {text}"
        else:
            event, fields = "PostToolUse", {**fields, "tool_response": outcome.structured}
            structured = outcome.structured if outcome.whole is None else outcome.whole
        yield from self.hooks.run(event, fields, tool_use_id=call_id, agent=agent)
        content = f"{outcome.content}{outcome.note}" if outcome.note else outcome.content
        meta = {"permission_decision": decision.meta["permission_decision"]}
        self._tell(call_id, content, structured, meta, agent, failed=outcome.failed, says_so=outcome.says_success)
        return content, outcome.failed

    def _why_missing(self, tool: str) -> str:
        server, _ = split_server(tool)
        if server is None and (self.state.lacks(seen_name(tool)) or self.state.lacks(tool)):
            return f". {tool} is disabled for this session, in subagents as well as here."
        return ""

    def _tell(
        self,
        call_id: str,
        content: Any,
        structured: Any,
        meta: dict[str, Any] | None,
        agent: Agent | None,
        *,
        failed: bool,
        says_so: bool = False,
    ) -> None:
        """Send the result of a call to the model."""
        block: dict[str, Any] = {"type": "tool_result", "content": content, "tool_use_id": call_id}
        if failed or says_so:
            block["is_error"] = failed
        for saying in self.permissions.sayings if agent is None else ():
            self.hooks.show_message(*saying)
        self.permissions.sayings.clear()
        more: dict[str, Any] = {} if agent is None else agent.fields
        if agent is None or failed:
            more = {**more, "tool_use_result": structured}
        if meta is not None:
            more = {**more, "tool_result_meta": [{"id": call_id, **meta}]}
        self.turn.open_calls.pop(call_id, None)
        self.output.user([block], None if agent is None else agent.tool_use_id, **more)
        if agent is None:
            self.turn.user_frames += 1

    def reject_open(self) -> None:
        """Report the calls that an interrupt has stopped."""
        for call_id in [*self.turn.open_calls]:
            text = REJECTED + STOPPED if call_id in self.turn.started else REJECTED
            meta = {"non_execution_kind": "user-rejected"}
            self._tell(call_id, text, "User rejected tool use", meta, None, failed=True)
