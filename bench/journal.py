"""What the journal of a fleet costs: writes per second, the life of a task, and looks into journals of many tasks.

    python bench/journal.py FILE-OR-URL [--tasks 10000 100000] [--lives 300] [--synchronous NORMAL]

A journal with 90 % finished tasks is the one of a fleet near its end. The address must be free: the benchmark fills it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from typing import TYPE_CHECKING

from hackamore.fleet.journal import Journal, Lease, open_journal
from hackamore.fleet.states import Trigger
from hackamore.fleet.task import Spec
from hackamore.storage.holders import holder_name

if TYPE_CHECKING:
    from collections.abc import Callable

PROMPT = "Fix the finding that is described here, run the tests, and say what was changed. " * 5
ANSWER = "The finding is fixed, and the tests pass. " * 20
ME = holder_name()


def seconds(call: Callable[[], object], times: int = 5) -> float:
    """Return the median of several calls."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return sorted(took)[times // 2]


def live(journal: Journal, lease: Lease) -> None:
    """The writes of a task after its lease: begun, folder, process, one reply, answer, end."""
    journal.begin(lease, ME, trace=None)
    journal.note(lease, ME, folder="/home/agents/work")
    journal.note(lease, ME, said=True, process="linux|1|2")
    journal.note(lease, ME, usd=1_000_000, tokens=1_000)
    journal.answer(lease, ME, text=ANSWER, output=None, usd=1_000_000, tokens=1_000)
    journal.finish(lease, ME, Trigger.ACCEPTED)


def fill(journal: Journal, first: int, count: int) -> None:
    """Add tasks, and finish nine of ten, in few transactions."""
    for start in range(first, first + count, 1_000):
        names = [f"task-{number}" for number in range(start, min(start + 1_000, first + count))]
        journal.add([(name, Spec(prompt=PROMPT)) for name in names])
        most = len(names) * 9 // 10
        journal.lease(ME, most, set(names), time.time())
        now = time.time()

        def finish(cursor: object, now: float = now) -> None:
            for statement in (
                "UPDATE attempts SET begun = :now, ended = :now, usd = 2000000, tokens = 2000, settled = 1 WHERE ended IS NULL",
                "UPDATE tasks SET state = 'succeeded', holder = NULL, text = :text, usd = 2000000, tokens = 2000 WHERE state = 'leased'",
                "UPDATE counts SET tasks = (SELECT count(*) FROM tasks WHERE tasks.state = counts.state)",
            ):
                cursor.rows(statement, **({"now": now} if ":now" in statement else {"text": ANSWER}))  # type: ignore[attr-defined]

        journal.store.transaction(finish)


def size(journal: Journal) -> int:
    """Return the bytes of a journal."""
    if "://" in journal.store.address:
        [(found,)] = journal.store.look(
            lambda cursor: cursor.rows(
                "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
                "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
            )
        )
        return int(found)
    journal.store.look(lambda cursor: cursor.rows("PRAGMA wal_checkpoint(TRUNCATE)"))
    return os.path.getsize(journal.store.address)


def tidy(journal: Journal) -> None:
    """Do at once what the server does in the background during a run of hours: `fill` takes seconds."""
    if "://" in journal.store.address:
        for table in ("tasks", "attempts", "changes"):
            journal.store.look(lambda cursor, table=table: cursor.rows(f"VACUUM ANALYZE {table}"))  # type: ignore[misc]


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--tasks", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--lives", type=int, default=300)
    parser.add_argument("--synchronous", default="FULL", help="of SQLite")
    given = parser.parse_args()
    journal = open_journal(given.address)
    names = [f"life-{number}" for number in range(given.lives)]
    journal.add([(name, Spec(prompt=PROMPT)) for name in names])
    before = size(journal)
    if "://" not in given.address:
        journal.store.look(lambda cursor: cursor.rows(f"PRAGMA synchronous = {given.synchronous}"))
    began = time.perf_counter()
    for _ in names:
        [lease] = journal.lease(ME, 1, names, time.time())
        live(journal, lease)
    took = time.perf_counter() - began
    print(f"{given.lives * 7 / took:10.0f} transactions/s in the life of a task: lease, begin, 3 notes, answer, end")
    print(f"{given.lives / took:10.1f} tasks/s")
    print(f"{(size(journal) - before) / given.lives:10.0f} bytes of a task, beside its prompt")
    full = 0
    for count in given.tasks:
        began = time.perf_counter()
        fill(journal, full, count - full)
        took = time.perf_counter() - began
        tidy(journal)
        print(
            f"\n{count} tasks, {count // 10} of them open; added in {took:.1f} s; {size(journal) / count:.0f} bytes each"
        )
        full = count
        known = {row.task for row in journal.rows({"queued", "leased", "running", "verifying", "waiting"})}

        def lease_and_return(known: set[str] = known) -> None:
            for lease in journal.lease(ME, 1, known, time.time()):
                journal.finish(lease, ME, Trigger.GIVEN_BACK)

        calls: dict[str, Callable[[], object]] = {
            "lease and give back": lease_and_return,
            "add one": lambda: journal.add([(f"more-{time.time()}", Spec(prompt=PROMPT))]),
            "counts": journal.counts,
            "spent": journal.spent,
            "reclaim": lambda: journal.reclaim(ME),
            "held": lambda: journal.held(ME),
            "changes": lambda: journal.changes(journal.last_change() - 10),
            "last_change": journal.last_change,
            "one row": lambda: list(journal.rows(task="task-500")),
            "session_spending": lambda: journal.session_spending("task-500", "x", 2),
            "cancel one": lambda: journal.cancel(["task-500"]),
        }
        for name, call in calls.items():
            print(f"{seconds(call) * 1000:10.2f} ms  {name}")


if __name__ == "__main__":
    main()
