"""The turns of a simulated CLI: from a prompt, or the end of a background task, to the result."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bridle.testing.script import steps
from bridle.testing.simulation.facts import failure_text
from bridle.testing.simulation.hooks import Hooks
from bridle.testing.simulation.names import Agent
from bridle.testing.simulation.outside import expect, outside, retry
from bridle.testing.simulation.replies import Replies, last_text, take_reply
from bridle.testing.simulation.tools import STRUCTURED_TRIES, Tools
from bridle.testing.simulation.waits import Interruption, Pause

if TYPE_CHECKING:
    from bridle.testing.script.steps import ScriptStep
    from bridle.testing.simulation.simulation import Prompt, Simulation
    from bridle.testing.simulation.waits import Steps

__all__ = ["Conversation"]

LATE_PROMPT_SECONDS = 5.0
"""How long the CLI waits, by the real clock, for a prompt that the script has between tools and their answer."""
ENFORCED = (
    "[structured-output-enforce] You MUST call the StructuredOutput tool to complete this request. Call this tool now."
)
"""What the model is told, once in a turn, that ends without the structured output that was asked for."""


class Conversation:
    """What the CLI says and does, as its script tells it.

    Attributes:
        in_turn: whether a turn runs, so that there is something to interrupt.
        last_results: what the last tools gave to the model, and whether that was an error.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.sim = simulation
        self.hooks = Hooks(simulation)
        self.replies = Replies(simulation, self)
        self.tools = Tools(simulation, self)
        self.in_turn = False
        self.last_results: list[tuple[str, bool]] = []
        self._user_frames = 0
        self._after_tools = self._waited = self._enforced = self._prevented = False
        self._joined: list[str] = []
        self._phase = "model"

    def play(self) -> Steps[None]:
        """Go through the whole script."""
        sim, run = self.sim, self.sim.run
        while True:
            match run.peek():
                case steps.TaskEnds() as step:
                    run.take()
                    yield from self._turn_of_task(step)
                case steps.ExpectHook() | steps.ExpectPermission() | steps.ExpectResult() as step:
                    run.take()
                    expect(self.sim, step, self.last_results)
                case steps.Slow() | steps.Crash() | steps.Hang() | steps.IgnoreTermination() as step:
                    run.take()
                    yield from outside(sim, step)
                case steps.Garbage() | steps.Cut() | steps.Emit() as step:
                    run.take()
                    yield from outside(sim, step)
                case _:
                    yield Pause(lambda: bool(sim.prompts) or sim.input_ended)
                    if not sim.prompts:
                        sim.exit(1 if sim.last_result_failed else 0)
                        return
                    yield from self._turn_of_user()

    # -- turns --------------------------------------------------------------------------------------------------------

    def _turn_of_user(self) -> Steps[None]:
        sim, run = self.sim, self.sim.run
        yield Pause(lambda: sim.servers_ready)
        step = run.peek()
        if step is None and run.rewind():
            step = run.peek()
        prompts = self._next_prompts(step)
        text = "\n".join(prompt.text for prompt in prompts)
        self._begin([prompt.uuid for prompt in prompts if prompt.uuid is not None])
        for prompt in prompts:
            sim.report_prompt(prompt.uuid, "started")
        sim.state.prompted = True
        sim.state.checkpoints.update(self.replies.uuids)
        problem: str | None = None
        if step is None:
            problem = f"the prompt {text!r} came after the end of the script"
        elif isinstance(step, steps.UserSays):
            if step.fits(text):
                run.take()
            else:
                problem = step.mismatch(text)
        elif run.position > 0:
            problem = (
                f"the prompt {text!r} came while the script has {step.describe()} (for sessions that run at once there is "
                "SimulatedCLI(..., per_session=True))"
            )
        yield from self._guarded(self._user_turn(text, problem))

    def _next_prompts(self, step: ScriptStep | None) -> list[Prompt]:
        """Take one prompt, or all that wait: the CLI answers them together, and a script may mean either."""
        waiting = [*self.sim.prompts]
        one = not isinstance(step, steps.UserSays) or step.fits(waiting[0].text) or len(waiting) == 1
        if not one and isinstance(step, steps.UserSays) and step.fits("\n".join(prompt.text for prompt in waiting)):
            self.sim.prompts.clear()
            return waiting
        return [self.sim.prompts.popleft()]

    def _begin(self, uuids: list[str]) -> None:
        self.in_turn = True
        self.hooks.begin()
        self.last_results = []
        self.replies.begin(uuids)
        self._user_frames = 0
        self._after_tools = self._waited = self._enforced = self._prevented = False
        self._joined = []
        self._phase = "model"
        self.tools.begin()

    def _guarded(self, turn: Steps[None]) -> Steps[None]:
        """Play a turn, and end it as the CLI does when it is interrupted."""
        try:
            yield from turn
        except Interruption:
            self._interrupted()
        finally:
            self.in_turn = False

    def _user_turn(self, text: str, problem: str | None) -> Steps[None]:
        sim = self.sim
        if text == "/clear" and problem is None:
            yield from self._clear()
            return
        step = sim.run.peek()
        if problem is None and isinstance(step, steps.Compacts) and step.trigger == "manual":
            sim.run.take()
            yield from self._compact(step)
            return
        outputs = yield from self.hooks.run("UserPromptSubmit", {"prompt": text}, effort=False)
        for output in outputs:
            if output.get("decision") == "block" or output.get("continue") is False:
                sim.emit(sim.state.init(self.replies.uuids))
                self._prompt_refused(text, output)
                return
        sim.emit(sim.state.init(self.replies.uuids))
        if problem is not None:
            sim.run.problem(problem)
            yield from self._fail(418, f"Unexpected request to the simulated CLI: {problem}")
            return
        if not self._over_budget():
            yield from self._answer()

    def _prompt_refused(self, text: str, output: dict[str, Any]) -> None:
        stopped = output.get("continue") is False
        reason = str(output.get("stopReason" if stopped else "reason") or "")
        if stopped:
            content = f"Operation stopped by hook: {reason}"
        else:
            content = f"UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {text}"
        outcome = {
            "kind": "stopped_by_hook" if stopped else "blocked_by_hook",
            "prompt_kept": stopped,
            "reason": reason,
        }
        self.sim.emit(
            {
                "type": "system",
                "subtype": "informational",
                "content": content,
                "level": "warning",
                "prevent_continuation": True,
                "prompt_submit_outcome": outcome,
            }
        )
        self.sim.run.leave_turn(excused=True)
        self._finish(result=content, num_turns=0, stop_reason=None, terminal_reason=None)

    def _turn_of_task(self, step: steps.TaskEnds) -> Steps[None]:
        sim = self.sim
        run_id = yield from self._task_ends(step)
        if run_id is None:
            return
        self._begin([])
        sim.report_state("running")
        sim.emit(sim.state.init(()))
        origin = {"kind": "task-notification", "producer": "session-task", "runId": run_id}
        yield from self._guarded(self._answer(origin=origin))

    def _task_ends(self, step: steps.TaskEnds) -> Steps[str | None]:
        sim, background = self.sim, self.sim.state.background
        if not background:
            sim.run.problem(f"the script has {step.describe()}, and no task runs in the background")
            return None
        task_id = next(iter(background))
        task = background[task_id]
        yield from self.tools.tasks.finish_agent(task_id)
        if task_id in background:  # nobody has stopped it meanwhile
            self.tools.tasks.over(task_id, step.status, step.summary, step.exit_code)
        return str(task["run_id"])

    # -- what the model does ------------------------------------------------------------------------------------------

    def _answer(self, **more: Any) -> Steps[None]:
        """Play replies and tools until the turn has its result."""
        sim, run = self.sim, self.sim.run
        while True:
            step = run.peek()
            match step:
                case steps.ExpectHook() | steps.ExpectPermission() | steps.ExpectResult():
                    run.take()
                    expect(self.sim, step, self.last_results)
                case steps.Retry():
                    run.take()
                    yield from retry(sim, step)
                case steps.ApiFailure():
                    run.take()
                    yield from self._fail(step.status, failure_text(step.status, step.message), **more)
                    return
                case steps.Interrupted():
                    run.take()
                    yield from self.replies.until_interrupted(step)
                case steps.Compacts():
                    run.take()
                    yield from self._compact(step)
                case steps.TaskEnds():
                    run.take()
                    yield from self._task_ends(step)
                case steps.Thinks() | steps.Says() | steps.Calls():
                    reply = take_reply(run)
                    if (yield from self._reply_and_tools(reply, more)):
                        return
                case steps.UserSays() if self._after_tools and not sim.input_ended and not self._waited:
                    # A prompt that comes while tools run is given to the model with their results.
                    yield from self._late_prompt(step)
                case None | steps.UserSays():
                    problem = "the model was asked, and the script has no answer"
                    run.problem(f"{problem}: {'it is at its end' if step is None else f'next is {step.describe()}'}")
                    yield from self._fail(418, f"Unexpected request to the simulated CLI: {problem}", **more)
                    return
                case _:
                    run.take()
                    yield from outside(sim, step)

    def _over_budget(self, **more: Any) -> bool:
        """End the turn if it has become too expensive, before its tools run; True if so."""
        budget = self.sim.launch.budget
        if budget is None or self.sim.state.cost < budget:
            return False
        self.replies.count = 0  # what the real one says: the reply that was too much is not in the result's usage
        self._finish(
            report="cancelled",
            subtype="error_max_budget_usd",
            is_error=True,
            stop_reason=self.replies.stop_reason,
            terminal_reason="budget_exhausted",
            errors=[f"Reached maximum budget (${Decimal(repr(budget)).normalize():f})"],
            **more,
        )
        return True

    def _late_prompt(self, step: steps.UserSays) -> Steps[None]:
        sim = self.sim
        yield Pause(lambda: bool(sim.prompts) or sim.input_ended, sim.clock() + LATE_PROMPT_SECONDS)
        if not sim.prompts or not step.fits(sim.prompts[0].text):
            self._waited = True  # it is told as what it is: the model was asked, and the script has no answer
            return
        sim.run.take()
        prompt = sim.prompts.popleft()
        yield from self.hooks.run("UserPromptSubmit", {"prompt": prompt.text}, effort=False)
        sim.report_prompt(prompt.uuid, "started")
        if prompt.uuid is not None:
            self._joined.append(prompt.uuid)
            sim.state.checkpoints.add(prompt.uuid)

    def _reply_and_tools(self, reply: list[ScriptStep], more: dict[str, Any]) -> Steps[bool]:
        """Play one reply and what it calls; True if that was the end of the turn."""
        sim = self.sim
        calls = yield from self.replies.say(reply, None)
        if self._over_budget(**more):
            return True
        if calls:
            self._phase = "tools"
            self._after_tools = True
            yield from self.tools.run(calls, None)
            self._phase = "model"
            tools = self.tools
            if tools.deferred is not None:
                self._finish(
                    result="",
                    stop_reason="tool_deferred",
                    terminal_reason="tool_deferred",
                    deferred_tool_use=tools.deferred,
                    **more,
                )
            elif tools.structured is not None:
                if (yield from self._sent_on("")):
                    tools.structured = None
                    tools.stop_hook_active = True
                    return False
                self._finish(
                    result=tools.structured_text,
                    structured_output=tools.structured,
                    stop_reason="tool_use",
                    **more,
                )
            elif tools.structured_exhausted:
                self._finish(
                    report="cancelled",
                    subtype="error_max_structured_output_retries",
                    is_error=True,
                    stop_reason="tool_use",
                    terminal_reason="structured_output_retry_exhausted",
                    errors=[
                        f"Failed to provide valid structured output after {STRUCTURED_TRIES} attempts "
                        f"— last StructuredOutput error: {tools.structured_failures[-1]}"
                    ],
                    **more,
                )
            elif self.hooks.stopped:
                sim.run.leave_turn(excused=True)
                self._finish(result="", stop_reason="tool_use", terminal_reason="hook_stopped", **more)
            elif 0 < sim.launch.max_turns <= self.replies.count:
                limit = sim.launch.max_turns
                self._finish(
                    subtype="error_max_turns",
                    is_error=True,
                    stop_reason="tool_use",
                    terminal_reason="max_turns",
                    errors=[f"Reached maximum number of turns ({limit})"],
                    **more,
                )
            else:
                return False
            return True
        if isinstance(sim.run.peek(), steps.FAULTS) and all(isinstance(step, steps.Thinks) for step in reply):
            return False  # it still thinks when something breaks
        text = "\n".join(step.text for step in reply if isinstance(step, steps.Says))
        enforced = sim.launch.json_schema is not None and not self._enforced
        if enforced:
            self._enforced = True
            self._say_synthetic(ENFORCED)
        if (yield from self._sent_on(text)) or enforced:
            self.tools.stop_hook_active = True
            return False
        while isinstance(step := sim.run.peek(), steps.EXPECTATIONS):
            sim.run.take()
            expect(self.sim, step, self.last_results)
        if self._prevented:
            more = {**more, "terminal_reason": "stop_hook_prevented"}
        self._finish(result=last_text(reply), **more)
        return True

    def _sent_on(self, text: str) -> Steps[bool]:
        """Call the `Stop` hooks at the end of a turn; True if one of them sends the model on."""
        said = {"last_assistant_message": text} if text else {}
        fields = {"stop_hook_active": self.tools.stop_hook_active, **said, "background_tasks": [], "session_crons": []}
        outputs = yield from self.hooks.run("Stop", fields)
        feedback = [str(output.get("reason") or "") for output in outputs if output.get("decision") == "block"]
        self._prevented = any(output.get("continue") is False for output in outputs)
        if not feedback or self._prevented:
            return False
        for reason in feedback:
            self._say_synthetic(f"Stop hook feedback:\n{reason}")
        self.sim.emit(
            {
                "type": "system",
                "subtype": "notification",
                "key": "stop-hook-error",
                "text": "stop hook reported a problem",
                "priority": "immediate",
            }
        )
        return True

    def _say_synthetic(self, text: str) -> None:
        """Tell the model something that no user has said."""
        self.sim.emit(self.sim.state.user([{"type": "text", "text": text}], isSynthetic=True))
        self._user_frames += 1

    def _compact(self, step: steps.Compacts) -> Steps[None]:
        sim, state = self.sim, self.sim.state
        sim.emit({"type": "system", "subtype": "status", "status": "compacting"})
        yield from self.hooks.run("PreCompact", {"trigger": step.trigger, "custom_instructions": None}, effort=False)
        if step.trigger == "manual":  # the summary is the work of a subagent without a type
            summarizer = Agent(f"a{sim.new_id().replace('-', '')[:16]}", "", "", "", background=False)
            yield from self.tools.tasks.stopped(summarizer, f"<summary>{step.summary}</summary>")
        yield from self.hooks.run("SessionStart", {"source": "compact", "model": state.model}, effort=False)
        state.replied()
        summary = {"trigger": step.trigger, "compact_summary": f"<summary>{step.summary}</summary>"}
        yield from self.hooks.run("PostCompact", summary, effort=False)
        sim.emit({"type": "system", "subtype": "status", "status": None, "compact_result": "success"})
        manual = step.trigger == "manual"
        if manual:
            sim.emit(state.init(self.replies.uuids))
        metadata = {"trigger": step.trigger, "pre_tokens": 15 * state.replies, "post_tokens": 15, "duration_ms": 1}
        sim.emit({"type": "system", "subtype": "compact_boundary", "compact_metadata": metadata})
        content = "This session is being continued from a previous conversation that ran out of context."
        sim.emit(state.user(f"{content}\n\nSummary:\n{step.summary}", isReplay=False, isSynthetic=True))
        if manual:
            told = "\n".join(
                f"{event} [callback] completed successfully"
                for event in ("PreCompact", "PostCompact")
                if event in state.hooks
            )
            sim.emit(state.user(f"<local-command-stdout>Compacted {told}</local-command-stdout>", isReplay=True))
            self._finish(result="", num_turns=0, stop_reason=None, terminal_reason=None, local_command="compact")

    def _clear(self) -> Steps[None]:
        """Begin a new conversation, as the prompt `/clear` does."""
        sim, state = self.sim, self.sim.state
        yield from self.hooks.run("SessionEnd", {"reason": "clear"}, effort=False)
        before = state.session_id
        frame = {"type": "conversation_reset", "new_conversation_id": sim.new_session(), "trigger": "clear"}
        if self.replies.uuids:
            frame["user_message_uuid"] = self.replies.uuids[0]
        sim.emit({**frame, "session_id": before})
        self.tools.tasks.report()
        yield from self.hooks.run("SessionStart", {"source": "clear"}, effort=False)
        sim.emit(state.init(self.replies.uuids))
        self._finish(result="", num_turns=0, stop_reason=None, terminal_reason=None, local_command="clear")

    # -- ends of turns ------------------------------------------------------------------------------------------------

    def _finish(self, *, report: str = "completed", **fields: Any) -> None:
        sim = self.sim
        fields.setdefault("num_turns", 1 + self._user_frames)
        fields.setdefault("api_error_status", None)
        for uuid in self._joined:
            sim.report_prompt(uuid, report)
        frame = sim.state.result([*self.replies.uuids, *self._joined], self.replies.count, **fields)
        if fields["num_turns"] == 0 or fields.get("terminal_reason") == "tool_deferred":
            del frame["api_error_status"]
        if frame["is_error"] and frame["subtype"] != "success":
            frame.pop("api_error_status", None)
        if frame.get("terminal_reason") is None:
            del frame["terminal_reason"]
        sim.last_result_failed = frame["is_error"]
        self.in_turn = False
        sim.emit(frame)
        for uuid in self.replies.uuids:
            sim.report_prompt(uuid, report)
        if not sim.prompts:
            sim.report_state("idle")

    def _fail(self, status: int, text: str, **more: Any) -> Steps[None]:
        """End the turn with an error of the API."""
        sim = self.sim
        frame = sim.state.failure(sim.new_id(), status, text)
        yield from self.replies.display(text)
        self.replies.send(frame)
        yield from self.hooks.run("StopFailure", {"error": frame["error"], "last_assistant_message": text})
        sim.run.leave_turn()
        self._finish(
            report="cancelled",
            is_error=True,
            result=text,
            stop_reason="stop_sequence",
            terminal_reason="api_error",
            api_error_status=status,
            api_error_type=frame["api_error_type"],
            **more,
        )

    def _interrupted(self) -> None:
        sim, state = self.sim, self.sim.state
        sim.run.note("the turn is interrupted")
        sim.run.waiting = None
        sim.run.leave_turn()
        tools = self._phase == "tools"
        if tools:
            self.tools.reject_open()
        else:
            self.replies.stop_reason = None
        message_id, self.replies.streaming = self.replies.streaming, None
        cut_off, self.replies.cut_off = self.replies.cut_off, None
        if cut_off is not None:
            block = {"type": "text", "text": cut_off}
            self.replies.send({**state.assistant(message_id or sim.new_id(), block), "aborted": True})
        text = "[Request interrupted by user for tool use]" if tools else "[Request interrupted by user]"
        sim.emit(state.user([{"type": "text", "text": text}]))
        self._user_frames += 1
        if message_id is not None:
            if cut_off is not None:
                sim.emit(state.stream(message_id, {"type": "content_block_stop", "index": 0}))
            sim.emit(state.stream(message_id, state.message_delta(None)))
            sim.emit(state.stream(message_id, {"type": "message_stop"}))
        reason = self.replies.stop_reason
        shown = "null" if reason is None else reason
        self._finish(
            report="cancelled",
            subtype="error_during_execution",
            is_error=True,
            stop_reason=reason,
            terminal_reason="aborted_tools" if tools else "aborted_streaming",
            errors=[f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={shown}"],
        )

    def told(self, frames: int = 1) -> None:
        """Count what the model was told."""
        self._user_frames += frames
