"""The items of `pool.events()`."""

from __future__ import annotations

from typing import Literal

import msgspec

from hackamore.errors import HackamoreError, StreamWarning  # noqa: TC001 - `help()` reads the annotations of these classes


class PoolEvent(msgspec.Struct, frozen=True, eq=False):
    """The base of the items of `pool.events()`.

    Attributes:
        key: the key of the conversation; None for a process that belongs to none.
        session_id: the session of the process.
    """

    key: str | None
    session_id: str | None


class ProcessStarted(PoolEvent, frozen=True, eq=False):
    """A CLI is ready; `resumed` is True if it continues a conversation."""

    resumed: bool


class ProcessStartFailed(PoolEvent, frozen=True, eq=False):
    """A CLI could not be started; `error` is the reason."""

    error: HackamoreError


class ProcessDied(PoolEvent, frozen=True, eq=False):
    """A CLI ended without a request of the pool; the next holder of its conversation gets it resumed."""


class CallerQueued(PoolEvent, frozen=True, eq=False):
    """A caller waits, or has moved up in the queue; `session_id` is None.

    Attributes:
        place: its place in the queue; 1 for the caller that has waited longest. A caller whose conversation becomes free may get it before.
    """

    place: int


class SessionCheckedOut(PoolEvent, frozen=True, eq=False):
    """A caller got a session.

    Attributes:
        source: `ready` if the process was there already, `started` or `resumed` if the caller waited for it.
        seconds: how long the caller waited.
    """

    source: Literal["ready", "started", "resumed"]
    seconds: float


class SessionReturned(PoolEvent, frozen=True, eq=False):
    """A holder gave a session back."""


class ConversationHibernated(PoolEvent, frozen=True, eq=False):
    """An idle conversation gave its process up.

    Attributes:
        reason: `idle` after `idle` seconds, `limit` for `max_live`, `memory` for `memory_limit`, `settings` if its process cannot be
            used by the next holder, `wanted` if another program waits for it, `forgotten` for `pool.forget`, `drain` at the end of the
            pool, `approval` if a call waits for the answer of a person.
    """

    reason: Literal["idle", "limit", "memory", "settings", "wanted", "forgotten", "drain", "approval"]


class PoolWarned(PoolEvent, frozen=True, eq=False):
    """The pool works and needs attention; the logger `hackamore` has the same text.

    Attributes:
        warning: its `code` is `POOL_TOO_SMALL`: half of the last 20 callers waited for a place. It comes once, and has no `key`. Or
            `NOT_RESUMED`: the conversation `key` begins again, empty.
    """

    warning: StreamWarning
