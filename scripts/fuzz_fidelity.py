"""Compare generated scripts on the simulated CLI and on the real one, for `./dev fuzz --fidelity`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from pprint import pformat

from tests.fidelity.driving import ISOLATED, play, real_options
from tests.fidelity.frames import Rules, compare
from tests.fidelity.generated import Plan, generate

RUNS = 2
"""Chance orders some frames of the real CLI: a difference counts if each of its runs has one."""


class Fuzzer:
    """Runs plans in one folder.

    Args:
        cli: the path of the real CLI.
        folder: an empty folder.
    """

    def __init__(self, cli: str, folder: Path) -> None:
        self._home = folder / "home"
        self._folder = folder
        self._options = real_options(cli, self._home)
        self._number = 0

    def differences(self, plan: Plan) -> list[str]:
        """Return the differences between both CLIs; empty if they agree."""
        found: list[str] = []
        case = plan.case("generated")
        for _ in range(RUNS):
            self._number += 1
            folder = self._folder / str(self._number)
            try:
                simulated = play(case, _made(folder / "simulated"), ISOLATED, how="memory", home=self._home)
                real = play(case, _made(folder / "real"), self._options, how="real", home=self._home)
            except Exception as error:  # a script that does not fit is a difference
                found = [f"{type(error).__name__}: {error}"]
                continue
            compared = compare(real, simulated, Rules(case.but, case.lacks))
            found = [*compared.differences, *(f"a new field: {name}" for name in sorted(compared.new_fields))]
            if not found:
                break
        return found

    def reduced(self, plan: Plan, tries: int) -> Plan:
        """Return the plan with fewer parts that still differs."""
        smaller = plan.smaller()
        while tries and (candidate := next(smaller, None)) is not None:
            tries -= 1
            if self.differences(candidate):
                plan, smaller = candidate, candidate.smaller()
        return plan


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def run(cli: str, count: int, seed: str, *, only: int | None, tries: int) -> int:
    """Compare the scripts of a seed on both CLIs; return the exit status.

    Args:
        cli: the path of the real CLI.
        count: how many scripts.
        seed: the seed.
        only: the number of the one script to compare; None compares all.
        tries: how often to try a smaller script that still differs.
    """
    numbers = range(count) if only is None else [only]
    different, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hackamore-fuzz-", ignore_cleanup_errors=True) as folder:
        fuzzer = Fuzzer(cli, Path(folder))
        for number in numbers:
            plan = generate(f"{seed}/{number}")
            found = fuzzer.differences(plan)
            took = time.monotonic() - began
            state = "differs" if found else "same"
            sys.stderr.write(f"script {number} of {count}, seed {seed}, {took:.0f} s: {state}\n")
            if found:
                different += 1
                least = fuzzer.reduced(plan, tries)
                lines = (f"    {line}\n" for line in fuzzer.differences(least) or found)
                sys.stdout.write(
                    f"--seed {seed} --only {number}, reduced:\n{pformat(least, width=120)}\n" + "".join(lines)
                )
                sys.stdout.flush()
    sys.stdout.write(f"{different} of {len(numbers)} scripts differ (seed {seed})\n")
    return 1 if different else 0
