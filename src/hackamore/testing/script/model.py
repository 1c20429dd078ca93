"""A script as the model of the real CLI: what the model says and does, and what can be seen of the rest from there."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from hackamore.testing.model.scripted_model import ScriptedModel
from hackamore.testing.model.steps import (
    HTTPFailure,
    OneByOne,
    Reply,
    Stall,
    Text,
    Thinking,
    ToolCall,
    UntilInterrupted,
)
from hackamore.testing.script import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hackamore.testing.model.requests import ModelRequest
    from hackamore.testing.script.steps import ScriptStep

Check: TypeAlias = "Callable[[ModelRequest], None]"


def scripted_model(items: Iterable[ScriptStep], more: Mapping[str, Any], *, forever: bool) -> ScriptedModel:
    """Return the model of the steps of a script; raise ValueError for a step that no model can do."""
    if forever:
        raise ValueError("a script that continues for ever has no end for a model to reach; write its turns down")
    compiler = Compiler()
    main = compiler.compile(items)
    routes: dict[str, Any] = {"subagents": compiler.subagents, "compaction": compiler.compactions, **more}
    return ScriptedModel(*main, **routes)


class Compiler:
    """Turns the steps of a script into the answers of a model."""

    def __init__(self) -> None:
        self.subagents: dict[str, OneByOne] = {}
        self.compactions: list[Any] = []

    def compile(self, items: Iterable[ScriptStep]) -> list[Any]:
        """Return the answers of a model, with what is expected of the requests before them."""
        done: list[Any] = []
        checks: list[tuple[ScriptStep, Check]] = []
        blocks: list[Any] = []
        delay = 0.0
        chunk: int | None = None
        called: steps.Calls | None = None
        seconds = 0.0
        after_calls = ended = False

        def finish() -> None:
            nonlocal blocks, called, delay, chunk, seconds, ended
            if blocks:
                reply = Reply(*blocks, expect=_all_of(checks), delay=delay, chunk=chunk)
                done.append(Stall(seconds, then=reply) if seconds else reply)
                checks.clear()
                seconds = delay = 0.0
            blocks, called, chunk, ended = [], None, None, False

        for step in items:
            if isinstance(step, steps.FAULTS):
                raise ValueError(
                    f"no model can make the real CLI do this: {step.describe()}. Steps of this kind only exist on the simulated CLI."
                )
            late, after_calls = (
                after_calls,
                isinstance(step, steps.Calls) or (after_calls and isinstance(step, steps.EXPECTATIONS)),
            )
            match step:
                case steps.Thinks():
                    if called is not None or ended:
                        finish()
                    blocks.append(Thinking(step.text, step.signature))
                case steps.Says():
                    if called is not None or ended:
                        finish()
                    blocks.append(Text(step.text))
                    delay, chunk = step.delay or delay, step.chunk or chunk
                case steps.Calls():
                    if ended or (called is not None and not step.together):
                        finish()
                    called = step
                    blocks.append(ToolCall(step.tool, step.input, step.id))
                    if step.agent:
                        one = self.compile(step.agent)
                        self.subagents.setdefault(str(step.input.get("prompt", "*")), OneByOne()).append(one)
                case steps.UserSays(text="/clear"):
                    finish()  # the CLI answers it without the model
                case steps.UserSays():
                    finish()
                    checks.append((step, _late_prompt_check(step) if late else _prompt_check(step)))
                case steps.ExpectResult() | steps.ExpectPermission() | steps.ExpectHook():
                    if called is not None:
                        finish()
                    ended = bool(blocks)  # after a text: about the input of the model before it
                    if isinstance(step, steps.ExpectResult):
                        checks.append((step, _result_check(step)))
                    elif isinstance(step, steps.ExpectPermission) and step.decision == "deny":
                        checks.append((step, _result_check(steps.ExpectResult(error=True))))
                case steps.Slow():
                    finish()
                    seconds += step.seconds
                case steps.Retry():
                    finish()
                    done += [HTTPFailure(step.status, retry_after=step.delay) for _ in range(step.attempts)]
                case steps.ApiFailure():
                    finish()
                    done.append(HTTPFailure(step.status, retry=False, message=step.message))
                    checks.clear()
                case steps.UsageLimit():
                    finish()
                    done.append(HTTPFailure(429, headers=_spent(step)))
                    checks.clear()
                case steps.Interrupted():
                    after_tool = late and not step.after
                    finish()
                    reply = Reply(step.after) if step.after else None
                    # message_start, content_block_start and the one delta.
                    done.append(
                        UntilInterrupted(
                            reply, after_events=3 if reply else 0, expect=_all_of(checks), after_tool=after_tool
                        )
                    )
                    checks.clear()
                case steps.Compacts():
                    finish()
                    self.compactions.append(step.summary)
                    checks.clear()
                case _:
                    finish()
        finish()
        return done


def _spent(step: steps.UsageLimit) -> dict[str, str]:
    """Return the headers of the API for a limit of the plan that is used up."""
    prefix, reset = "anthropic-ratelimit-unified", str(ceil(step.until))
    window = f"{prefix}-{step.kind.replace('five_hour', '5h').replace('seven_day', '7d')}"
    return {
        f"{prefix}-status": "rejected",
        f"{prefix}-reset": reset,
        f"{prefix}-representative-claim": step.kind,
        f"{window}-status": "rejected",
        f"{window}-reset": reset,
        f"{window}-utilization": "1.0",
    }


class _Checks:
    """An expectation that is checked when the CLI calls the model; reports show it as in the script."""

    def __init__(self, checks: Iterable[tuple[ScriptStep, Check]]) -> None:
        self._checks = [*checks]

    def __call__(self, request: ModelRequest) -> None:
        for _, check in self._checks:
            check(request)

    def __repr__(self) -> str:
        return f"<{'; '.join(step.describe() for step, _ in self._checks)}>"


def _all_of(checks: list[tuple[ScriptStep, Check]]) -> _Checks | None:
    return _Checks(checks) if checks else None


def _prompt_check(step: steps.UserSays) -> Check:
    def check(request: ModelRequest) -> None:
        # The newest text, or all blocks of a prompt that has several.
        whole = request.whole_prompt
        if not (step.fits(request.prompt_text) or step.fits(whole)):
            raise AssertionError(step.mismatch(whole or request.prompt_text))

    return check


def _late_prompt_check(step: steps.UserSays) -> Check:
    """A prompt that comes while tools run: the CLI wraps it, and gives it to the model with their results."""

    def check(request: ModelRequest) -> None:
        wanted = step.text or step.contains or ""
        if wanted not in request.newest_text:
            raise AssertionError(f"the script has {step.describe()} while tools run, and the model did not receive it")

    return check


def _result_check(step: steps.ExpectResult) -> Check:
    def check(request: ModelRequest) -> None:
        results = request.tool_results
        fits = any(step.text in result.text and step.error in (None, result.is_error) for result in results)
        if not fits:
            seen = ", ".join(repr(result.text[:200]) for result in results) or "none"
            raise AssertionError(f"the script has {step.describe()}, and the results were {seen}")

    return check
