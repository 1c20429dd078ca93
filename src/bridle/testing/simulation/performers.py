"""The tools of a simulated CLI: tools of the host's process are called, the others give the result that the script has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation.content import server_outcome
from bridle.testing.simulation.names import split_server
from bridle.testing.simulation.results import Outcome, default_outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.testing.script import steps
    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.replies import Replies
    from bridle.testing.simulation.structured import StructuredOutput
    from bridle.testing.simulation.subagents import RunCalls, Subagents
    from bridle.testing.simulation.tasks import Tasks
    from bridle.testing.simulation.waits import Steps

    RunTool = Callable[[str, dict[str, Any]], tuple[str, Any, bool]]

__all__ = ["Performers"]


class Performers:
    """Runs the tools themselves.

    Args:
        run_tool: really runs a tool: takes its name and input, returns the text, the tool's own form, and whether it failed; None
            simulates all of them.
    """

    def __init__(
        self,
        core: Core,
        *,
        replies: Replies,
        structured: StructuredOutput,
        subagents: Subagents,
        tasks: Tasks,
        run_tool: RunTool | None,
    ) -> None:
        self.state, self.questions = core.state, core.questions
        self.replies, self.structured, self.subagents, self.tasks = replies, structured, subagents, tasks
        self.run_tool = run_tool
        self._noted: set[str] = set()

    def perform(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], run_calls: RunCalls
    ) -> Steps[Outcome]:
        """Run a tool; `run_calls` runs the calls of a subagent."""
        server, name = split_server(call.tool)
        if call.endless:
            yield from self.replies.wait_for_interrupt(call)
        if server is not None and server in self.state.servers:
            return (yield from self._call_server(call_id, call, server, name, arguments))
        if call.tool == "StructuredOutput" and self.structured.schema is not None:
            return self.structured.take(call, arguments)
        if call.tool in ("Task", "Agent") and call.agent:
            return (yield from self.subagents.start(call_id, call, arguments, run_calls))
        if arguments.get("run_in_background") is True and call.error is None:
            return self.tasks.command(call_id, call, arguments)
        if self.run_tool is not None and call.error is None and not call.result:
            text, structured, failed = self.run_tool(call.tool, arguments)
            return Outcome(text, structured, failed=failed, says_success=call.tool == "Bash")
        return default_outcome(call, arguments)

    def _call_server(
        self, call_id: str, call: steps.Calls, server: str, name: str, arguments: dict[str, Any]
    ) -> Steps[Outcome]:
        response = yield from self.questions.call_tool(server, name, arguments, call_id)
        if response is None or "result" not in response:
            error = None if response is None else response.get("error")
            text = str(error.get("message")) if isinstance(error, dict) else "The server did not answer"
            outcome = Outcome(f"MCP error: {text}", None, failed=True)
        else:
            result = response["result"] if isinstance(response["result"], dict) else {}
            outcome = server_outcome(call.tool, server, result, f"{self.state.folder}/tool-results")
        if outcome.failed and call.tool not in self._noted:
            self._noted.add(call.tool)
            outcome = outcome._replace(note=self._schema_note(call.tool, server, name))
        return outcome

    def _schema_note(self, tool: str, server: str, name: str) -> str:
        """Return the note of the real CLI (2.1.328) after the first failure of a tool whose schema the model has not seen."""
        schema: Any = next(
            (each.get("inputSchema") for each in self.state.servers[server] if each.get("name") == name), {}
        )
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        return (
            f"\n\nThis tool's input schema was not in your prompt when you called it. The input schema is: {text}\n"
            "If your input does not match this schema, correct it and call the tool again. If it matches, the error above has another "
            f'cause. If the corrected call fails the same way, call ToolSearch with query "select:{tool}" to load the tool, then call '
            "it again."
        )
