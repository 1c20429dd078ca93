"""Questions to a journal that only tests and benchmarks ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hackamore.fleet.journal import Journal

__all__ = ["next_due", "open_tasks"]


def open_tasks(journal: Journal) -> dict[str, float]:
    """Return the tasks that are not over, with the time before which they do not start, in seconds since 1970."""
    over = "('succeeded', 'failed', 'cancelled')"
    return dict(
        journal.store.look(
            lambda cursor: cursor.rows(f"SELECT id, not_before FROM tasks WHERE state NOT IN {over} ORDER BY number")
        )
    )


def next_due(journal: Journal) -> float | None:
    """Return when the next waiting task may start, in seconds since 1970; None if none waits."""
    sql = "SELECT min(not_before) FROM tasks WHERE state = 'waiting'"
    [(due,)] = journal.store.look(lambda cursor: cursor.rows(sql))
    return None if due is None else float(due)
