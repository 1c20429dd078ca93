"""What a question of the CLI costs: a hook, a permission and a call of an in-process tool, from the request to its answer.

The clock runs in the stand-in (`peer.py`). Sessions of all clients are interleaved, each client in a process of its own, so that the
noise of the machine hits all of them. `python bench/round_trips.py` prints this part of `./dev bench` alone.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = {"hook": "hook", "permission": "permission question", "tool": "in-process tool call"}
CLIENT_NAMES = (
    "hackamore",
    "official",
    "hackamore-blocking",
    "hackamore-trio",
    "official-trio",
    "hackamore-threaded",
    "hackamore-observed",
)
TITLES = {
    "official": "official package, asyncio",
    "hackamore": "Hackamore, asyncio",
    "hackamore-blocking": "Hackamore, blocking",
    "hackamore-threaded": "Hackamore, asyncio, plain function",
    "official-trio": "official package, trio",
    "hackamore-trio": "Hackamore, trio",
    "hackamore-observed": "Hackamore, asyncio, with telemetry",
}
YARDSTICKS = {"hackamore-trio": "official-trio", "hackamore-observed": "hackamore"}
"""What a client is compared with, if not with the official package on asyncio; it has no blocking interface."""
JUDGED = ("hackamore", "hackamore-blocking", "hackamore-threaded", "hackamore-trio")
FASTER = {"hook": 1.0, "permission": 1.0, "tool": 3.0}
"""How many times faster than the official package an answer must be."""
WARM_UP = 20
"""How many round trips at the start of each session are not counted."""

Found = dict[tuple[str, str], list[list[float]]]
"""By client and kind: for each session the seconds of each round trip."""


def peer(folder: Path) -> Path:
    """Write the stand-in as a program; return its path."""
    path = folder / "peer"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("peer.py")}" "$@"\n')
    path.chmod(0o755)
    return path


class Steered:
    """A process that serves one client and waits while the others run."""

    def __init__(self, client: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("steered.py")), client],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def session(self, path: Path, counts: dict[str, int]) -> dict[str, list[float]]:
        """Run one session; return the seconds of all round trips, by kind."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"path": str(path), "counts": counts}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("a client broke; what it said is above")
        found: dict[str, list[float]] = json.loads(answer)
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure(folder: Path, environment: dict[str, str], rounds: int, count: int, say: Callable[[str], None]) -> Found:
    """Run `rounds` sessions of every client, each with `count` round trips of every kind."""
    path = peer(folder)
    clients = {name: Steered(name, environment) for name in CLIENT_NAMES}
    counts = dict.fromkeys(KINDS, count + WARM_UP)
    found: Found = {}
    for number in range(rounds):
        order = list(clients)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            say(f"round trips: session {number + 1} of {rounds}, {name}")
            for kind, seconds in clients[name].session(path, counts).items():
                found.setdefault((name, kind), []).append(seconds[WARM_UP:])
    for client in clients.values():
        client.close()
    return found


def percentile(seconds: list[float], share: float) -> float:
    """Return the smallest value that `share` of all values do not exceed."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def figures(sessions: list[list[float]]) -> tuple[float, float, float, float]:
    """Return the median and the 99th percentile of the best session, and those of all round trips."""
    everything = [seconds for session in sessions for seconds in session]
    return (
        min(statistics.median(session) for session in sessions),
        min(percentile(session, 0.99) for session in sessions),
        statistics.median(everything),
        percentile(everything, 0.99),
    )


def show(row: Callable[..., None], title: Callable[..., None], found: Found) -> None:
    """Print a table for each kind; `row` and `title` are those of the run's table."""
    for kind, name in KINDS.items():
        section = f"round trip of a {name}"
        title(
            f"One {name}, there and back, from a stand-in for the CLI",
            f"  {'':33}median  99 %  (all: median  99 %), us",
        )
        for client, called in TITLES.items():
            best, best_99, middle, last = figures(found[client, kind])
            shown = f"{best * 1e6:7.0f} {best_99 * 1e6:7.0f}  ({middle * 1e6:6.0f} {last * 1e6:6.0f})"
            if client.startswith("official"):
                row(section, called, shown)
                continue
            faster = figures(found[YARDSTICKS.get(client, "official"), kind])[0] / best
            judged = client in JUDGED
            row(
                section,
                called,
                shown,
                ratio=f"x{faster:.1f}" if faster >= 1.05 else f"x{faster:.2f}",
                target=f">= x{FASTER[kind]:.0f}" if judged else "",
                passed=faster >= FASTER[kind] if judged else None,
            )


def main() -> None:
    import argparse
    import tempfile

    import run

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--page", metavar="FILE", help="put the table into FILE (docs/contributing/bench.md), between its marks"
    )
    arguments = parser.parse_args()
    table = run.Table()
    facts = run.about()
    table.print(*(f"{name}: {value}" for name, value in facts.items()))
    with tempfile.TemporaryDirectory(prefix="hackamore-bench-") as name:
        found = measure(Path(name), run.isolated(Path(name)), 8, 500, run.say)
    run.say("")
    show(table.row, table.title, found)
    if arguments.page:
        run.write_page(Path(arguments.page), table.text, "python bench/round_trips.py", "round trips")


if __name__ == "__main__":
    main()
