# Generated from src/hackamore/aio/pool.py by scripts/make_sync.py. Do not edit: edit the source and run `./dev format`.
"""Session pools for threads.

`PoolCore` decides. `PoolRunner` carries its jobs out, in threads. Its keeper is the thread that looks at the clock and
at processes that have ended. Neither refers to the user's `SessionPool`: a forgotten one is collected, and its processes end.
"""

from __future__ import annotations

import os
import random
import time
import uuid
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from hackamore._engine.session.readers import Inbox, Readers
from hackamore.errors import (
    CLIExitedDuringInitError,
    ConversationInUseError,
    ConversationNotFoundError,
    HackamoreError,
    OptionsError,
    PoolClosedError,
    SessionClosedError,
    SessionNotFoundError,
    SessionReturnedError,
    StartError,
    short_traceback,
)
from hackamore.messages.results import ControlResult
from hackamore.options.bounds import checked_timeout
from hackamore.options.observing import PoolObserver
from hackamore.options.options import Options
from hackamore.pool import members as jobs
from hackamore.pool.core import REFILL_SECONDS, PoolCore
from hackamore.pool.differences import APPLIED, HARMLESS, changes, check_base, checked, split
from hackamore.pool.events import ConversationHibernated, PoolWarned
from hackamore.pool.keeping import PooledConversation, delete_steps, export_steps
from hackamore.pool.members import PoolLimits
from hackamore.pool.memory import check_package, resident
from hackamore.pool.registry import Held, MemoryRegistry, Registry, SQLiteRegistry
from hackamore.pool.states import State
from hackamore.runtime.event_loops import context_for_thread
from hackamore.runtime.flags import Flag
from hackamore.runtime.log import logger
from hackamore.storage.holders import holder_name, process_name, runs
from hackamore.storage.leases import Heart
from hackamore.sync.pool_seam import PoolSeam
from hackamore.sync.session import Session, SessionRunner, drive
from hackamore.sync.waits import OtherShell
from hackamore.transports.base import TransportSource
from hackamore.transports.process.orphans import end_orphan
from hackamore.transports.process.private_folders import make_folder, remove_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from hackamore.options.observing import PoolObservation
    from hackamore.pool.differences import Split
    from hackamore.pool.events import PoolEvent
    from hackamore.pool.keeping import ConversationState
    from hackamore.pool.members import Job, Slot, Waiter
    from hackamore.pool.registry import Beat
    from hackamore.pool.stats import PoolStats
    from hackamore.transcripts.export import ExportFormat

    _Request = tuple[str | None, Split, float | None, Any]  # the arguments of `PoolRunner.check_out`


R = TypeVar("R", bound=ControlResult)
T = TypeVar("T")

FINISH_SECONDS = 10.0
"""How long a process that hibernates may take to finish its transcript."""
STORE_SECONDS = 5.0
"""How long a return waits until a changed conversation is stored."""
LOOK_SECONDS = 0.5
"""How often `forget` looks whether the process of a conversation has ended."""
MEASURE_SECONDS = 1.0
"""How often memory is measured."""
BEAT_SECONDS = 1.0
"""How often a heartbeat is sent, at least three times in the time of a lease."""
_TRIES = 5
"""How many dead processes a caller may get before the error of the last one is raised."""

_OPTIONS = {subtype: (option, field) for option, (subtype, field) in APPLIED.items()}


def _observed(call: Callable[..., T], *arguments: Any) -> T | None:
    """Call an observer; one that raises is logged, and changes nothing."""
    try:
        return call(*arguments)
    except Exception:
        logger.exception("an observer of a session pool failed")
        return None


_UNKNOWN = object()
"""The value of an option that a holder has changed to the CLI's own default."""


class _Returned:
    """Stands in for all parts of a session that was returned."""

    def __getattr__(self, name: str) -> Any:
        raise SessionReturnedError


class PooledSession(Session):
    """The session that a holder gets: it is dead after its return.

    Attributes:
        conversation: the key of its conversation; None for one of `pool.session()`.
        caller: the value of the check-out: `pool.conversation(key, caller=...)`.
    """

    def __init__(self, slot: Slot, caller: Any = None) -> None:
        self._use(slot.life)
        self._chosen_id = slot.session_id
        self.conversation: str | None = slot.key
        self.caller: Any = caller
        self.applied: dict[str, Any] = {}
        self.spoiled: bool = False

    @property
    def session_id(self) -> str | None:
        """The session: the id that the pool chose, until a message names another one."""
        return super().session_id or self._chosen_id

    def _ask(
        self,
        result: type[R],
        subtype: str,
        fields: Mapping[str, Any],
        timeout: float | None,
        operation: str | None = None,
    ) -> R:
        option, field = _OPTIONS.get(subtype, ("", ""))
        if option:
            self.applied[option] = _UNKNOWN
            self.spoiled = self.spoiled or bool(fields.keys() - {field})
        elif subtype not in HARMLESS:
            self.spoiled = True
        answer = super()._ask(result, subtype, fields, timeout, operation)
        if option and fields.get(field) is not None:
            self.applied[option] = fields[field]
        return answer

    def take_back(self) -> None:
        """Refuse all further calls."""
        self._life = self._core = self._seam = _Returned()  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "PooledSession(returned)" if isinstance(self._life, _Returned) else super().__repr__()

    def __del__(self) -> None:
        """Do nothing: the pool ends the process."""


class _Note:
    """Tells the keeper to look at a slot: it waits for a flag like an `Event`."""

    __slots__ = ("_slot", "_works")

    def __init__(self, works: PoolRunner, slot: Slot) -> None:
        self._works = works
        self._slot = slot

    def set(self) -> None:
        """Note the slot. Called under the lock of a session: takes no other one."""
        self._works.noted.append(self._slot)
        self._works.seam.nudge()


class PoolRunner:
    """All of a running pool but the object of its user."""

    def __init__(
        self, options: Options, limits: PoolLimits, registry: Registry, transport: TransportSource | None
    ) -> None:
        self.seam: PoolSeam = PoolSeam()
        self.core: PoolCore = PoolCore(options, limits, lambda: str(uuid.uuid4()), random.uniform)
        self.noted: deque[Slot] = deque()
        self.forgotten: deque[PooledSession] = deque()
        self.abandoned: bool = False
        self.cursors: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self.holder: str = holder_name()
        observer: object = options.telemetry
        self._observation: PoolObservation | None = (
            _observed(observer.observe_pool) if isinstance(observer, PoolObserver) else None
        )
        self._registry = registry
        self._transport = transport
        self._far: Callable[[object], str] | None = getattr(transport, "conversation_folder", None)
        self._slots: weakref.WeakKeyDictionary[PooledSession, Slot] = weakref.WeakKeyDictionary()
        self._planned: float | None = None
        self._measure_at: float | None = None if limits.memory is None else 0.0
        self._measuring = False
        self._beats: deque[tuple[float, Beat | Exception]] = deque(maxlen=1)
        # Changed where the registry is called: the pool may have ended by then, or be blocked.
        self._leases: set[str] = set()
        self._heart = Heart(limits.beat, self._beat, lambda: bool(self._leases))

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Start the jobs that the core has decided on."""
        while True:
            now = time.monotonic()
            with self.seam.lock:
                taken = self.core.take(now)
                self._report(places=not taken)  # callers that are still in the queue have to wait
                until = self.core.next_time()
            for job in taken:
                if isinstance(job, (jobs.Acquire, jobs.Save, jobs.Release)) and not self._registry.blocking:
                    self._store_now(job)
                    continue
                try:
                    self.seam.spawn(partial(self._run, job))
                except Exception as error:  # no thread is available
                    self._unable(job, error)
            if not taken:
                break
        if (until is not None and (self._planned is None or until < self._planned)) or self.core.over:
            self.seam.nudge()

    def hurry(self) -> None:
        """Replace warm processes immediately."""
        with self.seam.lock:
            self.core.pace.hurry()
        self.pump()

    def _report(self, *, places: bool = False) -> None:
        """Give new events to the cursors, and log warnings."""
        events = self.core.take_events(places=places and bool(self.cursors))
        for event in events:
            if isinstance(event, PoolWarned):
                logger.warning("%s", event.warning, extra={"code": event.warning.code})
            elif isinstance(event, ConversationHibernated) and self._observation is not None:
                _observed(self._observation.hibernated, event.reason)
        if events:
            for inbox in list(self.cursors):
                inbox.add(events, 0)

    def _run(self, job: Job) -> None:
        try:
            match job:
                case jobs.Start():
                    self._start(job)
                case jobs.Finish():
                    self._finish(job.slot)
                case jobs.Stop():
                    self._stop(job.slot)
                case _:
                    self._store(job)
            self.pump()
        except Exception as error:
            logger.exception("a job of a session pool failed")
            self._unable(job, error)
            self.pump()

    def _unable(self, job: Job, error: Exception) -> None:
        now = time.monotonic()
        if isinstance(job, (jobs.Acquire, jobs.Save, jobs.Release)):
            with self.seam.lock:
                self.core.registry_failed(job.conv, error, now)
            return
        slot = job.slot
        if slot.life is not None:
            slot.life.abandon()
        with self.seam.lock:
            if slot.state is State.STARTING:
                self.core.start_failed(slot, StartError(f"The CLI could not be started: {error}"), now)
            else:
                self.core.gone(slot)

    def _start(self, job: jobs.Start) -> None:
        slot = job.slot
        try:
            resumed = self._launch(job)
        except Exception as error:
            failure = (
                error if isinstance(error, HackamoreError) else StartError(f"The CLI could not be started: {error}")
            )
            with self.seam.lock:
                self.core.start_failed(slot, failure, time.monotonic())
            return
        life = slot.life
        with self.seam.lock:
            process = None if (pid := life.transport.pid) is None else process_name(pid)
            cwd = _folder(life.core.options.cwd, self._far)
            self.core.started(slot, time.monotonic(), cwd=cwd, resumed=resumed, process=process)
        note = _Note(self, slot)
        with life.seam.lock:
            ended = life.core.ended.is_set
            if not ended:
                life.core.ended.waiters.append(note)
        if ended:
            note.set()

    def _launch(self, job: jobs.Start) -> bool:
        """Start the CLI of a slot; return whether it continues a session.

        The record of a conversation may be behind: its program was killed before or after the first prompt.
        """
        slot, resume = job.slot, job.resume
        if job.process is not None and runs(job.process):
            self.seam.work(partial(end_orphan, job.process))
        for last in (False, True):
            options = self._options(job, resume)
            life = SessionRunner(options, self._transport, Readers)
            with self.seam.lock:
                slot.life = life
                if slot.state is not State.STARTING:
                    raise SessionClosedError(expected=True, reason="its pool stopped it")
            try:
                life.begin()
            except SessionNotFoundError:
                if last or not resume:
                    raise
                resume = False
            except CLIExitedDuringInitError as error:
                if last or resume or "already in use" not in str(error):
                    raise
                resume = True
            else:
                return resume
        raise AssertionError("unreachable")

    def _options(self, job: jobs.Start, resume: bool) -> Options:
        fields: dict[str, Any] = dict(job.slot.cold)
        fields["resume" if resume else "session_id"] = job.session_id
        if not self._far and job.cwd and not fields.get("cwd") and not self.core.base.cwd and os.path.isdir(job.cwd):
            fields["cwd"] = job.cwd
        return self.core.base.replace(**fields)

    def _finish(self, slot: Slot) -> None:
        try:
            PooledSession(slot).finish(timeout=FINISH_SECONDS)
        except HackamoreError:
            pass  # it died: there is nothing to finish
        finally:
            with self.seam.lock:
                self.core.gone(slot)

    def _stop(self, slot: Slot) -> None:
        if slot.life is None:
            return  # its start has not come that far, and reports the end
        slot.life.stop()
        with self.seam.lock:
            self.core.gone(slot)

    # -- the registry --------------------------------------------------------------------------------------------------

    def _store(self, job: jobs.Acquire | jobs.Save | jobs.Release) -> None:
        try:
            outcome = self.seam.work(partial(self._call, job))
        except Exception as error:
            self._unable(job, error)
        else:
            self._stored(job, outcome)

    def _store_now(self, job: jobs.Acquire | jobs.Save | jobs.Release) -> None:
        try:
            outcome = self._call(job)
        except Exception as error:
            self._unable(job, error)
        else:
            self._stored(job, outcome)

    def _call(self, job: jobs.Acquire | jobs.Save | jobs.Release) -> Any:
        key = job.conv.key
        match job:
            case jobs.Acquire():
                held = self._registry.acquire(key, self.holder)
                if held.taken:
                    self._leases.add(key)
                    self._heart.start()
                    if self.abandoned:
                        self._let_go(key)
                return held
            case jobs.Save():
                return self._registry.save(key, self.holder, job.record)
            case jobs.Release():
                if job.record is not None:
                    self._registry.save(key, self.holder, job.record)
                return self._let_go(key)

    def _stored(self, job: jobs.Acquire | jobs.Save | jobs.Release, outcome: Any) -> None:
        with self.seam.lock:
            match job:
                case jobs.Acquire():
                    self.core.acquired(job.conv, outcome, time.monotonic())
                case jobs.Save():
                    self.core.saved(job.conv, job.record, kept=outcome)
                case jobs.Release():
                    self.core.released(job.conv)

    def _let_go(self, key: str) -> None:
        self._registry.release(key, self.holder)
        self._leases.discard(key)

    def _beat(self) -> None:
        """Send a heartbeat, in its thread; give all leases back if the pool is over, or nothing uses or runs it any more."""
        began, keys = time.monotonic(), self._leases.copy()
        outcome: Beat | Exception
        try:
            if self.abandoned or self.core.over:
                for key in keys:
                    self._let_go(key)
                return
            outcome = self._registry.beat(self.holder, keys)
        except Exception as error:
            logger.warning("the heartbeat of a session pool failed: %s", error)
            outcome = error
        self._beats.append((began, outcome))
        if not self.seam.nudge():
            self.abandon()

    def _look_at_beats(self) -> None:
        while self._beats:
            began, outcome = self._beats.popleft()
            with self.seam.lock:
                if isinstance(outcome, Exception):
                    self.core.beat_failed(began)
                else:
                    self.core.beaten(outcome, began, self._leases.copy())

    # -- the keeper ----------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Look at the clock, and at processes that need it, until the pool is over."""
        while True:
            try:
                self._look()
                self._look_at_beats()
                self._watch_clock()
                self.pump()
            except Exception:
                logger.exception("a session pool could not look after its processes")
            with self.seam.lock:
                if self.core.over or self.abandoned:
                    return
                times = [self.core.next_time(), self._measure_at if self.core.slots else None]
                self._planned = min((at for at in times if at is not None), default=None)
            if not (self.noted or self.forgotten or self._beats):
                self.seam.sleep(self._planned)

    def _watch_clock(self) -> None:
        now = time.monotonic()
        with self.seam.lock:
            measure = self._measure_at is not None and now >= self._measure_at and not self._measuring
            if measure:
                self._measuring, self._measure_at = True, now + MEASURE_SECONDS
        if measure:
            self.seam.spawn(self._measure)

    def _measure(self) -> None:
        with self.seam.lock:
            lives = {slot.number: slot.life for slot in self.core.slots.values() if slot.life is not None}
        pids = {number: life.transport.pid for number, life in lives.items() if life.transport.pid is not None}
        try:
            sizes = self.seam.work(lambda: resident(pids))
            with self.seam.lock:
                self.core.slots.measured(sizes)
        except Exception:
            logger.exception("the memory of a session pool could not be measured")
        finally:
            self._measuring = False
        self.pump()

    def _look(self) -> None:
        while self.forgotten:
            session = self.forgotten.popleft()
            session.spoiled = True
            self._take_back(session, interrupt=True)
        for _ in range(len(self.noted)):
            slot = self.noted.popleft()
            if slot.life.core.ended.is_set:
                with self.seam.lock:
                    self.core.died(slot, time.monotonic())
            elif slot.state is State.SETTLING:
                self._watch_rest(slot)

    def _watch_rest(self, slot: Slot) -> None:
        """Report that a returned session has stopped what was interrupted, and that it is quiet, now or when it is."""
        life = slot.life
        with life.seam.lock:
            conversation, stopped = life.core.connection.conversation, life.core.interrupted
            quiet, asks = conversation.quiet, conversation.asks
            if not quiet:
                life.core.settled.waiters.append(_Note(self, slot))
        with self.seam.lock:
            if quiet:
                self.core.quiet(slot, asks=asks)
            elif stopped:
                self.core.interrupted(slot)

    # -- check-out and return ------------------------------------------------------------------------------------------

    def check_out(self, key: str | None, wanted: Split, timeout: float | None, caller: Any) -> PooledSession:
        """Return a session for a caller.

        Raises:
            PoolTimeoutError: there was none in time.
            PoolClosedError: the pool is closed.
            HackamoreError: it could not be started, or a difference was refused.
        """
        self.seam.check()
        asked_at = time.monotonic()
        until = None if timeout is None else asked_at + timeout
        self.seam.turn()
        with self.seam.lock:
            waiter = self.core.ask(key, wanted, asked_at)
        waiting = _observed(self._observation.waiting) if self._observation is not None else None
        session: PooledSession | None = None
        try:
            for _ in range(_TRIES):
                slot = self._wait_for(waiter, timeout, until)
                session = self._lend(slot, caller)
                error = self._apply_settings(slot, session, wanted)
                if error is None:
                    if waiting is not None:
                        _observed(waiting.ended, session.session_id, waiter.source, None)
                        waiting = None
                    self.seam.give_way()
                    return session
                self._take_back(session)
                session = None
                with self.seam.lock:
                    self.core.again(waiter)
            raise error or PoolClosedError(started=True)
        except BaseException as problem:
            if waiting is not None:
                _observed(waiting.ended, None, None, problem)
            with self.seam.lock:
                self.core.leave(waiter)
                unused = waiter.slot
            if session is not None:
                session.spoiled = True
                self._take_back(session)
            elif unused is not None:
                self._never_used(unused)
            self.seam.nudge()  # one look for all callers that leave at the same time
            raise

    def _wait_for(self, waiter: Waiter, timeout: float | None, until: float | None) -> Slot:
        self.pump()
        left = None if until is None else max(0.0, until - time.monotonic())
        self.seam.wait(waiter.flag, left)
        with self.seam.lock:
            if waiter.error is not None:
                raise waiter.error
            if waiter.slot is None:
                raise self.core.timed_out(waiter, timeout or 0.0)
            return waiter.slot

    def _never_used(self, slot: Slot) -> None:
        with slot.life.seam.lock:
            quiet = slot.life.core.connection.conversation.quiet
        with self.seam.lock:
            self.core.unused(slot, time.monotonic(), quiet=quiet)
        if slot.state is State.SETTLING:
            self._watch_rest(slot)

    def _lend(self, slot: Slot, caller: Any) -> PooledSession:
        session = PooledSession(slot, caller)
        with slot.life.seam.lock:
            slot.life.core.reached.lend(slot.key, caller, context_for_thread())
        self._slots[session] = slot
        return session

    def _apply_settings(self, slot: Slot, session: PooledSession, wanted: Split) -> HackamoreError | None:
        """Apply the differences of a caller, and undo earlier ones; return the error of a process that is dead."""
        core = slot.life.core
        if core.connection.state.over or core.stop.asked:
            return SessionClosedError(expected=False, reason="its process ended")
        for change in changes(self.core.base, slot.applied, wanted.hot) or ():
            try:
                session.request(change.subtype, **change.fields)
            except SessionClosedError as error:
                return error
        return None

    def give_back(self, session: PooledSession, *, interrupt: bool) -> None:
        """Take a session back from its holder; return when a change of its conversation is stored."""
        slot = self._slots.get(session)
        self._take_back(session, interrupt=interrupt)
        self.pump()
        conv = slot.conv if slot is not None else None
        if conv is None or not self._registry.blocking:
            return
        with self.seam.lock:
            seen, storing = conv.stored_flag.wakes, conv.working
        if storing:
            self.seam.wait(conv.stored_flag, STORE_SECONDS, since=seen)

    def _take_back(self, session: PooledSession, *, interrupt: bool = False) -> None:
        slot = self._slots.pop(session, None)
        if slot is None:
            return
        life = slot.life
        session.take_back()
        with life.seam.lock:
            core = life.core
            quiet, session_id = core.connection.conversation.quiet, core.connection.state.session_id
            core.reached.lend(slot.key, None, None)  # refers to the caller and its context until their work is over
            if interrupt and not quiet:
                core.interrupt_all(cancel_queued=True)
                life.seam.wake()
            core.audience.dismiss(SessionReturnedError())
            core.session = None
            said, asks = core.audience.said, core.connection.conversation.asks
            ended = core.ended.is_set or core.connection.state.over or core.stop.asked
        with self.seam.lock:
            now = time.monotonic()
            if ended:
                self.core.died(slot, now)
            self.core.returned(
                slot,
                now,
                quiet=quiet,
                session_id=session_id,
                said=said,
                applied=session.applied,
                spoiled=session.spoiled,
                interrupted=interrupt,
                asks=asks,
            )
        if slot.state is State.SETTLING:
            self._watch_rest(slot)

    # -- conversations by key ------------------------------------------------------------------------------------------

    def _registered(self, call: Callable[[], T]) -> T:
        """Call the registry, in a worker thread if it may wait."""
        return self.seam.work(call) if self._registry.blocking else call()

    def conversations(self, key: str | None = None) -> list[PooledConversation]:
        """Return the conversations of the registry; with a key that one alone."""
        rows = self._registered(lambda: self._registry.conversations(key))
        with self.seam.lock:
            here = self.core.standing
        found = {}
        for row in rows:
            there: ConversationState = "hibernated" if row.holder in (None, self.holder) else "elsewhere"
            record, state = here.get(row.key, (row.record, there))
            found[row.key] = PooledConversation(row.key, record.session_id, record.cwd, state)
        return list(found.values())

    def export(self, key: str, format: ExportFormat) -> str:  # noqa: A002
        """Return a conversation as a document."""
        rows = self._registered(lambda: self._registry.conversations(key))
        if not rows:
            raise ConversationNotFoundError(key)
        record, options = rows[0].record, self.core.base
        steps = export_steps(options, record, format, make_folder, remove_folder)
        return drive(steps, options, record.session_id)

    def forget(self, key: str) -> bool:
        """Delete a conversation everywhere; return False if there was none."""
        self.seam.check()
        until = time.monotonic() + FINISH_SECONDS + STORE_SECONDS
        while True:
            with self.seam.lock:
                found = self.core.claim(key)
                seen = found.wakes if isinstance(found, Flag) else 0
            self.pump()
            if not isinstance(found, Flag):
                break
            if time.monotonic() > until:
                raise ConversationInUseError(key)
            self.seam.wait(found, LOOK_SECONDS, since=seen)
        held, done, options = Held(taken=False), False, self.core.base
        try:
            held = self._registered(lambda: self._call(jobs.Acquire(found)))  # with heartbeats
            if not held.taken:
                raise ConversationInUseError(key, elsewhere=True)
            if held.record is not None:
                drive(delete_steps(options, held.record), options, held.record.session_id)
            self._registered(lambda: self._registry.forget(key))  # last: what failed can be tried again
            self._leases.discard(key)
            done = True
        finally:
            with self.seam.lock:
                if done:
                    self.core.released(found)
                else:  # the core gives a lease back
                    self.core.acquired(found, held, time.monotonic())
            self.pump()
        return held.record is not None

    # -- the end -------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop all processes."""
        with self.seam.lock:
            self.core.stop_all()
        self.pump()
        self.seam.finish(self.core.emptied)
        self._end()
        if self._heart.stop():
            self.seam.work(self._heart.join)

    def drain(self, timeout: float | None) -> bool:
        """Wait for the holders, then stop; return whether all holders had returned."""
        with self.seam.lock:
            self.core.close()
        self.pump()
        done = self.seam.wait(self.core.emptied, timeout)
        self.stop()
        return done

    def _end(self) -> None:
        with self.seam.lock:
            self._report()
            for inbox in list(self.cursors):
                inbox.end()
        self.seam.nudge()
        self.seam.end()

    def abandon(self) -> None:
        """End all processes without waiting: the pool has no user any more."""
        self.abandoned = True
        for slot in list(self.core.slots.values()):
            if slot.life is not None:
                slot.life.abandon()
        self._heart.stop()
        self.seam.nudge()
        self.seam.end()


class CheckOut(OtherShell):
    """The return value of `pool.session()` and `pool.conversation()`: enter it with `with`."""

    def __init__(self, works: PoolRunner, request: _Request, on_leave: str | None, pool: SessionPool) -> None:
        self._works = works
        self._request = request
        self._on_leave = on_leave
        self._pool = pool  # not collected while a session is out
        self._session: PooledSession | None = None

    def __enter__(self) -> Session:
        if self._session is not None:
            raise RuntimeError(
                "This check-out was entered already. Call `pool.session()` or `pool.conversation(key)` again."
            )
        with short_traceback:
            self._session = self._works.check_out(*self._request)
        return self._session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            interrupt = kind is not None if self._on_leave is None else self._on_leave == "interrupt"
            self._works.give_back(session, interrupt=interrupt)

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None:
            self._works.forgotten.append(session)
            self._works.seam.nudge()


class PoolEventCursor:
    """An iterator over the events of a pool from one moment on: `for event in cursor`. It ends with the pool."""

    def __init__(self, works: PoolRunner, inbox: Inbox) -> None:
        self._works = works
        self._inbox = inbox

    def __iter__(self) -> Iterator[PoolEvent]:
        return self

    def __next__(self) -> PoolEvent:
        event = self.next_item()
        if event is None:
            raise StopIteration
        return event

    def next_item(self, *, timeout: float | None = None) -> PoolEvent | None:
        """Return the next event, or None at the end.

        Args:
            timeout: seconds to wait for an event; None waits without limit. No event is lost after a timeout: call again.

        Raises:
            TimeoutError: no event came in time.
        """
        seam, inbox, limit = self._works.seam, self._inbox, checked_timeout(timeout)
        until = None if limit is None else time.monotonic() + limit
        while True:
            with seam.lock:
                event: PoolEvent | None = inbox.take()
                if event is not None or inbox.over:
                    return event
                seen = inbox.more.wakes
            left = None if until is None else max(0.0, until - time.monotonic())
            if not seam.wait(inbox.more, left, since=seen):
                raise TimeoutError(f"No event came within {limit:g} s. Nothing was lost: the next call continues.")

    def close(self) -> None:
        """Drop unread events and keep no further ones."""
        with self._works.seam.lock:
            self._inbox.end()
            self._inbox.clear()


class SessionPool(OtherShell):
    """Sessions that are started already, and more conversations than processes.

    Args:
        options: settings of all sessions; `Options()` if None. The pool chooses session ids itself.
        warm: number of CLI processes that wait unused; started in the background. One that was checked out is replaced half a second later,
            or as soon as a caller waits, so that its first turn has the processor to itself.
        max_live: limit on CLI processes. At the limit, idle conversations hibernate, least recently used first, then callers queue.
        max_starting: number of processes that start at the same time; the number of processors if None.
        memory_limit: bytes of resident memory of all CLI process trees; at the limit, idle conversations hibernate. None for no limit.
            Needs `hackamore[pool]`.
        idle: seconds after which a conversation without a holder hibernates.
        timeout: seconds that a caller waits for a session; None waits without limit.
        registry: a `hackamore.pool.Registry`, or the path of a SQLite file, which survives restarts; None keeps conversations in memory.
        transport: makes connections to the CLI; None for local child processes.

    Raises:
        OptionsError: an argument is out of range, or an option does not suit a pool.
        TypeError: an argument has an unsupported type.
        RegistryError: the file of the registry cannot be used.

    Example:
        ::

            with SessionPool(options, warm=2, max_live=16) as pool:
                with pool.conversation("user-42") as session:
                    print(((session.send("Hello")).result()).text)
    """

    __module__ = "hackamore.sync"

    def __init__(
        self,
        options: Options | None = None,
        *,
        warm: int = 1,
        max_live: int = 16,
        max_starting: int | None = None,
        memory_limit: int | None = None,
        idle: float = 300.0,
        timeout: float | None = 60.0,
        registry: Registry | str | os.PathLike[str] | None = None,
        transport: TransportSource | None = None,
    ) -> None:
        self._works: PoolRunner | None = None
        self._closed = False
        if options is not None and not isinstance(options, Options):
            raise TypeError(f"`options` must be a hackamore.Options, not {type(options).__name__}")
        self._options = options if options is not None else Options()
        check_base(self._options)
        _check_number("max_live", max_live, 1)
        _check_number("warm", warm, 0)
        if warm > max_live:
            raise OptionsError(f"`warm` must not be above `max_live`, got {warm} and {max_live}.", field="warm")
        if max_starting is None:
            max_starting = os.cpu_count() or 1
        _check_number("max_starting", max_starting, 1)
        if memory_limit is not None:
            _check_number("memory_limit", memory_limit, 1)
            check_package()
        seconds = checked_timeout(idle)
        if seconds is None:
            raise TypeError("`idle` must be a number of seconds, got None. Use `float('inf')` for no limit.")
        self._timeout = checked_timeout(timeout)
        if transport is not None and not isinstance(transport, TransportSource):
            raise TypeError(
                f"`transport` must be a TransportSource, which makes a transport for each process, not {type(transport).__name__}: see "
                "`hackamore.transports.base`"
            )
        self._transport = transport
        self._own_registry: SQLiteRegistry | None = None
        if isinstance(registry, (str, os.PathLike)):
            registry = self._own_registry = SQLiteRegistry(registry)
        self._registry: Registry = MemoryRegistry() if registry is None else registry
        if not isinstance(self._registry, Registry):
            raise TypeError(f"`registry` must be a hackamore.pool.Registry or a path, not {type(registry).__name__}")
        lease = self._registry.lease_seconds
        beat = min(BEAT_SECONDS, lease / 3)
        self._limits = PoolLimits(warm, max_live, max_starting, memory_limit, seconds, beat, lease, REFILL_SECONDS)

    def __repr__(self) -> str:
        if self._works is None:
            return f"SessionPool(not started, max_live={self._limits.max_live})"
        stats = self.stats()
        return (
            f"SessionPool(live={stats.live}, warm={stats.warm}, busy={stats.busy}, waiting={stats.waiting}, "
            f"max_live={self._limits.max_live})"
        )

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the pool; its warm processes start in the background. Further calls do nothing.

        Raises:
            PoolClosedError: the pool was stopped.
        """
        if self._closed:
            raise PoolClosedError(started=True)
        if self._works is None:
            self._works = PoolRunner(self._options, self._limits, self._registry, self._transport)
            self._works.seam.spawn(self._works.keep)

    def wait_warm(self, *, timeout: float | None = None) -> None:
        """Wait until all warm processes are ready.

        Args:
            timeout: seconds to wait; None waits without limit.

        Raises:
            TimeoutError: they are not ready in time.
            PoolClosedError: the pool was not started, or was stopped.
        """
        works, limit = self._running(), checked_timeout(timeout)
        until = None if limit is None else time.monotonic() + limit
        while True:
            with works.seam.lock:
                if works.core.closing:
                    raise PoolClosedError(started=True)
                stats, seen = works.core.stats(), works.core.warmed.wakes
            if stats.warm >= self._limits.warm:
                return
            works.hurry()
            left = None if until is None else max(0.0, until - time.monotonic())
            if not works.seam.wait(works.core.warmed, left, since=seen):
                raise TimeoutError(f"{stats.warm} of {self._limits.warm} warm processes were ready after {limit:g} s.")

    def drain(self, *, timeout: float | None = None) -> bool:
        """Refuse further check-outs, wait until the holders have returned their sessions, and stop the pool.

        Callers in the queue get `PoolClosedError`. Conversations hibernate, so that their transcripts are complete.

        Args:
            timeout: seconds to wait for the holders; their sessions are then stopped. None waits without limit.

        Returns:
            True if all holders had returned in time.
        """
        if self._works is None:
            self.stop()
            return True
        self._works.seam.check()
        self._closed = True
        done = self._works.drain(checked_timeout(timeout))
        self.stop()
        return done

    def stop(self) -> None:
        """Stop all processes, also those with a holder. When this returns, no process is left. Idempotent."""
        self._closed = True
        if self._works is not None:
            self._works.seam.check()
            self._works.stop()
        if self._own_registry is not None:
            self._own_registry.close()

    def close(self) -> None:
        """Stop the pool: the same as `stop()`."""
        self.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        works = getattr(self, "_works", None)
        if works is not None and not works.core.over:
            works.abandon()

    @property
    def options(self) -> Options:
        """The settings of all sessions, as given."""
        return self._options

    def _running(self) -> PoolRunner:
        if self._works is None or self._closed:
            raise PoolClosedError(started=self._closed)
        return self._works

    # -- sessions ------------------------------------------------------------------------------------------------------

    def session(self, *, timeout: float | None = None, caller: Any = None, **differences: Any) -> CheckOut:
        """Check out a session that was never used before; it is stopped after its `with` block.

        Args:
            timeout: seconds to wait for it; None for the `timeout` of the pool, infinity for no limit.
            caller: any object that says for whom the session is: `request.caller` in permission requests and dialogs, `context.caller`
                in hooks and tools.
            **differences: options that differ from those of the pool. `model`, `permission_mode` and `max_thinking_tokens` are applied to a
                warm process; others start a process of their own.

        Returns:
            An object to enter with `with`, which gives the session.

        Raises:
            OptionsError: a difference has a wrong name or value.
            PoolClosedError: the pool was not started, or was stopped.

        Example:
            ::

                with pool.session(model="haiku") as session:
                    turn = session.send("Hello")
        """
        return self._check_out(None, timeout, differences, caller)

    def conversation(
        self,
        key: str,
        *,
        timeout: float | None = None,
        caller: Any = None,
        on_leave: Literal["interrupt", "finish"] | None = None,
        **differences: Any,
    ) -> CheckOut:
        """Check out a conversation: it continues where its last holder stopped, in any process.

        One holder has it at a time, also among the programs that share a registry; further callers wait. After the `with` block its
        process waits for the next holder, or hibernates.

        Args:
            key: the name of the conversation in your application. An unknown one starts a new conversation.
            timeout: seconds to wait for it; None for the `timeout` of the pool, infinity for no limit.
            caller: any object that says for whom it is, such as the user of the request: `request.caller` in permission requests and
                dialogs, `context.caller` in hooks and tools. `conversation` beside it is the key.
            on_leave: the fate of turns that are open when the `with` block is left. `interrupt` interrupts them, cancels queued prompts and
                stops background agents; the next holder gets the process when all have ended, or another process after 10 seconds.
                `finish` lets them continue, also beside the next holder. None interrupts if the block is left by an exception, such as
                the cancellation of a request whose client is gone, and else lets them continue.
            **differences: options that differ from those of the pool, for this holder only; see `session`.

        Returns:
            An object to enter with `with`, which gives the session.

        Raises:
            TypeError: `key` is not a str.
            ValueError: `on_leave` has another value.
            OptionsError: a difference has a wrong name or value.
            PoolClosedError: the pool was not started, or was stopped.

        Example:
            ::

                with pool.conversation("user-42") as session:
                    turn = session.send("Where were we?")
        """
        if not _is_name(key):
            raise TypeError(f"`key` must be a non-empty str, got {key!r} ({type(key).__name__})")
        if on_leave not in (None, "interrupt", "finish"):
            raise ValueError(f"`on_leave` must be 'interrupt', 'finish' or None, got {on_leave!r}")
        return self._check_out(key, timeout, differences, caller, on_leave)

    def _check_out(
        self,
        key: str | None,
        timeout: float | None,
        differences: Mapping[str, Any],
        caller: Any,
        on_leave: str | None = None,
    ) -> CheckOut:
        with short_traceback:
            works = self._running()
            options = checked(self._options, differences, keyed=key is not None)
            wanted = split(self._options, options, differences)
            seconds = self._timeout if timeout is None else checked_timeout(timeout)
            return CheckOut(works, (key, wanted, seconds, caller), on_leave, self)

    # -- conversations by key ------------------------------------------------------------------------------------------

    def conversations(self) -> list[PooledConversation]:
        """Return the conversations of the registry, by key: those of all programs that share it.

        Returns:
            Their keys, sessions, working directories and states.

        Raises:
            PoolClosedError: the pool was not started, or was stopped.
            RegistryError: the registry failed.

        Example:
            ::

                for each in pool.conversations():
                    print(each.key, each.state)
        """
        return self._running().conversations()

    def forget(self, key: str) -> bool:
        """Delete a conversation: its transcript on the disk, its entries in the session store, and then its key in the registry.

        An idle process of the conversation ends before. The next check-out of the key starts a new conversation. If a part fails, the
        key stays, and you can call again.

        Args:
            key: the key of the conversation.

        Returns:
            False if the registry had no session for the key.

        Raises:
            ConversationInUseError: the conversation has a holder or callers that wait, or another program runs it, or a turn or background
                task that a holder left open does not end within 15 seconds.
            SessionInUseError: a CLI that does not belong to the pool works on the session.
            StoreError: the session store failed, or has no method `delete`.
            TranscriptError: a file cannot be deleted.
            RegistryError: the registry failed.
            PoolClosedError: the pool was not started, or was stopped.
        """
        return self._running().forget(key)

    def export(self, key: str, format: ExportFormat = "markdown") -> str:  # noqa: A002 - as in `hackamore.transcripts`
        """Return a conversation as a document, subagents included; from the session store, if it has the session.

        While the conversation has a holder, the document may lack its last messages.

        Args:
            key: the key of the conversation.
            format: `markdown`, `json` or `jsonl`; see `hackamore.transcripts.export`.

        Returns:
            The document. Write it as UTF-8.

        Raises:
            ConversationNotFoundError: the registry has no session for the key.
            SessionNotFoundError: nothing is kept of the session: it had no prompt, or its transcript was deleted.
            ValueError: `format` is unknown.
            StoreError: the session store failed.
            TranscriptError: a file cannot be read.
            RegistryError: the registry failed.
            PoolClosedError: the pool was not started, or was stopped.
        """
        return self._running().export(key, format)

    # -- numbers and events --------------------------------------------------------------------------------------------

    def stats(self) -> PoolStats:
        """Return the numbers of this moment: processes, callers, hits, wait times.

        Returns:
            The numbers, as attributes.

        Raises:
            PoolClosedError: the pool was not started.
        """
        if self._works is None:
            raise PoolClosedError(started=self._closed)
        with self._works.seam.lock:
            return self._works.core.stats()

    def events(self) -> PoolEventCursor:
        """Return an iterator over all events from now on: starts, check-outs, returns, hibernations, deaths.

        Returns:
            A cursor, which keeps unread events until it is closed.

        Raises:
            PoolClosedError: the pool was not started, or was stopped.
        """
        works, inbox = self._running(), Inbox()
        with works.seam.lock:
            works.cursors.add(inbox)
        return PoolEventCursor(works, inbox)


def _is_name(key: object) -> bool:
    return isinstance(key, str) and bool(key)


def _folder(cwd: str | os.PathLike[str] | None, far: Callable[[object], str] | None) -> str:
    return os.path.abspath(cwd or os.getcwd()) if far is None else far(cwd)


def _check_number(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionsError(f"`{name}` must be an int of at least {least}, got {value!r}.", field=name)
