"""A program that opens, reads and closes a journal all the time, and types `hackamore fleet status`: `storm_reader JOURNAL`.

It ends with its input, and prints how often it did so, as JSON. A result that vanishes, or is another one than before, is an error.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from typing import TYPE_CHECKING

from hackamore.fleet.journal import open_journal
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hackamore.fleet import FleetRow

__all__ = ["Looking"]

LOOKS = 25
"""Looks for each `hackamore fleet status`, which takes as long as many of them."""


class Looking:
    """The results that were seen."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[str | None, int, int]] = {}

    def compare(self, rows: Iterable[FleetRow]) -> None:
        """Compare tasks that succeeded with those of before."""
        found = {row.task: (row.text, row.attempt, row.tokens) for row in rows}
        changed = {task: (row, found.get(task)) for task, row in self.seen.items() if found.get(task) != row}
        assert not changed, f"results were lost: {changed}"
        self.seen = found


def main() -> None:
    """Look until the input ends."""
    address = sys.argv[1]
    looking = Looking()
    counts = {"opened": 0, "typed": 0}
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        journal = open_journal(address, create=False)
        looking.compare(journal.rows({"succeeded"}))
        journal.close()
        if counts["opened"] % LOOKS == 0:
            command = [sys.executable, "-m", "hackamore", "fleet", "status", "--journal", address, "--json"]
            done = subprocess.run(command, capture_output=True, check=True, timeout=patience(60))
            assert json.loads(done.stdout)["states"]["succeeded"] >= len(looking.seen), done.stdout
            counts["typed"] += 1
        counts["opened"] += 1
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
