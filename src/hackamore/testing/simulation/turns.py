"""The turns of a simulated CLI: from a prompt, or the end of a background task, to the result."""

from __future__ import annotations

from decimal import Decimal
from math import ceil
from time import time
from typing import TYPE_CHECKING, Any

from hackamore.testing.script import steps
from hackamore.testing.simulation import frames
from hackamore.testing.simulation.core import Interruption, NotInterrupted, Part, Pause, never
from hackamore.testing.simulation.facts import RETRY_ERRORS, TEXTS, TIME, failure_text, limit_text
from hackamore.testing.simulation.replies import Replies, take_reply
from hackamore.testing.simulation.results import last_text
from hackamore.testing.simulation.state import Agent
from hackamore.testing.simulation.structured import TRIES
from hackamore.testing.simulation.tools import Tools, stop_fields

if TYPE_CHECKING:
    from hackamore.testing.script.steps import ScriptStep
    from hackamore.testing.simulation.core import Core, Prompt, Steps
    from hackamore.testing.simulation.hooks import Hooks
    from hackamore.testing.simulation.structured import StructuredOutput
    from hackamore.testing.simulation.tasks import Tasks
    from hackamore.testing.simulation.tools import RunTool

MAX_RETRIES = 10
LATE_PROMPT_SECONDS = 5.0
"""How long the CLI waits, by the real clock, for a prompt that the script has between tools and their answer."""


class Conversation(Part):
    """Plays the script."""

    def __init__(self, core: Core, hooks: Hooks, tasks: Tasks, run_tool: RunTool | None) -> None:
        super().__init__(core)
        self.hooks = hooks
        self.tasks = tasks
        self.replies: Replies = Replies(core, hooks, tasks)
        self.tools: Tools = Tools(core, hooks, tasks, self.replies, run_tool)
        self.structured: StructuredOutput = self.tools.structured
        self.ignores_termination: bool = False
        self._goes_on = False

    def play(self, servers_ready: Pause) -> Steps[None]:
        """Play the whole script."""
        host, run = self.host, self.script
        # A process before this one ended in a turn: the rest of that turn answers the next prompt, as the model has both.
        self._goes_on = run.in_turn and self.state.resumes
        while True:
            match None if self._goes_on else run.peek():
                case steps.TaskEnds() as step:
                    run.take()
                    yield from self._turn_of_task(step)
                case steps.ExpectHook() | steps.ExpectPermission() | steps.ExpectResult():
                    self._expect()
                case steps.Slow() | steps.Crash() | steps.Hang() | steps.IgnoreTermination() as step:
                    run.take()
                    yield from self._play_outside(step)
                case steps.Garbage() | steps.Cut() | steps.Emit() as step:
                    run.take()
                    yield from self._play_outside(step)
                case _:
                    yield Pause(lambda: bool(host.prompts) or host.input_ended)
                    if not host.prompts:
                        self.host.exit(1 if self.host.failed else 0)
                        return
                    yield servers_ready
                    yield from self._turn_of_user()

    def _expect(self) -> None:
        self.script.expect(self.turn.happened, self.script.take(), self.turn.results)

    # -- turns --------------------------------------------------------------------------------------------------------

    def _turn_of_user(self) -> Steps[None]:
        run = self.script
        step = run.peek()
        if step is None and run.rewind():
            step = run.peek()
        limited = isinstance(step, steps.UsageLimit)
        while isinstance(step, steps.UsageLimit) and step.until <= time():
            run.take()
            step = run.peek()
        prompts = self._next_prompts(step)
        text = "\n".join(prompt.text for prompt in prompts)
        uuids = [prompt.uuid for prompt in prompts if prompt.uuid is not None]
        self._begin(uuids)
        for prompt in prompts:
            self.host.report_prompt(prompt.uuid, "started")
        self.state.prompt_id = self.state.new_id()
        self.state.checkpoints.update(uuids)
        problem: str | None = None
        if step is None:
            problem = f"the prompt {text!r} came after the end of the script"
        elif isinstance(step, steps.UserSays):
            if step.fits(text):
                run.take()
            else:
                problem = step.mismatch(text)
        elif run.position > 0 and not (self._goes_on or limited):
            hint = run.hint() or "for sessions that run at the same time there is SimulatedCLI(..., per_session=True)"
            problem = f"the prompt {text!r} came while the script has {step.describe()} ({hint})"
        self._goes_on = False
        yield from self._guarded(self._user_turn(text, problem))

    def _next_prompts(self, step: ScriptStep | None) -> list[Prompt]:
        """Return one prompt, or all that wait: the CLI answers them together, and a script may mean either."""
        waiting = [*self.host.prompts]
        together = "\n".join(prompt.text for prompt in waiting)
        if isinstance(step, steps.UserSays) and not step.fits(waiting[0].text) and step.fits(together):
            self.host.prompts.clear()
            return waiting
        return [self.host.prompts.popleft()]

    def _begin(self, uuids: list[str]) -> None:
        self.script.in_turn = self.state.record.begun = True
        self.turn.begin(uuids, self.state.new_id())
        self.structured.begin()
        self._waited = False

    def _guarded(self, turn: Steps[None]) -> Steps[None]:
        """Play a turn, and end it as the CLI does when it is interrupted."""
        try:
            yield from turn
        except Interruption:
            self._interrupted()
        except NotInterrupted as error:
            self.script.problem(str(error))
            self.script.waiting = None
            yield from self._unexpected(str(error))
        finally:
            self.turn.running = False

    def _user_turn(self, text: str, problem: str | None) -> Steps[None]:
        run = self.script
        if text == "/clear" and problem is None:
            yield from self._clear()
            self._local("clear")
            return
        step = run.peek()
        if problem is None and isinstance(step, steps.Compacts) and step.trigger == "manual":
            run.take()
            yield from self._compact(step)
            self._local("compact")
            return
        outputs = yield from self.hooks.run("UserPromptSubmit", {"prompt": text}, effort=False)
        self._send_init()
        for output in outputs:
            if output.get("decision") == "block" or output.get("continue") is False:
                self._refuse_prompt(text, output)
                return
        if problem is not None:
            run.problem(problem)
            yield from self._unexpected(problem)
        elif not self._over_budget():
            yield from self._answer()

    def _send_init(self) -> None:
        self.host.emit(frames.init(self.state, self.turn.uuids))
        self.hooks.report()

    def _unexpected(self, problem: str, **more: Any) -> Steps[None]:
        yield from self._fail(418, f"Unexpected request to the simulated CLI: {problem}", bare=True, **more)

    def _turn_of_task(self, step: steps.TaskEnds) -> Steps[None]:
        notification = yield from self._task_ends(step)
        if notification is None:
            return
        run_id, prompt = notification
        self._begin([])
        if not self.host.busy:
            self.host.report_state("running")
        self.state.prompt_id = self.state.new_id()
        yield from self.hooks.run("UserPromptSubmit", {"prompt": prompt}, effort=False)
        self._send_init()
        origin = {"kind": "task-notification", "producer": "session-task", "runId": run_id}
        yield from self._guarded(self._answer(origin=origin))

    def _task_ends(self, step: steps.TaskEnds) -> Steps[tuple[str, str] | None]:
        """End the oldest background task; return the id of its run, and the prompt about it."""
        background = self.state.background
        if not background:
            self.script.problem(f"the script has {step.describe()}, and no task runs in the background")
            return None
        task = next(iter(background.values()))
        yield from self.tools.finish(task)
        if task.id in background:  # it was not stopped meanwhile
            self.tasks.over(task.id, step.status, step.summary, step.exit_code)
        return task.run_id, self.tasks.notification(task, step)

    # -- the model ----------------------------------------------------------------------------------------------------

    def _answer(self, **more: Any) -> Steps[None]:
        """Play replies and tools until the turn has its result."""
        run, turn = self.script, self.turn
        while True:
            step = run.peek()
            match step:
                case steps.ExpectHook() | steps.ExpectPermission() | steps.ExpectResult():
                    self._expect()
                case steps.Retry():
                    run.take()
                    self.replies.request()
                    yield from self._retry(step)
                case steps.ApiFailure():
                    run.take()
                    yield from self._fail(step.status, step.message, **more)
                    return
                case steps.UsageLimit() if step.until > time():
                    yield from self._refuse_until(step, **more)
                    return
                case steps.UsageLimit():
                    run.take()
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
                    if (yield from self._reply_and_tools(take_reply(run), more)):
                        return
                case steps.UserSays() if turn.after_tools and not self.host.input_ended and not self._waited:
                    # A prompt that comes while tools run is given to the model with their results.
                    yield from self._late_prompt(step)
                case None | steps.UserSays():
                    problem = "the CLI called the model, and the script has no answer"
                    run.problem(f"{problem}: {'it is at its end' if step is None else f'next is {step.describe()}'}")
                    yield from self._unexpected(problem, **more)
                    return
                case _:
                    run.take()
                    yield from self._play_outside(step)

    def _late_prompt(self, step: steps.UserSays) -> Steps[None]:
        host = self.host
        yield Pause(lambda: bool(host.prompts) or host.input_ended, self.scheduler.now() + LATE_PROMPT_SECONDS)
        if not host.prompts or not step.fits(host.prompts[0].text):
            self._waited = True  # reported as: the model was called, and the script has no answer
            return
        self.script.take()
        prompt = host.prompts.popleft()
        yield from self.hooks.run("UserPromptSubmit", {"prompt": prompt.text}, effort=False)
        self.hooks.report()
        host.report_prompt(prompt.uuid, "started")
        if prompt.uuid is not None:
            self.turn.joined.append(prompt.uuid)
            self.state.checkpoints.add(prompt.uuid)

    def _reply_and_tools(self, reply: list[ScriptStep], more: dict[str, Any]) -> Steps[bool]:
        """Play one reply and its calls; return whether the turn has ended."""
        turn = self.turn
        calls = yield from self.replies.say(reply, None)
        if self._over_budget(**more):
            return True
        if calls:
            turn.in_tools = turn.after_tools = True
            yield from self.tools.run(calls, None)
            turn.in_tools = False
            if self.structured.value is not None and turn.deferred is None and (yield from self._sent_on("")):
                self.structured.value = None
                turn.stop_hook_active = True
                return False
            return self._after_tools(**more)
        if isinstance(self.script.peek(), steps.FAULTS) and all(isinstance(step, steps.Thinks) for step in reply):
            return False  # the fault comes while the model thinks
        enforced = self.structured.schema is not None and not self.structured.enforced
        if enforced:
            self.structured.enforced = True
            self._say_synthetic(TEXTS["enforced"])
        text = "\n".join(step.text for step in reply if isinstance(step, steps.Says))
        if (yield from self._sent_on(text)) or enforced:
            turn.stop_hook_active = True
            return False
        while isinstance(self.script.peek(), steps.EXPECTATIONS):
            self._expect()
        if turn.stop_prevented:
            more = {**more, "terminal_reason": "stop_hook_prevented"}
        self._finish(result=last_text(reply), **more)
        return True

    def _sent_on(self, text: str) -> Steps[bool]:
        """Call the `Stop` hooks at the end of a turn; return whether one of them makes the model continue."""
        said = {"last_assistant_message": text} if text else {}
        fields = {"stop_hook_active": self.turn.stop_hook_active, **said, **self.state.at_work()}
        outputs = yield from self.hooks.run("Stop", fields)
        feedback = [str(output.get("reason") or "") for output in outputs if output.get("decision") == "block"]
        self.turn.stop_prevented = any(output.get("continue") is False for output in outputs)
        if not feedback or self.turn.stop_prevented:
            return False
        for reason in feedback:
            self._say_synthetic(f"Stop hook feedback:\n{reason}")
        text = "stop hook problem · ctrl+o to see"
        self.host.system("notification", key="stop-hook-error", text=text, priority="immediate")
        return True

    def _say_synthetic(self, text: str) -> None:
        self.host.user([{"type": "text", "text": text}], isSynthetic=True)
        self.turn.user_frames += 1

    # -- the end of a turn ----------------------------------------------------------------------------------------------

    def _finish(self, *, report: str = "completed", **fields: Any) -> None:
        """End the turn with a result; `report` is the state of its prompts."""
        turn = self.turn
        fields.setdefault("num_turns", 1 + turn.user_frames)
        fields.setdefault("api_error_status", None)
        for uuid in turn.joined:
            self.host.report_prompt(uuid, report)
        frame = frames.result(self.state, turn, self.scheduler.elapsed, **fields)
        self.state.ended()
        local = fields["num_turns"] == 0 or fields.get("terminal_reason") == "tool_deferred"
        if local or (frame["is_error"] and frame["subtype"] != "success"):
            del frame["api_error_status"]
        if frame["terminal_reason"] is None:
            del frame["terminal_reason"]
        turn.running = self.script.in_turn = False
        self.host.emit(frame)
        for uuid in turn.uuids:
            self.host.report_prompt(uuid, report)
        agents = any(task.agent is not None for task in self.state.background.values())
        if not self.host.prompts and not agents:
            self.host.report_state("idle")

    def _local(self, command: str) -> None:
        self._finish(result="", num_turns=0, stop_reason=None, terminal_reason=None, local_command=command)

    def _error(self, subtype: str, reason: str, text: str, stop_reason: str | None, **more: Any) -> None:
        self._finish(
            subtype=subtype, is_error=True, stop_reason=stop_reason, terminal_reason=reason, errors=[text], **more
        )

    def _refuse_until(self, step: steps.UsageLimit, **more: Any) -> Steps[None]:
        """End the turn because a limit of the plan is used up. The script stays where it is."""
        resets_at = ceil(step.until)
        self.replies.request()
        event = frames.usage_limit(step.kind, resets_at)
        self.host.emit(event)
        info = {name: value for name, value in event["rate_limit_info"].items() if name != "unifiedWindows"}
        named = {"api_error": "usage_limit_reached", "api_error_params": {"rate_limit_info": info}}
        text = limit_text(step.kind, resets_at)
        yield from self._fail(429, text, bare=True, named=named, leaves=False, api_error=named["api_error"], **more)

    def _fail(
        self,
        status: int,
        message: str,
        *,
        bare: bool = False,
        leaves: bool = True,
        named: dict[str, Any] | None = None,
        **more: Any,
    ) -> Steps[None]:
        """End the turn with an error of the API.

        Args:
            bare: the message is the whole text.
            leaves: the rest of the turn is passed over.
            named: further fields of the report.
            more: further fields of the result.
        """
        self.replies.request()
        text = message if bare else failure_text(status, message, self.state.launch.gateway)
        frame = frames.failure(self.state.new_id(), status, text, **(named or {}))
        yield from self.replies.display(text)
        self.replies.send(frame)
        yield from self.hooks.run("StopFailure", {"error": frame["error"], "last_assistant_message": text})
        if leaves:
            self.script.leave_turn()
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

    def _refuse_prompt(self, text: str, output: dict[str, Any]) -> None:
        stopped = output.get("continue") is False
        reason = str(output.get("stopReason" if stopped else "reason") or "")
        if stopped:
            content = f"Operation stopped by hook: {reason}"
        else:
            content = f"UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {text}"
        kind = "stopped_by_hook" if stopped else "blocked_by_hook"
        self.host.system(
            "informational",
            content=content,
            level="warning",
            prevent_continuation=True,
            prompt_submit_outcome={"kind": kind, "prompt_kept": stopped, "reason": reason},
        )
        self.script.leave_turn(excused=True)
        self._finish(result=content, num_turns=0, stop_reason=None, terminal_reason=None)

    def _over_budget(self, **more: Any) -> bool:
        """End the turn if it is too expensive; return whether it was."""
        budget = self.state.launch.budget
        if budget is None or self.state.cost < budget:
            return False
        self.turn.replies = 0  # the real result does not count the reply that was too expensive
        text = f"Reached maximum budget (${Decimal(repr(budget)).normalize():f})"
        self._error("error_max_budget_usd", "budget_exhausted", text, self.turn.stop_reason, report="cancelled", **more)
        return True

    def _after_tools(self, **more: Any) -> bool:
        """End the turn if its tools end it; return whether they did."""
        turn, turns = self.turn, self.state.launch.max_turns
        if turn.deferred is not None:
            reason = "tool_deferred"
            self._finish(result="", stop_reason=reason, terminal_reason=reason, deferred_tool_use=turn.deferred, **more)
        elif self.structured.value is not None:
            self._finish(
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
            self._finish(result="", stop_reason="tool_use", terminal_reason="hook_stopped", **more)
        elif 0 < turns <= turn.replies:
            self._error(
                "error_max_turns", "max_turns", f"Reached maximum number of turns ({turns})", "tool_use", **more
            )
        else:
            return False
        return True

    def _interrupted(self) -> None:
        turn = self.turn
        self.script.note("the turn is interrupted")
        self.script.interrupted()
        message_id, cut_off = turn.streaming, turn.cut_off
        what = ""
        if turn.in_tools:
            self.tools.reject_open()
            what = " for tool use"
        else:
            self.replies.show_cut_off()
        self.host.user([{"type": "text", "text": f"[Request interrupted by user{what}]"}])
        turn.user_frames += 1
        if message_id is not None:
            self.replies.break_stream(message_id, began=cut_off is not None)
        text = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={turn.stop_reason or 'null'}"
        reason = "aborted_tools" if turn.in_tools else "aborted_streaming"
        self._error("error_during_execution", reason, text, turn.stop_reason, report="cancelled")

    # -- `/compact` and `/clear` ---------------------------------------------------------------------------------------

    def _compact(self, step: steps.Compacts) -> Steps[None]:
        state, host, hooks = self.state, self.host, self.hooks
        manual = step.trigger == "manual"
        summary = f"<summary>{step.summary}</summary>"
        host.system("status", status="compacting")
        yield from hooks.run("PreCompact", {"trigger": step.trigger, "custom_instructions": None}, effort=False)
        if manual:  # the summary is the work of a subagent without a type
            agent = Agent(*self.tasks.new_ids("a"), "", "", "", background=False)
            yield from hooks.run("SubagentStop", stop_fields(agent.id, summary, state.at_work()), agent=agent)
        yield from hooks.run("SessionStart", {"source": "compact", "model": state.model}, effort=False)
        kept = TEXTS["kept"] if state.replies > 1 else ""
        state.replied()
        yield from hooks.run("PostCompact", {"trigger": step.trigger, "compact_summary": summary}, effort=False)
        host.system("status", status=None, compact_result="success")
        if manual:
            host.emit(frames.init(state, self.turn.uuids))
        metadata = {"trigger": step.trigger, "pre_tokens": 15 * state.replies, "post_tokens": 15, "duration_ms": 1}
        host.system("compact_boundary", compact_metadata=metadata)
        text = TEXTS["continued"].format(
            summary=step.summary, transcript=state.transcript_path, tools=", ".join(sorted(state.used))
        )
        host.user(text + kept, isReplay=False, isSynthetic=True)
        if manual:
            told = "\n".join(
                f"{event} [callback] completed successfully"
                for event in ("PreCompact", "PostCompact")
                if hooks.has(event)
            )
            host.user(f"<local-command-stdout>Compacted {told}</local-command-stdout>", isReplay=True)

    def _clear(self) -> Steps[None]:
        state = self.state
        yield from self.hooks.run("SessionEnd", {"reason": "clear"}, effort=False)
        new_id = state.new_id()
        frame = {"type": "conversation_reset", "new_conversation_id": new_id, "uuid": new_id, "trigger": "clear"}
        if self.turn.uuids:
            frame["user_message_uuid"] = self.turn.uuids[-1]
        self.host.emit({**frame, "timestamp": TIME})
        self.tasks.report()
        state.clear()
        for _ in range(2 if state.title is not None else 0):
            self.host.system("session_title_changed", title=state.title)
        yield from self.hooks.run("SessionStart", {"source": "clear"}, effort=False)
        self.host.emit(frames.init(state, self.turn.uuids))

    # -- neither the model nor the host ---------------------------------------------------------------------------------

    def _play_outside(self, step: ScriptStep) -> Steps[None]:
        host = self.host
        match step:
            case steps.Slow():
                yield self.scheduler.sleep(step.seconds)
            case steps.Crash():
                if step.stderr:
                    host.fail(step.stderr, step.exit_code)
                else:
                    host.exit(step.exit_code)
                yield Pause(never)
            case steps.Hang():
                host.flush()
                self.script.note("the CLI hangs")
                host.hanging = True
                yield Pause(never)
            case steps.IgnoreTermination():
                self.ignores_termination = True
            case steps.Garbage():
                host.garbage(step.data)
            case steps.Cut():
                host.cut = (step.bytes_kept, step.exit_code)
            case steps.Emit():
                host.emit({**step.frame})
            case _:
                raise AssertionError(step)

    def _retry(self, step: steps.Retry) -> Steps[None]:
        """Report tries that the API has refused, and wait between them."""
        for _ in range(step.attempts):
            self.turn.attempts += 1
            self.host.system(
                "api_retry",
                attempt=self.turn.attempts,
                max_retries=MAX_RETRIES,
                retry_delay_ms=round(step.delay * 1000),
                error_status=step.status,
                error=RETRY_ERRORS.get(step.status, "server_error"),
            )
            yield self.scheduler.sleep(step.delay)
