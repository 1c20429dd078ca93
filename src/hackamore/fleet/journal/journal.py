"""`Journal`: every change of a task, one transaction each, written before its effect.

A task in the hands of a driver or worker has its name as `holder`. Each lease has a new number of the attempt: a worker whose lease was
given to another one cannot change anything any more. `TASK` of `states` decides what may follow what.
"""

from __future__ import annotations

import secrets
import time
import uuid
from functools import wraps
from itertools import islice
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from hackamore.errors import JournalError, TaskChangedError
from hackamore.fleet.differences import difference
from hackamore.fleet.journal.tables import MIGRATIONS, TABLES, VERSION
from hackamore.fleet.states import HELD, OPENING, OVER, TASK, Cause, Opening, State, Trigger
from hackamore.fleet.task import FleetRow, Spec
from hackamore.storage.leases import Sightings, sign
from hackamore.storage.postgres_store import open_store
from hackamore.storage.stores import Kind

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from hackamore.storage.stores import Cursor, Store

P = ParamSpec("P")
T = TypeVar("T")

KIND = Kind(
    "journal", JournalError, TABLES, VERSION, MIGRATIONS, 0x42724A6C, "hackamore_fleet", "`hackamore fleet run`"
)
NANO = 1_000_000_000
"""Billionths of a dollar in a dollar: sums of many small parts stay exact."""
LEASE_SECONDS = 15.0
"""How long a driver or worker on another machine counts as running without a change of its heartbeat, by the clock of an observer."""
MOST_LOSSES = 30
"""How often a task may lose its driver or worker, without a reply of the model between, before it has failed: it may be what ends them."""
_SHOWN_CHANGED = 5
_IDS_AT_ONCE = 500
_LOOKED_AT = 16
"""How many tasks a lease looks at first: other drivers may have taken some since the caller read the changes."""
_WAITS = frozenset({State.QUEUED.word, State.WAITING.word})
_DUE_COLUMNS = (
    "number, id, state, not_before, attempt, session_id, said, resumes, feedback, answered, text, output, failures, "
    + ", ".join(
        f"(SELECT a.{name} FROM attempts a WHERE a.task = tasks.id AND a.attempt = tasks.attempt)"
        for name in ("prompt", "process")
    )
)
_HELD_COLUMNS = """t.id, t.attempt, t.state, t.cancel, t.losses, a.begun
    FROM tasks t JOIN attempts a ON a.task = t.id AND a.attempt = t.attempt"""
_CANCEL, _HALT = 1, 2
_REQUESTS: dict[int, Cause | None] = {0: None, _CANCEL: Cause.CANCELLED, _HALT: Cause.STOPPED}


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that may be made."""

    task: str
    attempt: int
    holder: str  # the worker that has it
    session_id: str  # the session, chosen before anything is started
    opening: Opening  # how it begins
    prompt: str | None  # the prompt; None for that of the task
    before: str | None  # the prompt of the earlier attempt; None for that of the task
    text: str | None  # the answer of an earlier attempt
    output: str | None  # that answer's structured output, as JSON; None without one
    failures: int  # the attempts that counted so far
    # the CLI of the earlier attempt, as `hackamore.storage.holders` names it; None if none was started
    process: str | None

    @property
    def resumed(self) -> bool:
        """True if an earlier attempt used this session."""
        return self.opening is not Opening.NEW


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a task's state; `number` is its position in the journal, `at` the seconds since 1970, `cause` why the attempt failed."""

    number: int
    at: float
    task: str
    attempt: int
    state: str
    cause: str | None
    note: str | None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, as the journal has it."""

    task: str
    attempt: int
    session_id: str
    resumed: bool  # True if it continued the session of an earlier attempt
    begun: float | None  # when its worker took it, in seconds since 1970; None if none did
    ended: float | None  # when it ended; None if it has not
    cost: float  # US dollars
    tokens: int  # read, written and cached
    cause: str | None  # why it failed; None if it did not
    error: str | None  # the text of the error
    folder: str | None  # the folder that the agent worked in
    trace: str | None  # the file with everything that was sent and received


class _Held(NamedTuple):
    """How an attempt stands that a driver or worker has."""

    state: State
    cancel: int
    losses: int
    begun: float | None

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> _Held:
        """Return the part of a row of `_HELD_COLUMNS`."""
        return cls(_state(row[2]), *row[3:])


def _whole(method: Callable[Concatenate[Journal, Cursor, P], T]) -> Callable[Concatenate[Journal, P], T]:
    """Make a method one transaction: all of it is written, or nothing."""

    @wraps(method)
    def call(self: Journal, /, *values: P.args, **more: P.kwargs) -> T:
        return self.store.transaction(lambda cursor: method(self, cursor, *values, **more))

    return call


class Journal:
    """The journal of a fleet, for any thread and process. `salt` is the key for digests of secrets; `sightings` are of other machines."""

    def __init__(self, store: Store) -> None:
        self.store: Store = store
        self.sightings: Sightings = Sightings(local="://" not in store.address)  # several machines may share Postgres

        # Programs may open an empty journal at the same time: the values of the first count.
        def facts(cursor: Cursor) -> tuple[str, str]:
            for name in ("id", "salt"):
                cursor.rows(
                    "INSERT INTO facts (name, value) VALUES (:name, :value) ON CONFLICT DO NOTHING",
                    name=name,
                    value=secrets.token_hex(16),
                )
            found: dict[str, str] = dict(cursor.rows("SELECT name, value FROM facts"))
            return found["id"], found["salt"]

        self.id: str
        self.id, salt = store.transaction(facts)
        self.salt: bytes = bytes.fromhex(salt)

    def __repr__(self) -> str:
        return f"Journal({self.store.title!r})"

    def close(self) -> None:
        """Close the database; the next call opens it again."""
        self.store.close()

    # -- tasks ---------------------------------------------------------------------------------------------------------

    @_whole
    def add(self, cursor: Cursor, tasks: Sequence[tuple[str, Spec]]) -> set[str]:
        """Add tasks; those that are there already stay as they are. Return the ids of those that are not over.

        Raises:
            TaskChangedError: the journal has a task under the same id with another content. Nothing was added.
        """
        [(last,)] = cursor.rows("SELECT coalesce(max(number), 0) FROM tasks")
        new: list[tuple[str, Spec]] = []
        changed: list[str] = []
        unfinished: set[str] = set()
        known = {row[0]: row for row in _by_ids(cursor, "id, spec, state", [name for name, _ in tasks])}
        for name, spec in tasks:
            found = known.get(name)
            if found is None:
                new.append((name, spec))
            elif text := difference(msgspec.json.decode(found[1], type=Spec), spec):
                changed.append(f"{name!r}: {text}")
            elif _state(found[2]) not in OVER:
                unfinished.add(name)
        if changed:
            raise TaskChangedError(self.store.title, changed[:_SHOWN_CHANGED], len(changed))
        cursor.many(
            "INSERT INTO tasks (number, id, spec, state, resumes) VALUES (:number, :id, :spec, 'queued', :resumes)",
            [
                {
                    "number": last + at,
                    "id": name,
                    "spec": msgspec.json.encode(spec).decode(),
                    "resumes": int(spec.resume),
                }
                for at, (name, spec) in enumerate(new, 1)
            ],
        )
        # Kept by state, so that the progress of a run costs the same with any number of tasks.
        cursor.rows("UPDATE counts SET tasks = tasks + :new WHERE state = 'queued'", new=len(new))
        return unfinished.union(name for name, _ in new)

    def lease(
        self, holder: str, most: int, known: Iterable[str], now: float, later: dict[str, float] | None = None
    ) -> list[Lease]:
        """Take tasks that are due, and write down an attempt for each.

        Args:
            known: the tasks that the caller can run, in their order. No more of them are looked at than needed: what else is in the journal
                costs nothing.
            now: the time, in seconds since 1970.
            later: gets the tasks that were looked at and are not due, with the time from when they are; infinity if a change has to come.
        """

        def work(cursor: Cursor) -> list[Lease]:
            leases: list[Lease] = []
            missed: dict[str, float] = {} if later is None else later
            names, size = iter(known), max(_LOOKED_AT, most)
            while len(leases) < most and (page := list(islice(names, size))):
                size = min(size * 2, _IDS_AT_ONCE)
                for _, task, state, not_before, *row in sorted(_by_ids(cursor, _DUE_COLUMNS, page), key=itemgetter(0)):
                    if state not in _WAITS:
                        missed[task] = inf
                    elif not_before > now:
                        missed[task] = not_before
                    elif len(leases) < most:
                        leases.append(self._leased(cursor, (task, state, *row), holder, now))
            return leases

        return self.store.transaction(work) if most > 0 else []

    def _leased(self, cursor: Cursor, row: tuple[Any, ...], holder: str, now: float) -> Lease:
        task, state, attempt, session_id, said, resumes, feedback, answered, text, output, *rest = row
        failures, before, process = rest
        unsent = feedback or (before if process is None else None)
        opening = OPENING[bool(answered), bool(session_id and said and resumes), bool(unsent)]
        resumed = opening is not Opening.NEW
        lease = Lease(
            task=task,
            attempt=attempt + 1,
            holder=holder,
            session_id=session_id if resumed else str(uuid.uuid4()),
            opening=opening,
            prompt=unsent if resumed else None,
            before=before if resumed else None,
            text=text if answered else None,
            output=output if answered else None,
            failures=failures,
            process=process,
        )
        cursor.rows(
            "INSERT INTO attempts (task, attempt, holder, session_id, resumed, prompt, leased) "
            "VALUES (:task, :attempt, :holder, :session_id, :resumed, :prompt, :now)",
            task=task,
            attempt=lease.attempt,
            holder=holder,
            session_id=lease.session_id,
            resumed=int(resumed),
            prompt=before if lease.prompt is None and resumed else lease.prompt,
            now=now,
        )
        changed = {"attempt": lease.attempt, "session_id": lease.session_id, "said": int(resumed), "feedback": None}
        _set_task(cursor, task, driver=holder, **changed)
        self._move(cursor, (task, lease.attempt), _state(state), Trigger.LEASED, now, holder=holder)
        return lease

    # -- attempts ------------------------------------------------------------------------------------------------------

    @_whole
    def begin(self, cursor: Cursor, lease: Lease, holder: str, *, trace: str | None) -> bool:
        """Take over a leased attempt, before its CLI is started; False if it is another worker's: nothing may be started then."""
        held = self._held(cursor, lease, lease.holder)
        if held is None or held.state is not State.LEASED:  # `give_back` or another worker was faster
            return False
        now = time.time()
        _set_attempt(cursor, (lease.task, lease.attempt), holder=holder, begun=now, trace=trace)
        # A step from 147 to 25 kB of log for an attempt (80,000 tasks): a holder that stays writes no page of its index.
        other = None if holder == lease.holder else holder
        self._move(cursor, (lease.task, lease.attempt), held.state, Trigger.BEGUN, now, holder=other)
        return True

    @_whole
    def note(
        self,
        cursor: Cursor,
        lease: Lease,
        holder: str,
        *,
        process: str | None = None,
        folder: str | None = None,
        said: bool = False,
        prompt: str | None = None,
        session_id: str | None = None,
        usd: int = 0,
        tokens: int = 0,
    ) -> Cause | None:
        """Write down what is known of a running attempt.

        Args:
            process: its CLI.
            folder: the folder that the agent works in.
            said: True once the prompt has arrived in the session: the next attempt can resume it.
            prompt: the prompt, if it is not the one of the lease.
            session_id: the session, if it is not the one of the lease.
            usd: billionths of a dollar since the last call.
            tokens: tokens since the last call.

        Returns:
            Why the attempt has to end: `LOST` (another worker has it), `CANCELLED` or `STOPPED`; None if it may continue.
        """
        held = self._held(cursor, lease, holder)
        if held is None:
            return Cause.LOST
        attempt = lease.task, lease.attempt
        if folder is not None:
            _set_task(cursor, lease.task, folder=folder)
        if session_id is not None:
            _set_attempt(cursor, attempt, session_id=session_id, resumed=0, prompt=None)
            _set_task(cursor, lease.task, session_id=session_id, said=0)
        told = {"process": process, "folder": folder, "prompt": prompt}
        if changed := {name: value for name, value in told.items() if value is not None}:
            _set_attempt(cursor, attempt, **changed)
        if said:
            _set_task(cursor, lease.task, said=1)
        self._spend(cursor, lease.task, lease.attempt, usd, tokens)
        return _REQUESTS[held.cancel]

    @_whole
    def answer(
        self,
        cursor: Cursor,
        lease: Lease,
        holder: str,
        *,
        text: str,
        output: str | None,
        over: bool = False,
        usd: int = 0,
        tokens: int = 0,
    ) -> bool:
        """Write down the answer of an attempt, before it is checked.

        Args:
            over: True if nothing is left to check or to clean up: it is the end of the attempt as well.
            usd: billionths of a dollar since the last call.
            tokens: tokens since the last call.

        Returns:
            False if the attempt belongs to another worker: the answer does not count then.
        """
        held = self._held(cursor, lease, holder)
        if held is None:
            return False
        stored = text.replace("\0", "\ufffd")  # Postgres does not store it
        _set_task(cursor, lease.task, text=stored, output=output, answered=1)
        self._spend(cursor, lease.task, lease.attempt, usd, tokens)
        attempt = lease.task, lease.attempt
        self._move(cursor, attempt, held.state, Trigger.ANSWERED, time.time())
        if over:  # in this transaction: another one would write all its pages again
            held = held._replace(state=State.VERIFYING)
            self._ended(cursor, attempt, held, Trigger.ACCEPTED, cause=None, error=None)
        return True

    @_whole
    def finish(
        self,
        cursor: Cursor,
        lease: Lease,
        holder: str,
        trigger: Trigger,
        *,
        cause: Cause | None = None,
        error: str | None = None,
        counted: bool = False,
        not_before: float = 0.0,
        feedback: str | None = None,
        folder: str | None = None,
        branch: str | None = None,
        keep_folder: bool = True,
        usd: int = 0,
        tokens: int = 0,
    ) -> bool:
        """Write down how an attempt ended.

        Args:
            trigger: the step that follows for the task.
            counted: True if it counts against `Retry.attempts`.
            not_before: for `POSTPONED`: the time of the next attempt, in seconds since 1970.
            feedback: the prompt of the next attempt, if that resumes the session.
            keep_folder: False if the folder of the attempt is gone.
            usd: billionths of a dollar since the last call.
            tokens: tokens since the last call.

        Returns:
            False if the attempt belongs to another worker: nothing was written then.
        """
        held = self._held(cursor, lease, holder)
        if held is None:
            return False
        self._ended(
            cursor,
            (lease.task, lease.attempt),
            held,
            trigger,
            cause=cause,
            error=error,
            counted=counted,
            not_before=not_before,
            feedback=feedback,
            work=(folder, branch, keep_folder),
            spent=(usd, tokens),
        )
        return True

    @_whole
    def settle(  # noqa: PLR0917
        self, cursor: Cursor, task: str, attempt: int, usd: int | None, tokens: int | None, unknown_calls: int
    ) -> None:
        """Replace what an attempt spent, once, by what its transcript has: its process was killed before it could say.

        Args:
            usd: billionths of a dollar; None for what was noted.
            tokens: read, written and cached; None for what was noted.
            unknown_calls: model calls that were open when the process ended.
        """
        found = cursor.rows(
            "SELECT usd, tokens FROM attempts WHERE task = :task AND attempt = :attempt AND settled = 0",
            task=task,
            attempt=attempt,
        )
        if found:
            before_usd, before_tokens = found[0]
            # The amount noted while it ran is an estimate, and may be too much.
            more_usd = 0 if usd is None else usd - before_usd
            more_tokens = 0 if tokens is None else tokens - before_tokens
            self._spend(cursor, task, attempt, more_usd, more_tokens)
            _set_attempt(cursor, (task, attempt), settled=1)
            more = "UPDATE tasks SET unknown_calls = unknown_calls + :count WHERE id = :task"
            cursor.rows(more, count=unknown_calls, task=task)

    def unsettled(self, task: str, before: int) -> list[tuple[int, str, str | None]]:
        """Return number, session and CLI of the attempts before a certain one that were killed before they could say what they spent."""
        sql = (
            "SELECT attempt, session_id, process FROM attempts WHERE task = :task AND attempt < :before "
            "AND settled = 0 AND begun IS NOT NULL ORDER BY attempt"
        )
        found = self._look(sql, task=task, before=before)
        return [(attempt, session_id, process) for attempt, session_id, process in found]

    def session_spending(self, task: str, session_id: str, before: int) -> tuple[int, int]:
        """Return billionths of a dollar and tokens of the attempts of one session before a certain one."""
        sql = (
            "SELECT coalesce(sum(usd), 0), coalesce(sum(tokens), 0) FROM attempts "
            "WHERE task = :task AND session_id = :session_id AND attempt < :before"
        )
        values = {"task": task, "session_id": session_id, "before": before}
        [(usd, tokens)] = self._look(sql, **values)
        return int(usd), int(tokens)

    # -- drivers and workers -------------------------------------------------------------------------------------------

    @_whole
    def beat(self, cursor: Cursor, holder: str) -> None:
        """Renew the sign of life of a driver or worker."""
        sql = (
            "INSERT INTO holders (holder, beat) VALUES (:holder, :beat) ON CONFLICT (holder) DO UPDATE SET beat = :beat"
        )
        cursor.rows(sql, holder=holder, beat=sign())

    @_whole
    def give_back(self, cursor: Cursor, holder: str) -> list[tuple[str, int]]:
        """Queue the tasks again that a driver has leased and no worker has begun (none can then); return their ids and attempts."""
        leased = [each for each in self._all_held(cursor, holder) if each[1].state is State.LEASED]
        for attempt, held in leased:
            self._ended(cursor, attempt, held, Trigger.GIVEN_BACK, cause=Cause.STOPPED, error=None)
        return [attempt for attempt, _ in leased]

    def leave(self, holder: str) -> None:
        """Give back what a driver or worker has, and forget it: it ends."""
        self.store.transaction(lambda cursor: self._leave(cursor, holder, Cause.STOPPED, None))

    def reclaim(self, me: str) -> int:
        """Give back the attempts of drivers and workers that are gone, but not of the caller; return how many those were."""

        def look(cursor: Cursor) -> list[tuple[Any, ...]]:
            return cursor.rows(
                "SELECT holder, beat FROM holders UNION SELECT t.holder, NULL FROM tasks t "
                "WHERE t.holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.holder = t.holder)"
            )

        try:
            found = self.store.look(look)
        except JournalError:
            self.sightings.clear()  # signs could not arrive either: silence proves nothing
            raise
        gone = [each for each in found if each[0] != me and self._is_gone(*each)]
        if not gone:
            return 0

        def work(cursor: Cursor) -> int:
            count = 0
            for each in look(cursor):
                if each in gone:  # with the same sign: one that has sent another since then is alive
                    count += self._leave(cursor, each[0], Cause.LOST, "its driver or worker is gone")
            return count

        return self.store.transaction(work)

    def take_report(self, task: str, me: str) -> bool:
        """Return whether a driver is the one that reports the end of a task: that of the last attempt, or the first to ask if it left."""

        def found(cursor: Cursor) -> str | None:
            [(driver,)] = cursor.rows("SELECT driver FROM tasks WHERE id = :task", task=task)
            return driver  # type: ignore[no-any-return]

        def work(cursor: Cursor) -> bool:
            if found(cursor) is None:  # `_leave` removed it: the first to ask reports
                _set_task(cursor, task, driver=me)
            return found(cursor) == me

        driver = self.store.look(found)
        return driver == me if driver is not None else self.store.transaction(work)

    def held(self, holder: str) -> dict[str, tuple[int, Cause | None]]:
        """Return the tasks of a driver or worker: their attempts, and why they have to end, if they have to."""
        found = self._look("SELECT id, attempt, cancel FROM tasks WHERE holder = :holder", holder=holder)
        return {task: (attempt, _REQUESTS[cancel]) for task, attempt, cancel in found}

    @_whole
    def halt(self, cursor: Cursor, tasks: Collection[str]) -> None:
        """Ask workers to give tasks back soon: their driver stops."""
        cursor.many(
            # A task that `cancel` ends stays cancelled: a halted one is queued again.
            "UPDATE tasks SET cancel = :halt WHERE id = :task AND cancel = 0 AND holder IS NOT NULL",
            [{"halt": _HALT, "task": task} for task in tasks],
        )

    def _leave(self, cursor: Cursor, holder: str, cause: Cause, error: str | None) -> int:
        everything = self._all_held(cursor, holder)
        for attempt, held in everything:
            lost = cause is Cause.LOST and held.state is not State.LEASED  # a task that never ran cannot end its worker
            for_good = lost and held.losses + 1 >= MOST_LOSSES
            if lost:
                cursor.rows("UPDATE tasks SET losses = losses + 1 WHERE id = :task", task=attempt[0])
            self._ended(
                cursor,
                attempt,
                held,
                Trigger.GAVE_UP if for_good else Trigger.GIVEN_BACK,
                cause=cause,
                error=f"{MOST_LOSSES} drivers or workers ended while they ran this task; the last time: {error}"
                if for_good
                else error,
            )
        cursor.rows(
            "UPDATE tasks SET driver = NULL WHERE driver = :holder AND state IN ('queued', 'leased', 'running', 'verifying', 'waiting')",
            holder=holder,
        )
        cursor.rows("DELETE FROM holders WHERE holder = :holder", holder=holder)
        return len(everything)

    # -- requests of people --------------------------------------------------------------------------------------------

    @_whole
    def cancel(self, cursor: Cursor, tasks: Collection[str] | None) -> int:
        """Cancel tasks that are not over (None: all); return how many there were. Running attempts end soon."""
        count = 0
        for task, attempt, state in self._chosen(cursor, tasks):
            if state in OVER:
                continue
            count += 1
            if state in HELD:
                _set_task(cursor, task, cancel=_CANCEL)
            else:
                _set_task(cursor, task, cause=Cause.CANCELLED.word, error=None)
                self._move(cursor, (task, attempt), state, Trigger.CANCELLED, time.time(), cause=Cause.CANCELLED)
        return count

    @_whole
    def retry(self, cursor: Cursor, tasks: Collection[str] | None, *, fresh: bool = False) -> int:
        """Queue tasks (None: all) that failed or were cancelled once more, with all their attempts; return how many there were.

        Args:
            fresh: True starts a new session; False continues the last one where there is one, or only checks an answer again that was not
                refused.
        """
        count = 0
        for task, attempt, state in self._chosen(cursor, tasks):
            if (state, Trigger.RETRIED) not in TASK:
                continue
            count += 1
            cursor.rows(
                "UPDATE tasks SET failures = 0, losses = 0, not_before = 0, cancel = 0, cause = NULL, error = NULL"
                + (", said = 0, answered = 0, feedback = NULL" if fresh else "")
                + " WHERE id = :task",
                task=task,
            )
            self._move(cursor, (task, attempt), state, Trigger.RETRIED, time.time())
        return count

    def _chosen(self, cursor: Cursor, tasks: Collection[str] | None) -> list[tuple[str, int, State]]:
        columns = "id, attempt, state, number"
        if tasks is None:
            found = cursor.rows(f"SELECT {columns} FROM tasks ORDER BY number")
        else:
            found = sorted(_by_ids(cursor, columns, tasks), key=itemgetter(3))
            if missing := set(tasks) - {row[0] for row in found}:
                names = ", ".join(sorted(map(repr, missing))[:_SHOWN_CHANGED])
                raise JournalError(
                    f"The journal {self.store.title!r} has no task {names}. `hackamore fleet results` lists them."
                )
        return [(task, attempt, _state(state)) for task, attempt, state, _ in found]

    # -- looking -------------------------------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Return how many tasks are in each state."""
        found: dict[str, int] = dict(self._look("SELECT state, tasks FROM counts"))
        return {state.word: found[state.word] for state in State}

    def asking(self) -> set[str]:
        """Return the tasks that wait for the answer of a person."""
        sql = "SELECT id FROM tasks WHERE state = 'waiting' AND cause = 'approval' AND not_before > 0"
        return {task for (task,) in self._look(sql)}

    @_whole
    def wake(self, cursor: Cursor, tasks: Collection[str]) -> None:
        """Let tasks that wait for the answer of a person be due now."""
        for task in tasks:
            sql = "UPDATE tasks SET not_before = 0 WHERE id = :task AND state = 'waiting' AND cause = 'approval'"
            cursor.rows(sql, task=task)

    def lost(self) -> list[str]:
        """Return the tasks in the hands of drivers and workers that are known to be gone; the next run takes them."""
        found = self._look(
            "SELECT t.id, t.holder, h.beat FROM tasks t LEFT JOIN holders h ON h.holder = t.holder "
            "WHERE t.holder IS NOT NULL ORDER BY t.number"
        )
        gone = {holder: self._is_gone(holder, beat) for _, holder, beat in found}
        return [task for task, holder, _ in found if gone[holder]]

    def spent(self) -> tuple[float, int]:
        """Return what all attempts spent: US dollars and tokens."""
        found = self._look("SELECT usd, tokens FROM totals")
        return (found[0][0] / NANO, found[0][1]) if found else (0.0, 0)

    def rows(self, states: Collection[str] | None = None, *, task: str | None = None) -> Iterator[FleetRow]:
        """Iterate over the tasks in the order in which they were added; None stands for all. `output` is what JSON has."""
        after = 0
        columns = (
            "number, id, state, attempt, failures, text, output, usd, tokens, seconds, session_id, branch, folder, cause, error, "
            "not_before, unknown_calls, spec"
        )
        one = "" if task is None else "AND id = :task "
        sql = f"SELECT {columns} FROM tasks WHERE number > :after {one}ORDER BY number LIMIT 500"
        while True:
            page = self._look(sql, after=after, task=task)
            for row in page:
                if states is None or row[2] in states:
                    yield _row(row)
            if len(page) < 500:
                return
            after = page[-1][0]

    def attempts(self, task: str) -> list[Attempt]:
        """Return the attempts of a task, in order."""
        columns = "task, attempt, session_id, resumed, begun, ended, usd, tokens, cause, error, folder, trace"
        sql = f"SELECT {columns} FROM attempts WHERE task = :task ORDER BY attempt"
        found = self._look(sql, task=task)
        every = [dict(zip(Attempt.__struct_fields__, row, strict=True)) for row in found]
        return [Attempt(**each | {"resumed": bool(each["resumed"]), "cost": each["cost"] / NANO}) for each in every]

    def changes(self, after: int = 0, most: int = 1000) -> list[Change]:
        """Return at most `most` changes in order, after the number of the last change that the caller knows."""
        columns = ", ".join(Change.__struct_fields__)
        sql = f"SELECT {columns} FROM changes WHERE number > :after ORDER BY number LIMIT :most"
        found = self._look(sql, after=after, most=most)
        return [Change(**dict(zip(Change.__struct_fields__, row, strict=True))) for row in found]

    def last_change(self) -> int:
        """Return the number of the last change."""
        return int(self._look("SELECT coalesce(max(number), 0) FROM changes")[0][0])

    def fact(self, name: str, value: str | None = None) -> str | None:
        """Return a fact about the journal; with a value, keep it under this name first."""
        if value is not None:
            sql = (
                "INSERT INTO facts (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value"
            )
            self.store.transaction(lambda cursor: cursor.rows(sql, name=name, value=value))
            return value
        found = self._look("SELECT value FROM facts WHERE name = :name", name=name)
        return found[0][0] if found else None

    def _look(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        return self.store.look(lambda cursor: cursor.rows(statement, **values))

    def _is_gone(self, holder: str, beat: int | None) -> bool:
        return self.sightings.is_gone(holder, beat, LEASE_SECONDS)

    # -- inside a transaction ------------------------------------------------------------------------------------------

    def _held(self, cursor: Cursor, lease: Lease, holder: str) -> _Held | None:
        """Return how an attempt stands, if it is still its holder's."""
        found = cursor.rows(
            f"SELECT {_HELD_COLUMNS} WHERE t.id = :task AND t.attempt = :attempt AND t.holder = :holder",
            task=lease.task,
            attempt=lease.attempt,
            holder=holder,
        )
        return _Held.of(found[0]) if found else None

    def _all_held(self, cursor: Cursor, holder: str) -> list[tuple[tuple[str, int], _Held]]:
        """Return the attempts of a driver or worker, and how they stand."""
        found = cursor.rows(f"SELECT {_HELD_COLUMNS} WHERE t.holder = :holder ORDER BY t.number", holder=holder)
        return [((row[0], row[1]), _Held.of(row)) for row in found]

    def _spend(self, cursor: Cursor, task: str, attempt: int, usd: int, tokens: int) -> None:
        if not usd and not tokens:
            return
        more = "usd = usd + :usd, tokens = tokens + :tokens"
        for statement in (
            "INSERT INTO totals (id, usd, tokens) VALUES (1, :usd, :tokens) "
            "ON CONFLICT (id) DO UPDATE SET usd = totals.usd + :usd, tokens = totals.tokens + :tokens",
            f"UPDATE tasks SET {more}, losses = 0 WHERE id = :task",  # a reply: the task is not what ends its workers
            f"UPDATE attempts SET {more} WHERE task = :task AND attempt = :attempt",
        ):
            cursor.rows(statement, usd=usd, tokens=tokens, task=task, attempt=attempt)

    def _ended(
        self,
        cursor: Cursor,
        attempt: tuple[str, int],
        held: _Held,
        trigger: Trigger,
        *,
        cause: Cause | None,
        error: str | None,
        counted: bool = False,
        not_before: float = 0.0,
        feedback: str | None = None,
        work: tuple[str | None, str | None, bool] = (None, None, True),
        spent: tuple[int, int] = (0, 0),
    ) -> None:
        task, number = attempt
        now = time.time()
        lost = cause is Cause.LOST  # also if it is cancelled: what it spent is not known yet
        # Only an attempt that would be repeated is cancelled: an end that came first stays.
        if held.cancel == _CANCEL and trigger in (Trigger.GIVEN_BACK, Trigger.POSTPONED):
            trigger, cause, error = Trigger.CANCELLED, Cause.CANCELLED, None
        word = None if cause is None else cause.word
        self._spend(cursor, task, number, spent[0], spent[1])
        ended = (
            "UPDATE attempts SET ended = :now, cause = :cause, error = :error, settled = CASE WHEN :lost = 1 THEN settled ELSE 1 END "
            "WHERE task = :task AND attempt = :attempt"
        )
        cursor.rows(ended, now=now, lost=int(lost), cause=word, error=error, task=task, attempt=number)
        cursor.rows(
            "UPDATE tasks SET cause = :cause, error = :error, failures = failures + :counted, not_before = :not_before, "
            "answered = CASE WHEN :keep = 1 THEN answered ELSE 0 END, cancel = 0, seconds = seconds + :seconds, "
            "feedback = :feedback, "
            "folder = CASE WHEN :kept = 1 THEN coalesce(:folder, folder) END, branch = coalesce(:branch, branch) "
            "WHERE id = :task",
            cause=word,
            error=error,
            counted=int(counted),
            not_before=not_before,
            keep=int(cause not in (Cause.VERIFY, Cause.OUTPUT)),  # a refused answer is not checked again, any other is
            feedback=feedback,
            seconds=max(0.0, now - held.begun) if held.begun is not None else 0.0,  # the clock may be set back
            folder=work[0],
            branch=work[1],
            kept=int(work[2]),
            task=task,
        )
        self._move(cursor, (task, number), held.state, trigger, now, cause=cause, note=error)

    def _move(
        self,
        cursor: Cursor,
        attempt: tuple[str, int],
        state: State,
        trigger: Trigger,
        now: float,
        *,
        holder: str | None = None,
        cause: Cause | None = None,
        note: str | None = None,
    ) -> None:
        task, number = attempt
        after = TASK[state, trigger]
        # An index has the holder: it is written if it changes.
        _set_task(cursor, task, state=after.word, **({} if holder is None and after in HELD else {"holder": holder}))
        counted = "UPDATE counts SET tasks = tasks + CASE state WHEN :after THEN 1 ELSE -1 END WHERE state IN (:before, :after)"
        cursor.rows(counted, before=state.word, after=after.word)
        change = (
            "INSERT INTO changes (number, at, task, attempt, state, cause, note) "
            "SELECT coalesce(max(number), 0) + 1, :now, :task, :attempt, :state, :cause, :note FROM changes"
        )
        word = None if cause is None else cause.word
        cursor.rows(change, now=now, task=task, attempt=number, state=after.word, cause=word, note=note)


def _set_task(cursor: Cursor, task: str, **values: object) -> None:
    columns = ", ".join(f"{name} = :{name}" for name in values)
    cursor.rows(f"UPDATE tasks SET {columns} WHERE id = :task", task=task, **values)


def _set_attempt(cursor: Cursor, key: tuple[str, int], **values: object) -> None:
    columns = ", ".join(f"{name} = :{name}" for name in values)
    cursor.rows(
        f"UPDATE attempts SET {columns} WHERE task = :its_task AND attempt = :its_number",
        its_task=key[0],
        its_number=key[1],
        **values,
    )


def _row(row: tuple[Any, ...]) -> FleetRow:
    from datetime import UTC, datetime

    found = dict(zip(FleetRow.__struct_fields__, row[1:], strict=True))
    waits = found["state"] == State.WAITING.word and found["not_before"]
    changes = {
        "output": None if found["output"] is None else msgspec.json.decode(found["output"]),
        "cost": found["cost"] / NANO,
        "not_before": datetime.fromtimestamp(found["not_before"], UTC) if waits else None,
        "tags": msgspec.json.decode(found["tags"], type=Spec).tags,
    }
    return FleetRow(**found | changes)


def _state(word: str) -> State:
    return State[word.upper()]


def _by_ids(cursor: Cursor, columns: str, ids: Collection[str]) -> list[tuple[Any, ...]]:
    """Return columns of tasks; some hundred at a time, as statements have a limit."""
    names = list(ids)
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(names), _IDS_AT_ONCE):  # SQLite before 3.32 takes 999 parameters
        values = {f"id{at}": name for at, name in enumerate(names[start : start + _IDS_AT_ONCE])}
        places = ", ".join(f":{each}" for each in values)
        found += cursor.rows(f"SELECT {columns} FROM tasks WHERE id IN ({places})", **values)
    return found


def open_journal(address: str | os.PathLike[str], *, create: bool = True) -> Journal:
    """Open the journal in a SQLite file, or at the URL of a Postgres database (`postgresql://...`; it needs `hackamore[postgres]`).

    Raises:
        JournalError: it cannot be used, or does not exist and `create` is False.
    """
    return Journal(open_store(KIND, address, create=create))
