"""The registries of `SessionPool`, its events and its numbers. The pool itself is `hackamore.SessionPool`, or `hackamore.sync.SessionPool`.

Decisions stand in `core`, as tables in `states` and `differences`; the shells in `aio.pool` and `sync.pool` wait and start.
"""

from __future__ import annotations

from hackamore.pool.events import (
    CallerQueued,
    ConversationHibernated,
    PoolEvent,
    PoolWarned,
    ProcessDied,
    ProcessStarted,
    ProcessStartFailed,
    SessionCheckedOut,
    SessionReturned,
)
from hackamore.pool.keeping import PooledConversation
from hackamore.pool.registry import Beat, Held, MemoryRegistry, Record, Registry, RegistryRow, SQLiteRegistry
from hackamore.pool.stats import PoolStats, WaitTimes

__all__ = [
    "Beat",
    "CallerQueued",
    "ConversationHibernated",
    "Held",
    "MemoryRegistry",
    "PoolEvent",
    "PoolStats",
    "PoolWarned",
    "PooledConversation",
    "ProcessDied",
    "ProcessStartFailed",
    "ProcessStarted",
    "Record",
    "Registry",
    "RegistryRow",
    "SQLiteRegistry",
    "SessionCheckedOut",
    "SessionReturned",
    "WaitTimes",
]
