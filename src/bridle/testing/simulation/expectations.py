"""The expectations of a script, compared with the events of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.testing.script import steps
from bridle.testing.script.run import holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bridle.testing.script.run import ScriptRun
    from bridle.testing.script.steps import ScriptStep
    from bridle.testing.simulation.turn import Happened

__all__ = ["expect"]


def expect(
    run: ScriptRun,
    happened: list[Happened],
    step: ScriptStep,
    results: list[tuple[str, bool]],
    whose: str | None = None,
) -> None:
    """Compare an expectation with a turn; each hook and each question counts once.

    Args:
        run: gets the problem if it is not met.
        happened: hooks and questions of the turn.
        step: the expectation.
        results: results of the last tools.
        whose: the part of the script that the step belongs to, if it is not one of its own steps.
    """
    if isinstance(step, steps.ExpectResult):
        if any(step.text in text and step.error in (None, failed) for text, failed in results):
            return
    else:
        for place, event in enumerate(happened):
            if _is_met(step, event):
                del happened[place]
                return
    seen = ", ".join(_seen(happened, results)) or "nothing"
    if whose is not None:
        run.problem(f"the script of the {whose} has {step.describe()}, and there was {seen}")
    else:
        run.disappoint(f"the script has {step.describe()}, and there was {seen}")


def _is_met(step: ScriptStep, event: Happened) -> bool:
    match step:
        case steps.ExpectPermission():
            same = (event.kind, event.name) == ("permission", step.tool)
            return same and step.decision in (None, event.outcome) and step.input in (None, event.value)
        case steps.ExpectHook():
            return (event.kind, event.name) == ("hook", step.event) and holds(step.output or {}, event.outcome)
        case _:
            raise AssertionError(step)


def _seen(happened: list[Happened], results: list[tuple[str, bool]]) -> Iterator[str]:
    for kind, name, outcome, value in happened:
        yield f"permission for {name}: {outcome} {value}" if kind == "permission" else f"hook {name}: {outcome}"
    for text, failed in results:
        yield f"the result {text!r}{' (an error)' if failed else ''}"
