"""Try what should not happen, at random: damaged frames, deaths in the middle of a Bash call, hostile texts, and scripts on both CLIs.

Exactly one of --frames, --deaths, --redaction and --fidelity is given. Each prints its seed; the same seed gives the same run. A failure
is printed with the command that repeats it. The exit status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import fuzz_fidelity  # noqa: E402 - the path is set first
from install_cli import read_pin  # noqa: E402


def cli_path() -> str | None:
    """Return the path of the real CLI, None if it is not installed."""
    cli = os.environ.get("HACKAMORE_TEST_CLI") or f".dev/claude/{read_pin()['version']}/claude"
    if os.access(cli, os.X_OK):
        return str(Path(cli).resolve())
    sys.stderr.write(f"The real CLI is not installed at {cli}: run ./dev setup.\n")
    return None


def fuzz_frames(given: argparse.Namespace, seed: str) -> int:
    """Run `--frames`; return the exit status."""
    from tests.endurance import frames

    def told(figures: frames.Figures, seconds: float) -> None:
        rate = figures.frames / seconds
        sys.stderr.write(
            f"{figures.frames:,} frames, {sum(figures.sessions.values())} sessions, {seconds:.0f} s, {rate:.0f} frames/s, "
            f"{len(figures.failures)} failures, seed {seed}\n"
        )

    began = time.monotonic()
    if given.only is not None:
        figures = frames.run_cases(seed, range(given.only, given.only + 1))
    else:
        figures = frames.run(seed, given.frames, workers=given.workers, minutes=given.minutes, told=told)
    for failure in figures.failures:
        sys.stdout.write(f"--frames 1 --seed {seed} --only {failure.case}: {failure.target}\n{failure.error}")
        sys.stdout.write("".join(f"    {line!r}\n" for line in failure.lines))
    sessions = ", ".join(f"{count} on {name}" for name, count in sorted(figures.sessions.items()))
    sys.stdout.write(
        f"{figures.frames:,} frames for decoder, connection and core each, and {figures.session_frames:,} frames in whole sessions "
        f"({sessions or 'none'}); {time.monotonic() - began:.0f} s; {len(figures.failures)} failures (seed {seed})\n"
    )
    return 1 if figures.failures else 0


def fuzz_deaths(given: argparse.Namespace, seed: str) -> int:
    """Run `--deaths`; return the exit status."""
    from tests.endurance import deaths

    cli = cli_path()
    if cli is None:
        return 2
    began = time.monotonic()
    numbers = range(given.deaths) if given.only is None else [given.only]

    def told(done: int, death: deaths.Death) -> None:
        sys.stderr.write(f"death {done} of {len(numbers)}, seed {seed}, {time.monotonic() - began:.0f} s: {death}\n")

    found = deaths.run_all(cli, seed, numbers, workers=given.workers, minutes=given.minutes, told=told)
    bad = [death for death in found if death.problems]
    for death in bad:
        sys.stdout.write(f"--deaths 1 --seed {seed} --only {death.number}: {death}\n")
    sys.stdout.write(deaths.table(found))
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"{len(found)} deaths, {len(bad)} with survivors or another problem; {seconds:.0f} s (seed {seed})\n"
    )
    return 1 if bad else 0


def fuzz_redaction(given: argparse.Namespace, seed: str) -> int:
    """Run `--redaction`; return the exit status."""
    from tests.endurance import redaction

    began = time.monotonic()
    count = -(-given.redaction // redaction.LINES_OF_A_CASE)
    cases = range(count) if given.only is None else range(given.only, given.only + 1)
    figures = redaction.run(seed, cases, workers=given.workers)
    for failure in figures.failures:
        sys.stdout.write(f"--redaction 1 --seed {seed}: {failure}\n")
    sys.stdout.write(
        f"{figures.lines:,} lines, {figures.files:,} traces, cassettes and pages; {time.monotonic() - began:.0f} s; "
        f"{len(figures.failures)} failures (seed {seed})\n"
    )
    return 1 if figures.failures else 0


def main(arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="./dev fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--frames", metavar="N", type=int, help="Feed N damaged frames to all readers")
    kinds.add_argument("--deaths", metavar="N", type=int, help="Kill host or CLI N times, look for survivors")
    kinds.add_argument("--redaction", metavar="N", type=int, help="Look for secrets in N redacted lines")
    kinds.add_argument(
        "--fidelity", metavar="N", type=int, default=40, help="Compare N scripts on both CLIs (default: 40)"
    )
    parser.add_argument("--seed", metavar="S", help="Repeat the run of a seed (default: a new one)")
    parser.add_argument("--only", metavar="I", type=int, help="Run the case with this number alone")
    parser.add_argument("--minutes", metavar="M", type=float, help="Stop after M minutes (frames, deaths)")
    parser.add_argument("--workers", metavar="W", type=int, default=2, help="Run W at once (default: 2)")
    parser.add_argument("--tries", metavar="T", type=int, default=12, help="Reduce a script in T tries (default: 12)")
    given = parser.parse_args(arguments)
    seed = given.seed or f"{time.time_ns() % 10**6}"
    if given.frames is not None:
        return fuzz_frames(given, seed)
    if given.redaction is not None:
        return fuzz_redaction(given, seed)
    if given.deaths is not None:
        return fuzz_deaths(given, seed)
    cli = cli_path()
    return 2 if cli is None else fuzz_fidelity.run(cli, given.fidelity, seed, only=given.only, tries=given.tries)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
