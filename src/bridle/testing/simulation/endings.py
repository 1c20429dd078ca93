"""The ends of a turn in a simulated CLI: results, errors, limits and interrupts."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bridle.testing.simulation import frames
from bridle.testing.simulation.facts import failure_text
from bridle.testing.simulation.structured import TRIES

if TYPE_CHECKING:
    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.hooks import Hooks
    from bridle.testing.simulation.replies import Replies
    from bridle.testing.simulation.structured import StructuredOutput
    from bridle.testing.simulation.tools import Tools
    from bridle.testing.simulation.waits import Steps

__all__ = ["Endings"]


class Endings:
    """Ends turns."""

    def __init__(self, core: Core, hooks: Hooks, replies: Replies, tools: Tools, structured: StructuredOutput) -> None:
        self.state, self.turn, self.output, self.prompts = core.state, core.turn, core.output, core.prompts
        self.clock, self.script = core.clock, core.script
        self.hooks, self.replies, self.tools, self.structured = hooks, replies, tools, structured

    def finish(self, *, report: str = "completed", **fields: Any) -> None:
        """End the turn with a result; `report` is the state of its prompts."""
        turn = self.turn
        fields.setdefault("num_turns", 1 + turn.user_frames)
        fields.setdefault("api_error_status", None)
        for uuid in turn.joined:
            self.prompts.report(uuid, report)
        frame = frames.result(self.state, turn, self.clock.elapsed, **fields)
        self.state.ended()
        local = fields["num_turns"] == 0 or fields.get("terminal_reason") == "tool_deferred"
        if local or (frame["is_error"] and frame["subtype"] != "success"):
            del frame["api_error_status"]
        if frame["terminal_reason"] is None:
            del frame["terminal_reason"]
        turn.running = False
        self.output.emit(frame)
        for uuid in turn.uuids:
            self.prompts.report(uuid, report)
        agents = any(task.agent is not None for task in self.state.background.values())
        if not self.prompts.waiting and not agents:
            self.prompts.report_state("idle")

    def local(self, command: str) -> None:
        """End the turn of a command that the CLI answers itself."""
        self.finish(result="", num_turns=0, stop_reason=None, terminal_reason=None, local_command=command)

    def _error(self, subtype: str, reason: str, text: str, stop_reason: str | None, **more: Any) -> None:
        self.finish(
            subtype=subtype, is_error=True, stop_reason=stop_reason, terminal_reason=reason, errors=[text], **more
        )

    def fail(self, status: int, message: str, *, bare: bool = False, **more: Any) -> Steps[None]:
        """End the turn with an error of the API; `bare` uses the message as it is."""
        self.replies.request()
        text = message if bare else failure_text(status, message, self.state.launch.gateway)
        frame = frames.failure(self.state.new_id(), status, text)
        yield from self.replies.display(text)
        self.replies.send(frame)
        yield from self.hooks.run("StopFailure", {"error": frame["error"], "last_assistant_message": text})
        self.script.leave_turn()
        self.finish(
            report="cancelled",
            is_error=True,
            result=text,
            stop_reason="stop_sequence",
            terminal_reason="api_error",
            api_error_status=status,
            api_error_type=frame["api_error_type"],
            **more,
        )

    def refuse_prompt(self, text: str, output: dict[str, Any]) -> None:
        """End the turn of a prompt that a hook refuses."""
        stopped = output.get("continue") is False
        reason = str(output.get("stopReason" if stopped else "reason") or "")
        if stopped:
            content = f"Operation stopped by hook: {reason}"
        else:
            content = f"UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {text}"
        kind = "stopped_by_hook" if stopped else "blocked_by_hook"
        self.output.system(
            "informational",
            content=content,
            level="warning",
            prevent_continuation=True,
            prompt_submit_outcome={"kind": kind, "prompt_kept": stopped, "reason": reason},
        )
        self.script.leave_turn(excused=True)
        self.finish(result=content, num_turns=0, stop_reason=None, terminal_reason=None)

    def over_budget(self, **more: Any) -> bool:
        """End the turn if it is too expensive; return whether it was."""
        budget = self.state.launch.budget
        if budget is None or self.state.cost < budget:
            return False
        self.turn.replies = 0  # the real result does not count the reply that was too expensive
        text = f"Reached maximum budget (${Decimal(repr(budget)).normalize():f})"
        self._error("error_max_budget_usd", "budget_exhausted", text, self.turn.stop_reason, report="cancelled", **more)
        return True

    def after_tools(self, **more: Any) -> bool:
        """End the turn if its tools end it; return whether they did."""
        turn, turns = self.turn, self.state.launch.max_turns
        if turn.deferred is not None:
            reason = "tool_deferred"
            self.finish(result="", stop_reason=reason, terminal_reason=reason, deferred_tool_use=turn.deferred, **more)
        elif self.structured.value is not None:
            self.finish(
                result=self.structured.text,
                structured_output=self.structured.value,
                stop_reason="tool_use",
                **more,
            )
        elif self.structured.exhausted:
            text = (
                f"Failed to provide valid structured output after {TRIES} attempts "
                f"— last StructuredOutput error: {self.structured.failures[-1]}"
            )
            reason = "structured_output_retry_exhausted"
            self._error("error_max_structured_output_retries", reason, text, "tool_use", report="cancelled", **more)
        elif turn.stopped:
            self.script.leave_turn(excused=True)
            self.finish(result="", stop_reason="tool_use", terminal_reason="hook_stopped", **more)
        elif 0 < turns <= turn.replies:
            self._error(
                "error_max_turns", "max_turns", f"Reached maximum number of turns ({turns})", "tool_use", **more
            )
        else:
            return False
        return True

    def interrupted(self) -> None:
        """End the turn that the host has interrupted."""
        turn = self.turn
        self.script.note("the turn is interrupted")
        self.script.waiting = None
        self.script.leave_turn()
        message_id, cut_off = turn.streaming, turn.cut_off
        what = ""
        if turn.in_tools:
            self.tools.reject_open()
            what = " for tool use"
        else:
            self.replies.show_cut_off()
        self.output.user([{"type": "text", "text": f"[Request interrupted by user{what}]"}])
        turn.user_frames += 1
        if message_id is not None:
            self.replies.break_stream(message_id, began=cut_off is not None)
        text = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={turn.stop_reason or 'null'}"
        reason = "aborted_tools" if turn.in_tools else "aborted_streaming"
        self._error("error_during_execution", reason, text, turn.stop_reason, report="cancelled")
