"""The report on a script that was played: as text, as JSON, and as JUnit XML for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from hackamore.runtime.junit import Case, junit

if TYPE_CHECKING:
    from collections.abc import Iterable

StepState: TypeAlias = Literal["done", "open", "optional", "missed", "unmet", "waits"]
"""The states: open and optional steps were not reached, the turn ended before a missed one, and one that waits needs an interrupt."""

_FAILURES: dict[str, str] = {
    "open": "this step was never reached",
    "missed": "the turn ended before this step",
    "unmet": "this expectation did not hold",
    "waits": "the host did not interrupt the turn",
}


class PlayedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a script and its outcome.

    Attributes:
        text: the step on one line.
        state: its outcome.
        problem: the reason, if it failed; None if it did not.
    """

    text: str
    state: StepState
    problem: str | None = None


class PlayedScript(msgspec.Struct, frozen=True, kw_only=True):
    """A script that was played once: by a session, or by all processes one after the other.

    Attributes:
        name: the session ids, or the part of a model's script.
        steps: the steps in order.
        unexpected: requests and events that are not in the script.
        happened: the last events, in order.
    """

    name: str
    steps: tuple[PlayedStep, ...]
    unexpected: tuple[str, ...] = ()
    happened: tuple[str, ...] = ()

    @property
    def failures(self) -> list[str]:
        """Steps and events that did not fit, one line each."""
        steps = [f"{step.text}: {step.problem}" for step in self.steps if step.problem is not None]
        return [*self.unexpected, *steps]


class PlayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a script.

    Attributes:
        ok: everything in the script happened, and nothing else.
        played: the script each time that it was played.
        processes: how often the CLI was started; for a model the number of requests.
    """

    ok: bool
    played: tuple[PlayedScript, ...]
    processes: int

    def to_json(self) -> str:
        """Return the report as JSON.

        Returns:
            The text, on several lines.
        """
        return msgspec.json.format(msgspec.json.encode(self)).decode()

    def to_text(self) -> str:
        """Return the report for a terminal.

        Returns:
            One line if all is well; otherwise the failures, the script with the state of each step, and the last events.
        """
        total = [step for one in self.played for step in one.steps]
        done = sum(step.state == "done" for step in total)
        times = "" if len(self.played) == 1 else f", in {len(self.played)} sessions"
        head = f"{'passed' if self.ok else 'FAILED'}: {done} of {len(total)} steps played{times}"
        return "\n".join([head, *(line for one in self.played if one.failures for line in _lines(one))])

    def to_junit(self, suite: str) -> bytes:
        """Return the report as JUnit XML: a test case for each step, and one for unexpected events.

        Args:
            suite: the name of the suite.

        Returns:
            The document, in UTF-8.
        """
        suites = []
        for one in self.played:
            details = "\n".join(_lines(one))
            cases = [
                Case(f"{number} {step.text}", step.problem, details, step.state != "done")
                for number, step in enumerate(one.steps, 1)
            ]
            cases.append(Case("nothing unexpected", one.unexpected[0] if one.unexpected else None, details))
            suites.append((f"{suite} [{one.name}]" if len(self.played) > 1 else suite, cases))
        return junit(suites)


def play_report(played: Iterable[PlayedScript], processes: int) -> PlayReport:
    """Return the report on scripts."""
    runs = tuple(played)
    return PlayReport(ok=not any(one.failures for one in runs), played=runs, processes=processes)


def played_step(text: str, state: StepState, problem: str | None = None) -> PlayedStep:
    """Return a step with the usual reason for its state, if none is given."""
    return PlayedStep(text=text, state=state, problem=problem or _FAILURES.get(state))


def _lines(one: PlayedScript) -> list[str]:
    reached = [step for step in one.steps if step.problem is not None and step.state != "open"]
    lines = [f"  {line}" for line in (*one.unexpected, *(f"{step.text}: {step.problem}" for step in reached))]
    if never := sum(step.state == "open" for step in one.steps):
        lines.append(f"  {never} step{'s were' if never > 1 else ' was'} never reached")
    lines += ["The script" + (f" ({one.name})" if one.name else "")]
    lines += [f"  [{step.state:>8}] {step.text}" for step in one.steps]
    return [*lines, "What happened", *([f"  {line}" for line in one.happened] or ["  nothing"])]
