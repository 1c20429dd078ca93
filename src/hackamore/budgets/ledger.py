"""The ledger of a budget: spending and reservations by key, in a SQLite database in memory or in a file that programs share.

Each method is one transaction, and holds no lock afterwards. Dollars are counted in whole billionths: sums of many small parts stay exact.
A reservation belongs to a process, and ends with it: the ledger looks whether processes of reservations still run before it counts them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from hackamore.errors import BudgetError
from hackamore.storage.holders import boot, holder_name
from hackamore.storage.leases import Sightings, sign
from hackamore.storage.sqlite import Database, StorageError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    T = TypeVar("T")

NANO = 1_000_000_000
"""Billionths of a dollar in a dollar."""
_ELSEWHERE_SECONDS = 600.0
"""How long a reservation counts without a sign of its turn, where its process cannot be looked at: it runs in another container."""
_BUSY_SECONDS = 5.0
_SCHEMA = 3
_RESERVED = """CREATE TABLE IF NOT EXISTS reserved (
    key TEXT PRIMARY KEY, usd INTEGER NOT NULL, tokens INTEGER NOT NULL, turns INTEGER NOT NULL
) WITHOUT ROWID"""
_FILL = "INSERT INTO reserved SELECT key, sum(usd), sum(tokens), count(*) FROM reservations GROUP BY key"
_CREATE = (
    """CREATE TABLE IF NOT EXISTS accounts (
        key TEXT PRIMARY KEY,
        usd INTEGER NOT NULL DEFAULT 0,
        tokens INTEGER NOT NULL DEFAULT 0,
        warned_usd INTEGER NOT NULL DEFAULT -1,
        warned_tokens INTEGER NOT NULL DEFAULT -1
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS reservations (
        turn TEXT NOT NULL,
        key TEXT NOT NULL,
        usd INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        holder TEXT NOT NULL,
        seen INTEGER NOT NULL,
        PRIMARY KEY (turn, key)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS holding ON reservations (holder, seen)",
    # The sums of the reservations by key: a check of a limit costs the same with any number of open turns.
    _RESERVED,
    """CREATE TRIGGER IF NOT EXISTS reserve AFTER INSERT ON reservations BEGIN
        INSERT INTO reserved VALUES (new.key, new.usd, new.tokens, 1) ON CONFLICT (key) DO UPDATE SET
            usd = usd + excluded.usd, tokens = tokens + excluded.tokens, turns = turns + 1;
    END""",
    """CREATE TRIGGER IF NOT EXISTS release AFTER DELETE ON reservations BEGIN
        UPDATE reserved SET usd = usd - old.usd, tokens = tokens - old.tokens, turns = turns - 1 WHERE key = old.key;
        DELETE FROM reserved WHERE key = old.key AND turns = 0;
    END""",
    # When an observer first saw the present sign of a holder, by the monotonic clock since the boot.
    """CREATE TABLE IF NOT EXISTS sightings (
        holder TEXT PRIMARY KEY, seen INTEGER NOT NULL, boot TEXT NOT NULL, since REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY CHECK (id = 1), usd REAL NOT NULL, tokens REAL NOT NULL)",
)
# From holder to holder by the index: it does not look at each reservation, as GROUP BY would.
_HOLDERS = """
    WITH RECURSIVE holding (holder) AS (
        SELECT min(holder) FROM reservations
        UNION ALL
        SELECT (SELECT min(r.holder) FROM reservations r WHERE r.holder > holding.holder) FROM holding WHERE holder IS NOT NULL
    )
    SELECT holder, (SELECT max(seen) FROM reservations r WHERE r.holder = holding.holder) FROM holding WHERE holder IS NOT NULL"""
_WEIGHT = 0.2
"""The weight of the newest model calls in the mean."""


class Bounds(NamedTuple):
    """The limits of a key, or the points at which it warns, in billionths of a dollar and tokens; None for no limit."""

    usd: int | None
    tokens: int | None


class Row(NamedTuple):
    """The numbers of a key, in billionths of a dollar and tokens.

    Attributes:
        key: the key; empty for the whole budget.
        turns: the number of those turns.
    """

    key: str
    usd: int
    tokens: int
    reserved_usd: int = 0
    reserved_tokens: int = 0
    turns: int = 0


class Ledger:
    """Spending and reservations.

    Args:
        path: the file; None for a ledger in memory.

    Raises:
        BudgetError: the file cannot be used, or a newer version of Hackamore wrote it.
    """

    def __init__(self, path: str | None) -> None:
        self._database = Database(path, _CREATE, _SCHEMA, _BUSY_SECONDS, migrations={2: (_RESERVED, _FILL)})
        self._pid = os.getpid()
        self._holder = holder_name()
        self._use(lambda _: None)

    @property
    def path(self) -> str | None:
        """The file; None for a ledger in memory."""
        return self._database.path

    # -- the file ------------------------------------------------------------------------------------------------------

    def _use(self, work: Callable[[sqlite3.Connection], T], *, reads: bool = False) -> T:
        if self._pid != os.getpid():
            if self.path is None:
                raise BudgetError(
                    "This budget was made before the process was forked, and is kept in memory: it would not see what other processes "
                    "spend. Give processes that share a budget a file: `Budget(path=...)`."
                )
            self._pid = os.getpid()
            self._holder = holder_name()
        try:
            return (self._database.look if reads else self._database.transaction)(work)
        except StorageError as error:
            raise BudgetError(f"The budget file {self.path or ':memory:'!r} {error}") from error.__cause__

    def close(self) -> None:
        """Close the file; the next call opens it again. A ledger in memory stays."""
        if self.path is not None:
            self._database.close()

    # -- turns ---------------------------------------------------------------------------------------------------------

    def reserve(
        self, turn: str, limits: Sequence[tuple[str, Bounds]], fixed: int | None, first: tuple[int, int]
    ) -> Row | None:
        """Reserve one model call for a turn, if no limit is reached.

        Args:
            fixed: the price of a model call; None for the mean of those that were made.
            first: price and tokens of a model call while none was made.

        Returns:
            None, or the row of the key that has no room: nothing was reserved then.
        """

        def work(connection: sqlite3.Connection) -> Row | None:
            self._release_dead(connection)
            for key, limit in limits:
                row = _row(connection, key)
                if _full(row.usd + row.reserved_usd, limit.usd) or _full(
                    row.tokens + row.reserved_tokens, limit.tokens
                ):
                    return row
            mean = connection.execute("SELECT usd, tokens FROM calls").fetchone() or first
            usd, tokens = int(mean[0]) if fixed is None else fixed, int(mean[1])
            # Not INSERT OR REPLACE: no trigger sees what it deletes.
            pairs = [(turn, key) for key, _ in limits]
            connection.executemany("DELETE FROM reservations WHERE turn = ? AND key = ?", pairs)
            connection.executemany(
                "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?)",
                [(*pair, usd, tokens, self._holder, sign()) for pair in pairs],
            )
            return None

        return self._use(work)

    def release(self, turn: str) -> None:
        """Give the reservation of a turn back, if it has one."""
        self._use(lambda connection: connection.execute("DELETE FROM reservations WHERE turn = ?", (turn,)))

    def charge(
        self,
        turns: Sequence[str],
        keys: Sequence[tuple[str, Bounds]],
        usd: int,
        tokens: int,
        call: tuple[float, float] | None = None,
    ) -> tuple[list[Row], list[tuple[str, str]]]:
        """Add spending.

        Args:
            turns: the turns that spent it: their reservations were seen now.
            keys: the keys, with the points at which they warn.
            usd: billionths of a dollar; negative for a correction.
            tokens: tokens; negative for a correction.
            call: the mean price and tokens of the latest model calls, if they are known.

        Returns:
            The rows of the keys, without reservations, and the key and unit of each warning that is due.
        """

        def work(connection: sqlite3.Connection) -> tuple[list[Row], list[tuple[str, str]]]:
            connection.executemany("INSERT OR IGNORE INTO accounts (key) VALUES (?)", [(key,) for key, _ in keys])
            connection.executemany(
                "UPDATE accounts SET usd = max(usd + ?, 0), tokens = max(tokens + ?, 0) WHERE key = ?",
                [(usd, tokens, key) for key, _ in keys],
            )
            connection.executemany(
                "UPDATE reservations SET seen = ? WHERE turn = ?", [(sign(), turn) for turn in turns]
            )
            if call is not None:
                connection.execute(
                    "INSERT INTO calls VALUES (1, :usd, :tokens) ON CONFLICT (id) DO UPDATE SET "
                    "usd = usd + :weight * (excluded.usd - usd), tokens = tokens + :weight * (excluded.tokens - tokens)",
                    {"usd": call[0], "tokens": call[1], "weight": _WEIGHT},
                )
            rows, due = [], []
            for key, point in keys:
                spent = connection.execute(
                    "SELECT usd, tokens, warned_usd, warned_tokens FROM accounts WHERE key = ?", (key,)
                ).fetchone()
                rows.append(Row(key, spent[0], spent[1]))
                for unit, value, warned, at in (
                    ("usd", spent[0], spent[2], point.usd),
                    ("tokens", spent[1], spent[3], point.tokens),
                ):
                    if at is not None and value >= at > warned:
                        due.append((key, unit))
                        connection.execute(f"UPDATE accounts SET warned_{unit} = ? WHERE key = ?", (at, key))  # noqa: S608
            return rows, due

        return self._use(work)

    # -- looking -------------------------------------------------------------------------------------------------------

    def rows(self, keys: Sequence[str] | None = None) -> list[Row]:
        """Return the rows of keys; None for all that anything was spent or reserved for."""

        def work(connection: sqlite3.Connection) -> list[Row]:
            self._release_dead(connection)
            found = keys
            if found is None:
                every = "SELECT key FROM accounts UNION SELECT key FROM reserved ORDER BY key"
                found = [key for (key,) in connection.execute(every)]
            return [_row(connection, key) for key in found]

        return self._use(work)

    def spent(self, keys: Sequence[str]) -> list[Row]:
        """Return the rows of keys without reservations; no other program has to wait for it."""
        text = "SELECT usd, tokens FROM accounts WHERE key = ?"

        def work(connection: sqlite3.Connection) -> list[Row]:
            return [Row(key, *(connection.execute(text, (key,)).fetchone() or (0, 0))) for key in keys]

        return self._use(work, reads=True)

    def reset(self, key: str | None) -> None:
        """Forget what was spent for a key, or for all with None. Reservations stay."""

        def work(connection: sqlite3.Connection) -> None:
            if key is None:
                connection.execute("DELETE FROM accounts")
            else:
                connection.execute("DELETE FROM accounts WHERE key = ?", (key,))

        self._use(work)

    def _release_dead(self, connection: sqlite3.Connection) -> None:
        sightings = _KeptSightings(connection)
        for holder, seen in connection.execute(_HOLDERS).fetchall():
            if holder != self._holder and sightings.is_gone(holder, seen, _ELSEWHERE_SECONDS):
                connection.execute("DELETE FROM reservations WHERE holder = ?", (holder,))


class _KeptSightings(Sightings):
    """Sightings in the file: programs that share a budget may all be short."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def silence(self, name: str, sign: object) -> float:
        now = self.clock()
        self._connection.execute(
            "DELETE FROM sightings WHERE NOT EXISTS (SELECT 1 FROM reservations r WHERE r.holder = sightings.holder)"
        )
        self._connection.execute(
            "INSERT INTO sightings VALUES (:holder, :seen, :boot, :now) ON CONFLICT (holder) DO UPDATE SET seen = :seen, boot = :boot, "
            "since = :now WHERE seen <> :seen OR boot <> :boot OR since > :now",
            {"holder": name, "seen": sign, "boot": boot(), "now": now},
        )
        [(since,)] = self._connection.execute("SELECT since FROM sightings WHERE holder = ?", (name,))
        return now - float(since)


def _row(connection: sqlite3.Connection, key: str) -> Row:
    spent = connection.execute("SELECT usd, tokens FROM accounts WHERE key = ?", (key,)).fetchone() or (0, 0)
    open_turns = "SELECT usd, tokens, turns FROM reserved WHERE key = ?"
    return Row(key, *spent, *(connection.execute(open_turns, (key,)).fetchone() or ()))


def _full(used: int, limit: int | None) -> bool:
    return limit is not None and used >= limit
