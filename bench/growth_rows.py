"""What one unit of work costs beside more and more of something: each function returns seconds for a unit, beside `count` others.

python bench/growth_rows.py NAME COUNT...
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from typing import TYPE_CHECKING

from bridle.fleet.journal import open_journal
from bridle.fleet.states import Happening
from bridle.fleet.task import Spec
from bridle.storage.holders import holder_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.fleet.journal import Journal

ME = holder_name()


def median(call: Callable[[], object], times: int = 21) -> float:
    """Return the median of the seconds of some calls, by the clock of the process: others may be busy."""
    took = []
    for _ in range(times):
        began = time.process_time()
        call()
        took.append(time.process_time() - began)
    return sorted(took)[times // 2]


def _filled(folder: str, names: list[str]) -> Journal:
    journal = open_journal(f"{folder}/fleet.journal")
    journal.store.look(lambda cursor: cursor.rows("PRAGMA synchronous = OFF"))
    journal.add([(name, Spec(prompt="Fix the finding.")) for name in names])
    return journal


def lease(count: int) -> float:
    """A lease of one task and its end, with `count` tasks of other fleets in the journal."""
    with tempfile.TemporaryDirectory() as folder:
        journal = _filled(folder, [*map(str, range(count)), *(own := [f"own-{number}" for number in range(100)])])

        def one() -> None:
            [found] = journal.lease(ME, 1, own, time.time())
            journal.finish(found, ME, Happening.GIVEN_BACK)

        with closing(journal):
            return median(one)


def progress(count: int) -> float:
    """What `run.progress()` asks the journal of a fleet, with `count` tasks."""
    with tempfile.TemporaryDirectory() as folder, closing(_filled(folder, [*map(str, range(count))])) as journal:
        return median(lambda: (journal.counts(), journal.spent()))


ROWS = {function.__name__: function for function in (lease, progress)}


def main() -> None:
    """Print a line for each count."""
    for count in sys.argv[2:]:
        print(f"{sys.argv[1]:12} {count:>7} {ROWS[sys.argv[1]](int(count)) * 1000:10.3f} ms")


if __name__ == "__main__":
    main()
