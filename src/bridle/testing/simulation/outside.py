"""Events outside of model and host: time, retries of the API, and faults of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.testing.script import steps
from bridle.testing.simulation.facts import RETRY_ERRORS
from bridle.testing.simulation.waits import Pause, never

if TYPE_CHECKING:
    from bridle.testing.script.steps import ScriptStep
    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.waits import Steps

__all__ = ["Outside"]

MAX_RETRIES = 10


class Outside:
    """Plays the steps that neither the model nor the host does.

    Attributes:
        ignores_termination: SIGTERM has no effect.
    """

    def __init__(self, core: Core) -> None:
        self.turn, self.output, self.clock, self.script = core.turn, core.output, core.clock, core.script
        self.ignores_termination = False

    def play(self, step: ScriptStep) -> Steps[None]:
        """Play one step."""
        output = self.output
        match step:
            case steps.Slow():
                yield self.clock.sleep(step.seconds)
            case steps.Crash():
                if step.stderr:
                    output.fail(step.stderr, step.exit_code)
                else:
                    output.exit(step.exit_code)
                yield Pause(never)
            case steps.Hang():
                output.flush()
                self.script.note("the CLI hangs")
                output.hanging = True
                yield Pause(never)
            case steps.IgnoreTermination():
                self.ignores_termination = True
            case steps.Garbage():
                output.garbage(step.data)
            case steps.Cut():
                output.cut = (step.bytes_kept, step.exit_code)
            case steps.Emit():
                output.emit({**step.frame})
            case _:
                raise AssertionError(step)

    def retry(self, step: steps.Retry) -> Steps[None]:
        """Report tries that the API has refused, and wait between them."""
        for _ in range(step.attempts):
            self.turn.attempts += 1
            self.output.system(
                "api_retry",
                attempt=self.turn.attempts,
                max_retries=MAX_RETRIES,
                retry_delay_ms=round(step.delay * 1000),
                error_status=step.status,
                error=RETRY_ERRORS.get(step.status, "server_error"),
            )
            yield self.clock.sleep(step.delay)
