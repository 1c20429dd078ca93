"""Run all storms large: programs, servers, CLIs and hosts are killed and stopped at random moments; nothing may be lost or done twice.

A program has two objects on each file that it shares, and its wall clock steps where a test can do that. A storm is a group of tests, whose
sizes are in `tests/support/sizes.py`. Each storm is a pytest of its own, one after another, with the seed that the command prints. A test
that cannot run is a failure. All storms take hours. Progress goes to stdout, and the exit status is 1 if a storm fails.
Example: `./dev storm files pool --seed 7`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from random import SystemRandom

PROJECT = Path(__file__).resolve().parent.parent
STORMS = {
    "files": (
        "random calls of programs with several objects on each file; programs fork, stop and are killed, and clocks step",
        ("storage/test_same_file.py",),
    ),
    "programs": (
        "programs with two objects each on one budget or store are killed",
        ("storage/test_storms.py",),
    ),
    "stores": (
        "servers, writers and hosts of session stores are killed",
        ("transcripts/stores/test_kills.py", "transcripts/stores/test_killed_hosts.py"),
    ),
    "pool": (
        "random holders; CLIs and programs with a pool on one registry are killed and stopped, and clocks step",
        (
            "pool/test_isolation.py",
            "pool/test_random.py",
            "pool/test_holding.py",
            "pool/test_registry.py::test_a_step_of_the_wall_clock_frees_nothing",
            "pool/test_core.py::test_random_interleavings",
        ),
    ),
    "fleet": (
        "drivers with two objects on one journal, agents and workspaces are killed, drivers are stopped, and calls come at random",
        (
            "fleet/test_storm.py",
            "fleet/test_stopped_drivers.py",
            "fleet/test_workspace_kills.py",
            "fleet/test_journal_random.py",
        ),
    ),
    "cluster": (
        "workers, schedulers and drivers of a fleet on Dask are killed",
        ("fleet/test_lost_cluster.py::test_a_storm",),
    ),
    "cli": (
        "real CLIs of a fleet, of a pool and of queries are killed or stopped",
        (
            "fleet/test_real_cli.py::test_a_storm",
            "fleet/test_real_cli.py::test_a_storm_over_worktrees",
            "pool/test_real_cli.py",
            "real_cli/test_abandonment.py",
        ),
    ),
    "links": (
        "links to other machines are cut while the CLI works there",
        ("transports/remote/test_cut_links.py", "transports/remote/test_fleet.py"),
    ),
    "sessions": (
        "sessions start, end and lose bytes at random moments",
        ("session/test_random_stops.py", "testing/faults/test_random.py", "protocol/test_connection_random.py"),
    ),
}


def told(line: str) -> None:
    """Print a line immediately: a pytest prints behind it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(name: str, seed: int, kills: int | None) -> bool:
    """Run one storm; return whether all of its tests passed."""
    variables = {"HACKAMORE_CI": "1", "HACKAMORE_TEST_STORM": "1", "HACKAMORE_TEST_SEED": str(seed)}
    if kills is not None:
        variables["HACKAMORE_TEST_KILLS"] = str(kills)
    paths = [f"tests/{path}" for path in STORMS[name][1]]
    command = [sys.executable, "-m", "pytest", "-v", "--no-header", *paths]
    return subprocess.run(command, cwd=PROJECT, env={**os.environ, **variables}, check=False).returncode == 0


def main(arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="./dev storm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", metavar="STORM", nargs="*", help=f"one of {', '.join(STORMS)} (default: all)")
    parser.add_argument("--seed", metavar="N", type=int, help="Repeat the choices of a seed (default: a new one)")
    parser.add_argument("--kills", metavar="N", type=int, help="Kills of each storm (default: those of sizes.py)")
    parser.add_argument("--list", action="store_true", help="Print the storms, and run none")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in STORMS]:
        parser.error(f"there is no storm {unknown[0]!r}; there are {', '.join(STORMS)}")
    if given.list:
        for name, (what, _) in STORMS.items():
            told(f"{name:9} {what}")
        return 0
    names: list[str] = given.names or list(STORMS)
    seed = given.seed or SystemRandom().randrange(1, 1_000_000)
    failed: list[str] = []
    for number, name in enumerate(names, 1):
        told(f"storm {number} of {len(names)}: {name}, seed {seed}: {STORMS[name][0]}")
        began = time.monotonic()
        if not run(name, seed, given.kills):
            failed.append(name)
        minutes = (time.monotonic() - began) / 60
        end = "failed" if name in failed else "passed"
        told(f"storm {number} of {len(names)}: {name} {end} after {minutes:.1f} minutes")
    if failed:
        told(f"failed: {', '.join(failed)}; repeat with ./dev storm {' '.join(failed)} --seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
