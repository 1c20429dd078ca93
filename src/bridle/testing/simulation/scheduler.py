"""The tasks of a simulated CLI: the script that it plays, and everything that continues beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.testing.simulation.waits import Interruption

if TYPE_CHECKING:
    from bridle.testing.script.run import ScriptRun
    from bridle.testing.simulation.output import Output
    from bridle.testing.simulation.waits import Clock, Pause, Steps

__all__ = ["Scheduler"]


class _Task:
    def __init__(self, steps: Steps[None]) -> None:
        self.steps = steps
        self.pause: Pause | None = None
        self.done = False


class Scheduler:
    """Runs the tasks of a simulated CLI as far as they get without waiting; the first one plays the script."""

    def __init__(self, clock: Clock, output: Output, run: ScriptRun) -> None:
        self._clock = clock
        self._output = output
        self._run = run
        self._tasks: list[_Task] = []
        self._advancing = False

    def begin(self, steps: Steps[None]) -> None:
        """Add a task."""
        self._tasks.append(_Task(steps))
        self.advance()

    def advance(self) -> None:
        """Run every task that is ready."""
        if self._advancing:
            return
        self._advancing = True
        try:
            moved = True
            while moved and self._output.is_open:
                moved = False
                for task in [*self._tasks]:
                    if not task.done and (task.pause is None or self._is_ready(task.pause)):
                        self._step(task, None)
                        moved = True
            self._tasks = [task for task in self._tasks if not task.done]
        finally:
            self._advancing = False

    def interrupt(self) -> None:
        """Raise `Interruption` in the task that plays the script."""
        self._step(self._tasks[0], Interruption())
        self.advance()

    def wait_seconds(self) -> float | None:
        """Return the seconds until time alone makes a task ready; None if it never does."""
        moments = [task.pause.until for task in self._tasks if task.pause is not None and task.pause.until is not None]
        return max(0.0, min(moments) - self._clock.now()) if moments and self._output.is_open else None

    def _is_ready(self, pause: Pause) -> bool:
        return pause.ready() or (pause.until is not None and self._clock.now() >= pause.until)

    def _step(self, task: _Task, interruption: Interruption | None) -> None:
        try:
            task.pause = next(task.steps) if interruption is None else task.steps.throw(interruption)
        except (StopIteration, Interruption):
            task.done = True
        except Exception as error:
            # A defect of the simulation must neither hang the host nor pass as agreement.
            text = f"the simulated CLI failed: {type(error).__name__}: {error}"
            self._run.problem(text)
            self._output.fail(text)
            task.done = True
