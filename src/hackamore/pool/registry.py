"""Registries: which session a conversation is, and which program runs it now.

A registry is shared: by pools of one program (`MemoryRegistry`), or by programs, and over their restarts (`SQLiteRegistry`). Its methods
block; an async pool calls them in a worker thread. A conversation is run by one holder at a time. Its lease ends with the process of the
holder. The process of another machine or container cannot be looked at: it is gone if its heartbeat has not changed for
`lease_seconds` of an observer's clock.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import msgspec

from hackamore.errors import RegistryError
from hackamore.options.bounds import checked_timeout
from hackamore.storage.holders import runs
from hackamore.storage.leases import Sightings, sign
from hackamore.storage.sqlite import Database, StorageError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection
    from typing import TypeVar

    T = TypeVar("T")

_WANTED_SECONDS = 3.0
"""How long a refused request for a conversation counts: its program asks again more often than that."""


class Record(msgspec.Struct, frozen=True):
    """A conversation in a registry.

    Attributes:
        session_id: the session of the CLI.
        cwd: the working directory of the session.
        said: True once a prompt was sent: the CLI keeps no transcript before.
        process: the last CLI of the session, as `hackamore.storage.holders` names it; None if it is not known.
    """

    session_id: str
    cwd: str
    said: bool = False
    process: str | None = None

    def is_found(self, other: Record) -> bool:
        """Return whether another record leads to the same session and CLI."""
        return (self.session_id, self.process) == (other.session_id, other.process)


class Held(msgspec.Struct, frozen=True):
    """The answer of `Registry.acquire`.

    Attributes:
        taken: True if the caller is the holder now.
        record: the conversation; None if it is new, or was not taken.
        holder: the holder that has it, if it was not taken; None if that is not known.
    """

    taken: bool
    record: Record | None = None
    holder: str | None = None


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
        """For how long the lease of a process that cannot be looked at holds without a heartbeat."""

    def acquire(self, key: str, holder: str) -> Held:
        """Take the lease of a conversation, unless another holder has it or has waited for it longer."""

    def save(self, key: str, holder: str, record: Record) -> bool:
        """Store a conversation; return False, and store nothing, if the lease is not the holder's."""

    def release(self, key: str, holder: str) -> None:
        """Give a lease back, if the holder has it, and a request for it."""

    def beat(self, holder: str, keys: Collection[str]) -> Beat:
        """Renew the leases of a holder; `keys` are those that it believes to have."""

    def forget(self, key: str) -> None:
        """Remove a conversation; its transcript stays where the CLI keeps it."""

    def conversations(self, key: str | None = None) -> list[RegistryRow]:
        """Return all conversations that have a session, by key; with a key that one alone."""


_SCHEMA = 2
_CREATE = (
    """CREATE TABLE IF NOT EXISTS conversations (
    key TEXT PRIMARY KEY,
    session_id TEXT,
    cwd TEXT,
    said INTEGER NOT NULL DEFAULT 0,
    process TEXT,
    holder TEXT,
    wanted_by TEXT,
    wanted INTEGER
) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS held ON conversations (holder) WHERE holder IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS holders (holder TEXT PRIMARY KEY, beat INTEGER NOT NULL) WITHOUT ROWID",
)
_FORGET = "DELETE FROM holders WHERE NOT EXISTS (SELECT 1 FROM conversations c WHERE c.holder = holders.holder)"
_BUSY_SECONDS = 10.0


class SQLiteRegistry:
    """A registry in a SQLite file, which survives restarts and is shared by programs on one machine.

    Args:
        path: the file; it is created, readable by its owner only. Its folder must exist, on a local disk.
        lease_seconds: for how long a program in another container keeps its conversations without a heartbeat. The conversations of a
            program on this machine that died are free immediately.

    Attributes:
        sightings: the signs of other holders.

    Raises:
        RegistryError: the file cannot be used, or another version of Hackamore wrote it.

    Example::

        registry = SQLiteRegistry("conversations.db")
    """

    blocking: ClassVar[bool] = True

    def __init__(self, path: str | os.PathLike[str], *, lease_seconds: float = 15.0) -> None:
        seconds = checked_timeout(lease_seconds)
        if not seconds:
            raise ValueError(f"`lease_seconds` must be a positive number, got {lease_seconds!r}")
        self._use(os.fspath(path), seconds)

    def _use(self, path: str | None, seconds: float) -> None:
        self._path = path
        self.lease_seconds: float = seconds
        self.sightings: Sightings = Sightings()
        self._database = Database(path, _CREATE, _SCHEMA, _BUSY_SECONDS, migrations={})
        self._do(lambda _: None)

    def __repr__(self) -> str:
        return f"SQLiteRegistry({self._path!r})"

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return self._database.transaction(work)
        except StorageError as error:
            self.sightings.clear()
            raise RegistryError(f"The registry {self._path!r} {error}") from error.__cause__

    def acquire(self, key: str, holder: str) -> Held:
        """Take the lease of a conversation, unless another holder has it or has waited for it longer."""

        def work(connection: sqlite3.Connection) -> Held:
            connection.execute("INSERT OR IGNORE INTO conversations (key) VALUES (?)", (key,))
            session_id, cwd, said, process, owner, beat, *waiter = connection.execute(
                "SELECT session_id, cwd, said, process, c.holder, beat, wanted_by, wanted FROM conversations c "
                "LEFT JOIN holders h ON h.holder = c.holder WHERE key = ?",
                (key,),
            ).fetchone()
            waits = self._waits(key, holder, *waiter)
            taken = owner in (None, holder) or self.sightings.is_gone(owner, beat, self.lease_seconds)
            if waits or not taken:
                if not waits:
                    change = "UPDATE conversations SET wanted_by = ?, wanted = ? WHERE key = ?"
                    connection.execute(change, (holder, sign(), key))
                return Held(taken=False, holder=owner)
            connection.execute("UPDATE conversations SET holder = ?, wanted_by = NULL WHERE key = ?", (holder, key))
            connection.execute("INSERT OR REPLACE INTO holders (holder, beat) VALUES (?, ?)", (holder, sign()))
            if owner not in (None, holder):
                connection.execute(_FORGET)
            record = None if session_id is None else Record(session_id, cwd, bool(said), process)
            return Held(taken=True, record=record)

        return self._do(work)

    def _waits(self, key: str, me: str, wanted_by: str | None, wanted: int | None) -> bool:
        """Return whether another holder has requested a conversation, and still does."""
        if wanted_by in (None, me) or runs(wanted_by) is False:
            return False
        return self.sightings.silence(f"wanted {key}", (wanted_by, wanted)) < _WANTED_SECONDS

    def save(self, key: str, holder: str, record: Record) -> bool:
        """Store a conversation; return False, and store nothing, if the lease is not the holder's."""
        change = "UPDATE conversations SET session_id = ?, cwd = ?, said = ?, process = ? WHERE key = ? AND holder = ?"
        values = (record.session_id, record.cwd, record.said, record.process, key, holder)
        return self._do(lambda connection: connection.execute(change, values).rowcount) > 0

    def release(self, key: str, holder: str) -> None:
        """Give a lease back, if the holder has it, and a request for it."""

        def work(connection: sqlite3.Connection) -> None:
            change = "UPDATE conversations SET holder = nullif(holder, :me), wanted_by = nullif(wanted_by, :me) WHERE key = :key"
            connection.execute(change, {"me": holder, "key": key})
            unused = "DELETE FROM conversations WHERE key = ? AND holder IS NULL AND session_id IS NULL"
            connection.execute(unused, (key,))
            connection.execute(_FORGET)

        self._do(work)

    def beat(self, holder: str, keys: Collection[str]) -> Beat:
        """Renew the leases of a holder; `keys` are those that it believes to have."""

        def work(connection: sqlite3.Connection) -> Beat:
            connection.execute("UPDATE holders SET beat = ? WHERE holder = ?", (sign(), holder))
            mine = connection.execute("SELECT key, wanted_by, wanted FROM conversations WHERE holder = ?", (holder,))
            waited = {key: self._waits(key, holder, *waiter) for key, *waiter in mine}
            wanted = tuple(key for key, waits in waited.items() if waits)
            return Beat(wanted=wanted, lost=tuple(key for key in keys if key not in waited))

        return self._do(work)

    def forget(self, key: str) -> None:
        """Remove a conversation; its transcript stays where the CLI keeps it."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM conversations WHERE key = ?", (key,))
            connection.execute(_FORGET)

        self._do(work)

    def conversations(self, key: str | None = None) -> list[RegistryRow]:
        """Return all conversations that have a session, by key; with a key that one alone."""
        query = (
            "SELECT key, session_id, cwd, said, process, holder FROM conversations "
            "WHERE session_id IS NOT NULL AND (:key IS NULL OR key = :key) ORDER BY key"
        )
        found = self._do(lambda connection: connection.execute(query, {"key": key}).fetchall())
        return [
            RegistryRow(name, Record(session_id, cwd, bool(said), process), holder)
            for name, session_id, cwd, said, process, holder in found
        ]


class MemoryRegistry(SQLiteRegistry):
    """A registry in memory, for one program. Pools that share one never run the same conversation at the same time."""

    blocking: ClassVar[bool] = False

    def __init__(self) -> None:
        self._use(None, 3600.0)

    def __repr__(self) -> str:
        return "MemoryRegistry()"
