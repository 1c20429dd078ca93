"""How far a script is, what did not fit it, and how both sides look in a report."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hackamore.activity.prices import Tokens
from hackamore.errors import escape_terminal
from hackamore.testing.errors import ScriptError
from hackamore.testing.script.report import PlayedScript, played_step
from hackamore.testing.script.steps import (
    EXPECTATIONS,
    FAULTS,
    Calls,
    ExpectHook,
    ExpectPermission,
    ExpectResult,
    Interrupted,
    ScriptStep,
    UsageLimit,
    UserSays,
)
from hackamore.testing.shortening import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hackamore.testing.script.report import StepState
    from hackamore.testing.script.script import Script

_LOG_LINES = 60
_STEPS_BEFORE = 25
_STEPS_AFTER = 15


class Happened(NamedTuple):
    """A hook or a permission question of a turn, for the expectations of the script.

    Attributes:
        name: the event, or the tool.
        outcome: the output of the hook, or the decision.
        value: the input that was allowed.
    """

    kind: Literal["hook", "permission"]
    name: str
    outcome: Any
    value: Any = None


class SessionRecord(msgspec.Struct, kw_only=True):
    """The counts of one session over all its processes.

    Attributes:
        tokens: tokens read and written, by model.
        kept: the same at the last exit that was not a kill: the next process counts from there.
        begun: the session can be resumed: a turn began in it, or it is from before.
    """

    prompts: list[str] = []
    replies: int = 0
    tokens: dict[str, Tokens] = {}
    kept: dict[str, Tokens] = {}
    processes: int = 0
    begun: bool = False

    def count(self, model: str, tokens: Tokens) -> None:
        """Add tokens."""
        self.tokens[model] = self.tokens.get(model, Tokens()) + tokens

    def add(self, theirs: SessionRecord, base: SessionRecord) -> None:
        """Add the counts of other processes since this record was like `base`."""
        self.prompts += theirs.prompts[len(base.prompts) :]
        self.replies += theirs.replies - base.replies
        self.processes += theirs.processes - base.processes
        self.begun = self.begun or theirs.begun
        if self.kept == base.kept:
            self.kept = theirs.kept
        for model, tokens in theirs.tokens.items():
            self.count(model, tokens - base.tokens.get(model, Tokens()))


class _Progress(msgspec.Struct, kw_only=True):
    """The part of a run that the next process continues."""

    position: int = 0
    problems: list[str] = []
    missed: list[int] = []
    unmet: list[int] = []
    waiting: int | None = None
    log: list[str] = []
    numbers: int = 0
    in_turn: bool = False
    sessions: dict[str, SessionRecord] = {}


class ScriptRun:
    """One run of a script, over as many processes and sessions as it takes.

    Args:
        before: a run of the same script that this one continues.
    """

    def __init__(self, script: Script, before: ScriptRun | None = None) -> None:
        self.script = script
        self.position: int = 0
        self.numbers: int = 0  # how many numbers were given to ids
        self.problems: list[str] = []  # the parts that did not fit
        self.missed: list[int] = []  # steps that were passed over, by their place
        self.unmet: list[int] = []  # expectations that did not hold, by their place
        self.waiting: int | None = None  # the place of the step that only an interrupt ends, while it waits for it
        self.in_turn: bool = False
        self.sessions: dict[str, SessionRecord] = {}  # every session that there was
        self.served: dict[str, SessionRecord] = {}  # those that this run has served
        self.players: dict[str, ScriptRun] = {}  # the run that served a session last; runs of one CLI share them
        self.log: deque[str] = deque(maxlen=_LOG_LINES)  # the last events, for the report
        self._noted = 0
        if before is not None:
            self.restore(before.save())
            self.waiting, self.sessions, self.served = None, {}, {}

    # -- sessions -----------------------------------------------------------------------------------------------------

    def knows(self, session_id: str | None) -> bool:
        """Return whether a session can be resumed."""
        return session_id in self.sessions and self.sessions[session_id].begun

    def newest(self) -> str | None:
        """Return the newest session that can be resumed."""
        return next((session_id for session_id in reversed(self.sessions) if self.knows(session_id)), None)

    def record(self, session_id: str) -> SessionRecord:
        """Return the record of a session."""
        return self.sessions.setdefault(session_id, SessionRecord())

    def serve(self, session_id: str) -> SessionRecord:
        """Return the record of a session, with one process more."""
        record = self.served[session_id] = self.record(session_id)
        self.players[session_id] = self
        record.processes += 1
        return record

    # -- going on -----------------------------------------------------------------------------------------------------

    def peek(self) -> ScriptStep | None:
        """Return the next step; None at the end."""
        steps = self.script.steps
        return steps[self.position] if self.position < len(steps) else None

    def take(self) -> ScriptStep:
        """Return the next step and move past it."""
        step = self.script.steps[self.position]
        self.position += 1
        return step

    def wait_for_interrupt(self) -> None:
        """Require an interrupt for the last step, which continues until then."""
        self.waiting = self.position - 1

    def rewind(self) -> bool:
        """Go back to the last prompt, if the script continues for ever; True if there is one."""
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

    def interrupted(self) -> None:
        """Pass over the rest of a turn that was interrupted; a following `interrupted()` is fulfilled, whenever the interrupt came."""
        waited = self.waiting is not None and isinstance(self.script.steps[self.waiting], Interrupted)
        self.waiting = None
        if not waited and isinstance(step := self.peek(), Interrupted) and not step.after:
            self.take()
        self.leave_turn()

    def hint(self) -> str:
        """Return why the turn ended before the next step, if a step before it ends a turn; else an empty text."""
        before = self.script.steps[self.position - 1] if 0 < self.position < len(self.script.steps) else None
        if isinstance(before, Calls) and before.tool == "StructuredOutput":
            return "a call of StructuredOutput with valid input ends the turn: remove the steps behind it"
        return ""

    def next_number(self) -> int:
        """Return the next number for an id; numbers do not repeat in a run."""
        self.numbers += 1
        return self.numbers

    # -- telling ------------------------------------------------------------------------------------------------------

    def note(self, line: str) -> None:
        """Remember what happened, for the report."""
        self._noted += 1
        self.log.append(escape_terminal(shorten(line, 300)))

    def problem(self, text: str) -> None:
        """Remember what did not fit."""
        self.problems.append(shorten(text, 1_000))
        self.note(f"!! {text}")

    def expect(
        self, happened: list[Happened], step: ScriptStep, results: list[tuple[str, bool]], whose: str | None = None
    ) -> None:
        """Compare an expectation with a turn; each hook and each question counts once.

        Args:
            whose: the part of the script that the step belongs to, if it is not one of its own steps.
        """
        if isinstance(step, ExpectResult):
            if any(step.text in text and step.error in (None, failed) for text, failed in results):
                return
        else:
            for place, event in enumerate(happened):
                if _is_met(step, event):
                    del happened[place]
                    return
        seen = ", ".join(_seen(happened, results)) or "nothing"
        if whose is not None:
            self.problem(f"the script of the {whose} has {step.describe()}, and there was {seen}")
        else:
            self.unmet.append(self.position - 1)
            self.problem(f"the script has {step.describe()}, and there was {seen}")

    def check(self) -> None:
        """Raise a `ScriptError` that shows both sides unless everything that was written down happened, and nothing else."""
        left = self.left()
        if not self.problems and not left and self.waiting is None:
            return
        lines = []
        if self.problems:
            lines.append(f"{len(self.problems)} thing(s) did not fit the script:")
            lines += [f"  {problem}" for problem in self.problems[:_STEPS_AFTER]]
        if self.waiting is not None:
            lines.append(
                f"the host did not interrupt the turn, as the script requires: {self.script.steps[self.waiting].describe()}"
            )
        if left:
            lines.append(f"{len(left)} step(s) of the script were never reached:")
            lines += [f"  {self.script.steps[place].describe()}" for place in left[:_STEPS_AFTER]]
            if hint := self.hint():
                lines.append(f"  ({hint})")
            if len(left) > _STEPS_AFTER:
                lines.append(f"  ... and {len(left) - _STEPS_AFTER} more")
        raise ScriptError(escape_terminal("\n".join([*lines, self.both_sides()]), 20_000))

    @property
    def unfinished(self) -> bool:
        """Whether something that had to happen did not."""
        return bool(self.left()) or self.waiting is not None

    def left(self) -> list[int]:
        """Return the places of the steps that had to happen and did not."""
        steps = self.script.steps
        end = 0 if self.script.forever and self.position > 0 else len(steps)
        # A fault at the end may never be reached because the host left before, and a limit is not passed: that is not a disagreement.
        while end and isinstance(steps[end - 1], (*FAULTS, UsageLimit)):
            end -= 1
        return [*self.missed, *range(self.position, end)]

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

    def played(self) -> PlayedScript:
        """Return the steps with their outcomes, and the last events."""
        missed, unmet, left = set(self.missed), set(self.unmet), set(self.left())
        problems, steps = [*self.problems], []
        for place, step in enumerate(self.script.steps):
            state: StepState = "done" if place < self.position else "open" if place in left else "optional"
            state = "missed" if place in missed else "unmet" if place in unmet else state
            state = "waits" if place == self.waiting else state
            text = step.describe()
            start = f"the script has {text}, and "
            reason = next((one for one in problems if state == "unmet" and one.startswith(start)), None)
            if reason is not None:
                problems.remove(reason)
            steps.append(played_step(text, state, reason and reason.removeprefix(start)))
        return PlayedScript(
            name=", ".join(self.served),
            steps=tuple(steps),
            unexpected=tuple(escape_terminal(problem, 1_000) for problem in problems),
            happened=tuple(self.log),
        )

    # -- over processes -----------------------------------------------------------------------------------------------

    def save(self, session_id: str | None = None) -> bytes:
        """Return everything, for the next process; with the record of one session, or of all."""
        fields = {name: getattr(self, name) for name in _Progress.__struct_fields__}
        if session_id is not None:
            fields["sessions"] = {session_id: self.sessions[session_id]}
        return msgspec.json.encode(_Progress(**{**fields, "log": [*self.log]}))

    def restore(self, data: bytes) -> None:
        """Continue where another process stopped; raise ValueError if that is not such a state."""
        try:
            saved = msgspec.json.decode(data, type=_Progress)
        except msgspec.MsgspecError as error:
            raise ValueError(f"this is not a state of a script: {error}") from None
        for name, value in msgspec.structs.asdict(saved).items():
            setattr(self, name, value)
        self.position = min(saved.position, len(self.script.steps))
        self.served = {session_id: record for session_id, record in saved.sessions.items() if record.processes}
        self.log = deque(saved.log, _LOG_LINES)
        self._noted = len(saved.log)


def _holds(wanted: Mapping[str, Any], value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return all(
        name in value and (_holds(part, value[name]) if isinstance(part, dict) else value[name] == part)
        for name, part in wanted.items()
    )


def _is_met(step: ScriptStep, event: Happened) -> bool:
    match step:
        case ExpectPermission():
            same = (event.kind, event.name) == ("permission", step.tool)
            return same and step.decision in (None, event.outcome) and step.input in (None, event.value)
        case ExpectHook():
            if (event.kind, event.name) != ("hook", step.event):
                return False
            return event.outcome == {} if step.output == {} else _holds(step.output or {}, event.outcome)
        case _:
            raise AssertionError(step)


def _seen(happened: list[Happened], results: list[tuple[str, bool]]) -> Iterator[str]:
    for kind, name, outcome, value in happened:
        yield f"permission for {name}: {outcome} {value}" if kind == "permission" else f"hook {name}: {outcome}"
    for text, failed in results:
        yield f"the result {text!r}{' (an error)' if failed else ''}"
