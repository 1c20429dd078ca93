"""The turns of a simulated CLI: from a prompt, or the end of a background task, to the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.testing import script_steps as steps
from bridle.testing.script_run import holds
from bridle.testing.simulation_frames import RETRY_ERRORS, block_events, failure_text
from bridle.testing.simulation_tools import Agent, Tools
from bridle.testing.simulation_waits import Interruption, Pause, never

if TYPE_CHECKING:
    from bridle.testing.script_steps import ScriptStep
    from bridle.testing.simulation import Prompt, Simulation
    from bridle.testing.simulation_waits import Steps

__all__ = ["Conversation"]

MAX_RETRIES = 10


class Conversation:
    """What the CLI says and does, as its script tells it.

    Attributes:
        in_turn: whether a turn runs, so that there is something to interrupt.
        happened: hooks and permission questions of this turn, for what the script expects of them.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.sim = simulation
        self.tools = Tools(simulation, self)
        self.in_turn = False
        self.happened: list[tuple[str, str, Any, Any]] = []
        self.last_results: list[tuple[str, bool]] = []
        self._uuids: list[str] = []
        self._stamped: set[str] = set()
        self._user_frames = 0
        self._replies = 0
        self._streaming: str | None = None
        self._cut_off: str | None = None
        self._stop_reason: str | None = None
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
                    self._expect(step)
                case steps.Slow() | steps.Crash() | steps.Hang() | steps.IgnoreTermination() as step:
                    run.take()
                    yield from self._outside(step)
                case steps.Garbage() | steps.Cut() | steps.Emit() as step:
                    run.take()
                    yield from self._outside(step)
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
        sim.state.checkpoints.update(self._uuids)
        problem: str | None = None
        if step is None:
            problem = f"the prompt {text!r} came after the end of the script"
        elif isinstance(step, steps.UserSays):
            if step.fits(text):
                run.take()
            else:
                problem = f"the prompt was {text!r}, and the script has {step.describe()}"
        elif run.position > 0:
            problem = f"the prompt {text!r} came while the script has {step.describe()}"
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
        self.happened = []
        self.last_results = []
        self._uuids = uuids
        self._stamped = set()
        self._user_frames = self._replies = 0
        self._streaming = self._stop_reason = self._cut_off = None
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
        outputs = yield from self.tools.hooks("UserPromptSubmit", {"prompt": text}, effort=False)
        for output in outputs:
            if output.get("decision") == "block" or output.get("continue") is False:
                sim.emit(sim.state.init(self._uuids))
                self._prompt_refused(text, output)
                return
        step = sim.run.peek()
        if problem is None and isinstance(step, steps.Compacts) and step.trigger == "manual":
            sim.run.take()
            yield from self._compact(step)
            return
        sim.emit(sim.state.init(self._uuids))
        if problem is not None:
            sim.run.problem(problem)
            self._fail(418, f"Unexpected request to the simulated CLI: {problem}")
            return
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
        run_id = self._task_ends(step)
        if run_id is None:
            return
        self._begin([])
        sim.report_state("running")
        sim.emit(sim.state.init(()))
        origin = {"kind": "task-notification", "producer": "session-task", "runId": run_id}
        yield from self._guarded(self._answer(origin=origin))

    def _task_ends(self, step: steps.TaskEnds) -> str | None:
        sim, background = self.sim, self.sim.state.background
        if not background:
            sim.run.problem(f"the script has {step.describe()}, and no task runs in the background")
            return None
        task_id = next(iter(background))
        task = background[task_id]
        self.tools.task_over(task_id, step.status, step.summary, step.exit_code)
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
                    self._expect(step)
                case steps.Retry():
                    run.take()
                    yield from self._retry(step)
                case steps.ApiFailure():
                    run.take()
                    self._fail(step.status, failure_text(step.status, step.message), **more)
                    return
                case steps.Interrupted():
                    run.take()
                    yield from self._until_interrupted(step)
                case steps.Compacts():
                    run.take()
                    yield from self._compact(step)
                case steps.TaskEnds():
                    run.take()
                    self._task_ends(step)
                case steps.Thinks() | steps.Says() | steps.Calls():
                    reply = take_reply(run)
                    if (yield from self._reply_and_tools(reply, more)):
                        return
                case None | steps.UserSays():
                    problem = "the model was asked, and the script has no answer"
                    run.problem(f"{problem}: {'it is at its end' if step is None else f'next is {step.describe()}'}")
                    self._fail(418, f"Unexpected request to the simulated CLI: {problem}", **more)
                    return
                case _:
                    run.take()
                    yield from self._outside(step)

    def _reply_and_tools(self, reply: list[ScriptStep], more: dict[str, Any]) -> Steps[bool]:
        """Play one reply and what it calls; True if that was the end of the turn."""
        sim = self.sim
        calls = yield from self.say(reply, None)
        if calls:
            self._phase = "tools"
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
                self._finish(
                    result=tools.structured_text,
                    structured_output=tools.structured,
                    stop_reason="tool_use",
                    **more,
                )
            elif tools.stopped:
                sim.run.leave_turn(excused=True)
                self._finish(result="", stop_reason="tool_use", terminal_reason="hook_stopped", **more)
            elif 0 < sim.launch.max_turns <= self._replies:
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
        text = "\n".join(step.text for step in reply if isinstance(step, steps.Says))
        active = self.tools.stop_hook_active
        outputs = yield from self.tools.hooks(
            "Stop",
            {
                "stop_hook_active": active,
                "last_assistant_message": text,
                "background_tasks": [],
                "session_crons": [],
            },
        )
        feedback = [str(output.get("reason") or "") for output in outputs if output.get("decision") == "block"]
        stops = any(output.get("continue") is False for output in outputs)
        if feedback and not stops:
            self.tools.stop_hook_active = True
            for reason in feedback:
                content = [{"type": "text", "text": f"Stop hook feedback:\n{reason}"}]
                sim.emit(sim.state.user(content, isSynthetic=True))
                self._user_frames += 1
            sim.emit(
                {
                    "type": "system",
                    "subtype": "notification",
                    "key": "stop-hook-error",
                    "text": "stop hook reported a problem",
                    "priority": "immediate",
                }
            )
            return False
        while isinstance(step := sim.run.peek(), steps.EXPECTATIONS):
            sim.run.take()
            self._expect(step)
        self._finish(result=last_text(reply), **more)
        return True

    def say(self, reply: list[ScriptStep], agent: Agent | None) -> Steps[list[tuple[str, steps.Calls]]]:
        """Send the frames of one reply; return its calls with their ids."""
        sim, state = self.sim, self.sim.state
        state.replied()
        if agent is None:
            self._replies += 1
        sim.run.sessions[state.session_id] = state.replies
        message_id = f"msg_simulated_{state.replies}"
        partial = sim.launch.partial and agent is None
        if partial:
            self._send_stamped({"type": "system", "subtype": "status", "status": "requesting"}, many_only=True)
            start = state.stream(message_id, state.message_start(message_id), ttft_ms=1)
            self._send_stamped(start)
            self._streaming = message_id
        calls: list[tuple[str, steps.Calls]] = []
        for index, step in enumerate(reply):
            yield from self._block(message_id, index, step, calls, agent)
        stop_reason = "tool_use" if calls else "end_turn"
        self._stop_reason = stop_reason
        if partial:
            sim.emit(state.stream(message_id, state.message_delta(stop_reason)))
            sim.emit(state.stream(message_id, {"type": "message_stop"}))
            self._streaming = None
        return calls

    def _block(
        self,
        message_id: str,
        index: int,
        step: ScriptStep,
        calls: list[tuple[str, steps.Calls]],
        agent: Agent | None,
    ) -> Steps[None]:
        sim, state = self.sim, self.sim.state
        partial = sim.launch.partial and agent is None
        block: dict[str, Any]
        more: dict[str, Any] = {}
        chunk: int | None = None
        delay = 0.0
        match step:
            case steps.Thinks():
                block = {"type": "thinking", "thinking": step.text, "signature": step.signature}
            case steps.Says():
                block = {"type": "text", "text": step.text}
                chunk, delay = step.chunk, step.delay
            case steps.Calls():
                call_id = step.id or self.tools.new_call_id()
                calls.append((call_id, step))
                block = {"type": "tool_use", "id": call_id, "name": step.tool, "input": step.input}
                more = self.tools.call_meta(step, call_id)
            case _:
                raise AssertionError(step)
        if partial:
            for event in block_events(index, block, chunk):
                if delay and event["type"] == "content_block_delta":
                    until = sim.seconds(delay)
                    yield Pause(never, until)
                if event.get("delta", {}).get("type") in ("thinking_delta", "signature_delta"):
                    self._thinking_tokens(event["delta"])
                sim.emit(state.stream(message_id, event))
        elif delay and chunk:
            yield Pause(never, sim.seconds(delay * max(1, len(block["text"]) // chunk)))
        if not partial and isinstance(step, steps.Thinks) and agent is None:
            self._thinking_tokens({"type": "thinking_delta", "thinking": step.text})
            self._thinking_tokens({"type": "signature_delta"})
        if isinstance(step, steps.Says) and agent is None:
            yield from self._display(step.text)
        if agent is None:
            self._send_stamped({**state.assistant(message_id, block), **more})
        elif isinstance(step, steps.Calls) or agent.background:
            sim.emit({**state.assistant(message_id, block, agent.tool_use_id), **agent.fields})
        if isinstance(step, steps.Calls):
            self.tools.ask_before(calls[-1][0], step, agent)
        if partial:
            sim.emit(state.stream(message_id, {"type": "content_block_stop", "index": index}))

    def _display(self, text: str) -> Steps[None]:
        if "MessageDisplay" not in self.sim.state.hooks:
            return
        message_id = self.sim.new_id()
        fields = {
            "turn_id": self.sim.new_id(),
            "message_id": message_id,
            "index": 0,
            "final": True,
            "delta": text,
        }
        yield from self.tools.hooks("MessageDisplay", fields, tool_use_id=f"{message_id}-0", effort=False)

    def _thinking_tokens(self, delta: dict[str, Any]) -> None:
        count = max(1, len(str(delta["thinking"])) // 4) if "thinking" in delta else 2
        total = count if "thinking" in delta else 3
        frame = {
            "type": "system",
            "subtype": "thinking_tokens",
            "estimated_tokens": total,
            "estimated_tokens_delta": count,
        }
        if self._uuids:
            frame["user_message_uuid"] = self._uuids[0]
        self.sim.emit(frame)

    def _send_stamped(self, frame: dict[str, Any], *, many_only: bool = False) -> None:
        """Send a frame; the first one of each kind in a turn tells which prompts it answers, and every status does."""
        kind = str(frame["type"])
        if self._uuids and (many_only or kind not in self._stamped):
            self._stamped.add(kind)
            frame["user_message_uuids"] = self._uuids
            if not many_only:
                frame["user_message_uuid"] = self._uuids[0]
        self.sim.emit(frame)

    def _until_interrupted(self, step: steps.Interrupted) -> Steps[None]:
        sim, state = self.sim, self.sim.state
        self._cut_off = step.after or None
        if sim.launch.partial:
            message_id = f"msg_simulated_{state.replies + 1}"
            self._send_stamped({"type": "system", "subtype": "status", "status": "requesting"}, many_only=True)
            self._send_stamped(state.stream(message_id, state.message_start(message_id), ttft_ms=1))
            self._streaming = message_id
            if step.after:
                for event in block_events(0, {"type": "text", "text": step.after}, None):
                    sim.emit(state.stream(message_id, event))
        yield Pause(never)

    def _retry(self, step: steps.Retry) -> Steps[None]:
        for attempt in range(1, step.attempts + 1):
            self.sim.emit(
                {
                    "type": "system",
                    "subtype": "api_retry",
                    "attempt": attempt,
                    "max_retries": MAX_RETRIES,
                    "retry_delay_ms": round(step.delay * 1000),
                    "error_status": step.status,
                    "error": RETRY_ERRORS.get(step.status, "server_error"),
                }
            )
            yield Pause(never, self.sim.seconds(step.delay))

    def _compact(self, step: steps.Compacts) -> Steps[None]:
        sim, state = self.sim, self.sim.state
        sim.emit({"type": "system", "subtype": "status", "status": "compacting"})
        yield from self.tools.hooks("PreCompact", {"trigger": step.trigger, "custom_instructions": None}, effort=False)
        yield from self.tools.hooks("SessionStart", {"source": "compact", "model": state.model}, effort=False)
        state.replied()
        summary = {"trigger": step.trigger, "compact_summary": f"<summary>{step.summary}</summary>"}
        yield from self.tools.hooks("PostCompact", summary, effort=False)
        sim.emit({"type": "system", "subtype": "status", "status": None, "compact_result": "success"})
        manual = step.trigger == "manual"
        if manual:
            sim.emit(state.init(self._uuids))
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

    # -- what happens outside -----------------------------------------------------------------------------------------

    def _outside(self, step: ScriptStep) -> Steps[None]:
        sim = self.sim
        match step:
            case steps.Slow():
                until = sim.seconds(step.seconds)
                yield Pause(lambda: sim.clock() >= until, until)
            case steps.Crash():
                if step.stderr:
                    sim.fail(step.stderr, step.exit_code)
                else:
                    sim.exit(step.exit_code)
                yield Pause(never)
            case steps.Hang():
                sim.flush()
                sim.run.note("the CLI hangs")
                sim.hanging = True
                yield Pause(never)
            case steps.IgnoreTermination():
                sim.ignores_termination = True
            case steps.Garbage():
                sim.write_garbage(step.data)
            case steps.Cut():
                sim.cut = (step.bytes_kept, step.exit_code)
            case steps.Emit():
                sim.emit({**step.frame})
            case _:
                raise AssertionError(step)

    def _expect(self, step: ScriptStep) -> None:
        match step:
            case steps.ExpectPermission():
                for place, (kind, tool, decision, value) in enumerate(self.happened):
                    if kind != "permission" or tool != step.tool:
                        continue
                    if step.decision not in (None, decision) or step.input not in (None, value):
                        continue
                    del self.happened[place]
                    return
            case steps.ExpectHook():
                for place, (kind, event, output, _) in enumerate(self.happened):
                    if kind == "hook" and event == step.event and holds(step.output or {}, output):
                        del self.happened[place]
                        return
            case steps.ExpectResult():
                for text, failed in self.last_results:
                    if step.text in text and step.error in (None, failed):
                        return
            case _:
                raise AssertionError(step)
        seen = ", ".join(self._seen()) or "nothing"
        self.sim.run.problem(f"the script has {step.describe()}, and there was {seen}")

    def _seen(self) -> list[str]:
        seen = []
        for kind, name, outcome, value in self.happened:
            seen.append(
                f"permission for {name}: {outcome} {value}" if kind == "permission" else f"hook {name}: {outcome}"
            )
        return seen + [f"the result {text!r}{' (an error)' if failed else ''}" for text, failed in self.last_results]

    # -- ends of turns ------------------------------------------------------------------------------------------------

    def _finish(self, *, report: str = "completed", **fields: Any) -> None:
        sim = self.sim
        fields.setdefault("num_turns", 1 + self._user_frames)
        fields.setdefault("api_error_status", None)
        frame = sim.state.result(self._uuids, self._replies, **fields)
        if fields["num_turns"] == 0 or fields.get("terminal_reason") == "tool_deferred":
            del frame["api_error_status"]
        if frame["is_error"] and frame["subtype"] != "success":
            frame.pop("api_error_status", None)
        if frame.get("terminal_reason") is None:
            del frame["terminal_reason"]
        sim.last_result_failed = frame["is_error"]
        self.in_turn = False
        sim.emit(frame)
        for uuid in self._uuids:
            sim.report_prompt(uuid, report)
        if not sim.prompts:
            sim.report_state("idle")

    def _fail(self, status: int, text: str, **more: Any) -> None:
        """End the turn with an error of the API."""
        sim = self.sim
        frame = sim.state.failure(sim.new_id(), status, text)
        self._send_stamped(frame)
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
        sim.run.leave_turn()
        tools = self._phase == "tools"
        if tools:
            self.tools.reject_open()
        else:
            self._stop_reason = None
        message_id, self._streaming = self._streaming, None
        cut_off, self._cut_off = self._cut_off, None
        if cut_off is not None:
            block = {"type": "text", "text": cut_off}
            self._send_stamped({**state.assistant(message_id or sim.new_id(), block), "aborted": True})
        text = "[Request interrupted by user for tool use]" if tools else "[Request interrupted by user]"
        sim.emit(state.user([{"type": "text", "text": text}]))
        self._user_frames += 1
        if message_id is not None:
            if cut_off is not None:
                sim.emit(state.stream(message_id, {"type": "content_block_stop", "index": 0}))
            sim.emit(state.stream(message_id, state.message_delta(None)))
            sim.emit(state.stream(message_id, {"type": "message_stop"}))
        reason = self._stop_reason
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


def take_reply(source: Any) -> list[ScriptStep]:
    """Take the steps of one reply of the model: text and thinking, then its calls."""
    reply: list[ScriptStep] = []
    while (step := source.peek()) is not None and isinstance(step, steps.REPLY_STEPS):
        called = bool(reply) and isinstance(reply[-1], steps.Calls)
        if called and not (isinstance(step, steps.Calls) and step.together):
            break
        reply.append(source.take())
    return reply


def last_text(reply: list[ScriptStep]) -> str:
    """Return the last text of a reply."""
    return next((step.text for step in reversed(reply) if isinstance(step, steps.Says)), "")
