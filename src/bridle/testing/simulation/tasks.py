"""What runs beside the turns of a simulated CLI: background commands and subagents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.testing.script import steps
from bridle.testing.simulation.names import Agent
from bridle.testing.simulation.outside import expect
from bridle.testing.simulation.replies import take_reply
from bridle.testing.simulation.results import Outcome

if TYPE_CHECKING:
    from bridle.testing.simulation.hooks import Hooks
    from bridle.testing.simulation.simulation import Simulation
    from bridle.testing.simulation.turns import Conversation
    from bridle.testing.simulation.waits import Steps

__all__ = ["Tasks"]


class _Source:
    """The steps of a subagent, taken one after the other."""

    def __init__(self, items: tuple[steps.ScriptStep, ...]) -> None:
        self._items = list(items)

    def peek(self) -> steps.ScriptStep | None:
        return self._items[0] if self._items else None

    def take(self) -> steps.ScriptStep:
        return self._items.pop(0)


class Tasks:
    """Background commands and subagents."""

    def __init__(self, simulation: Simulation, conversation: Conversation, hooks: Hooks) -> None:
        self.sim = simulation
        self.conversation = conversation
        self.hooks = hooks
        self._tasks = 0
        self._uses: dict[str, tuple[str, int]] = {}

    def new(self, call_id: str, kind: str, description: str, **more: Any) -> tuple[str, dict[str, Any]]:
        """Start a background task; return its id and what is told about it."""
        self._tasks += 1
        task_id = f"{'a' if kind == 'local_agent' else 'b'}{self._tasks:08x}"
        task = {
            "task_id": task_id,
            "run_id": f"run-{self._tasks:08x}",
            "task_type": kind,
            **more,
            "description": description,
        }
        self.sim.state.background[task_id] = {**task, "tool_use_id": call_id}
        self.report()
        return task_id, task

    def report(self) -> None:
        """Tell what runs in the background."""
        hidden = ("tool_use_id", "agent", "call")
        tasks = [
            {name: value for name, value in task.items() if name not in hidden}
            for task in self.sim.state.background.values()
        ]
        self.sim.emit({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks})

    def in_background(self, call_id: str, call: steps.Calls, arguments: dict[str, Any]) -> Outcome:
        """Let a shell command run on beside the turn."""
        description = str(arguments.get("command") or arguments.get("description") or call.tool)
        task_id, task = self.new(call_id, "local_bash", description)
        self.sim.emit(
            {
                "type": "system",
                "subtype": "task_started",
                "task_id": task_id,
                "run_id": task["run_id"],
                "tool_use_id": call_id,
                "description": description,
                "is_backgrounded": True,
                "task_type": "local_bash",
            }
        )
        text = f"Command running in background with ID: {task_id}."
        structured = {
            "stdout": "",
            "stderr": "",
            "interrupted": False,
            "isImage": False,
            "noOutputExpected": False,
            "backgroundTaskId": task_id,
        }
        return Outcome(text, structured, says_success=True)

    def over(self, task_id: str, status: str, summary: str | None, exit_code: int) -> None:
        """Tell that a background task has ended."""
        sim = self.sim
        task = sim.state.background.pop(task_id)
        agent = task["task_type"] == "local_agent"
        said = last_said(task["call"].agent) if agent else ""
        patch = {"status": status, "end_time": 0}
        sim.emit(
            {
                "type": "system",
                "subtype": "task_updated",
                "task_id": task_id,
                "run_id": task["run_id"],
                "patch": patch,
            }
        )
        command = f'Background command "{task["description"]}" {status} (exit code {exit_code})'
        notification = {
            "type": "system",
            "subtype": "task_notification",
            "task_id": task_id,
            "run_id": task["run_id"],
            "tool_use_id": task["tool_use_id"],
            "status": status,
            "output_file": f"/simulated/tasks/{task_id}.output",
            "summary": summary or (said if agent else command),
        }
        if agent:
            notification["usage"] = {"total_tokens": 15, "tool_uses": 0, "duration_ms": 1}
        sim.emit(notification)
        self.report()

    def subagent(self, call_id: str, call: steps.Calls, arguments: dict[str, Any]) -> Steps[Outcome]:
        """Run a subagent, or start one in the background."""
        sim = self.sim
        background = arguments.get("run_in_background") is not False
        kind = str(arguments.get("subagent_type", "general-purpose"))
        description = str(arguments.get("description", ""))
        prompt = str(arguments.get("prompt", ""))
        if background:
            task_id, task = self.new(call_id, "local_agent", description, subagent_type=kind)
        else:
            self._tasks += 1
            task_id = f"a{self._tasks:08x}"
            task = {"run_id": f"run-{self._tasks:08x}"}
        agent = Agent(task_id, call_id, kind, description, background)
        sim.emit(
            {
                "type": "system",
                "subtype": "task_started",
                "task_id": task_id,
                "run_id": task["run_id"],
                "tool_use_id": call_id,
                "description": description,
                "subagent_type": kind,
                "is_backgrounded": background,
                "spawn_depth": 1,
                "task_type": "local_agent",
                "prompt": prompt,
            }
        )
        yield from self.hooks.run("SubagentStart", {"agent_id": task_id, "agent_type": kind}, effort=False)
        final = last_said(call.agent)
        if background:
            sim.state.background[task_id] |= {"agent": agent, "call": call}
            structured = {
                "isAsync": True,
                "status": "async_launched",
                "agentId": task_id,
                "description": description,
                "prompt": prompt,
            }
            text = f"Async agent launched successfully.\nagentId: {task_id}"
            return Outcome([{"type": "text", "text": text}], structured)
        sim.emit({**sim.state.user([{"type": "text", "text": prompt}], call_id), **agent.fields})
        uses = yield from self._agent_turn(call, agent, task["run_id"])
        sim.emit(
            {
                "type": "system",
                "subtype": "task_updated",
                "task_id": task_id,
                "run_id": task["run_id"],
                "patch": {"status": "completed", "end_time": 0},
            }
        )
        sim.emit(
            {
                "type": "system",
                "subtype": "task_notification",
                "task_id": task_id,
                "run_id": task["run_id"],
                "tool_use_id": call_id,
                "status": "completed",
                "output_file": f"/simulated/tasks/{task_id}.output",
                "summary": final,
                "usage": {"total_tokens": 15, "tool_uses": uses, "duration_ms": 1},
            }
        )
        content = [{"type": "text", "text": final}]
        structured = {
            "status": "completed",
            "prompt": prompt,
            "agentId": task_id,
            "agentType": kind,
            "content": content,
            "totalToolUseCount": uses,
        }
        return Outcome(content, structured)

    def finish_agent(self, task_id: str) -> Steps[None]:
        """Let a background task do what it has to do before its end: a subagent says and calls what its script has."""
        task = self.sim.state.background[task_id]
        if "call" in task:
            yield from self._agent_turn(task["call"], task["agent"], task["run_id"])

    def _agent_turn(self, call: steps.Calls, agent: Agent, run_id: str) -> Steps[int]:
        source = _Source(call.agent)
        results: list[tuple[str, bool]] = []
        self._uses[agent.id] = (run_id, 0)
        while (step := source.peek()) is not None:
            if not isinstance(step, steps.REPLY_STEPS):
                expect(self.sim, source.take(), results, f"subagent {call.input.get('prompt')!r}")
                continue
            calls = yield from self.conversation.replies.say(take_reply(source), agent)
            if calls:
                results = yield from self.conversation.tools.run(calls, agent)
        yield from self.stopped(agent, last_said(call.agent))
        return self._uses.pop(agent.id)[1]

    def stopped(self, agent: Agent, said: str) -> Steps[None]:
        """Call the hooks at the end of a subagent."""
        stop = {
            "stop_hook_active": False,
            "agent_transcript_path": f"/simulated/agents/{agent.id}.jsonl",
            "last_assistant_message": said,
            "background_tasks": [],
            "session_crons": [],
        }
        yield from self.hooks.run("SubagentStop", stop, agent=agent)

    def progress(self, agent: Agent, call: steps.Calls) -> None:
        """Tell that a subagent is about to use a tool."""
        run_id, uses = self._uses[agent.id]
        self._uses[agent.id] = (run_id, uses + 1)
        self.sim.emit(
            {
                "type": "system",
                "subtype": "task_progress",
                "task_id": agent.id,
                "run_id": run_id,
                "tool_use_id": agent.tool_use_id,
                "description": f"Running {call.input.get('command') or call.tool}",
                "subagent_type": agent.kind,
                "usage": {"total_tokens": 15, "tool_uses": uses + 1, "duration_ms": 1},
                "last_tool_name": call.tool,
            }
        )


def last_said(items: tuple[steps.ScriptStep, ...]) -> str:
    """Return what a subagent says last."""
    return next((step.text for step in reversed(items) if isinstance(step, steps.Says)), "")
