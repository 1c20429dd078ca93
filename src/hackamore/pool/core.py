"""The core of a pool: which process starts, serves, hibernates and stops next. It never waits, and time is passed in.

A shell calls `ask`, `leave`, `returned` and the other reports, takes jobs with `take`, carries them out, and reports their outcomes. All
calls come from one place at a time: the thread of the event loop, or under a lock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import count, islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from hackamore.errors import ConversationInUseError, PoolClosedError, PoolTimeoutError, StreamWarning
from hackamore.options.retry import Uniform, back_off
from hackamore.pool.differences import Split, changes
from hackamore.pool.events import (
    CallerQueued,
    ConversationHibernated,
    PoolWarned,
    ProcessDied,
    ProcessStarted,
    ProcessStartFailed,
    SessionCheckedOut,
    SessionReturned,
)
from hackamore.pool.registry import Record
from hackamore.pool.rows import Row
from hackamore.pool.states import HELD, LEASE, LIVE, QUIET, SLOT, Lease, LeaseTrigger, State, Trigger
from hackamore.pool.stats import Meter, PoolStats
from hackamore.runtime.flags import Flag
from hackamore.storage.holders import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hackamore.errors import HackamoreError
    from hackamore.options.options import Options
    from hackamore.pool.events import PoolEvent
    from hackamore.pool.keeping import ConversationState
    from hackamore.pool.registry import Beat, Held

AFFINITY_SECONDS = 10.0
"""For how long a conversation that was returned keeps its process as long as another one can make room: its user may be typing."""
BACK_OFF_SECONDS = (0.5, 30.0)
"""The first and the longest pause after failed starts; it doubles in between."""
CROWD = 20
"""The number of check-outs that are looked at for the warning that a pool is too small."""
INTERRUPT_SECONDS = 10.0
"""How long a process whose turns were interrupted at its return may take to become quiet, before it is stopped."""
POLL_SECONDS = (0.05, 0.5)
"""The first and the longest pause before a conversation that another program runs is requested again."""
PROCESS_BYTES = 200 * 2**20
"""The expected size of a process that was not measured yet."""
REFILL_SECONDS = 0.5
"""Time between the check-out of a warm process and the start of the next one: the first turn of a CLI costs about 0.4 s of processor
time, and a start at the same moment takes a core from it."""

Reason: TypeAlias = Literal["idle", "limit", "memory", "settings", "wanted", "forgotten", "drain"]


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
    caller: Waiter | None = None  # for whom it is started; None for a warm one
    ready_at: float = 0.0
    used_at: float = 0.0  # of its last return
    stop_at: float = math.inf  # when it is stopped if it is not quiet before
    memory: int | None = None  # its resident bytes, once they were measured
    life: Any = None  # the object of the shell

    @property
    def key(self) -> str | None:
        return self.conv.key if self.conv is not None else None

    @property
    def waited_for(self) -> bool:
        """True while a caller waits for its conversation."""
        return self.conv is not None and bool(self.conv.waiters)

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

_OBSTACLES = {
    State.STARTING: "starting",
    State.RESERVED: "registry",  # its conversation is not stored yet
    State.HIBERNATING: "leaving",
    State.STOPPING: "leaving",
}

_HELD = (State.BUSY, State.LOST)

_ORDER: dict[State, Callable[[Slot], tuple[Any, ...]]] = {
    State.WARM: lambda slot: (slot.number,),
    State.IDLE: lambda slot: (slot.waited_for, slot.used_at, slot.number),
    State.SETTLING: lambda slot: (slot.stop_at, slot.number),
}
"""The order of the processes of a state: the one that is used or ended first comes first."""

_NO_DIFFERENCES: Mapping[str, Any] = {}


class PoolCore:
    """All decisions of a pool; `uniform` spreads the pauses after failed starts."""

    def __init__(self, base: Options, limits: PoolLimits, new_id: Callable[[], str], uniform: Uniform = max) -> None:
        self.base = base
        self.limits = limits
        self.slots: dict[int, Slot] = {}  # all processes, by number
        self.meter: Meter = Meter()
        self.emptied: Flag = Flag()  # set once the pool is closed and nothing of it is left
        self.warmed: Flag = Flag()  # woken when the warm processes may be ready
        self.closing: bool = False
        self._counts: dict[State, int] = dict.fromkeys(State, 0)
        self._new_id = new_id
        self._uniform = uniform
        self._queue: OrderedDict[Waiter, None] = OrderedDict()
        self._turns = count(1)
        self._turns_before = count(0, -1)
        self._reordered = False  # since places were last reported
        # The callers that need a place for a process: those that any new one suits, and the others.
        self._for_any: Row[Waiter] = Row()
        self._for_own: Row[Waiter] = Row()
        self._round = self._crowded_round = 0
        self._crowded_by = ""
        self._rows: dict[State, Row[Slot]] = {state: Row() for state in _ORDER}
        self._coming = 0  # processes that will be warm
        self._live = self._sized = self._unsized = 0
        self._bytes = self._leaving_bytes = 0
        self._conversations: dict[str, Conversation] = {}
        self._changed: set[Conversation] = set()
        self._retries: Row[Conversation] = Row()
        self._asleep: set[str] = set()
        self._jobs: deque[Job] = deque()
        self._events: deque[PoolEvent] = deque()
        self._numbers = 0
        self._failures = 0
        self._start_at = 0.0  # no warm process is started before
        self._spare_at = 0.0  # none that replaces one in use is started before, unless a caller waits for it
        self._taken_at = 0.0
        self._crowd: deque[bool] = deque(maxlen=CROWD)
        self._warned = False
        self._beaten_at = 0.0

    # -- the calls of users --------------------------------------------------------------------------------------------

    def ask(self, key: str | None, differences: Split, now: float) -> Waiter:
        """Queue a caller for a session; raise `PoolClosedError` if the pool is closed."""
        if self.closing:
            raise PoolClosedError(started=True)
        waiter = Waiter(self._known(key) if key is not None else None, differences, now, next(self._turns))
        self._enqueue(waiter)
        return waiter

    def _known(self, key: str) -> Conversation:
        conv = self._conversations.get(key)
        if conv is None:
            conv = self._conversations[key] = Conversation(key, next(self._turns))
        return conv

    def _enqueue(self, waiter: Waiter, *, last: bool = True) -> None:
        conv = waiter.conv
        for queue in (self._queue,) if conv is None else (self._queue, conv.waiters):
            queue[waiter] = None
            queue.move_to_end(waiter, last)
        if conv is None:
            self._line_up(waiter)
        else:
            self._touch(conv)

    def _touch(self, conv: Conversation) -> None:
        """Bring up to date what depends on a conversation that has changed; the rest follows with the next `take`."""
        self._changed.add(conv)
        if conv.slot is not None:
            self._shelve(conv.slot)
        for waiter in islice(conv.waiters, 2):  # one that came back is before one that was the first
            self._line_up(waiter)

    def _shelve(self, slot: Slot) -> None:
        for state, row in self._rows.items():
            row.put(slot, _ORDER[state](slot) if slot.state is state else None)

    def _line_up(self, waiter: Waiter) -> None:
        conv, own = waiter.conv, bool(waiter.differences.cold)
        waits = waiter in self._queue and waiter.started is None
        if conv is not None:
            own = own or conv.record is not None
            waits &= conv.first is waiter and conv.lease in HELD and conv.slot is None and not conv.wanted
        self._for_own.put(waiter, (waiter.turn,) if waits and own else None)
        self._for_any.put(waiter, (waiter.turn,) if waits and not own else None)
        if not waits:
            self._note_rounds(waiter, math.inf)
        elif waiter.since == math.inf:
            waiter.since = self._round + 1

    def _note_rounds(self, waiter: Waiter, since: float) -> None:
        """Record whether there was no place for a caller in a round that counts for it; those from `since` on count next."""
        if waiter.since <= self._crowded_round:
            waiter.crowded = self._crowded_by
        waiter.since = since

    def leave(self, waiter: Waiter) -> None:
        """Remove a caller from the queue: it was cancelled, or its timeout expired."""
        self._dequeue(waiter)
        if waiter.started is not None:
            waiter.started.caller = None
            waiter.started = None

    def timed_out(self, waiter: Waiter, seconds: float) -> PoolTimeoutError:
        """Remove a caller from the queue; return its error."""
        cause, conv = self._obstacle(waiter), waiter.conv
        elsewhere = conv is not None and cause == "elsewhere" and conv.holder
        error = PoolTimeoutError(
            seconds,
            live=self.live,
            busy=self._counts[State.BUSY],
            waiting=len(self._queue),
            max_live=self.limits.max_live,
            starting=self._counts[State.STARTING],
            leaving=self._leaving,
            cause=cause,
            key=conv.key if conv is not None else None,
            holder=describe(elsewhere) if elsewhere else None,
        )
        self.leave(waiter)
        self.meter.timeouts += 1
        return error

    def _obstacle(self, waiter: Waiter) -> str:
        """Return the reason why a caller still waits; `PoolTimeoutError.cause` lists them."""
        conv = waiter.conv
        slot = waiter.started if conv is None else conv.slot
        if slot is not None:
            return _OBSTACLES.get(slot.state, "held")
        if conv is None or conv.lease in HELD:
            return "full"
        return "registry" if conv.working and conv.holder is None else "elsewhere"

    def again(self, waiter: Waiter) -> None:
        """Queue a caller again, as the first one: it got a process that was dead."""
        waiter.slot, waiter.flag = None, Flag()
        if self.closing:
            self._refuse(waiter, PoolClosedError(started=True))
            return
        waiter.turn, self._reordered = next(self._turns_before), True
        if waiter.conv is not None:
            waiter.conv = self._conversations.setdefault(waiter.conv.key, waiter.conv)
        self._enqueue(waiter, last=False)

    def claim(self, key: str) -> Conversation | Flag:
        """Keep a conversation from all callers, until `acquired` or `released` ends that. A flag is to be waited for before the next try.

        Raises:
            PoolClosedError: the pool is closed.
            ConversationInUseError: it has a holder, or callers that wait.
        """
        if self.closing:
            raise PoolClosedError(started=True)
        conv = self._known(key)
        if conv.waiters or (conv.slot is not None and conv.slot.state in _HELD):
            raise ConversationInUseError(key)
        if conv.slot is not None and conv.slot.state is State.IDLE:
            self._hibernate(conv.slot, "forgotten")
        if conv.slot is not None or conv.lease is not Lease.NONE:
            return conv.stored_flag
        conv.move(LeaseTrigger.CLAIM)
        self._asleep.discard(key)
        return conv

    @property
    def standing(self) -> dict[str, tuple[Record, ConversationState]]:
        """The conversations that have a process here, by key."""
        return {
            key: (conv.record, "held" if conv.slot.state in _HELD else "live")
            for key, conv in self._conversations.items()
            if conv.record is not None and conv.slot is not None
        }

    def _dequeue(self, waiter: Waiter) -> None:
        if waiter in self._queue:
            del self._queue[waiter]
            self._reordered = True
        self._line_up(waiter)
        if waiter.conv is not None and waiter in waiter.conv.waiters:
            del waiter.conv.waiters[waiter]
            self._release_if_unwanted(waiter.conv)
            self._touch(waiter.conv)

    def _release_if_unwanted(self, conv: Conversation) -> None:
        """End the reservation of a process whose last caller is gone."""
        if conv.slot is not None and conv.slot.state is State.RESERVED and not conv.waiters:
            self._move(conv.slot, Trigger.LEFT)

    def _refuse(self, waiter: Waiter, error: Exception) -> None:
        self._dequeue(waiter)
        waiter.error = error
        waiter.flag.set()

    def unused(self, slot: Slot, now: float, *, quiet: bool) -> None:
        """Return a session to the pool that its caller did not use."""
        if slot.conv is None and slot.state is State.BUSY and not slot.cold and not self.closing:
            self._move(slot, Trigger.UNUSED)
        else:
            self.returned(slot, now, quiet=quiet)

    def returned(
        self,
        slot: Slot,
        now: float,
        *,
        quiet: bool,
        session_id: str | None = None,
        said: bool = False,
        applied: Mapping[str, Any] = _NO_DIFFERENCES,
        spoiled: bool = False,
        interrupted: bool = False,
    ) -> None:
        """Take a session back from its holder.

        Args:
            quiet: True if no turn, background task or callback is open.
            session_id: the session, if messages named it.
            said: True if the holder sent a prompt.
            applied: the options that the holder changed, with their values.
            spoiled: True if no other holder may get the process.
            interrupted: True if its open turns were interrupted: it has `INTERRUPT_SECONDS` to become quiet.
        """
        slot.used_at = now
        slot.stop_at = now + INTERRUPT_SECONDS if interrupted else math.inf
        slot.said = slot.said or said
        slot.session_id = session_id or slot.session_id
        slot.applied.update(applied)
        slot.spoiled = slot.spoiled or spoiled
        self._move(slot, Trigger.RETURNED_QUIET if quiet else Trigger.RETURNED_OPEN)
        self._events.append(SessionReturned(slot.key, slot.session_id))
        conv = slot.conv
        if conv is None:
            if slot.state in (State.IDLE, State.SETTLING):
                self._stop(slot)
        else:
            self._note(slot, conv)
            if slot.state is State.IDLE:
                self._became_idle(slot)
        self._drop_if_gone(slot)

    def _note(self, slot: Slot, conv: Conversation) -> None:
        if conv.slot is slot:
            conv.record = Record(slot.session_id, slot.cwd, slot.said, slot.process)

    # -- reports about processes ---------------------------------------------------------------------------------------

    def started(self, slot: Slot, now: float, *, cwd: str, resumed: bool, process: str | None = None) -> None:
        slot.ready_at = slot.used_at = now
        slot.cwd, slot.resumed, slot.said, slot.process = cwd, resumed, resumed, process
        slot.caller, caller = None, slot.caller
        if caller is not None:
            caller.started = None
        closing = slot.state is State.STOPPING
        self._move(slot, Trigger.READY if slot.conv is None else Trigger.READY_FOR_KEY)
        if closing:
            return
        self._events.append(ProcessStarted(slot.key, slot.session_id, resumed))
        if slot.conv is not None:
            self._note(slot, slot.conv)
            self._release_if_unwanted(slot.conv)
        elif caller is not None and caller in self._queue:
            self._grant(caller, slot, now)  # it was started for this caller, with its differences
        elif slot.cold:
            self._stop(slot)

    def start_failed(self, slot: Slot, error: HackamoreError, now: float) -> None:
        """Record a failed start, which leaves no process, and report it to the caller that waited for it."""
        expected = slot.state is State.STOPPING
        caller, conv = slot.caller, slot.conv
        self._move(slot, Trigger.FAILED)
        self._drop_if_gone(slot)
        if expected:
            return
        self.meter.start_failures += 1
        self._events.append(ProcessStartFailed(slot.key, slot.session_id, error))
        if conv is None and not slot.cold:
            self._back_off(now)
            # The caller that waited for it, or for one like it.
            caller = self._for_any[0] if self._for_any else None
        elif conv is not None and caller not in conv.waiters:
            caller = conv.first
        if caller is not None and caller in self._queue:
            caller.started = None
            self._refuse(caller, error)

    def _back_off(self, now: float) -> None:
        self._failures += 1
        self._start_at = now + back_off(self._failures, *BACK_OFF_SECONDS, self._uniform)

    def died(self, slot: Slot, now: float) -> None:
        """Record that a process ended without a request of the pool."""
        if slot.state in (State.HIBERNATING, State.STOPPING, State.GONE, State.STARTING, State.LOST):
            return  # its job reports the end
        self.meter.deaths += 1
        self._events.append(ProcessDied(slot.key, slot.session_id))
        if slot.state is State.WARM:
            self._back_off(now)
        self._move(slot, Trigger.DIED)
        self._drop_if_gone(slot)

    def quiet(self, slot: Slot) -> None:
        """Mark a returned session as idle, because it has become quiet."""
        if slot.state is State.SETTLING:
            self._move(slot, Trigger.QUIET)
            self._became_idle(slot)

    def gone(self, slot: Slot) -> None:
        """Record that the process of a `Finish` or `Stop` is gone."""
        self._move(slot, Trigger.STOPPED)
        self._drop_if_gone(slot)

    def measured(self, sizes: Mapping[int, int]) -> None:
        """Record the resident memory of processes, by the number of their slots."""
        for number, size in sizes.items():
            if number in self.slots:
                self._weigh(self.slots[number], -1)
                self.slots[number].memory = size
                self._weigh(self.slots[number], 1)

    # -- reports of the registry ---------------------------------------------------------------------------------------

    def acquired(self, conv: Conversation, held: Held, now: float) -> None:
        conv.move(LeaseTrigger.TAKEN if held.taken else LeaseTrigger.REFUSED)
        if held.taken:
            conv.record = conv.stored = held.record
            conv.pause, conv.wanted = POLL_SECONDS[0], False
            conv.holder, conv.held_at = None, now
            self._asleep.discard(conv.key)
        else:
            conv.holder = held.holder
            conv.retry_at = now + conv.pause
            conv.pause = min(POLL_SECONDS[1], conv.pause * 2)
        self._touch(conv)

    def saved(self, conv: Conversation, record: Record, *, kept: bool) -> None:
        """Apply the answer to `Save`; `kept` is False if the lease was lost."""
        if kept:
            conv.move(LeaseTrigger.SAVED)
            conv.stored = record
        else:
            self._lose(conv)
        self._touch(conv)
        conv.stored_flag.wake()

    def released(self, conv: Conversation) -> None:
        conv.move(LeaseTrigger.RELEASED)
        conv.wanted, conv.retry_at = False, 0.0
        conv.record = conv.stored = None
        self._touch(conv)
        conv.stored_flag.wake()

    def registry_failed(self, conv: Conversation, error: Exception, now: float) -> None:
        """Record that the registry failed for a conversation: its first caller gets the error."""
        conv.move(LeaseTrigger.FAILED_AT_THE_END if self.closing else LeaseTrigger.FAILED)
        conv.retry_at = now + POLL_SECONDS[1]
        if conv.first is not None:
            self._refuse(conv.first, error)
        self._touch(conv)
        conv.stored_flag.wake()

    def beaten(self, beat: Beat, now: float, held: Collection[str] = ()) -> None:
        """Apply the answer to a heartbeat that began at `now`; `held` are the leases of this pool."""
        self._beaten_at = now
        for key in beat.lost:
            conv = self._conversations.get(key)
            # A lease that was taken after the heartbeat began is not the lost one.
            if conv is not None and conv.lease is Lease.HELD and conv.held_at <= now:
                self._lose(conv)
        for key in beat.wanted:
            conv = self._conversations.get(key)
            if conv is not None:
                conv.wanted = True
                self._touch(conv)
        # A lease that a cancelled `forget` still took is released.
        for key in set(held) - self._conversations.keys():
            conv = self._known(key)
            conv.move(LeaseTrigger.FOUND)
            self._touch(conv)

    def beat_failed(self, now: float) -> None:
        """Drop expired leases after a failed heartbeat: other programs take those without one for `lease` seconds."""
        for conv in list(self._conversations.values()):
            if conv.lease in HELD and now - max(self._beaten_at, conv.held_at) > self.limits.lease:
                self._lose(conv)

    def _lose(self, conv: Conversation) -> None:
        """Drop the lease of a conversation that another program may run: its process has to stop, with or without a holder."""
        conv.move(LeaseTrigger.LOST)
        conv.retry_at = 0.0
        conv.record = conv.stored = None
        if conv.slot is not None:
            self._stop(conv.slot)
            conv.slot = None
        self._touch(conv)

    # -- what follows --------------------------------------------------------------------------------------------------

    def take(self, now: float) -> list[Job]:
        """Decide what follows, and return the jobs to carry out."""
        self._taken_at = now
        self._changed.update(takewhile(lambda conv: now >= conv.retry_at, self._retries))
        self._hibernate_idle(now)
        if not self.closing:
            self._serve(now)
            limit = self.limits.memory
            while limit is not None and self.memory > limit and self._evict("memory"):
                pass
            self._refill(now)
        self._keep_registry(now)
        self._look_at_end()
        jobs, self._jobs = list(self._jobs), deque()
        return jobs

    def hurry(self) -> None:
        """Replace warm processes immediately: a caller waits until all are ready."""
        self._spare_at = 0.0

    def take_events(self, *, places: bool = False) -> list[PoolEvent]:
        """Return what has happened since the last call, with the places of waiting callers if they are wanted."""
        moved = list(enumerate(self._queue, 1)) if places and self._reordered else []
        if places and not self._reordered:
            # Only the callers at the end of the queue are new.
            latest = takewhile(lambda waiter: not waiter.place, reversed(self._queue))
            moved = [(len(self._queue) - back, waiter) for back, waiter in enumerate(latest)][::-1]
        self._reordered = self._reordered and not places
        for place, waiter in moved:
            if place != waiter.place:
                waiter.place = place
                self._events.append(CallerQueued(waiter.conv.key if waiter.conv else None, None, place))
        events, self._events = list(self._events), deque()
        return events

    def next_time(self) -> float | None:
        """Return the time at which `take` is to be called again; None if that depends on nothing but reports."""
        for conv in self._changed:
            self._plan(conv)
        idle = self._rows[State.IDLE].keys
        times = [keys[0][0] for keys in (self._rows[State.SETTLING].keys, self._retries.keys) if keys]
        times += [used_at + self.limits.idle for waited_for, used_at, _ in idle[:1] if not waited_for]
        if not self.closing and self._missing_warm > 0:
            # The last `take` did what was due, as far as there was room: a keeper that is called for it again would never sleep.
            later = bisect_right(idle, (False, self._taken_at), key=lambda key: (key[0], key[1] + AFFINITY_SECONDS))
            times += [
                used_at + AFFINITY_SECONDS for waited_for, used_at, _ in idle[later : later + 1] if not waited_for
            ]
            times += [time for time in (max(self._start_at, self._spare_at),) if time > self._taken_at]
        return min((time for time in times if time < math.inf), default=None)

    def _plan(self, conv: Conversation) -> None:
        self._retries.put(conv, (conv.retry_at, conv.number) if conv.pending else None)

    def _hibernate_idle(self, now: float) -> None:
        """Hibernate conversations that have been idle for long, or that another program waits for."""
        loud = takewhile(lambda slot: now >= slot.stop_at, self._rows[State.SETTLING])
        idle = takewhile(
            lambda slot: not slot.waited_for and now >= slot.used_at + self.limits.idle, self._rows[State.IDLE]
        )
        wanted = (conv.slot for conv in self._changed if conv.wanted and conv.slot and conv.slot.state is State.IDLE)
        for slot in sorted({*loud, *idle, *wanted}, key=attrgetter("number")):
            if slot.state is State.SETTLING:
                self._stop(slot)
            else:
                self._hibernate(slot, "wanted" if slot.conv is not None and slot.conv.wanted else "idle")

    def _serve(self, now: float) -> None:
        """Give sessions to callers, first in, first out, and start processes for them.

        Looked at are the callers of conversations that have changed, and as many others as may get a place or have one made.
        """
        self._round += 1
        turn: Callable[[Waiter], int] = attrgetter("turn")
        held = [conv for conv in self._changed if conv.slot is not None and conv.lease in HELD]
        ready = sorted((conv.first for conv in held if conv.first is not None), key=turn, reverse=True)
        warm, coming, leaving = self._rows[State.WARM], self._coming, self._leaving
        reason: Reason | None = None
        seen = dict.fromkeys((self._for_any, self._for_own), 0)
        stuck = False  # no place can be had or made for any further caller
        while True:
            lines = [line for line in seen if not stuck or (line is self._for_any and (warm or coming))]
            waiter = min(
                [*ready[-1:], *(line[seen[line]] for line in lines if seen[line] < len(line))], key=turn, default=None
            )
            if waiter is None:
                break
            conv = waiter.conv
            if conv is not None and conv.slot is not None:
                ready.pop()
                self._serve_from(conv.slot, waiter, conv, now)
                continue
            line = self._for_any if waiter in self._for_any else self._for_own
            if line is self._for_any and warm:
                if conv is None:
                    self._grant(waiter, warm[0], now)
                else:
                    self._bind(warm[0], conv, now)
            elif line is self._for_any and coming:
                coming -= 1
                self._note_rounds(waiter, self._round + 1)
            elif reason is None and self._has_room():
                stuck = self._counts[State.STARTING] >= self.limits.max_starting
                if not stuck:
                    self._start(waiter)
                    if waiter in line:
                        self._note_rounds(waiter, self._round + 1)
            else:
                # The next place that becomes free belongs to this caller.
                reason = "limit" if self.live >= self.limits.max_live else "memory"
                if leaving:
                    leaving -= 1  # its place will be this caller's
                else:
                    stuck = not self._evict(reason, waited=True)
            seen[line] += waiter in line
        if reason is not None:
            self._crowded_round = self._round
            self._crowded_by = "max_live" if reason == "limit" else "memory_limit"

    def _serve_from(self, slot: Slot, waiter: Waiter, conv: Conversation, now: float) -> None:
        if slot.state in (State.SETTLING, State.IDLE, State.RESERVED):
            if slot.spoiled or not self._fits(slot, waiter):
                if slot.state is not State.SETTLING:
                    self._hibernate(slot, "settings")
            elif conv.stored is not None and conv.record is not None and conv.stored.is_found(conv.record):
                self._grant(waiter, slot, now)

    def _fits(self, slot: Slot, waiter: Waiter) -> bool:
        hot, cold = waiter.differences
        return slot.cold == cold and changes(self.base, slot.applied, hot) is not None

    def _start(self, waiter: Waiter | None) -> None:
        conv = waiter.conv if waiter is not None else None
        record = conv.record if conv is not None else None
        cold = waiter.differences.cold if waiter is not None else _NO_DIFFERENCES
        slot = Slot(self._numbers, record.session_id if record is not None else self._new_id(), cold)
        self._numbers += 1
        self.slots[slot.number] = slot
        if conv is not None:
            slot.conv, conv.slot = conv, slot
            slot.caller = waiter
        elif waiter is not None and cold:
            slot.caller, waiter.started = waiter, slot
        self._counts[slot.state] += 1
        self._coming += conv is None and not cold
        self._weigh(slot, 1)
        if conv is not None:
            self._touch(conv)
        elif waiter is not None:
            self._line_up(waiter)
        known = record if record is not None else Record("", "")
        self._jobs.append(Start(slot, slot.session_id, known.said, known.cwd or None, known.process))

    def _bind(self, slot: Slot, conv: Conversation, now: float) -> None:
        """Give a warm process to a new conversation; its caller gets it when that is stored."""
        self._put_refill_off(now)
        self._move(slot, Trigger.BOUND)
        slot.used_at = now
        slot.conv, conv.slot = conv, slot
        self._note(slot, conv)
        self._touch(conv)

    def _put_refill_off(self, now: float) -> None:
        """Leave the processor to the process that is about to be used; further ones do not put it off again."""
        if self._spares >= self.limits.warm:
            self._spare_at = now + self.limits.refill

    def _grant(self, waiter: Waiter, slot: Slot, now: float) -> None:
        if slot.state is State.WARM:
            self._put_refill_off(now)
        self._move(slot, Trigger.GRANTED)
        self._dequeue(waiter)
        self._failures = 0
        waiter.slot = slot
        self._note_crowd(waiter.crowded)
        seconds = max(0.0, now - waiter.asked_at)
        ready = slot.ready_at <= waiter.asked_at
        self.meter.waited(seconds)
        if ready:
            self.meter.hits += 1
        elif slot.resumed:
            self.meter.resumes += 1
        else:
            self.meter.cold_starts += 1
        source: Literal["ready", "started", "resumed"] = "ready" if ready else "resumed" if slot.resumed else "started"
        waiter.source = source
        self._events.append(SessionCheckedOut(slot.key, slot.session_id, source, seconds))
        waiter.flag.set()

    def _note_crowd(self, limit: str) -> None:
        """Warn, once, if every second one of the last callers waited for a place."""
        self._crowd.append(bool(limit))
        count, most = sum(self._crowd), CROWD
        if self._warned or not limit or len(self._crowd) < most or count * 2 < most:
            return
        self._warned = True
        text = (
            f"{count} of the last {most} callers of a session pool waited for a place, while processes ended and started. "
            f"Raise `{limit}` (`max_live` is {self.limits.max_live}), or return sessions sooner."
        )
        context = {"limit": limit, "waited": count, "of": most, "max_live": self.limits.max_live}
        self._events.append(PoolWarned(None, None, StreamWarning("POOL_TOO_SMALL", text, context)))

    def _refill(self, now: float) -> None:
        """Start warm processes; at `max_live` a conversation that is idle makes room for one."""
        if self._for_own:
            return
        missing = self._missing_warm
        if missing <= 0 or now < self._start_at:
            return
        if now < self._spare_at and not self._for_any:
            return
        leaving = self._leaving
        for _ in range(missing):
            if self._has_room(for_caller=False):
                if self._counts[State.STARTING] >= self.limits.max_starting:
                    return
                self._start(None)
            elif leaving:
                leaving -= 1
            elif self.live < self.limits.max_live or not self._evict("limit", warm=False):
                return

    @property
    def _missing_warm(self) -> int:
        return self.limits.warm + len(self._for_any) - self._spares

    @property
    def _spares(self) -> int:
        """The number of processes that are warm or will be."""
        return self._counts[State.WARM] + self._coming

    def _has_room(self, *, for_caller: bool = True) -> bool:
        """Return whether one more process may be started. For a caller, one always may, regardless of the memory."""
        if self.live >= self.limits.max_live:
            return False
        limit = self.limits.memory
        return limit is None or (for_caller and self.live == 0) or self.memory + self._expected_size <= limit

    @property
    def _expected_size(self) -> int:
        return self._bytes // self._sized if self._sized else PROCESS_BYTES

    @property
    def memory(self) -> int:
        """The resident memory of all processes in bytes, as measured, or expected where that is to come."""
        return self._bytes - self._leaving_bytes + self._unsized * self._expected_size

    def _weigh(self, slot: Slot, sign: Literal[-1, 1]) -> None:
        if slot.state not in LIVE:
            return
        self._live += sign
        leaving = slot.state in (State.HIBERNATING, State.STOPPING)
        if slot.memory is None:
            self._unsized += 0 if leaving else sign
            return
        self._sized += sign
        self._bytes += sign * slot.memory
        self._leaving_bytes += sign * slot.memory if leaving else 0

    def _evict(self, reason: Reason, *, warm: bool = True, waited: bool = False) -> bool:
        """Stop the process that is missed least; return False if there is none.

        Idle conversations come first, then (with `warm`) warm processes, then conversations that were returned within `AFFINITY_SECONDS`.
        With `waited` it may be one that a caller waits for.
        """
        idle = next((slot for slot in self._rows[State.IDLE] if slot.conv is not None and not slot.conv.working), None)
        wanted = idle is None or idle.waited_for
        recent = idle is None or idle.used_at > self._taken_at - AFFINITY_SECONDS
        if self._rows[State.WARM] and warm and (wanted or recent):
            self._stop(self._rows[State.WARM][0])
        elif idle is not None and (waited or not wanted) and (warm or not recent):
            self._hibernate(idle, reason)
        else:
            return False
        self.meter.evictions += 1
        return True

    def _hibernate(self, slot: Slot, reason: Reason) -> None:
        self._move(slot, Trigger.HIBERNATE)
        self.meter.hibernations += 1
        self._events.append(ConversationHibernated(slot.key, slot.session_id, reason))
        self._jobs.append(Finish(slot))

    def _stop(self, slot: Slot) -> None:
        before = slot.state
        self._move(slot, Trigger.STOP)
        if slot.state is State.STOPPING and before is not State.STOPPING:
            self._jobs.append(Stop(slot))
        self._drop_if_gone(slot)

    def _became_idle(self, slot: Slot) -> None:
        if self.closing:
            self._hibernate(slot, "drain")
        elif slot.spoiled:
            self._hibernate(slot, "settings")

    def _drop_if_gone(self, slot: Slot) -> None:
        """Forget a process that is gone; the next caller of its conversation gets it resumed."""
        if slot.state is not State.GONE:
            return
        self.slots.pop(slot.number, None)
        conv = slot.conv
        if conv is not None and conv.slot is slot:
            conv.slot = None
            self._touch(conv)
        if slot.caller is not None and slot.caller.started is slot:
            slot.caller.started = None
            self._line_up(slot.caller)

    def _keep_registry(self, now: float) -> None:
        """Request, store and release leases; one job for each conversation at a time."""
        changed, self._changed = self._changed, set()
        for conv in sorted(changed, key=attrgetter("number")):
            if self._conversations.get(conv.key) is conv:
                self._call_registry(conv, now)
            self._plan(conv)

    def _call_registry(self, conv: Conversation, now: float) -> None:
        if conv.lease is Lease.NONE:
            if not conv.waiters:
                if conv.pause > POLL_SECONDS[0]:  # it was refused: other programs leave it to this one for a while
                    conv.pause = POLL_SECONDS[0]
                    conv.move(LeaseTrigger.CLAIM)
                    self._jobs.append(Release(conv, None))
                elif conv.slot is None:
                    del self._conversations[conv.key]
            elif conv.slot is None and now >= conv.retry_at:
                conv.move(LeaseTrigger.ASK)
                self._jobs.append(Acquire(conv))
        elif conv.lease is Lease.HELD and now >= conv.retry_at:
            if conv.left:
                conv.move(LeaseTrigger.RELEASE)
                if conv.record is not None:
                    self._asleep.add(conv.key)
                self._jobs.append(Release(conv, conv.record))
            elif conv.record is not None and conv.record != conv.stored:
                conv.move(LeaseTrigger.SAVE)
                self._jobs.append(Save(conv, conv.record))

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Refuse callers from here on, and let go of all processes without a holder."""
        if self.closing:
            return
        self.closing = True
        for waiter in list(self._queue):
            self._refuse(waiter, PoolClosedError(started=True))
        for slot in list(self.slots.values()):
            if slot.state in (State.WARM, State.STARTING):
                self._stop(slot)
            elif slot.state is State.IDLE:
                self._hibernate(slot, "drain")

    def stop_all(self) -> None:
        """Close, and stop all processes; those that hibernate are nearly gone."""
        self.close()
        for slot in list(self.slots.values()):
            if slot.state is not State.HIBERNATING:
                self._stop(slot)

    @property
    def over(self) -> bool:
        """True once the pool is closed and nothing of it is left."""
        return self.closing and not self.slots and not self._conversations

    def _look_at_end(self) -> None:
        if self.over and not self.emptied.is_set:
            self.emptied.set()
        if self.warmed.waiters:
            self.warmed.wake()

    # -- numbers -------------------------------------------------------------------------------------------------------

    @property
    def live(self) -> int:
        return self._live

    @property
    def _leaving(self) -> int:
        return self._counts[State.HIBERNATING] + self._counts[State.STOPPING]

    def _move(self, slot: Slot, trigger: Trigger) -> None:
        then = SLOT[slot.state, trigger]
        self._counts[slot.state] -= 1
        self._counts[then] += 1
        self._coming -= slot.state is State.STARTING and slot.conv is None and not slot.cold
        self._weigh(slot, -1)
        slot.state = then
        self._weigh(slot, 1)
        self._shelve(slot)
        if slot.conv is not None:
            self._touch(slot.conv)

    def stats(self) -> PoolStats:
        return PoolStats(
            live=self.live,
            starting=self._counts[State.STARTING],
            warm=self._counts[State.WARM],
            busy=self._counts[State.BUSY] + self._counts[State.LOST],
            idle=self._counts[State.IDLE] + self._counts[State.SETTLING] + self._counts[State.RESERVED],
            waiting=len(self._queue),
            hibernated=len(self._asleep),
            memory=0 if self.limits.memory is None else self.memory,
            **msgspec.structs.asdict(self.meter),
        )
