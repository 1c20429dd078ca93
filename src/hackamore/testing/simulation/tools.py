"""The tools of a simulated CLI: hooks before, permission, the tool or subagent, hooks after, and the result for the model."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from hackamore.testing.script import steps
from hackamore.testing.simulation.core import Part
from hackamore.testing.simulation.facts import FACTS, TEXTS
from hackamore.testing.simulation.hooks import FAILED
from hackamore.testing.simulation.permissions import Permissions
from hackamore.testing.simulation.replies import take_reply
from hackamore.testing.simulation.results import Outcome, default_outcome, flat_text, last_text, server_outcome
from hackamore.testing.simulation.state import Agent, Task, seen_name, split_server
from hackamore.testing.simulation.structured import StructuredOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.testing.simulation.core import Core, Steps
    from hackamore.testing.simulation.hooks import Hooks
    from hackamore.testing.simulation.replies import Replies
    from hackamore.testing.simulation.tasks import Tasks

    RunTool = Callable[[str, dict[str, Any]], tuple[str, Any, bool]]

_COUNTED: dict[str, str] = FACTS["counted_tools"]


class _Source:
    """The steps of a subagent."""

    def __init__(self, items: tuple[steps.ScriptStep, ...]) -> None:
        self._items = list(items)

    def peek(self) -> steps.ScriptStep | None:
        return self._items[0] if self._items else None

    def take(self) -> steps.ScriptStep:
        return self._items.pop(0)


class Tools(Part):
    """Plays the cycle of the calls of a reply, and the work of subagents, whose replies have calls again."""

    def __init__(self, core: Core, hooks: Hooks, tasks: Tasks, replies: Replies, run_tool: RunTool | None) -> None:
        super().__init__(core)
        self.hooks = hooks
        self.tasks = tasks
        self.replies = replies
        self.run_tool = run_tool
        self.permissions: Permissions = Permissions(core, hooks)
        self.structured: StructuredOutput = StructuredOutput(self.state.launch.json_schema)
        self._noted: set[tuple[str | None, str]] = set()

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
        if agent is None:
            self.state.used.add(seen_name(call.tool))
        if not self.state.has_tool(call.tool):
            text = f"Error: No such tool available: {call.tool}{self._why_missing(call.tool)}"
            told = f"<tool_use_error>{text}</tool_use_error>"
            self._tell(call_id, told, text, None, agent, failed=True)
            return told, True
        decision = yield from self.permissions.decide(call_id, call, self.replies.take_hooks(call_id), agent)
        if decision.deferred:
            self.turn.deferred = {"id": call_id, "name": call.tool, "input": call.input}
            return "", False
        if not decision.allowed:
            self._tell(call_id, decision.message, f"Error: {decision.message}", decision.meta, agent, failed=True)
            return decision.message, True
        self.script.note(f"the tool {call.tool} runs with {decision.input}")
        self.turn.started.add(call_id)
        outcome = yield from self._perform(call_id, call, decision.input, agent)
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
        meta = {"permission_decision": decision.meta["permission_decision"]} if decision.meta else None
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
        self.host.user([block], None if agent is None else agent.tool_use_id, **more)
        if agent is None:
            self.turn.user_frames += 1

    def reject_open(self) -> None:
        """Report the calls that an interrupt has stopped."""
        for call_id in [*self.turn.open_calls]:
            text = TEXTS["rejected"] + (TEXTS["stopped"] if call_id in self.turn.started else "")
            meta = {"non_execution_kind": "user-rejected"}
            self._tell(call_id, text, "User rejected tool use", meta, None, failed=True)

    # -- the tools themselves -----------------------------------------------------------------------------------------

    def _perform(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], agent: Agent | None
    ) -> Steps[Outcome]:
        server, _ = split_server(call.tool)
        if call.endless:
            yield from self.replies.wait_for_interrupt(call)
        if server is not None and server in self.state.servers:
            outcome = yield from self._call_server(call_id, call.tool, arguments)
            key = (None if agent is None else agent.id, call.tool)
            if outcome.failed and key not in self._noted:
                self._noted.add(key)
                outcome = outcome._replace(note=self._schema_note(call.tool))
            return outcome
        if call.tool == "StructuredOutput" and self.structured.schema is not None:
            return self.structured.take(call, arguments)
        if call.tool in ("Task", "Agent") and call.agent:
            return (yield from self._start_agent(call_id, call, arguments))
        if arguments.get("run_in_background") is True and call.error is None:
            return self.tasks.command(call_id, call, arguments)
        if self.run_tool is not None and call.error is None and not call.result:
            text, structured, failed = self.run_tool(call.tool, arguments)
            return Outcome(text, structured, failed=failed, says_success=call.tool == "Bash")
        return default_outcome(call, arguments)

    def _call_server(self, call_id: str, tool: str, arguments: dict[str, Any]) -> Steps[Outcome]:
        server, name = split_server(tool)
        assert server is not None  # noqa: S101 - the caller has looked
        response = yield from self.host.call_tool(server, name, arguments, call_id)
        if response is None or "result" not in response:
            error = None if response is None else response.get("error")
            text = str(error.get("message")) if isinstance(error, dict) else "The server did not answer"
            return Outcome(f"MCP error: {text}", None, failed=True)
        result = response["result"] if isinstance(response["result"], dict) else {}
        return server_outcome(tool, server, result, f"{self.state.folder}/tool-results")

    def _schema_note(self, tool: str) -> str:
        """Return the note of the real CLI (2.1.328) after the first failure of a tool whose schema its caller has not seen."""
        server, name = split_server(tool)
        tools = self.state.servers.get(server or "", [])
        schema: Any = next((each.get("inputSchema") for each in tools if each.get("name") == name), {})
        if isinstance(schema, dict):  # the CLI puts these first
            first = {name: schema[name] for name in ("type", "properties", "required") if name in schema}
            schema = {**first, **schema}
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        return TEXTS["schema_note"].format(schema=text, tool=tool)

    # -- subagents ----------------------------------------------------------------------------------------------------

    def _start_agent(self, call_id: str, call: steps.Calls, arguments: dict[str, Any]) -> Steps[Outcome]:
        """Start a subagent, in the turn or in the background; return its report, or the note that it runs in the background."""
        wanted = arguments.get("run_in_background")
        background = wanted is not False
        kind = str(arguments.get("subagent_type", "general-purpose"))
        description = str(arguments.get("description", ""))
        prompt = str(arguments.get("prompt", ""))
        task_id, run_id = self.tasks.new_ids("a")
        agent = Agent(task_id, run_id, call_id, kind, description, background)
        task = Task(task_id, run_id, call_id, description, agent, call)
        self._count(
            kind, "unset" if wanted is None else "background" if wanted else "foreground", background=background
        )
        if background:
            self.tasks.add(task)
        self.tasks.started(
            task,
            subagent_type=kind,
            is_backgrounded=background,
            spawn_depth=1,
            task_type="local_agent",
            prompt=prompt,
        )
        fields = {"agent_id": task_id, "agent_type": kind}
        outputs = yield from self.hooks.run("SubagentStart", fields, effort=False)
        if background:
            self.hooks.report()
            return self._launched(agent, prompt)
        self.host.user([{"type": "text", "text": prompt}], call_id, **agent.fields)
        self.hooks.report()
        if problem := next((output[FAILED] for output in outputs if FAILED in output), None):
            self.tasks.ended(task, "failed", problem, started=False)
            self.state.agent_stats["failed"] += 1
            return Outcome(problem, f"Error: {problem}", failed=True)
        yield from self._work(call, agent)
        final = last_text(call.agent)
        self.tasks.ended(task, "completed", final)
        return self._report(agent, prompt, final)

    def finish(self, task: Task) -> Steps[None]:
        """Do the work of a background task that is a subagent."""
        if task.call is not None and task.agent is not None:
            yield from self._work(task.call, task.agent)
            self.state.used.update(self._tools_of(task.agent))

    def _tools_of(self, agent: Agent) -> list[str]:
        return [tool for tool in sorted({call.tool for call in self.tasks.uses(agent.id)}) if self.state.has_tool(tool)]

    def _work(self, call: steps.Calls, agent: Agent) -> Steps[None]:
        source = _Source(call.agent)
        results: list[tuple[str, bool]] = []
        while (step := source.peek()) is not None:
            if not isinstance(step, steps.REPLY_STEPS):
                whose = f"subagent {call.input.get('prompt')!r}"
                self.script.expect(self.turn.happened, source.take(), results, whose)
                continue
            calls = yield from self.replies.say(take_reply(source), agent)
            if calls:
                results = yield from self.run(calls, agent)
        fields = stop_fields(agent.id, last_text(call.agent), self.state.at_work())
        yield from self.hooks.run("SubagentStop", fields, agent=agent)
        self.state.agent_stats["completed"] += 1

    def _count(self, kind: str, wanted: str, *, background: bool) -> None:
        stats = self.state.agent_stats
        stats["spawned"] += 1
        stats["requested"][wanted] += 1
        stats["started_in_background"] += background
        stats["max_depth"] = 1
        stats["by_type"][kind] = stats["by_type"].get(kind, 0) + 1

    def _report(self, agent: Agent, prompt: str, final: str) -> Outcome:
        import hashlib  # loaded late: it is slow, and most scripts have no subagents

        calls = self.tasks.uses(agent.id)
        content = [{"type": "text", "text": final}]
        text = ""
        used: dict[str, Any] = {}
        names = self._tools_of(agent)
        if names:
            used["toolsUsed"] = names
        new = [tool for tool in names if tool not in self.state.used]
        self.state.used.update(names)
        if new:
            note = f"<tools-used-before-summary>{', '.join(new)}</tools-used-before-summary>\n"
            content.insert(0, {"type": "text", "text": note})
            text = f"{_indented(note)}\n"
        text += (
            f"{TEXTS['hand_back']}\n{_indented(final)}\n"
            f"agentId: {agent.id} (use SendMessage with to: '{agent.id}', summary: '<5-10 word recap>' to continue this agent)\n"
            f"<usage>subagent_tokens: 15\ntool_uses: {len(calls)}\nduration_ms: 1</usage>"
        )
        structured = {
            "status": "completed",
            "prompt": prompt,
            "agentId": agent.id,
            "agentType": agent.kind,
            **used,
            "harnessNoteCount": len(content) - 1,
            "harnessTailCount": 0,
            "harnessSectionHash": hashlib.sha256(text.encode()).hexdigest()[:16],
            "content": content,
            "resolvedModel": self.state.model,
            "totalDurationMs": 1,
            "totalTokens": 15,
            "totalToolUseCount": len(calls),
            "usage": FACTS["agent_usage"],
            **({"toolStats": _statistics(calls)} if calls else {}),
            "canContinueAgent": True,
        }
        return Outcome([{"type": "text", "text": text}], structured)

    def _launched(self, agent: Agent, prompt: str) -> Outcome:
        file = self.tasks.file(agent.id)
        structured = {
            "isAsync": True,
            "status": "async_launched",
            "agentId": agent.id,
            "description": agent.description,
            "resolvedModel": self.state.model,
            "prompt": prompt,
            "outputFile": file,
            "canReadOutputFile": True,
            "canContinueAgent": True,
        }
        return Outcome([{"type": "text", "text": TEXTS["launched"].format(id=agent.id, file=file)}], structured)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _statistics(calls: list[steps.Calls]) -> dict[str, int]:
    counts = Counter(_COUNTED.get(call.tool, "otherToolCount") for call in calls)
    written = [str(call.input.get("content", "")) for call in calls if call.tool == "Write"]
    counts["linesAdded"] = sum(len(text.split("\n")) for text in written)
    names = (*dict.fromkeys(_COUNTED.values()), "linesAdded", "linesRemoved", "otherToolCount")
    return {name: counts[name] for name in names}


def stop_fields(agent_id: str, said: str, at_work: dict[str, Any]) -> dict[str, Any]:
    """Return the input of the hooks at the end of a subagent."""
    return {
        "stop_hook_active": False,
        "agent_transcript_path": f"/simulated/agents/{agent_id}.jsonl",
        "last_assistant_message": said.strip(),
        **at_work,
    }
