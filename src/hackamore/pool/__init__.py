"""The registries of `SessionPool`, its events and its numbers. The pool itself is `bridle.SessionPool`, or `bridle.sync.SessionPool`.

Decisions stand in `core`, as tables in `states` and `differences`; the shells in `bridle.aio.pool` and `bridle.sync.pool` wait and start.
"""

from __future__ import annotations

from bridle.pool.events import (
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
from bridle.pool.keeping import PooledConversation
from bridle.pool.registry import Beat, Held, MemoryRegistry, Record, Registry, RegistryRow, SQLiteRegistry
from bridle.pool.stats import PoolStats, WaitTimes

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
