"""The core of a pool: which process starts, serves, hibernates and stops next. It never waits, and time is passed in.

A shell calls `ask`, `leave`, `returned` and the other reports, takes jobs with `take`, carries them out, and reports their outcomes. All
calls come from one place at a time: the thread of the event loop, or under a lock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from itertools import islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from hackamore.errors import ConversationInUseError, PoolClosedError, PoolTimeoutError, StreamWarning
from hackamore.pool.callers import Callers
from hackamore.pool.conversations import Conversations
from hackamore.pool.differences import changes
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
from hackamore.pool.members import POLL_SECONDS, Finish, Slot, Start, Stop, Waiter
from hackamore.pool.pace import Pace
from hackamore.pool.registry import Record
from hackamore.pool.slots import Slots
from hackamore.pool.states import HELD, Lease, LeaseTrigger, State, Trigger
from hackamore.pool.stats import Meter, PoolStats
from hackamore.runtime.flags import Flag
from hackamore.storage.holders import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hackamore.errors import HackamoreError
    from hackamore.options.options import Options
    from hackamore.options.retry import Uniform
    from hackamore.pool.differences import Split
    from hackamore.pool.events import PoolEvent
    from hackamore.pool.keeping import ConversationState
    from hackamore.pool.members import Conversation, Job, PoolLimits
    from hackamore.pool.registry import Beat, Held

AFFINITY_SECONDS = 10.0
"""For how long a conversation that was returned keeps its process as long as another one can make room: its user may be typing."""
INTERRUPT_SECONDS = 10.0
"""How long a process whose turns were interrupted at its return may take to become quiet, before it is stopped."""
REFILL_SECONDS = 0.5
"""Time between the check-out of a warm process and the start of the next one: the first turn of a CLI costs about 0.4 s of processor
time, and a start at the same moment takes a core from it."""

Reason: TypeAlias = Literal["idle", "limit", "memory", "settings", "wanted", "forgotten", "drain", "approval"]

_HELD = (State.BUSY, State.LOST)
_NOT_RESUMED = "A conversation begins again, empty: the CLI has no transcript of it. On several machines, use a store."

_NO_DIFFERENCES: Mapping[str, Any] = {}


class PoolCore:
    """All decisions of a pool; `uniform` spreads the pauses after failed starts."""

    def __init__(self, base: Options, limits: PoolLimits, new_id: Callable[[], str], uniform: Uniform = max) -> None:
        self.base = base
        self.limits = limits
        self.slots: Slots = Slots(limits)  # all processes, by number
        self.meter: Meter = Meter()
        self.emptied: Flag = Flag()  # set once the pool is closed and nothing of it is left
        self.warmed: Flag = Flag()  # woken when the warm processes may be ready
        self.closing: bool = False
        self._new_id = new_id
        self._callers = Callers()
        self._conversations = Conversations()
        self.pace: Pace = Pace(limits, uniform)
        self._jobs: deque[Job] = deque()
        self._events: deque[PoolEvent] = deque()
        self._taken_at = self._beaten_at = 0.0

    # -- the calls of users --------------------------------------------------------------------------------------------

    def ask(self, key: str | None, differences: Split, now: float) -> Waiter:
        """Queue a caller for a session; raise `PoolClosedError` if the pool is closed."""
        if self.closing:
            raise PoolClosedError(started=True)
        turns = self._callers.turns
        conv = self._conversations.known(key, turns) if key is not None else None
        waiter = Waiter(conv, differences, now, next(turns))
        self._enqueue(waiter)
        return waiter

    def _enqueue(self, waiter: Waiter, *, last: bool = True) -> None:
        self._callers.add(waiter, last=last)
        if waiter.conv is not None:
            self._touch(waiter.conv)

    def _touch(self, conv: Conversation) -> None:
        """Bring up to date what depends on a conversation that has changed; the rest follows with the next `take`."""
        self._conversations.changed.add(conv)
        if conv.slot is not None:
            self.slots.shelve(conv.slot)
        for waiter in islice(conv.waiters, 2):  # one that came back is before one that was the first
            self._callers.line_up(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Remove a caller from the queue: it was cancelled, or its timeout expired."""
        self._dequeue(waiter)
        if waiter.started is not None:
            waiter.started.caller = None
            waiter.started = None

    def timed_out(self, waiter: Waiter, seconds: float) -> PoolTimeoutError:
        """Remove a caller from the queue; return its error."""
        cause, conv = waiter.obstacle, waiter.conv
        elsewhere = conv is not None and cause == "elsewhere" and conv.holder
        error = PoolTimeoutError(
            seconds,
            live=self.live,
            busy=self.slots.counts[State.BUSY],
            waiting=len(self._callers),
            max_live=self.limits.max_live,
            starting=self.slots.counts[State.STARTING],
            leaving=self.slots.leaving,
            cause=cause,
            key=conv.key if conv is not None else None,
            holder=describe(elsewhere) if elsewhere else None,
        )
        self.leave(waiter)
        self.meter.timeouts += 1
        return error

    def again(self, waiter: Waiter) -> None:
        """Queue a caller again, as the first one: it got a process that was dead."""
        waiter.slot, waiter.flag = None, Flag()
        if self.closing:
            self._refuse(waiter, PoolClosedError(started=True))
            return
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
        conv = self._conversations.known(key, self._callers.turns)
        if conv.waiters or (conv.slot is not None and conv.slot.state in _HELD):
            raise ConversationInUseError(key)
        if conv.slot is not None and conv.slot.state is State.IDLE:
            self._hibernate(conv.slot, "forgotten")
        if conv.slot is not None or conv.lease is not Lease.NONE:
            return conv.stored_flag
        conv.move(LeaseTrigger.CLAIM)
        self._conversations.asleep.discard(key)
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
        self._callers.remove(waiter)
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
        asks: bool = False,
    ) -> None:
        """Take a session back from its holder.

        Args:
            quiet: True if no turn, background task or callback is open.
            session_id: the session, if messages named it.
            said: True if the holder sent a prompt.
            applied: the options that the holder changed, with their values.
            spoiled: True if no other holder may get the process.
            interrupted: True if its open turns were interrupted: it has `INTERRUPT_SECONDS` to become quiet, and no other holder before
                `interrupted` reports that they are over.
            asks: True if its last turn ended because a call waits for the answer of a person.
        """
        slot.asks = asks
        slot.used_at = now
        slot.stop_at = now + INTERRUPT_SECONDS if interrupted else math.inf
        slot.interrupted = interrupted and not quiet
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
            slot.note()
            if slot.state is State.IDLE:
                self._became_idle(slot)
        self._drop_if_gone(slot)

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
            if not resumed and slot.conv.record is not None and slot.conv.record.said:
                lost = StreamWarning("NOT_RESUMED", _NOT_RESUMED, {"key": slot.key})
                self._events.append(PoolWarned(slot.key, slot.session_id, lost))
            slot.note()
            self._release_if_unwanted(slot.conv)
        elif caller is not None and caller in self._callers:
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
            self.pace.failed(now)
            # The caller that waited for it, or for one like it.
            caller = self._callers.for_any[0] if self._callers.for_any else None
        elif conv is not None and caller not in conv.waiters:
            caller = conv.first
        if caller is not None and caller in self._callers:
            caller.started = None
            self._refuse(caller, error)

    def died(self, slot: Slot, now: float) -> None:
        """Record that a process ended without a request of the pool."""
        if slot.state in (State.HIBERNATING, State.STOPPING, State.GONE, State.STARTING, State.LOST):
            return  # its job reports the end
        self.meter.deaths += 1
        self._events.append(ProcessDied(slot.key, slot.session_id))
        if slot.state is State.WARM:
            self.pace.failed(now)
        self._move(slot, Trigger.DIED)
        self._drop_if_gone(slot)

    def interrupted(self, slot: Slot) -> None:
        """Let the next holder have a returned session whose interrupted turns and agents are over; commands may run on."""
        if slot.interrupted and slot.conv is not None:
            slot.interrupted = False
            self._touch(slot.conv)

    def quiet(self, slot: Slot, *, asks: bool = False) -> None:
        """Mark a returned session as idle, because it has become quiet; `asks` as in `returned`."""
        if slot.state is State.SETTLING:
            slot.interrupted = False
            slot.asks = asks
            self._move(slot, Trigger.QUIET)
            self._became_idle(slot)

    def gone(self, slot: Slot) -> None:
        """Record that the process of a `Finish` or `Stop` is gone."""
        self._move(slot, Trigger.STOPPED)
        self._drop_if_gone(slot)

    # -- reports of the registry ---------------------------------------------------------------------------------------

    def acquired(self, conv: Conversation, held: Held, now: float) -> None:
        conv.move(LeaseTrigger.TAKEN if held.taken else LeaseTrigger.REFUSED)
        if held.taken:
            conv.record = conv.stored = held.record
            conv.pause, conv.wanted = POLL_SECONDS[0], False
            conv.holder, conv.held_at = None, now
            self._conversations.asleep.discard(conv.key)
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
            conv = self._conversations.known(key, self._callers.turns)
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
        self._conversations.due(now)
        self._hibernate_idle(now)
        if not self.closing:
            self._serve(now)
            limit = self.limits.memory
            while limit is not None and self.slots.memory > limit and self._evict("memory"):
                pass
            self._refill(now)
        self._jobs.extend(self._conversations.jobs(now))
        self._look_at_end()
        jobs, self._jobs = list(self._jobs), deque()
        return jobs

    def take_events(self, *, places: bool = False) -> list[PoolEvent]:
        """Return what has happened since the last call, with the places of waiting callers if they are wanted."""
        for waiter in self._callers.moved() if places else ():
            self._events.append(CallerQueued(waiter.conv.key if waiter.conv else None, None, waiter.place))
        events, self._events = list(self._events), deque()
        return events

    def next_time(self) -> float | None:
        """Return the time at which `take` is to be called again; None if that depends on nothing but reports."""
        for conv in self._conversations.changed:
            self._conversations.plan(conv)
        idle = self.slots.rows[State.IDLE].keys
        times = [
            keys[0][0] for keys in (self.slots.rows[State.SETTLING].keys, self._conversations.retries.keys) if keys
        ]
        times += [used_at + self.limits.idle for waited_for, used_at, _ in idle[:1] if not waited_for]
        if not self.closing and self._missing_warm > 0:
            # The last `take` did what was due, as far as there was room: a keeper that is called for it again would never sleep.
            later = bisect_right(idle, (False, self._taken_at), key=lambda key: (key[0], key[1] + AFFINITY_SECONDS))
            times += [
                used_at + AFFINITY_SECONDS for waited_for, used_at, _ in idle[later : later + 1] if not waited_for
            ]
            times += [time for time in (max(self.pace.start_at, self.pace.spare_at),) if time > self._taken_at]
        return min((time for time in times if time < math.inf), default=None)

    def _hibernate_idle(self, now: float) -> None:
        """Hibernate conversations that have been idle for long, or that another program waits for."""
        loud = takewhile(lambda slot: now >= slot.stop_at, self.slots.rows[State.SETTLING])
        idle = takewhile(
            lambda slot: not slot.waited_for and now >= slot.used_at + self.limits.idle, self.slots.rows[State.IDLE]
        )
        wanted = (
            conv.slot
            for conv in self._conversations.changed
            if conv.wanted and conv.slot and conv.slot.state is State.IDLE
        )
        for slot in sorted({*loud, *idle, *wanted}, key=attrgetter("number")):
            if slot.state is State.SETTLING:
                self._stop(slot)
            else:
                self._hibernate(slot, "wanted" if slot.conv is not None and slot.conv.wanted else "idle")

    def _serve(self, now: float) -> None:
        """Give sessions to callers, first in, first out, and start processes for them.

        Looked at are the callers of conversations that have changed, and as many others as may get a place or have one made.
        """
        self._callers.round += 1
        turn: Callable[[Waiter], int] = attrgetter("turn")
        held = [conv for conv in self._conversations.changed if conv.slot is not None and conv.lease in HELD]
        ready = sorted((conv.first for conv in held if conv.first is not None), key=turn, reverse=True)
        warm, coming, leaving = self.slots.rows[State.WARM], self.slots.coming, self.slots.leaving
        reason: Reason | None = None
        seen = dict.fromkeys((self._callers.for_any, self._callers.for_own), 0)
        stuck = False  # no place can be had or made for any further caller
        while True:
            lines = [line for line in seen if not stuck or (line is self._callers.for_any and (warm or coming))]
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
            line = self._callers.for_any if waiter in self._callers.for_any else self._callers.for_own
            if line is self._callers.for_any and warm:
                if conv is None:
                    self._grant(waiter, warm[0], now)
                else:
                    self._bind(warm[0], conv, now)
            elif line is self._callers.for_any and coming:
                coming -= 1
                self._callers.note_rounds(waiter, self._callers.round + 1)
            elif reason is None and self.slots.has_room():
                stuck = self.slots.counts[State.STARTING] >= self.limits.max_starting
                if not stuck:
                    self._start(waiter)
                    if waiter in line:
                        self._callers.note_rounds(waiter, self._callers.round + 1)
            else:
                # The next place that becomes free belongs to this caller.
                reason = "limit" if self.live >= self.limits.max_live else "memory"
                if leaving:
                    leaving -= 1  # its place will be this caller's
                else:
                    stuck = not self._evict(reason, waited=True)
            seen[line] += waiter in line
        if reason is not None:
            self._callers.crowded("max_live" if reason == "limit" else "memory_limit")

    def _serve_from(self, slot: Slot, waiter: Waiter, conv: Conversation, now: float) -> None:
        if slot.state in (State.SETTLING, State.IDLE, State.RESERVED) and not slot.interrupted:
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
        slot = Slot(next(self.slots.numbers), record.session_id if record is not None else self._new_id(), cold)
        if conv is not None:
            slot.conv, conv.slot = conv, slot
            slot.caller = waiter
        elif waiter is not None and cold:
            slot.caller, waiter.started = waiter, slot
        self.slots.add(slot)
        if conv is not None:
            self._touch(conv)
        elif waiter is not None:
            self._callers.line_up(waiter)
        known = record if record is not None else Record("", "")
        self._jobs.append(Start(slot, slot.session_id, known.said, known.cwd or None, known.process))

    def _bind(self, slot: Slot, conv: Conversation, now: float) -> None:
        """Give a warm process to a new conversation; its caller gets it when that is stored."""
        self.pace.used(now, self.slots.spares)
        self._move(slot, Trigger.BOUND)
        slot.used_at = now
        slot.conv, conv.slot = conv, slot
        slot.note()
        self._touch(conv)

    def _grant(self, waiter: Waiter, slot: Slot, now: float) -> None:
        if slot.state is State.WARM:
            self.pace.used(now, self.slots.spares)
        self._move(slot, Trigger.GRANTED)
        self._dequeue(waiter)
        self.pace.granted()
        waiter.slot = slot
        if (warning := self._callers.crowd.note(waiter.crowded, self.limits.max_live)) is not None:
            self._events.append(warning)
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

    def _refill(self, now: float) -> None:
        """Start warm processes; at `max_live` a conversation that is idle makes room for one."""
        if self._callers.for_own:
            return
        missing = self._missing_warm
        if missing <= 0 or now < self.pace.start_at:
            return
        if now < self.pace.spare_at and not self._callers.for_any:
            return
        leaving = self.slots.leaving
        for _ in range(missing):
            if self.slots.has_room(for_caller=False):
                if self.slots.counts[State.STARTING] >= self.limits.max_starting:
                    return
                self._start(None)
            elif leaving:
                leaving -= 1
            elif self.live < self.limits.max_live or not self._evict("limit", warm=False):
                return

    @property
    def _missing_warm(self) -> int:
        return self.limits.warm + len(self._callers.for_any) - self.slots.spares

    def _evict(self, reason: Reason, *, warm: bool = True, waited: bool = False) -> bool:
        """Stop the process that is missed least; return False if there is none.

        Idle conversations come first, then (with `warm`) warm processes, then conversations that were returned within `AFFINITY_SECONDS`.
        With `waited` it may be one that a caller waits for.
        """
        idle = next(
            (slot for slot in self.slots.rows[State.IDLE] if slot.conv is not None and not slot.conv.working), None
        )
        wanted = idle is None or idle.waited_for
        recent = idle is None or idle.used_at > self._taken_at - AFFINITY_SECONDS
        if self.slots.rows[State.WARM] and warm and (wanted or recent):
            self._stop(self.slots.rows[State.WARM][0])
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
        elif slot.asks and not slot.waited_for:  # the answer may take days
            self._hibernate(slot, "approval")

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
            self._callers.line_up(slot.caller)

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Refuse callers from here on, and let go of all processes without a holder."""
        if self.closing:
            return
        self.closing = True
        for waiter in list(self._callers):
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
        return self.slots.live

    def _move(self, slot: Slot, trigger: Trigger) -> None:
        self.slots.move(slot, trigger)
        if slot.conv is not None:
            self._touch(slot.conv)

    def stats(self) -> PoolStats:
        return PoolStats(
            live=self.live,
            starting=self.slots.counts[State.STARTING],
            warm=self.slots.counts[State.WARM],
            busy=self.slots.counts[State.BUSY] + self.slots.counts[State.LOST],
            idle=self.slots.counts[State.IDLE] + self.slots.counts[State.SETTLING] + self.slots.counts[State.RESERVED],
            waiting=len(self._callers),
            hibernated=len(self._conversations.asleep),
            memory=0 if self.limits.memory is None else self.slots.memory,
            **msgspec.structs.asdict(self.meter),
        )
