"""Background tasks of a simulated CLI, and the frames that report them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore.testing.simulation.core import Part
from hackamore.testing.simulation.facts import FACTS, TEXTS
from hackamore.testing.simulation.results import Outcome, last_text
from hackamore.testing.simulation.state import Task

if TYPE_CHECKING:
    from hackamore.testing.script import steps
    from hackamore.testing.simulation.core import Core
    from hackamore.testing.simulation.state import Agent

_ACTIVITIES: dict[str, tuple[str, str]] = FACTS["activities"]
"""Texts about tools that run, with the input that they name."""


class Tasks(Part):
    """The tasks that run beside the turns, and the reports about them."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._uses: dict[str, list[steps.Calls]] = {}

    def new_ids(self, letter: str) -> tuple[str, str]:
        """Return the ids of a new task and of its run, in the form of the real ones."""
        number = self.state.new_number()
        digits = 16 if letter == "a" else 8
        return f"{letter}{number:0{digits}x}", f"{number:09x}-{number:08x}"

    def add(self, task: Task) -> None:
        """Add a task that runs in the background."""
        self.state.background[task.id] = task
        self.report()

    def report(self) -> None:
        """Report the tasks that run in the background."""
        tasks = [task.shown for task in self.state.background.values()]
        self.host.system("background_tasks_changed", tasks=tasks)

    def command(self, call_id: str, call: steps.Calls, arguments: dict[str, Any]) -> Outcome:
        """Run a shell command in the background."""
        description = str(arguments.get("command") or arguments.get("description") or call.tool)
        task = Task(*self.new_ids("b"), call_id, description)
        self.add(task)
        self.started(task, is_backgrounded=True, task_type="local_bash")
        text = TEXTS["in_background"].format(id=task.id, file=self.file(task.id))
        structured = {
            "stdout": "",
            "stderr": "",
            "interrupted": False,
            "isImage": False,
            "noOutputExpected": False,
            "backgroundTaskId": task.id,
        }
        return Outcome(text, structured, says_success=True)

    def started(self, task: Task, **fields: Any) -> None:
        """Report the start of a task."""
        self._send("task_started", task, tool_use_id=task.tool_use_id, description=task.description, **fields)
        self._uses[task.id] = []

    def progress(self, agent: Agent, call: steps.Calls) -> None:
        """Report that a subagent is about to use a tool."""
        uses = self._uses[agent.id]
        uses.append(call)
        self.host.system(
            "task_progress",
            task_id=agent.id,
            run_id=agent.run_id,
            tool_use_id=agent.tool_use_id,
            description=activity(call, self.state.launch.cwd) or agent.description,
            subagent_type=agent.kind,
            usage={"total_tokens": 15, "tool_uses": len(uses), "duration_ms": 1},
            last_tool_name=call.tool,
        )

    def uses(self, agent_id: str) -> list[steps.Calls]:
        """Return the calls of a subagent, in order."""
        return self._uses.get(agent_id, [])

    def over(self, task_id: str, status: str, summary: str | None, exit_code: int) -> None:
        """End a background task."""
        task = self.state.background.pop(task_id)
        if task.call is None:
            self.ended(task, status, summary or _summary(task, status, exit_code))
        else:
            self.ended(task, status, summary or last_text(task.call.agent), summary_is_report=True)
        self.report()

    def notification(self, task: Task, step: steps.TaskEnds) -> str:
        """Return the prompt of the turn that the CLI starts at the end of a task."""
        about = (
            f"<task-id>{task.id}</task-id>\n<tool-use-id>{task.tool_use_id}</tool-use-id>\n"
            f"<output-file>{self.file(task.id)}</output-file>\n<status>{step.status}</status>\n"
        )
        if task.call is None:
            about += f"<summary>{step.summary or _summary(task, step.status, step.exit_code)}</summary>"
        else:
            uses = len(self.uses(task.id))
            about += TEXTS["agent_ended"].format(
                task=task.description, result=step.summary or last_text(task.call.agent), uses=uses
            )
        return f"<task-notification>\n{about}\n</task-notification>"

    def ended(self, task: Task, status: str, summary: str, *, started: bool = True, **more: Any) -> None:
        """Report the end of a task; of one that was not `started`, `summary` is the error."""
        error = {} if started else {"error": summary}
        self._send("task_updated", task, patch={"status": status, "end_time": 0, **error})
        usage = {"total_tokens": 15, "tool_uses": len(self.uses(task.id)), "duration_ms": 1}
        self._send(
            "task_notification",
            task,
            tool_use_id=task.tool_use_id,
            status=status,
            output_file=self.file(task.id),
            summary=summary,
            **({} if task.agent is None or error else {"usage": usage}),
            **more,
        )

    def _send(self, subtype: str, task: Task, **fields: Any) -> None:
        self.host.system(subtype, task_id=task.id, run_id=task.run_id, **fields)

    def file(self, task_id: str) -> str:
        """Return the path where the real CLI keeps the output of a task."""
        return f"{self.state.folder}/tasks/{task_id}.output"


def _summary(task: Task, status: str, exit_code: int) -> str:
    return f'Background command "{task.description}" {status} (exit code {exit_code})'


def activity(call: steps.Calls, cwd: str) -> str | None:
    """Return the CLI's text about a tool that runs; None for a tool without one."""
    given = call.input
    if call.tool == "Bash":
        return f"Running {given.get('description') or given.get('command')}"
    verb, name = _ACTIVITIES.get(call.tool, ("", ""))
    subject = str(given.get(name) or "").removeprefix(f"{cwd}/")
    return f"{verb} {subject}" if subject else None
