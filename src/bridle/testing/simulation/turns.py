"""The turns of a simulated CLI: from a prompt, or the end of a background task, to the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.testing.script import steps
from bridle.testing.simulation import frames
from bridle.testing.simulation.expectations import expect
from bridle.testing.simulation.replies import take_reply
from bridle.testing.simulation.results import last_text
from bridle.testing.simulation.structured import ENFORCED
from bridle.testing.simulation.waits import Interruption, NotInterrupted, Pause

if TYPE_CHECKING:
    from bridle.testing.script.steps import ScriptStep
    from bridle.testing.simulation.compaction import Compaction
    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.endings import Endings
    from bridle.testing.simulation.hooks import Hooks
    from bridle.testing.simulation.outside import Outside
    from bridle.testing.simulation.prompts import Prompt
    from bridle.testing.simulation.replies import Replies
    from bridle.testing.simulation.structured import StructuredOutput
    from bridle.testing.simulation.subagents import Subagents
    from bridle.testing.simulation.tasks import Tasks
    from bridle.testing.simulation.tools import Tools
    from bridle.testing.simulation.waits import Steps

__all__ = ["Conversation"]

LATE_PROMPT_SECONDS = 5.0
"""How long the CLI waits, by the real clock, for a prompt that the script has between tools and their answer."""


class Conversation:
    """Plays the script."""

    def __init__(
        self,
        core: Core,
        *,
        hooks: Hooks,
        replies: Replies,
        tools: Tools,
        tasks: Tasks,
        subagents: Subagents,
        structured: StructuredOutput,
        compaction: Compaction,
        endings: Endings,
        outside: Outside,
    ) -> None:
        self.state, self.turn, self.output, self.prompts = core.state, core.turn, core.output, core.prompts
        self.clock, self.script = core.clock, core.script
        self.hooks, self.replies, self.tools, self.tasks = hooks, replies, tools, tasks
        self.subagents, self.structured, self.compaction, self.endings = subagents, structured, compaction, endings
        self.outside = outside

    def play(self, servers_ready: Pause) -> Steps[None]:
        """Play the whole script."""
        prompts, run = self.prompts, self.script
        while True:
            match run.peek():
                case steps.TaskEnds() as step:
                    run.take()
                    yield from self._turn_of_task(step)
                case steps.ExpectHook() | steps.ExpectPermission() | steps.ExpectResult():
                    self._expect()
                case steps.Slow() | steps.Crash() | steps.Hang() | steps.IgnoreTermination() as step:
                    run.take()
                    yield from self.outside.play(step)
                case steps.Garbage() | steps.Cut() | steps.Emit() as step:
                    run.take()
                    yield from self.outside.play(step)
                case _:
                    yield Pause(lambda: bool(prompts.waiting) or prompts.ended)
                    if not prompts.waiting:
                        self.output.exit(1 if self.output.failed else 0)
                        return
                    yield servers_ready
                    yield from self._turn_of_user()

    def _expect(self) -> None:
        expect(self.script, self.turn.happened, self.script.take(), self.turn.results)

    # -- turns --------------------------------------------------------------------------------------------------------

    def _turn_of_user(self) -> Steps[None]:
        run = self.script
        step = run.peek()
        if step is None and run.rewind():
            step = run.peek()
        prompts = self._next_prompts(step)
        text = "\n".join(prompt.text for prompt in prompts)
        uuids = [prompt.uuid for prompt in prompts if prompt.uuid is not None]
        self._begin(uuids)
        for prompt in prompts:
            self.prompts.report(prompt.uuid, "started")
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
        elif run.position > 0:
            problem = (
                f"the prompt {text!r} came while the script has {step.describe()} (for sessions that run at once there is "
                "SimulatedCLI(..., per_session=True))"
            )
        yield from self._guarded(self._user_turn(text, problem))

    def _next_prompts(self, step: ScriptStep | None) -> list[Prompt]:
        """Take one prompt, or all that wait: the CLI answers them together, and a script may mean either."""
        waiting = [*self.prompts.waiting]
        together = "\n".join(prompt.text for prompt in waiting)
        if isinstance(step, steps.UserSays) and not step.fits(waiting[0].text) and step.fits(together):
            self.prompts.waiting.clear()
            return waiting
        return [self.prompts.waiting.popleft()]

    def _begin(self, uuids: list[str]) -> None:
        self.turn.begin(uuids, self.state.new_id())
        self.structured.begin()
        self._waited = False

    def _guarded(self, turn: Steps[None]) -> Steps[None]:
        """Play a turn, and end it as the CLI does when it is interrupted."""
        try:
            yield from turn
        except Interruption:
            self.endings.interrupted()
        except NotInterrupted as error:
            self.script.problem(str(error))
            self.script.waiting = None
            yield from self._unexpected(str(error))
        finally:
            self.turn.running = False

    def _user_turn(self, text: str, problem: str | None) -> Steps[None]:
        run = self.script
        if text == "/clear" and problem is None:
            yield from self.compaction.clear()
            self.endings.local("clear")
            return
        step = run.peek()
        if problem is None and isinstance(step, steps.Compacts) and step.trigger == "manual":
            run.take()
            yield from self.compaction.compact(step)
            self.endings.local("compact")
            return
        outputs = yield from self.hooks.run("UserPromptSubmit", {"prompt": text}, effort=False)
        self._send_init()
        for output in outputs:
            if output.get("decision") == "block" or output.get("continue") is False:
                self.endings.refuse_prompt(text, output)
                return
        if problem is not None:
            run.problem(problem)
            yield from self._unexpected(problem)
        elif not self.endings.over_budget():
            yield from self._answer()

    def _send_init(self) -> None:
        self.output.emit(frames.init(self.state, self.turn.uuids))

    def _unexpected(self, problem: str, **more: Any) -> Steps[None]:
        yield from self.endings.fail(418, f"Unexpected request to the simulated CLI: {problem}", bare=True, **more)

    def _turn_of_task(self, step: steps.TaskEnds) -> Steps[None]:
        notification = yield from self._task_ends(step)
        if notification is None:
            return
        run_id, prompt = notification
        self._begin([])
        if not self.prompts.busy:
            self.prompts.report_state("running")
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
        yield from self.subagents.finish(task, self.tools.run)
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
                    yield from self.outside.retry(step)
                case steps.ApiFailure():
                    run.take()
                    yield from self.endings.fail(step.status, step.message, **more)
                    return
                case steps.Interrupted():
                    run.take()
                    yield from self.replies.until_interrupted(step)
                case steps.Compacts():
                    run.take()
                    yield from self.compaction.compact(step)
                case steps.TaskEnds():
                    run.take()
                    yield from self._task_ends(step)
                case steps.Thinks() | steps.Says() | steps.Calls():
                    if (yield from self._reply_and_tools(take_reply(run), more)):
                        return
                case steps.UserSays() if turn.after_tools and not self.prompts.ended and not self._waited:
                    # A prompt that comes while tools run is given to the model with their results.
                    yield from self._late_prompt(step)
                case None | steps.UserSays():
                    problem = "the model was asked, and the script has no answer"
                    run.problem(f"{problem}: {'it is at its end' if step is None else f'next is {step.describe()}'}")
                    yield from self._unexpected(problem, **more)
                    return
                case _:
                    run.take()
                    yield from self.outside.play(step)

    def _late_prompt(self, step: steps.UserSays) -> Steps[None]:
        prompts = self.prompts
        yield Pause(lambda: bool(prompts.waiting) or prompts.ended, self.clock.now() + LATE_PROMPT_SECONDS)
        if not prompts.waiting or not step.fits(prompts.waiting[0].text):
            self._waited = True  # reported as: the model was asked, and the script has no answer
            return
        self.script.take()
        prompt = prompts.waiting.popleft()
        yield from self.hooks.run("UserPromptSubmit", {"prompt": prompt.text}, effort=False)
        prompts.report(prompt.uuid, "started")
        if prompt.uuid is not None:
            self.turn.joined.append(prompt.uuid)
            self.state.checkpoints.add(prompt.uuid)

    def _reply_and_tools(self, reply: list[ScriptStep], more: dict[str, Any]) -> Steps[bool]:
        """Play one reply and its calls; return whether the turn has ended."""
        turn = self.turn
        calls = yield from self.replies.say(reply, None)
        if self.endings.over_budget(**more):
            return True
        if calls:
            turn.in_tools = turn.after_tools = True
            yield from self.tools.run(calls, None)
            turn.in_tools = False
            if self.structured.value is not None and turn.deferred is None and (yield from self._sent_on("")):
                self.structured.value = None
                turn.stop_hook_active = True
                return False
            return self.endings.after_tools(**more)
        if isinstance(self.script.peek(), steps.FAULTS) and all(isinstance(step, steps.Thinks) for step in reply):
            return False  # the fault comes while the model thinks
        enforced = self.structured.schema is not None and not self.structured.enforced
        if enforced:
            self.structured.enforced = True
            self._say_synthetic(ENFORCED)
        text = "\n".join(step.text for step in reply if isinstance(step, steps.Says))
        if (yield from self._sent_on(text)) or enforced:
            turn.stop_hook_active = True
            return False
        while isinstance(self.script.peek(), steps.EXPECTATIONS):
            self._expect()
        if turn.stop_prevented:
            more = {**more, "terminal_reason": "stop_hook_prevented"}
        self.endings.finish(result=last_text(reply), **more)
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
        text = "stop hook reported a problem · ctrl+o to see"
        self.output.system("notification", key="stop-hook-error", text=text, priority="immediate")
        return True

    def _say_synthetic(self, text: str) -> None:
        """Send the model a text that no user has sent."""
        self.output.user([{"type": "text", "text": text}], isSynthetic=True)
        self.turn.user_frames += 1
