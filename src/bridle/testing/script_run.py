"""How far a script is, what did not fit it, and how both sides look in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bridle.errors import printable
from bridle.testing.errors import ScriptError
from bridle.testing.script_steps import EXPECTATIONS, FAULTS, Calls, Interrupted, ScriptStep, UserSays

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.testing.script import Script

__all__ = ["ScriptRun"]

_LOG_LINES = 200


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    position: int = 0
    turns: int = 0
    problems: list[str] = []
    missed: list[int] = []
    log: list[str] = []
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
        sessions: every session that there was: how often the model has answered in it.
    """

    def __init__(self, script: Script, before: ScriptRun | None = None) -> None:
        self.script = script
        self.position: int = 0 if before is None else before.position
        self.problems: list[str] = [] if before is None else [*before.problems]
        self.missed: list[int] = [] if before is None else [*before.missed]
        self.sessions: dict[str, int] = {}
        self._log: list[str] = [] if before is None else [*before._log]
        self._skipped_log = 0

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

    # -- telling ------------------------------------------------------------------------------------------------------

    def note(self, line: str) -> None:
        """Remember what happened, for the report."""
        if len(self._log) < _LOG_LINES:
            self._log.append(printable(line, 300))
        else:
            self._skipped_log += 1

    def problem(self, text: str) -> None:
        """Remember what did not fit."""
        self.problems.append(text)
        self.note(f"!! {text}")

    def check(self) -> None:
        """Do nothing if everything that was written down happened, and nothing else.

        Raises:
            ScriptError: it did not; its text shows both sides.
        """
        left = self.left()
        if not self.problems and not left:
            return
        lines = []
        if self.problems:
            lines.append(f"{len(self.problems)} thing(s) did not fit the script:")
            lines += [f"  {problem}" for problem in self.problems]
        if left:
            lines.append(f"{len(left)} step(s) of the script were never reached:")
            lines += [f"  {self.script.steps[place].describe()}" for place in left]
        raise ScriptError(printable("\n".join([*lines, self.both_sides()]), 20_000))

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
        """Return the script with the state of each step, and what happened."""
        missed = set(self.missed)
        lines = ["The script"]
        for place, step in enumerate(self.script.steps):
            state = "missed" if place in missed else "done" if place < self.position else "open"
            lines.append(f"  [{state:>6}] {step.describe()}")
        lines.append("What happened")
        lines += [f"  {line}" for line in self._log] or ["  nothing"]
        if self._skipped_log:
            lines.append(f"  ... and {self._skipped_log} more")
        return "\n".join(lines)

    # -- over processes -----------------------------------------------------------------------------------------------

    def save(self) -> bytes:
        """Return everything, for the next process."""
        saved = _Saved(
            position=self.position,
            problems=self.problems,
            missed=self.missed,
            log=self._log,
            sessions=self.sessions,
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
        self.problems, self.missed, self._log = saved.problems, saved.missed, saved.log
        self.sessions = saved.sessions


def endless(step: object) -> bool:
    """Return whether a step only ends when the host interrupts it."""
    return isinstance(step, Interrupted) or (isinstance(step, Calls) and step.endless)


def holds(wanted: Mapping[str, Any], value: object) -> bool:
    """Return whether a value has all the fields that are wanted, at every depth."""
    if not isinstance(value, dict):
        return False
    return all(
        name in value and (holds(part, value[name]) if isinstance(part, dict) else value[name] == part)
        for name, part in wanted.items()
    )
