"""Registries: which session a conversation is, and which program runs it now.

A registry is shared: by pools of one program (`MemoryRegistry`), or by programs, and over their restarts (`SQLiteRegistry`). Its methods
block; an async pool calls them in a worker thread. A conversation is run by one holder at a time, under a lease that ends when the holder
sends no heartbeat for `lease_seconds`.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import msgspec

from bridle.errors import RegistryError
from bridle.options.bounds import checked_timeout
from bridle.storage.sqlite import Database, StorageError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection

__all__ = ["Beat", "Held", "MemoryRegistry", "Record", "Registry", "RegistryRow", "SQLiteRegistry"]

_WANTED_SECONDS = 3.0
"""How long a refused request for a conversation counts: its program asks again more often than that."""


class Record(msgspec.Struct, frozen=True):
    """A conversation in a registry.

    Attributes:
        session_id: the session of the CLI.
        cwd: the working directory of the session.
        said: True once a prompt was sent: the CLI keeps no transcript before.
    """

    session_id: str
    cwd: str
    said: bool = False


class Held(msgspec.Struct, frozen=True):
    """The answer of `Registry.acquire`.

    Attributes:
        taken: True if the caller is the holder now.
        record: the conversation; None if it is new, or was not taken.
    """

    taken: bool
    record: Record | None = None


class Beat(msgspec.Struct, frozen=True):
    """The answer of `Registry.beat`.

    Attributes:
        wanted: keys that another holder waits for.
        lost: keys whose lease ended: another holder may run them.
    """

    wanted: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class RegistryRow(msgspec.Struct, frozen=True):
    """A conversation in the list of a registry.

    Attributes:
        key: its key.
        record: its session.
        holder: the holder of its lease; None without one. It may be gone.
    """

    key: str
    record: Record
    holder: str | None = None


@runtime_checkable
class Registry(Protocol):
    """A store of conversations and leases. Write one to keep them in another database.

    Methods may be called from any thread. Each is atomic, also between programs, and raises a `RegistryError` if the store fails.
    """

    @property
    def blocking(self) -> bool:
        """True if methods may wait, for a file or a network: an async pool then calls them in a worker thread."""

    @property
    def lease_seconds(self) -> float:
        """For how long a lease holds without a heartbeat."""

    def acquire(self, key: str, holder: str) -> Held:
        """Take the lease of a conversation, unless another holder has it or has waited for it longer."""

    def save(self, key: str, holder: str, record: Record) -> bool:
        """Store a conversation; return False, and store nothing, if the lease is not the holder's."""

    def release(self, key: str, holder: str) -> None:
        """Give a lease back, if the holder has it."""

    def beat(self, holder: str, keys: Collection[str]) -> Beat:
        """Renew the leases of a holder; `keys` are those that it believes to have."""

    def forget(self, key: str) -> None:
        """Remove a conversation; its transcript stays where the CLI keeps it."""

    def conversations(self, key: str | None = None) -> list[RegistryRow]:
        """Return all conversations that have a session, by key; with a key that one alone."""


class _Row:
    __slots__ = ("holder", "record", "wanted_at", "wanted_by")

    def __init__(self) -> None:
        self.holder: str | None = None
        self.record: Record | None = None
        self.wanted_by: str | None = None
        self.wanted_at = 0.0


class MemoryRegistry:
    """A registry in memory, for one program. Pools that share one never run the same conversation at the same time.

    Attributes:
        clock: returns the time in seconds.
    """

    blocking: ClassVar[bool] = False
    lease_seconds: ClassVar[float] = 3600.0

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._lock = threading.Lock()
        self.clock: Callable[[], float] = time.monotonic

    def acquire(self, key: str, holder: str) -> Held:
        """Take the lease of a conversation, unless another holder has it or has waited for it longer."""
        now = self.clock()
        with self._lock:
            row = self._rows.setdefault(key, _Row())
            waited = row.wanted_by not in (None, holder) and now - row.wanted_at < _WANTED_SECONDS
            if row.holder not in (None, holder) or waited:
                if not waited:
                    row.wanted_by, row.wanted_at = holder, now
                return Held(taken=False)
            row.holder, row.wanted_by = holder, None
            return Held(taken=True, record=row.record)

    def save(self, key: str, holder: str, record: Record) -> bool:
        """Store a conversation; return False, and store nothing, if the lease is not the holder's."""
        with self._lock:
            row = self._rows.get(key)
            if row is None or row.holder != holder:
                return False
            row.record = record
            return True

    def release(self, key: str, holder: str) -> None:
        """Give a lease back, if the holder has it."""
        with self._lock:
            row = self._rows.get(key)
            if row is not None and row.holder == holder:
                row.holder = None
                if row.record is None and row.wanted_by is None:
                    del self._rows[key]

    def beat(self, holder: str, keys: Collection[str]) -> Beat:
        """Return the keys that another pool waits for, and those that were forgotten."""
        now = self.clock()
        with self._lock:
            rows = {key: self._rows.get(key) for key in keys}
            return Beat(
                wanted=tuple(
                    key
                    for key, row in rows.items()
                    if row is not None and row.wanted_by is not None and now - row.wanted_at < _WANTED_SECONDS
                ),
                lost=tuple(key for key, row in rows.items() if row is None or row.holder != holder),
            )

    def forget(self, key: str) -> None:
        """Remove a conversation; its transcript stays where the CLI keeps it."""
        with self._lock:
            self._rows.pop(key, None)

    def conversations(self, key: str | None = None) -> list[RegistryRow]:
        """Return all conversations that have a session, by key; with a key that one alone."""
        with self._lock:
            rows = sorted(self._rows.items()) if key is None else [(key, self._rows.get(key, _Row()))]
            return [RegistryRow(name, row.record, row.holder) for name, row in rows if row.record is not None]


_SCHEMA = 1
_CREATE = (
    """CREATE TABLE IF NOT EXISTS conversations (
    key TEXT PRIMARY KEY,
    session_id TEXT,
    cwd TEXT,
    said INTEGER NOT NULL DEFAULT 0,
    holder TEXT,
    beat REAL NOT NULL DEFAULT 0,
    wanted_by TEXT,
    wanted_at REAL NOT NULL DEFAULT 0
) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS held ON conversations (holder) WHERE holder IS NOT NULL",
)
_BUSY_SECONDS = 10.0


class SQLiteRegistry:
    """A registry in a SQLite file, which survives restarts and is shared by programs on one machine.

    Args:
        path: the file; it is created, readable by its owner only. Its folder must exist, on a local disk.
        lease_seconds: for how long the lease of a program that died keeps others from its conversations.

    Raises:
        RegistryError: the file cannot be used, or a newer version of Bridle wrote it.

    Example::

        registry = SQLiteRegistry("conversations.db")
    """

    blocking: ClassVar[bool] = True

    def __init__(self, path: str | os.PathLike[str], *, lease_seconds: float = 15.0) -> None:
        self._path = os.fspath(path)
        seconds = checked_timeout(lease_seconds)
        if not seconds:
            raise ValueError(f"`lease_seconds` must be a positive number, got {lease_seconds!r}")
        self.lease_seconds = seconds
        self._database = Database(self._path, _CREATE, _SCHEMA, _BUSY_SECONDS)
        self._do()

    def __repr__(self) -> str:
        return f"SQLiteRegistry({self._path!r})"

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()

    def _do(self, *statements: tuple[str, tuple[object, ...]]) -> list[list[tuple[object, ...]]]:
        """Execute statements in one transaction; return their rows."""

        def work(connection: sqlite3.Connection) -> list[list[tuple[object, ...]]]:
            return [connection.execute(text, values).fetchall() for text, values in statements]

        try:
            return self._database.transaction(work)
        except StorageError as error:
            raise RegistryError(f"The registry {self._path!r} {error}") from error.__cause__

    def acquire(self, key: str, holder: str) -> Held:
        """Take the lease of a conversation, unless another holder has it or has waited for it longer."""
        now = time.time()
        free = "(holder IS NULL OR holder = :me OR beat < :dead OR beat > :now + 60)"
        turn = "(wanted_by IS NULL OR wanted_by = :me OR wanted_at < :stale OR wanted_at > :now + 60)"
        values = {
            "key": key,
            "me": holder,
            "now": now,
            "dead": now - self.lease_seconds,
            "stale": now - _WANTED_SECONDS,
        }
        rows = self._named(
            "INSERT OR IGNORE INTO conversations (key) VALUES (:key)",
            f"UPDATE conversations SET holder = :me, beat = :now, wanted_by = NULL WHERE key = :key AND {free} AND {turn}",  # noqa: S608
            f"UPDATE conversations SET wanted_by = :me, wanted_at = :now WHERE key = :key AND holder <> :me AND {turn}",  # noqa: S608
            "SELECT holder, session_id, cwd, said FROM conversations WHERE key = :key",
            values=values,
        )
        owner, session_id, cwd, said = rows[-1][0]
        if owner != holder:
            return Held(taken=False)
        known = session_id is not None
        return Held(taken=True, record=Record(str(session_id), str(cwd), bool(said)) if known else None)

    def _named(self, *statements: str, values: dict[str, object]) -> list[list[tuple[object, ...]]]:
        return self._do(*((text, values) for text in statements))  # type: ignore[arg-type]

    def save(self, key: str, holder: str, record: Record) -> bool:
        """Store a conversation; return False, and store nothing, if the lease is not the holder's."""
        change = "UPDATE conversations SET session_id = ?, cwd = ?, said = ? WHERE key = ? AND holder = ? RETURNING key"
        return bool(self._do((change, (record.session_id, record.cwd, record.said, key, holder)))[0])

    def release(self, key: str, holder: str) -> None:
        """Give a lease back, if the holder has it."""
        self._do(
            ("UPDATE conversations SET holder = NULL WHERE key = ? AND holder = ?", (key, holder)),
            ("DELETE FROM conversations WHERE key = ? AND holder IS NULL AND session_id IS NULL", (key,)),
        )

    def beat(self, holder: str, keys: Collection[str]) -> Beat:
        """Renew the leases of a holder; `keys` are those that it believes to have."""
        now = time.time()
        rows = self._do(
            ("UPDATE conversations SET beat = ? WHERE holder = ?", (now, holder)),
            ("SELECT key, wanted_by, wanted_at FROM conversations WHERE holder = ?", (holder,)),
        )[1]
        mine = {str(key) for key, _, _ in rows}
        recent = now - _WANTED_SECONDS
        wanted = tuple(
            str(key) for key, by, at in rows if by not in (None, holder) and isinstance(at, float) and at > recent
        )
        return Beat(wanted=wanted, lost=tuple(key for key in keys if key not in mine))

    def forget(self, key: str) -> None:
        """Remove a conversation; its transcript stays where the CLI keeps it."""
        self._do(("DELETE FROM conversations WHERE key = ?", (key,)))

    def conversations(self, key: str | None = None) -> list[RegistryRow]:
        """Return all conversations that have a session, by key; with a key that one alone."""
        columns = "SELECT key, session_id, cwd, said, holder FROM conversations WHERE session_id IS NOT NULL"
        query = f"{columns} ORDER BY key" if key is None else f"{columns} AND key = ?"
        return [
            RegistryRow(
                str(name), Record(str(session_id), str(cwd), bool(said)), None if holder is None else str(holder)
            )
            for name, session_id, cwd, said, holder in self._do((query, () if key is None else (key,)))[0]
        ]
