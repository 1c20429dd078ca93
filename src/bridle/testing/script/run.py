"""How far a script is, what did not fit it, and how both sides look in a report."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.errors import printable
from bridle.testing.errors import ScriptError
from bridle.testing.model.requests import shorten
from bridle.testing.script.steps import EXPECTATIONS, FAULTS, ScriptStep, UserSays

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.testing.script.script import Script

__all__ = ["ScriptRun"]

_LOG_LINES = 60
_STEPS_BEFORE = 25
_STEPS_AFTER = 15


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    position: int = 0
    turns: int = 0
    problems: list[str] = []
    missed: list[int] = []
    unmet: list[int] = []
    waiting: int | None = None
    log: list[str] = []
    numbers: int = 0
    sessions: dict[str, int] = {}


class ScriptRun:
    """One run of a script, over as many processes and sessions as it takes.

    Args:
        script: what is played.
        before: a run of the same script that this one continues.

    Attributes:
        script: what is played.
        position: the next step.
        problems: what did not fit.
        missed: steps that were passed over, by their place.
        unmet: expectations that did not hold, by their place.
        waiting: the place of the step that only an interrupt ends, while it waits for it.
        sessions: every session that there was: how often the model has answered in it.
        numbers: how many numbers were given to ids.
        log: what happened last, for the report.
    """

    def __init__(self, script: Script, before: ScriptRun | None = None) -> None:
        self.script = script
        self.position: int = 0 if before is None else before.position
        self.problems: list[str] = [] if before is None else [*before.problems]
        self.missed: list[int] = [] if before is None else [*before.missed]
        self.unmet: list[int] = [] if before is None else [*before.unmet]
        self.waiting: int | None = None
        self.sessions: dict[str, int] = {}
        self.numbers: int = 0 if before is None else before.numbers
        self.log: deque[str] = deque([] if before is None else before.log, _LOG_LINES)
        self._noted = len(self.log)

    # -- going on -----------------------------------------------------------------------------------------------------

    def peek(self) -> ScriptStep | None:
        """Return the next step; None at the end."""
        steps = self.script.steps
        return steps[self.position] if self.position < len(steps) else None

    def take(self) -> ScriptStep:
        """Return the next step and go on."""
        step = self.script.steps[self.position]
        self.position += 1
        return step

    def wait_for_interrupt(self) -> None:
        """Note that the last step goes on until it is interrupted, which has to happen."""
        self.waiting = self.position - 1

    def rewind(self) -> bool:
        """Go back to the last prompt, if the script goes on for ever; True if there is one."""
        if not self.script.forever:
            return False
        for place in range(len(self.script.steps) - 1, -1, -1):
            if isinstance(self.script.steps[place], UserSays):
                self.position = place
                return True
        self.position = 0
        return bool(self.script.steps)

    def leave_turn(self, *, excused: bool = False) -> None:
        """Pass over the rest of a turn that ended early: what it left is missing in the end, unless that is as it should be."""
        while (step := self.peek()) is not None and not isinstance(step, (UserSays, *FAULTS)):
            if not excused and not isinstance(step, EXPECTATIONS):
                self.missed.append(self.position)
            self.position += 1

    def next_number(self) -> int:
        """Return the next number for an id; numbers do not repeat in a run."""
        self.numbers += 1
        return self.numbers

    # -- telling ------------------------------------------------------------------------------------------------------

    def note(self, line: str) -> None:
        """Remember what happened, for the report."""
        self._noted += 1
        self.log.append(printable(shorten(line, 300)))

    def problem(self, text: str) -> None:
        """Remember what did not fit."""
        self.problems.append(shorten(text, 1_000))
        self.note(f"!! {text}")

    def disappoint(self, text: str) -> None:
        """Remember that the step that was taken last, an expectation, did not hold."""
        self.unmet.append(self.position - 1)
        self.problem(text)

    def check(self) -> None:
        """Do nothing if everything that was written down happened, and nothing else.

        Raises:
            ScriptError: it did not; its text shows both sides.
        """
        left = self.left()
        if not self.problems and not left and self.waiting is None:
            return
        lines = []
        if self.problems:
            lines.append(f"{len(self.problems)} thing(s) did not fit the script:")
            lines += [f"  {problem}" for problem in self.problems[:_STEPS_AFTER]]
        if self.waiting is not None:
            lines.append(
                f"nobody interrupted the turn, as the script has it: {self.script.steps[self.waiting].describe()}"
            )
        if left:
            lines.append(f"{len(left)} step(s) of the script were never reached:")
            lines += [f"  {self.script.steps[place].describe()}" for place in left[:_STEPS_AFTER]]
            if len(left) > _STEPS_AFTER:
                lines.append(f"  ... and {len(left) - _STEPS_AFTER} more")
        raise ScriptError(printable("\n".join([*lines, self.both_sides()]), 20_000))

    @property
    def unfinished(self) -> bool:
        """Whether something that had to happen did not."""
        return bool(self.left()) or self.waiting is not None

    def left(self) -> list[int]:
        """Return the places of the steps that had to happen and did not."""
        rest = range(self.position, len(self.script.steps))
        if self.script.forever and self.position > 0:
            rest = range(0)
        return [*self.missed, *(place for place in rest if not self._excused(place))]

    def _excused(self, place: int) -> bool:
        # A fault at the end may never be reached because the host left before; that is no disagreement.
        return all(isinstance(step, FAULTS) for step in self.script.steps[place:])

    def both_sides(self) -> str:
        """Return the script with the state of its steps, those around the place where it is, and what happened last."""
        missed, unmet = set(self.missed), set(self.unmet)
        steps = self.script.steps
        first, end = max(0, self.position - _STEPS_BEFORE), min(len(steps), self.position + _STEPS_AFTER)
        lines = ["The script"]
        if first:
            lines.append(f"  ({first} steps before)")
        for place in range(first, end):
            state = "missed" if place in missed else "done" if place < self.position else "open"
            state = "waits" if place == self.waiting else "unmet" if place in unmet else state
            lines.append(f"  [{state:>6}] {steps[place].describe()}")
        if end < len(steps):
            lines.append(f"  ({len(steps) - end} steps after)")
        lines.append("What happened")
        if self._noted > len(self.log):
            lines.append(f"  ({self._noted - len(self.log)} things before)")
        lines += [f"  {line}" for line in self.log] or ["  nothing"]
        return "\n".join(lines)

    # -- over processes -----------------------------------------------------------------------------------------------

    def save(self) -> bytes:
        """Return everything, for the next process."""
        saved = _Saved(
            position=self.position,
            problems=self.problems,
            missed=self.missed,
            unmet=self.unmet,
            waiting=self.waiting,
            log=[*self.log],
            sessions=self.sessions,
            numbers=self.numbers,
        )
        return msgspec.json.encode(saved)

    def restore(self, data: bytes) -> None:
        """Go on where another process stopped.

        Raises:
            ValueError: that is no such state.
        """
        try:
            saved = msgspec.json.decode(data, type=_Saved)
        except msgspec.MsgspecError as error:
            raise ValueError(f"this is no state of a script: {error}") from None
        self.position = min(saved.position, len(self.script.steps))
        self.problems, self.missed, self.unmet = saved.problems, saved.missed, saved.unmet
        self.waiting = saved.waiting
        self.log = deque(saved.log, _LOG_LINES)
        self._noted = len(saved.log)
        self.sessions = saved.sessions
        self.numbers = saved.numbers


def holds(wanted: Mapping[str, Any], value: object) -> bool:
    """Return whether a value has all the fields that are wanted, at every depth."""
    if not isinstance(value, dict):
        return False
    return all(
        name in value and (holds(part, value[name]) if isinstance(part, dict) else value[name] == part)
        for name, part in wanted.items()
    )
