"""The tool cycle of a simulated CLI: hooks before, permission, the tool itself, hooks after, and what the model is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bridle.testing.simulation.content import server_outcome
from bridle.testing.simulation.names import Agent, seen_name, split_server
from bridle.testing.simulation.permissions import Permissions
from bridle.testing.simulation.results import Outcome, default_outcome, flat_text
from bridle.testing.simulation.tasks import Tasks
from bridle.testing.simulation.waits import Pause, never

if TYPE_CHECKING:
    from bridle.testing.script import steps
    from bridle.testing.simulation.simulation import Simulation
    from bridle.testing.simulation.turns import Conversation
    from bridle.testing.simulation.waits import Steps

__all__ = ["Tools"]

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT "
    "written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)


STRUCTURED_TRIES = 5
"""How often the model may call `StructuredOutput` with what does not fit the schema."""


class Tools:
    """Runs the tools that the model calls.

    Attributes:
        deferred: the call that a hook has put off.
        structured: the structured output, once the model has given it.
        structured_failures: what was wrong with each that did not fit the schema.
        stop_hook_active: a `Stop` hook has sent the model on already.
    """

    def __init__(self, simulation: Simulation, conversation: Conversation) -> None:
        self.sim = simulation
        self.conversation = conversation
        self.hooks = conversation.hooks
        self.permissions = Permissions(simulation, self.hooks)
        self.tasks = Tasks(simulation, conversation, self.hooks)
        self.deferred: dict[str, Any] | None = None
        self.structured: Any = None
        self.structured_text = ""
        self.structured_failures: list[str] = []
        self.stop_hook_active = False
        self._asked_before: dict[str, list[tuple[str, float | None]]] = {}
        self._open: list[tuple[str, steps.Calls]] = []
        self._calls = 0

    def begin(self) -> None:
        """Begin a turn."""
        self.stop_hook_active = False
        self.deferred = self.structured = None
        self.structured_failures = []
        self._open = []
        self._asked_before = {}

    @property
    def structured_exhausted(self) -> bool:
        """Whether the model has tried often enough to give what fits the schema."""
        return len(self.structured_failures) >= STRUCTURED_TRIES

    def new_call_id(self) -> str:
        """Return the id of a new call."""
        self._calls += 1
        return f"toolu_simulated_{self.sim.state.results}_{self._calls}"

    def call_meta(self, call: steps.Calls, call_id: str) -> dict[str, Any]:
        """Return what the frame with a call says about it."""
        server, name = split_server(call.tool)
        if server not in self.sim.state.servers:
            return {}
        meta = {"id": call_id, "display_name": name.replace("_", " ").title()}
        if self._exists(call):
            meta |= {"server_display_name": server, "tool_name": name}
        return {"tool_use_meta": [meta]}

    def ask_before(self, call_id: str, call: steps.Calls, agent: Agent | None) -> None:
        """Call the `PreToolUse` hooks as soon as the call is there."""
        self._open.append((call_id, call))
        if "PreToolUse" in self.sim.state.hooks and self._exists(call):
            fields = {"tool_name": seen_name(call.tool), "tool_input": call.input, "tool_use_id": call_id}
            self._asked_before[call_id] = self.hooks.send("PreToolUse", fields, tool_use_id=call_id, agent=agent)

    # -- the cycle ----------------------------------------------------------------------------------------------------

    def run(self, calls: list[tuple[str, steps.Calls]], agent: Agent | None) -> Steps[list[tuple[str, bool]]]:
        """Run the calls of one reply; return what they gave, and whether that is an error."""
        batch = []
        results: list[tuple[str, bool]] = []
        for call_id, call in calls:
            content, failed = yield from self._run_call(call_id, call, agent)
            if self.deferred is not None:
                return results
            results.append((flat_text(content), failed))
            batch.append(
                {
                    "tool_name": seen_name(call.tool),
                    "tool_input": call.input,
                    "tool_use_id": call_id,
                    "tool_response": content,
                }
            )
        if agent is None:
            self.conversation.last_results = results
        if self.structured_exhausted:
            return results
        yield from self.hooks.run(
            "PostToolBatch", {"tool_calls": batch}, tool_use_id=f"hook-{self.sim.new_id()}", agent=agent
        )
        return results

    def _run_call(self, call_id: str, call: steps.Calls, agent: Agent | None) -> Steps[tuple[Any, bool]]:
        sim = self.sim
        if not self._exists(call):
            server, _ = split_server(call.tool)
            gone = server is None and (sim.state.lacks(seen_name(call.tool)) or sim.state.lacks(call.tool))
            more = f". {call.tool} is disabled for this session, in subagents as well as here." if gone else ""
            text = f"Error: No such tool available: {call.tool}{more}"
            told = f"<tool_use_error>{text}</tool_use_error>"
            self._tell(call_id, told, text, None, agent, failed=True)
            return told, True
        decision = yield from self.permissions.decide(call_id, call, self._asked_before.pop(call_id, []), agent)
        if decision.deferred:
            self.deferred = {"id": call_id, "name": call.tool, "input": call.input}
            return "", False
        if not decision.allowed:
            self._tell(call_id, decision.message, f"Error: {decision.message}", decision.meta, agent, failed=True)
            return decision.message, True
        sim.run.note(f"the tool {call.tool} runs with {decision.input}")
        outcome = yield from self._perform(call_id, call, decision.input, agent)
        text = flat_text(outcome.content)
        fields: dict[str, Any] = {"tool_name": seen_name(call.tool), "tool_input": decision.input}
        if outcome.failed:
            after = {**fields, "tool_use_id": call_id, "error": text, "is_interrupt": False, "duration_ms": 1}
            yield from self.hooks.run("PostToolUseFailure", after, tool_use_id=call_id, agent=agent)
        else:
            after = {**fields, "tool_response": outcome.structured, "tool_use_id": call_id, "duration_ms": 1}
            yield from self.hooks.run("PostToolUse", after, tool_use_id=call_id, agent=agent)
        whole = outcome.structured if outcome.whole is None else outcome.whole
        structured = f"Error: {text}" if outcome.failed else whole
        meta = {"permission_decision": decision.meta["permission_decision"]}
        self._tell(
            call_id, outcome.content, structured, meta, agent, failed=outcome.failed, says_so=outcome.says_success
        )
        return outcome.content, outcome.failed

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
        block: dict[str, Any] = {"type": "tool_result", "content": content, "tool_use_id": call_id}
        if failed or says_so:
            block["is_error"] = failed
        for saying in self.permissions.sayings:
            self.hooks.say_system_message(*saying)
        self.permissions.sayings.clear()
        more: dict[str, Any] = {"tool_use_result": structured} if agent is None else agent.fields
        if meta is not None:
            more = {**more, "tool_result_meta": [{"id": call_id, **meta}]}
        self._open = [(other, call) for other, call in self._open if other != call_id]
        parent = None if agent is None else agent.tool_use_id
        self.sim.emit(self.sim.state.user([block], parent, **more))
        if agent is None:
            self.conversation.told()

    def reject_open(self) -> None:
        """Tell that what runs or waits was stopped by the user."""
        for call_id, _ in [*self._open]:
            meta = {"non_execution_kind": "user-rejected"}
            self._tell(call_id, REJECTED, "User rejected tool use", meta, None, failed=True)

    def _exists(self, call: steps.Calls) -> bool:
        state = self.sim.state
        names = state.tools()
        # A script may use tools that this list does not know: those of external servers, and of other versions.
        server, _ = split_server(call.tool)
        external = server is not None and server not in state.servers
        unknown_to_us = external or call.tool in ("Glob", "Grep", "TodoWrite", "LS", "Agent")
        if state.lacks(call.tool) or (state.launch.tools is not None and call.tool not in names):
            return call.tool in names
        return call.tool in names or unknown_to_us

    # -- the tools themselves -----------------------------------------------------------------------------------------

    def _perform(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], agent: Agent | None
    ) -> Steps[Outcome]:
        sim = self.sim
        server, name = split_server(call.tool)
        if call.endless:
            sim.wait_for_interrupt()
            yield Pause(never)
        if server is not None and server in sim.state.servers:
            outcome = yield from self._call_server(call_id, call, server, name, arguments)
            return outcome
        if call.tool == "StructuredOutput" and sim.launch.json_schema is not None:
            if call.error is not None:
                self.structured_failures.append(call.error)
                return Outcome(call.error, f"Error: {call.error}", failed=True)
            self.structured = arguments
            self.structured_text = msgspec.json.encode(arguments).decode()
            text = "Structured output provided successfully"
            return Outcome(text, text)
        if call.tool in ("Task", "Agent") and call.agent:
            outcome = yield from self.tasks.subagent(call_id, call, arguments)
            return outcome
        if arguments.get("run_in_background") is True and call.error is None:
            return self.tasks.in_background(call_id, call, arguments)
        if sim.run_tool is not None and call.error is None and not call.result:
            text, structured, failed = sim.run_tool(call.tool, arguments)
            return Outcome(text, structured, failed=failed, says_success=call.tool == "Bash")
        return default_outcome(call, arguments)

    def _call_server(
        self, call_id: str, call: steps.Calls, server: str, name: str, arguments: dict[str, Any]
    ) -> Steps[Outcome]:
        sim = self.sim
        number = sim.conversation_numbers()
        message = {
            "method": "tools/call",
            "params": {
                "name": name,
                "arguments": arguments,
                "_meta": {"claudecode/toolUseId": call_id, "progressToken": number},
            },
            "jsonrpc": "2.0",
            "id": number,
        }
        request_id = sim.ask("mcp_message", {"server_name": server, "message": message})
        sim.server_calls[request_id] = (server, number)
        yield sim.until_answered(request_id)
        sim.server_calls.pop(request_id, None)
        answer = sim.answer(request_id)
        response = answer.get("mcp_response") if isinstance(answer, dict) else None
        where = {"name": server, "source": "sdk"}
        if not isinstance(response, dict) or "result" not in response:
            error = response.get("error") if isinstance(response, dict) else None
            text = str(error.get("message")) if isinstance(error, dict) else "The server did not answer"
            return Outcome(f"MCP error: {text}", None, failed=True, server=where)
        result = response["result"] if isinstance(response["result"], dict) else {}
        return server_outcome(
            call.tool, server, result, f"{sim.state.transcript_path.removesuffix('.jsonl')}/tool-results"
        )
