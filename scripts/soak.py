"""Use the library in every way for a long time, and fail if memory, descriptors, threads or child processes grow.

One process runs random activities on asyncio, trio and threads: turns, hooks, tools, interrupts, kills, damaged frames, pools with
hibernation, on simulated CLIs in memory, light processes and the real CLI. After each round, when nothing runs, it takes a sample. A figure
grows if the median slope of all pairs of samples after warm-up exceeds its limit. Progress goes to stderr, a table to stdout. The exit
status is 1 if a figure grows or an activity fails. Example: `./dev soak --minutes 20 --seed 7`.

With `--messages N` it instead reads N messages on each shell, with and without cursors, in one turn and in turns of 1,000, and prints the
resident memory after 1,000 messages and each ten times as many. The exit status is 1 if that grows by more than the buffer of a turn.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz import cli_path


def read_messages(count: int) -> int:
    """Run `--messages`; return the exit status."""
    from tests.endurance import messages

    if count < 2_000 or count % 1_000:
        sys.stderr.write(f"--messages must be a multiple of 1,000 from 2,000 on, got {count}.\n")
        return 2
    found = []
    for case in messages.cases(count):
        sys.stderr.write(f"{case}\n")
        found.append(messages.measured_alone(case, seconds=60 + count / 1_000))
    sys.stdout.write(messages.table(found))
    return 1 if any(one.grows for one in found) else 0


def main(arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="./dev soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", metavar="N", type=float, default=10.0, help="Run for N minutes (default: 10)")
    parser.add_argument("--seed", metavar="S", help="Repeat the activities of a seed (default: a new one)")
    parser.add_argument("--warm", metavar="P", type=float, default=30, help="Percent of warm-up (default: 30)")
    parser.add_argument("--simulated", action="store_true", help="Leave the real CLI out")
    parser.add_argument("--untraced", action="store_true", help="Do not trace allocations: twice as fast")
    parser.add_argument("--messages", metavar="N", type=int, help="Read N messages on each shell, and measure memory")
    given = parser.parse_args(arguments)
    if given.messages is not None:
        return read_messages(given.messages)
    from tests.endurance.soak import Soak, report

    cli = None if given.simulated else cli_path()
    if cli is None and not given.simulated:
        return 2
    seed = given.seed or f"{time.time_ns() % 10**6}"
    soak = Soak(
        seed, cli, told=lambda line: sys.stderr.write(f"seed {seed}, {line}\n") and None, trace=not given.untraced
    )
    found = soak.run(given.minutes * 60, given.warm / 100)
    sys.stdout.write(f"{report(soak, found)}{soak.samples[-1].seconds / 60:.1f} minutes, seed {seed}\n")
    return 1 if soak.problems or any(verdict.grows for verdict in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
