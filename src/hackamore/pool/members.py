"""The parts of a pool: its limits, conversations, processes and callers, and the jobs that its core gives to the shell."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hackamore.pool.registry import Record
from hackamore.pool.states import HELD, LEASE, QUIET, Lease, LeaseTrigger, State
from hackamore.runtime.flags import Flag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.pool.differences import Split

POLL_SECONDS = (0.05, 0.5)
"""The first and the longest pause before a conversation that another program runs is requested again."""

_OBSTACLES = {
    State.STARTING: "starting",
    State.RESERVED: "registry",  # its conversation is not stored yet
    State.HIBERNATING: "leaving",
    State.STOPPING: "leaving",
}


class PoolLimits(NamedTuple):
    """The limits of a pool; `SessionPool` describes them."""

    warm: int
    max_live: int
    max_starting: int
    memory: int | None
    idle: float
    beat: float
    lease: float
    refill: float


@dataclass(eq=False, repr=False, slots=True)
class Conversation:
    """A conversation that this pool runs, wants to run, or has just run."""

    key: str
    number: int
    record: Record | None = None  # its session; None while it is new, or unknown
    stored: Record | None = None  # the record in the registry
    lease: Lease = Lease.NONE
    slot: Slot | None = None
    waiters: OrderedDict[Waiter, None] = field(default_factory=OrderedDict)
    wanted: bool = False  # another program waits for it
    holder: str | None = None  # of the lease, while this pool waits for it; None if not known
    held_at: float = 0.0
    retry_at: float = 0.0  # of the next request for the lease
    pause: float = POLL_SECONDS[0]
    stored_flag: Flag = field(default_factory=Flag)  # woken when the record was stored, or could not be

    @property
    def first(self) -> Waiter | None:
        """The caller that gets it next."""
        return next(iter(self.waiters), None)

    @property
    def left(self) -> bool:
        """Whether its lease is to be given back."""
        return self.slot is None and (self.wanted or not self.waiters)

    @property
    def pending(self) -> bool:
        """Whether the registry is to be called for it, now or at `retry_at`."""
        if self.lease is Lease.HELD:
            return self.record != self.stored or self.left
        return self.lease is Lease.NONE and bool(self.waiters)

    @property
    def working(self) -> bool:
        """Whether a call of the registry runs for it."""
        return self.lease not in QUIET

    def move(self, trigger: LeaseTrigger) -> None:
        self.lease = LEASE[self.lease, trigger]


@dataclass(eq=False, repr=False, slots=True)
class Slot:
    number: int
    session_id: str
    cold: Mapping[str, Any]  # the differences that it was started with
    state: State = State.STARTING
    conv: Conversation | None = None
    applied: dict[str, Any] = field(
        default_factory=dict
    )  # the options that were changed in it since, with their values
    cwd: str = ""  # the working directory that it was started in, once it is ready
    process: str | None = None  # its name, as `hackamore.storage.holders` makes it
    said: bool = False  # a prompt was sent
    spoiled: bool = False  # no other holder may get it
    resumed: bool = False  # it continues a session
    asks: bool = False  # its last turn ended because a call waits for the answer of a person
    caller: Waiter | None = None  # for whom it is started; None for a warm one
    ready_at: float = 0.0
    used_at: float = 0.0  # of its last return
    stop_at: float = math.inf  # when it is stopped if it is not quiet before
    interrupted: bool = False  # at its return, and what was interrupted is not over
    memory: int | None = None  # its resident bytes, once they were measured
    life: Any = None  # the object of the shell

    @property
    def key(self) -> str | None:
        return self.conv.key if self.conv is not None else None

    @property
    def waited_for(self) -> bool:
        """True while a caller waits for its conversation."""
        return self.conv is not None and bool(self.conv.waiters)

    def note(self) -> None:
        """Give its conversation the record of its session."""
        if self.conv is not None and self.conv.slot is self:
            self.conv.record = Record(self.session_id, self.cwd, self.said, self.process)

    def __repr__(self) -> str:
        return f"<Slot {self.number} {self.state.name} {self.key!r}>"


@dataclass(eq=False, repr=False, slots=True)
class Waiter:
    """A caller that wants a session."""

    conv: Conversation | None  # None for any unused session
    differences: Split
    asked_at: float
    turn: int  # its place among all callers; less than that of any caller that comes later
    place: int = 0  # its place in the queue, from 1, as it was last reported
    crowded: str = ""  # the limit because of which there was no place for a process for it
    since: float = math.inf  # the first round of `PoolCore` after `crowded` was noted
    flag: Flag = field(default_factory=Flag)  # set when `slot` or `error` is
    slot: Slot | None = None  # once it is the caller's
    source: str | None = None  # as in `SessionCheckedOut.source`
    error: Exception | None = None
    started: Slot | None = None

    @property
    def obstacle(self) -> str:
        """The reason why it still waits; `PoolTimeoutError.cause` lists them."""
        slot = self.started if self.conv is None else self.conv.slot
        if slot is not None:
            return "leaving" if slot.interrupted else _OBSTACLES.get(slot.state, "held")
        if self.conv is None or self.conv.lease in HELD:
            return "full"
        return "registry" if self.conv.working and self.conv.holder is None else "elsewhere"


class Start(NamedTuple):
    """Start a process; report `started` or `start_failed`.

    With `resume` the session `session_id` is continued, else it begins with that id. If the CLI says that the other one would be right,
    that is tried. `process` is the CLI that had the session before: it must have ended first.
    """

    slot: Slot
    session_id: str
    resume: bool
    cwd: str | None
    process: str | None


class Finish(NamedTuple):
    """Wait for a quiet process to exit by itself; report `gone`."""

    slot: Slot


class Stop(NamedTuple):
    """Stop a process; report `gone`."""

    slot: Slot


class Acquire(NamedTuple):
    """Take the lease of a conversation; report `acquired` or `registry_failed`."""

    conv: Conversation


class Save(NamedTuple):
    """Store a conversation; report `saved` or `registry_failed`."""

    conv: Conversation
    record: Record


class Release(NamedTuple):
    """Store a conversation, if there is a record, and give its lease back; report `released`."""

    conv: Conversation
    record: Record | None


Job: TypeAlias = Start | Finish | Stop | Acquire | Save | Release
