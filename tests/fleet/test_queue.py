"""The tasks of a run that wait, and what a lease of one costs in a journal with many others."""

from __future__ import annotations

import time
from contextlib import closing
from math import inf
from typing import TYPE_CHECKING

from hackamore.fleet.journal import open_journal
from hackamore.fleet.queue import TaskQueue
from hackamore.fleet.states import Trigger
from hackamore.fleet.task import Spec
from hackamore.storage.holders import holder_name
from tests.support.connections import opened, steps

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

__all__ = ["opened"]

ME, OTHER = holder_name(), holder_name()
FOREIGN = 500


def due(queue: TaskQueue, now: float) -> list[str]:
    """Return the tasks that may be due; the queue has them again afterwards."""
    taken: list[str] = []
    found = list(queue.take(now, taken))
    assert taken == found
    for task in found:
        queue.put(task)
    return found


def test_tasks_keep_their_places() -> None:
    queue = TaskQueue()
    for task in "abcde":
        queue.put(task)
        queue.put(task)
    queue.put("a", 20.0)
    queue.put("c", 10.0)
    queue.put("d", inf)
    assert due(queue, 9.9) == ["b", "e"]
    assert queue.next_due() == 10.0
    assert due(queue, 10.0) == ["b", "c", "e"]
    queue.put("d")
    queue.put("a", 30.0)  # later than it was
    assert due(queue, 29.0) == ["b", "c", "d", "e"]
    queue.put("a", inf)
    assert queue.next_due() is None
    queue.put("a")
    assert due(queue, 29.0) == ["a", "b", "c", "d", "e"]


def test_tasks_come_in_the_order_in_which_they_were_put_not_by_name() -> None:
    queue = TaskQueue()
    for task in ("beta", "alpha", "gamma"):
        queue.put(task)
    assert due(queue, 0.0) == ["beta", "alpha", "gamma"]


def test_only_the_tasks_that_are_looked_at_leave_the_queue() -> None:
    queue = TaskQueue()
    for task in "abc":
        queue.put(task)
    taken: list[str] = []
    assert next(queue.take(0.0, taken)) == "a"
    assert taken == ["a"]
    assert due(queue, 0.0) == ["b", "c"]


def test_a_lease_costs_the_same_with_any_number_of_foreign_tasks(
    tmp_path: Path, opened: list[sqlite3.Connection]
) -> None:
    own = ["held", "over", "waits", "mine", "next"]

    def cost(foreign: int) -> int:
        with closing(open_journal(tmp_path / f"{foreign}.journal")) as journal:
            journal.add([(name, Spec(prompt="Work")) for name in (*map(str, range(foreign)), *own)])
            journal.lease(OTHER, 1, ["held"], time.time())
            journal.cancel(["over"])
            [waits] = journal.lease(OTHER, 1, ["waits"], time.time())
            journal.finish(waits, OTHER, Trigger.POSTPONED, not_before=4e9)

            def lease() -> None:
                later: dict[str, float] = {}
                [found] = journal.lease(ME, 1, own, time.time(), later)
                assert found.task == "mine"
                assert later == {"held": inf, "over": inf, "waits": 4e9}

            return steps(opened[-1], lease)

    assert cost(FOREIGN) < cost(0) * 1.5


def test_the_progress_costs_the_same_with_any_number_of_tasks(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    with closing(open_journal(tmp_path / "fleet.journal")) as journal:

        def look() -> None:
            journal.counts()
            journal.spent()

        few = steps(opened[0], look)
        journal.add([(str(number), Spec(prompt="Work")) for number in range(FOREIGN)])
        assert journal.counts()["queued"] == FOREIGN
        assert steps(opened[0], look) < few * 1.5 + 2
