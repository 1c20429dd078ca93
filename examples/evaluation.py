"""Evaluate a model: cases x repeats as tasks of a fleet, graders over its results, pass@k, and failures of the infrastructure kept apart.

The CLI is simulated: some answers are wrong, one API request fails, one CLI crashes again and again. `evaluate` with
`Options(model=...)`, and without `programs`, does the same with your account.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hackamore import Options, Retry
from hackamore.fleet import Fleet, FleetRow, Task
from hackamore.testing import Script, SimulatedCLI

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REPEATS = 5
OF_THE_AGENT = {"model", "output", "timeout", "budget"}
"""Causes that are a wrong answer. All others are failures of the infrastructure, and say nothing about the model."""


@dataclass(frozen=True)
class Case:
    """A question with its answer."""

    name: str
    prompt: str
    answer: str


PAIRS = [(7, 8), (12, 12), (17, 23), (99, 101), (123, 456)]
CASES = [Case(f"{a} x {b}", f"How much is {a} * {b}? Answer with the number alone.", str(a * b)) for a, b in PAIRS]

Grader: TypeAlias = Callable[[Case, str], bool]
"""Returns whether an answer is right. Graders run after the agents, as often as you like: the journal keeps the answers."""
GRADERS: dict[str, Grader] = {
    "exact": lambda case, text: text.strip() == case.answer,
    "contained": lambda case, text: case.answer in text,
}


def evaluate(journal: Path, options: Options, programs: Mapping[str, Path] | None = None) -> list[FleetRow]:
    """Ask each question `REPEATS` times; return the rows. The same call goes on after a kill."""
    tasks = [
        Task(
            name := f"{case.name} #{repeat}",
            case.prompt,
            options={"cli_path": programs[name]} if programs else None,
            tags={"case": case.name, "repeat": str(repeat)},
        )
        for case in CASES
        for repeat in range(REPEATS)
    ]
    fleet = Fleet(journal, options, concurrency=4, retry=Retry(attempts=2, backoff=0.1, max_delay=0.2))
    with fleet.run(tasks) as run:
        run.wait()
    rows = list(fleet.results())
    fleet.close()
    return rows


def pass_at(k: int, n: int, right: int) -> float | None:
    """Return the probability that one of k answers is right, estimated from n answers; None if there are fewer."""
    return None if n < k else 1 - comb(n - right, k) / comb(n, k)


def report(rows: Iterable[FleetRow], grader: Grader) -> dict[str, float | None]:
    """Print a table; return pass@1 of each case."""
    rows = list(rows)
    scores: dict[str, float | None] = {}
    print(f"{'case':12} {'answers':>7} {'right':>5} {'broken':>6} {'pass@1':>6} {'pass@3':>6} {'cost':>8}")
    for case in CASES:
        own = [row for row in rows if row.tags["case"] == case.name]
        valid = [row for row in own if row.state == "succeeded" or row.cause in OF_THE_AGENT]
        right = sum(row.state == "succeeded" and grader(case, row.text or "") for row in valid)
        broken = len(own) - len(valid)
        estimates = [pass_at(k, len(valid), right) for k in (1, 3)]
        shown = " ".join(f"{'-' if each is None else f'{each:.2f}':>6}" for each in estimates)
        cost = f"${sum(row.cost for row in own):.4f}"
        print(f"{case.name:12} {len(valid):7} {right:5} {broken:6} {shown} {cost:>8}")
        scores[case.name] = estimates[0]
    return scores


def simulated(folder: Path) -> dict[str, Path]:
    """Return a simulated CLI for each task."""
    chance = random.Random(7)
    programs = {}
    for case in CASES:
        for repeat in range(REPEATS):
            name = f"{case.name} #{repeat}"
            answer = case.answer if chance.random() < 0.7 else str(chance.randrange(10_000))
            script = Script().user(case.prompt).says(f"It is {answer}." if repeat == 4 else answer)
            if name == "7 x 8 #1":  # the first attempt fails; the second one resumes the session
                script = Script().user().api_error(529).user().says(answer)
            elif name == "17 x 23 #2":
                script = Script(forever=True).user().crash(9, stderr="out of memory")
            programs[name] = SimulatedCLI(script, per_session=True).install(folder / name)
    return programs


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hackamore-evaluation-") as name:
        folder = Path(name)
        rows = evaluate(folder / "evaluation.db", Options(), simulated(folder / "programs"))
    for title, grader in GRADERS.items():
        print(f"Grader: {title}")
        scores = report(rows, grader)
        assert None not in scores.values()
    for row in rows:
        if row.state != "succeeded":
            print(f"{row.task}: {row.cause} after {row.attempt} attempts: {row.error}")
    assert {row.cause for row in rows} == {None, "crash"}
    assert max(row.attempt for row in rows if row.state == "succeeded") == 2


if __name__ == "__main__":
    main()
