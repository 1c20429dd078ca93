"""What happens in a simulated CLI beside model and host: time, retries, faults; and what the script expects to have happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.testing.script import steps
from bridle.testing.script.run import holds
from bridle.testing.simulation.facts import RETRY_ERRORS
from bridle.testing.simulation.waits import Pause, never

if TYPE_CHECKING:
    from bridle.testing.script.steps import ScriptStep
    from bridle.testing.simulation.simulation import Simulation
    from bridle.testing.simulation.waits import Steps

__all__ = ["expect", "outside", "retry"]

MAX_RETRIES = 10


def outside(sim: Simulation, step: ScriptStep) -> Steps[None]:
    """Let happen what neither the model nor the host does."""
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


def retry(sim: Simulation, step: steps.Retry) -> Steps[None]:
    """Tell of tries that the API has refused, and wait between them."""
    for attempt in range(1, step.attempts + 1):
        sim.emit(
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
        yield Pause(never, sim.seconds(step.delay))


def expect(sim: Simulation, step: ScriptStep, results: list[tuple[str, bool]], whose: str | None = None) -> None:
    """Look whether what the script expects has happened in this turn; each happening counts once.

    Args:
        sim: where.
        step: what is expected.
        results: what the last tools gave.
        whose: the part of the script that the step belongs to, if it is not one of its own steps.
    """
    happened = sim.conversation.hooks.happened
    match step:
        case steps.ExpectPermission():
            for place, (kind, tool, decision, value) in enumerate(happened):
                if kind != "permission" or tool != step.tool:
                    continue
                if step.decision not in (None, decision) or step.input not in (None, value):
                    continue
                del happened[place]
                return
        case steps.ExpectHook():
            for place, (kind, event, output, _) in enumerate(happened):
                if kind == "hook" and event == step.event and holds(step.output or {}, output):
                    del happened[place]
                    return
        case steps.ExpectResult():
            for text, failed in results:
                if step.text in text and step.error in (None, failed):
                    return
        case _:
            raise AssertionError(step)
    seen = ", ".join(_seen(happened, results)) or "nothing"
    if whose is not None:
        sim.run.problem(f"the script of the {whose} has {step.describe()}, and there was {seen}")
    else:
        sim.run.disappoint(f"the script has {step.describe()}, and there was {seen}")


def _seen(happened: list[tuple[str, str, Any, Any]], results: list[tuple[str, bool]]) -> list[str]:
    seen = []
    for kind, name, outcome, value in happened:
        seen.append(f"permission for {name}: {outcome} {value}" if kind == "permission" else f"hook {name}: {outcome}")
    return seen + [f"the result {text!r}{' (an error)' if failed else ''}" for text, failed in results]
