"""A script: steps in order, how far it is, and how it looks in a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bridle.testing.model.requests import shorten
from bridle.testing.model.steps import Repeat, Stall, Step, plain

if TYPE_CHECKING:
    from collections.abc import Iterable


class Script:
    """Steps in order, and how many of them were used."""

    def __init__(self, name: str, steps: tuple[Any, ...]) -> None:
        self.name = name
        self.steps = steps
        self.used = 0

    def next(self) -> Any:
        """Return the next step, or None if there is none."""
        if self.used >= len(self.steps):
            return None
        step = self.steps[self.used]
        if isinstance(step, Repeat):
            return step.step
        self.used += 1
        return step

    def left(self) -> list[Any]:
        """Return the steps that had to be used and were not."""
        return [step for step in self.steps[self.used :] if not isinstance(step, Repeat)]

    def describe(self) -> str:
        """Return every step on a line of its own, with its state."""
        if not self.steps:
            return f"{self.name}: no steps"
        lines = [f"{self.name}:"]
        for position, step in enumerate(self.steps):
            state = "always" if isinstance(step, Repeat) else "used" if position < self.used else "open"
            lines.append(f"  [{state:>6}] {describe_step(step)}")
        return "\n".join(lines)


def as_steps(value: Step | Sequence[Step]) -> tuple[Step, ...]:
    """Return one step or several as a tuple."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def summaries(steps: Iterable[Step]) -> list[Step]:
    """Wrap bare summaries as the CLI wants them; it asks a second time if the tags are missing."""
    return [
        f"<summary>{step}</summary>" if isinstance(step, str) and "<summary>" not in step else step for step in steps
    ]


def describe_step(step: object) -> str:
    """Return a step on one line."""
    if callable(step) and not isinstance(step, Stall):
        return f"function {getattr(step, '__qualname__', repr(step))}"
    return shorten(repr(plain(step) if isinstance(step, str) else step), 200)
