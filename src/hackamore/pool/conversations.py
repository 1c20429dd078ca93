"""The conversations that a pool runs, wants to run, or has just run, and the calls of the registry that are due for them."""

from __future__ import annotations

from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING

from hackamore.pool.members import POLL_SECONDS, Acquire, Conversation, Release, Save
from hackamore.pool.rows import Row
from hackamore.pool.states import Lease, LeaseTrigger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore.pool.members import Job


class Conversations(dict[str, Conversation]):
    """Conversations, by key.

    Attributes:
        changed: those that are looked at next.
        retries: those that the registry is to be called for, in the order of the times.
        asleep: the keys of those that this pool has hibernated.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[Conversation] = set()
        self.retries: Row[Conversation] = Row()
        self.asleep: set[str] = set()

    def known(self, key: str, turns: Iterator[int]) -> Conversation:
        conv = self.get(key)
        if conv is None:
            conv = self[key] = Conversation(key, next(turns))
        return conv

    def due(self, now: float) -> None:
        """Look at those whose time has come."""
        self.changed.update(takewhile(lambda conv: now >= conv.retry_at, self.retries))

    def plan(self, conv: Conversation) -> None:
        self.retries.put(conv, (conv.retry_at, conv.number) if conv.pending else None)

    def jobs(self, now: float) -> Iterator[Job]:
        """Yield the calls of the registry: requested, stored and released leases; one for each conversation at a time."""
        changed, self.changed = self.changed, set()
        for conv in sorted(changed, key=attrgetter("number")):
            if self.get(conv.key) is conv and (job := self.next_job(conv, now)):
                yield job
            self.plan(conv)

    def next_job(self, conv: Conversation, now: float) -> Job | None:
        """Return the call of the registry that is due for a conversation; forget one without a caller, process or lease."""
        if conv.lease is Lease.NONE:
            if not conv.waiters:
                if conv.pause > POLL_SECONDS[0]:  # it was refused: other programs leave it to this one for a while
                    conv.pause = POLL_SECONDS[0]
                    conv.move(LeaseTrigger.CLAIM)
                    return Release(conv, None)
                if conv.slot is None:
                    del self[conv.key]
            elif conv.slot is None and now >= conv.retry_at:
                conv.move(LeaseTrigger.ASK)
                return Acquire(conv)
        elif conv.lease is Lease.HELD and now >= conv.retry_at:
            if conv.left:
                conv.move(LeaseTrigger.RELEASE)
                if conv.record is not None:
                    self.asleep.add(conv.key)
                return Release(conv, conv.record)
            if conv.record is not None and conv.record != conv.stored:
                conv.move(LeaseTrigger.SAVE)
                return Save(conv, conv.record)
        return None
