"""Compare generated scripts on the simulated CLI and on the real one: `./dev fuzz --fidelity 40 --seed 7`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from pprint import pformat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from install_cli import read_pin

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


def main(arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__)
    parser.add_argument(
        "--fidelity", metavar="N", type=int, default=40, help="Compare N generated scripts (default: 40)"
    )
    parser.add_argument("--seed", metavar="S", help="Repeat the scripts of a seed (default: a new one)")
    parser.add_argument("--only", metavar="I", type=int, help="Compare the script with this number alone")
    parser.add_argument("--tries", metavar="T", type=int, default=12, help="Reduce a script in T tries (default: 12)")
    given = parser.parse_args(arguments)
    seed = given.seed or f"{time.time_ns() % 10**6}"
    cli = os.environ.get("BRIDLE_TEST_CLI") or f".dev/claude/{read_pin()['version']}/claude"
    if not os.access(cli, os.X_OK):
        sys.stderr.write(f"The real CLI is not installed at {cli}: run ./dev setup.\n")
        return 2
    numbers = range(given.fidelity) if given.only is None else [given.only]
    different, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bridle-fuzz-", ignore_cleanup_errors=True) as folder:
        fuzzer = Fuzzer(str(Path(cli).resolve()), Path(folder))
        for number in numbers:
            plan = generate(f"{seed}/{number}")
            found = fuzzer.differences(plan)
            took = time.monotonic() - began
            state = "differs" if found else "same"
            sys.stderr.write(f"script {number} of {given.fidelity}, seed {seed}, {took:.0f} s: {state}\n")
            if found:
                different += 1
                least = fuzzer.reduced(plan, given.tries)
                lines = (f"    {line}\n" for line in fuzzer.differences(least) or found)
                sys.stdout.write(
                    f"--seed {seed} --only {number}, reduced:\n{pformat(least, width=120)}\n" + "".join(lines)
                )
                sys.stdout.flush()
    sys.stdout.write(f"{different} of {len(numbers)} scripts differ (seed {seed})\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
