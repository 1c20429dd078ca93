"""The commands of a simulated CLI that change its conversation: `/compact` and `/clear`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.testing.simulation import frames
from bridle.testing.simulation.facts import TIME
from bridle.testing.simulation.names import Agent
from bridle.testing.simulation.subagents import stop_fields

if TYPE_CHECKING:
    from bridle.testing.script import steps
    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.hooks import Hooks
    from bridle.testing.simulation.tasks import Tasks
    from bridle.testing.simulation.waits import Steps

__all__ = ["Compaction"]

CONTINUED = (
    "This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier "
    "portion of the conversation.\n\n<system-reminder>\n<tools-used-before-summary>{tools}</tools-used-before-summary>\n"
    "</system-reminder>\nSummary:\n{summary}\n\nIf you need specific details from before compaction (like exact code snippets, error "
    "messages, or content you generated), read the full transcript at: {transcript}\nContinue the conversation from where it left off "
    "without asking the user any further questions. Resume directly — do not acknowledge the summary, do not recap what was happening, "
    'do not preface with "I\'ll continue" or similar. Pick up the last task as if the break never happened.'
)
KEPT = (
    "\n\nThe messages after this summary are the most recent messages from before compaction, kept verbatim. The summary was written "
    "without seeing them, so something it says has not happened yet may already have happened in them."
)
"""The end of that text, if the conversation is long enough that its last messages are kept."""


class Compaction:
    """Replaces the conversation by its summary, or by a new one."""

    def __init__(self, core: Core, hooks: Hooks, tasks: Tasks) -> None:
        self.state, self.turn, self.output = core.state, core.turn, core.output
        self.hooks, self.tasks = hooks, tasks

    def compact(self, step: steps.Compacts) -> Steps[None]:
        """Compact the conversation."""
        state, output, hooks = self.state, self.output, self.hooks
        manual = step.trigger == "manual"
        summary = f"<summary>{step.summary}</summary>"
        output.system("status", status="compacting")
        yield from hooks.run("PreCompact", {"trigger": step.trigger, "custom_instructions": None}, effort=False)
        if manual:  # the summary is the work of a subagent without a type
            agent = Agent(*self.tasks.new_ids("a"), "", "", "", background=False)
            yield from hooks.run("SubagentStop", stop_fields(agent.id, summary, state.at_work()), agent=agent)
        yield from hooks.run("SessionStart", {"source": "compact", "model": state.model}, effort=False)
        kept = KEPT if state.replies > 1 else ""
        state.replied()
        yield from hooks.run("PostCompact", {"trigger": step.trigger, "compact_summary": summary}, effort=False)
        output.system("status", status=None, compact_result="success")
        if manual:
            output.emit(frames.init(state, self.turn.uuids))
        metadata = {"trigger": step.trigger, "pre_tokens": 15 * state.replies, "post_tokens": 15, "duration_ms": 1}
        output.system("compact_boundary", compact_metadata=metadata)
        text = CONTINUED.format(
            summary=step.summary, transcript=state.transcript_path, tools=", ".join(sorted(state.used))
        )
        output.user(text + kept, isReplay=False, isSynthetic=True)
        if manual:
            told = "\n".join(
                f"{event} [callback] completed successfully"
                for event in ("PreCompact", "PostCompact")
                if hooks.has(event)
            )
            output.user(f"<local-command-stdout>Compacted {told}</local-command-stdout>", isReplay=True)

    def clear(self) -> Steps[None]:
        """Begin a new conversation."""
        state = self.state
        yield from self.hooks.run("SessionEnd", {"reason": "clear"}, effort=False)
        new_id = state.new_id()
        frame = {"type": "conversation_reset", "new_conversation_id": new_id, "uuid": new_id, "trigger": "clear"}
        if self.turn.uuids:
            frame["user_message_uuid"] = self.turn.uuids[-1]
        self.output.emit({**frame, "timestamp": TIME})
        self.tasks.report()
        state.clear()
        for _ in range(2 if state.title is not None else 0):
            self.output.system("session_title_changed", title=state.title)
        yield from self.hooks.run("SessionStart", {"source": "clear"}, effort=False)
        self.output.emit(frames.init(state, self.turn.uuids))
