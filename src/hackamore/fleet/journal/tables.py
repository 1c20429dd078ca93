"""The tables of a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hackamore.fleet.states import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VERSION = 4
"""The version of the tables. A change of `TABLES` after a release raises it, and adds the way from the last one to `MIGRATIONS`."""

_COUNTS = "CREATE TABLE IF NOT EXISTS counts (state TEXT PRIMARY KEY, tasks BIGINT NOT NULL)"
MIGRATIONS: Mapping[int, Sequence[str]] = {
    2: (_COUNTS, "INSERT INTO counts SELECT state, count(*) FROM tasks GROUP BY state"),
    3: ("DROP INDEX IF EXISTS due",),
}
"""For each older version, the statements that lead to the next one. A journal older than all of them is refused."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS tasks (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        spec TEXT NOT NULL,
        state TEXT NOT NULL,
        attempt INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        losses INTEGER NOT NULL DEFAULT 0,
        resumes INTEGER NOT NULL,
        not_before DOUBLE PRECISION NOT NULL DEFAULT 0,
        holder TEXT,
        driver TEXT,
        cancel INTEGER NOT NULL DEFAULT 0,
        session_id TEXT,
        said INTEGER NOT NULL DEFAULT 0,
        feedback TEXT,
        text TEXT,
        output TEXT,
        answered INTEGER NOT NULL DEFAULT 0,
        usd BIGINT NOT NULL DEFAULT 0,
        tokens BIGINT NOT NULL DEFAULT 0,
        unknown_calls INTEGER NOT NULL DEFAULT 0,
        seconds DOUBLE PRECISION NOT NULL DEFAULT 0,
        branch TEXT,
        folder TEXT,
        cause TEXT,
        error TEXT
    )""",
    # No index has the state: each step of each attempt would write two pages of it.
    "CREATE INDEX IF NOT EXISTS holding ON tasks (holder) WHERE holder IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS driven ON tasks (driver) WHERE driver IS NOT NULL",
    # How many tasks are in each state: `counts` is called for each event.
    _COUNTS,
    "INSERT INTO counts VALUES " + ", ".join(f"('{state.word}', 0)" for state in State) + " ON CONFLICT DO NOTHING",
    # The sums of all attempts, in one row: `spent` is called often.
    "CREATE TABLE IF NOT EXISTS totals (id INTEGER PRIMARY KEY, usd BIGINT NOT NULL, tokens BIGINT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS attempts (
        task TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        holder TEXT NOT NULL,
        session_id TEXT NOT NULL,
        resumed INTEGER NOT NULL,
        prompt TEXT,
        process TEXT,
        leased DOUBLE PRECISION NOT NULL,
        begun DOUBLE PRECISION,
        ended DOUBLE PRECISION,
        usd BIGINT NOT NULL DEFAULT 0,
        tokens BIGINT NOT NULL DEFAULT 0,
        settled INTEGER NOT NULL DEFAULT 0,
        folder TEXT,
        trace TEXT,
        cause TEXT,
        error TEXT,
        PRIMARY KEY (task, attempt)
    )""",
    """CREATE TABLE IF NOT EXISTS changes (
        number INTEGER PRIMARY KEY,
        at DOUBLE PRECISION NOT NULL,
        task TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        state TEXT NOT NULL,
        cause TEXT,
        note TEXT
    )""",
    "CREATE TABLE IF NOT EXISTS holders (holder TEXT PRIMARY KEY, beat BIGINT NOT NULL)",
)
"""Statements that SQLite and Postgres both understand; in Postgres `changes.number` is counted by the journal as well."""
