"""The driver of one run: a thread that leases tasks, gives them to an engine, follows rate limits, and reports."""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from hackamore.errors import ApprovalError, BudgetExceededError, HackamoreError, JournalError
from hackamore.fleet.attempt import JOURNAL_SECONDS, approval_key
from hackamore.fleet.engines import Engine, ExecutorEngine, LocalEngine
from hackamore.fleet.events import ConcurrencyChanged, FleetEvent, FleetProgress, TaskChanged, TaskFinished
from hackamore.fleet.gate import Gate
from hackamore.fleet.log import logger
from hackamore.fleet.mailbox import Mailbox
from hackamore.fleet.orders import Ended, Order
from hackamore.fleet.queue import TaskQueue
from hackamore.fleet.states import CAUSES, HELD, OVER, Cause, State, Trigger
from hackamore.fleet.task import spec_of
from hackamore.fleet.watching import RunWatch
from hackamore.fleet.worker import Worker
from hackamore.runtime.event_loops import context_for_thread
from hackamore.runtime.threads import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hackamore.fleet.journal import Change, Journal, Lease
    from hackamore.fleet.plan import FleetPlan
    from hackamore.fleet.task import FleetRow, Task

_RECLAIM_SECONDS = 2.0
_LOOK_SECONDS = 1.0
"""How often the journal is read for what other programs changed."""
_OVERLOAD_SECONDS = 5.0
"""How long nothing starts after the API was overloaded."""
_THROTTLE_SECONDS = 20.0
"""The same for a rate limit that names no time."""
_RESULT_SECONDS = 5.0
"""How long the executor may take to return an attempt that the journal has as ended: it may have lost it with a connection."""
_HELD = frozenset(state.word for state in HELD)
_OVER = frozenset(state.word for state in OVER)
_WAITS = frozenset({State.QUEUED.word, State.WAITING.word})
_ADDED_AT_ONCE = 1_000


class Driver:
    """Runs tasks until all are over.

    Args:
        tasks: the tasks; None for what `add` adds until `close`.

    Attributes:
        error: the error that ended the run; None if it ended well.
        error_read: True once its user got it.
        ended: set once nothing of the run is left: no process, no thread.
    """

    def __init__(self, plan: FleetPlan, journal: Journal, tasks: Iterable[Task] | None) -> None:
        self.events: Mailbox[FleetEvent] = Mailbox()
        self.error: BaseException | None = None
        self.error_read: bool = False
        self.ended: threading.Event = threading.Event()
        self._plan = plan
        self._journal = journal
        self._given = tasks
        self._accepts = tasks is None
        self._tasks: dict[str, Task] = {}
        self._open: set[str] = set()
        self._queue = TaskQueue()
        self._running: set[tuple[str, int]] = set()
        self._last_leased: dict[str, int] = {}
        self._awaited: dict[tuple[str, int], float] = {}
        self._gate = Gate(plan.concurrency)
        self._done: deque[tuple[Lease, Ended | BaseException]] = deque()
        self._new: deque[tuple[Task, Callable[[BaseException], object]] | threading.Event] = deque()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._draining = False
        self._withdrawn = False
        self._stopping = False
        self._halted = False
        self._reclaim_at = 0.0
        self._asking: set[str] = set()  # tasks that wait for the answer of a person
        self._look_at_answers_at = 0.0
        self._worker = Worker(journal, plan.transport)
        self._engine: Engine = (
            LocalEngine(self._worker) if plan.executor is None else ExecutorEngine(plan.executor, self._worker)
        )
        self._seen = 0
        self._began = time.monotonic()
        self._ended_here = 0
        self._charged: tuple[float, int] | None = None
        self._watch = RunWatch(plan.options.telemetry, journal.id, plan.concurrency)
        # The caller's context variables hold the span that is current there.
        main = partial(context_for_thread().run, self._main)
        self._thread = threading.Thread(target=main, name="hackamore-fleet-driver", daemon=True)

    # -- from other threads --------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def add(self, task: Task, refuse: Callable[[BaseException], object]) -> None:
        """Add a task to a run that is open for more; `refuse` is called with the error if it cannot be added."""
        self._new.append((task, refuse))
        self._wake.set()

    def wait_added(self) -> None:
        """Wait until the journal has all tasks that were added before, or the run has ended."""
        if threading.current_thread() is self._thread:  # a user's callback on a future that was refused
            return
        added = threading.Event()
        self._new.append(added)
        self._wake.set()
        if not self.ended.is_set():  # it is set before what is left here is woken
            wait_for(added)

    def close(self) -> None:
        """End the run once all tasks are over: no task will be added."""
        self._accepts = False
        self._wake.set()

    def drain(self) -> None:
        """Start nothing more; the run ends once the attempts that run have ended."""
        self._draining = True
        self._wake.set()

    def stop(self) -> None:
        """End the attempts that run as well; their tasks are queued again."""
        self._draining = self._stopping = True
        self._wake.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until nothing of the run is left; return False if the time passed."""
        return wait_for(self.ended, timeout)

    def progress(self) -> FleetProgress:
        """Return how things stand now."""
        counts = self._journal.counts()
        usd, tokens = self._journal.spent()
        seconds = time.monotonic() - self._began
        total, over = sum(counts.values()), sum(counts[state] for state in _OVER)
        left = seconds / self._ended_here * (total - over) if self._ended_here else None
        now = time.time()
        return FleetProgress(
            states=counts,
            total=total,
            running=len(self._running),
            limit=self._gate.limit,
            until=self._gate.opens_at if self._gate.opens_at > now else None,
            cost=usd,
            tokens=tokens,
            seconds=seconds,
            seconds_left=left,
            draining=self._draining,
        )

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _main(self) -> None:
        self._watch.begin()
        try:
            self._run()
        except BaseException as error:
            if not isinstance(error, HackamoreError):
                logger.error("The driver of a fleet failed", exc_info=error, extra={"code": "DRIVER_FAILED"})
            self._fail(error)
        finally:
            try:
                self._end()
            except BaseException as error:
                self._fail(error)
            self._watch.ended(self.error)
            self.ended.set()
            self.events.end()
            self._refuse_new()  # also what came in the meantime

    def _fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error

    def _run(self) -> None:
        plan, journal = self._plan, self._journal
        self._seen = journal.last_change()
        self._worker.start()
        plan.charge_earlier(journal)
        self._charged = journal.spent()
        self._journal.reclaim(self._worker.holder)
        if self._given is not None:
            self._add_all(self._given)
            self._given = None
        failing: float | None = None
        while True:
            self._wake.clear()
            try:
                if self._step():
                    return
                failing = None
                pause = self._pause()
            except JournalError as error:
                failing = failing or time.monotonic()
                if not error.retryable or time.monotonic() - failing > JOURNAL_SECONDS:
                    raise
                logger.warning("The journal of a fleet fails: %s", error, extra={"code": "JOURNAL_FAILED"})
                pause = _LOOK_SECONDS
            self._wake.wait(pause)

    def _step(self) -> bool:
        self._take_new()
        self._take_ended()
        self._report()
        if time.monotonic() >= self._reclaim_at:
            self._journal.reclaim(self._worker.holder)
            self._reclaim_at = time.monotonic() + _RECLAIM_SECONDS
        if self._engine.remote:
            self._charge()
            self._drop_awaited()
        if self._draining:
            self._withdraw()
            if not self._running:
                return True
            if self._stopping and not self._halted:
                self._halted = True
                self._halt()
        elif not self._open and not self._running:
            return not (self._accepts or self._new)
        else:
            if self._asking and time.monotonic() >= self._look_at_answers_at:
                self._look_at_answers()
                self._look_at_answers_at = time.monotonic() + _LOOK_SECONDS
            self._lease()
        return False

    def _look_at_answers(self) -> None:
        """Let tasks continue whose requests are all answered."""
        asked: dict[int, set[str]] = {}
        answered = []
        for task in self._asking:
            broker: Any = self._plan.options_of(self._tasks[task]).approvals
            try:
                if hasattr(broker, "waiting") and id(broker) not in asked:
                    asked[id(broker)] = broker.waiting()
            except ApprovalError as error:
                logger.warning("The approvals of a fleet fail: %s", error, extra={"code": "APPROVALS_FAILED"})
                return
            if approval_key(self._journal.id, task) not in asked.get(id(broker), ()):
                answered.append(task)
        self._journal.wake(answered)
        for task in answered:
            self._asking.discard(task)
            self._queue.put(task)

    def _pause(self) -> float:
        now = time.time()
        pause = _LOOK_SECONDS
        if self._gate.opens_at > now:
            return min(pause, self._gate.opens_at - now)
        if not self._draining and len(self._running) < self._gate.limit and (due := self._queue.next_due()) is not None:
            pause = min(pause, max(0.005, due - now))
        return pause

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _add_all(self, tasks: Iterable[Task]) -> None:
        batch: list[Task] = []
        for task in tasks:
            self._plan.check_task(task)
            if task.id in self._tasks:
                raise self._plan.twice(task.id)
            self._engine.check(task, self._plan.options_of(task))
            self._tasks[task.id] = task
            batch.append(task)
            if len(batch) >= _ADDED_AT_ONCE:
                self._add(batch)
                batch.clear()
        self._add(batch)

    def _add(self, tasks: list[Task]) -> None:
        plan, journal = self._plan, self._journal
        specs = [(task.id, spec_of(task, plan.options_of(task), plan.retry_of(task), journal.salt)) for task in tasks]
        unfinished = journal.add(specs)
        self._open.update(unfinished)
        if journal.counts()[State.WAITING.word]:
            self._asking |= journal.asking() & unfinished
        now = time.time()
        for task in tasks:
            if task.id in unfinished:
                self._queue.put(task.id)
                self._watch.queued(task.id, now)

    def _take_new(self) -> None:
        while self._new:
            new = self._new.popleft()
            if isinstance(new, threading.Event):
                new.set()
                continue
            task, refuse = new
            try:
                self._add_all([task])
            except Exception as error:
                refuse(error)
                continue
            if task.id not in self._open:  # an earlier run has its result
                self._finished(task.id, time.time())

    def _lease(self) -> None:
        now = time.time()
        free = self._gate.free(len(self._running), now)
        if not free or not self._open:
            return
        taken: list[str] = []
        later: dict[str, float] = {}
        try:
            leases = self._journal.lease(self._worker.holder, free, self._queue.take(now, taken), now, later)
            later |= {lease.task: inf for lease in leases}
        finally:
            for task in taken:
                self._queue.put(task, later.get(task, 0.0))
        for lease in leases:
            self._running.add((lease.task, lease.attempt))
            self._last_leased[lease.task] = lease.attempt
            self._watch.leased(lease.task, lease.attempt, now)
            try:
                self._engine.submit(self._order(lease), lambda outcome, lease=lease: self._outcome(lease, outcome))  # type: ignore[misc]
            except HackamoreError as error:
                self._running.discard((lease.task, lease.attempt))
                self._journal.finish(
                    lease, self._worker.holder, Trigger.GIVEN_BACK, cause=Cause.STOPPED, error=str(error)
                )
                raise

    def _order(self, lease: Lease) -> Order:
        plan, task = self._plan, self._tasks[lease.task]
        return Order(
            lease=lease,
            task=task,
            options=plan.attempt_options(task),
            workspace=plan.workspace_of(task),
            retry=plan.retry_of(task),
            prices=plan.prices,
            journal=self._journal.store.address,
            traces=plan.traces,
            verify_seconds=plan.verify_seconds,
            run=self._watch.context,
        )

    def _outcome(self, lease: Lease, outcome: Ended | BaseException) -> None:
        self._done.append((lease, outcome))
        self._wake.set()

    def _take_ended(self) -> None:
        while self._done:
            lease, outcome = self._done[0]
            if isinstance(outcome, Ended):
                self._follow(outcome)
                self._forget(lease)
                continue
            # The engine lost it. An attempt of another worker is given back once that worker is known to be gone.
            self._journal.finish(lease, self._worker.holder, Trigger.GIVEN_BACK, cause=Cause.LOST, error=repr(outcome))
            self._forget(lease)
            if isinstance(outcome, HackamoreError):
                self._fail(outcome)
                self._draining = True

    def _forget(self, lease: Lease) -> None:
        _, outcome = self._done.popleft()
        cause = outcome.cause if isinstance(outcome, Ended) else Cause.LOST
        self._attempt_ended((lease.task, lease.attempt), cause)

    def _attempt_ended(self, attempt: tuple[str, int], cause: Cause | None) -> None:
        self._awaited.pop(attempt, None)
        if attempt in self._running:
            self._watch.attempt_ended(None if cause is None else cause.word)
            self._running.discard(attempt)

    def _drop_awaited(self) -> None:
        """End attempts that the executor does not return: the journal has their results."""
        now = time.monotonic()
        for attempt in [each for each, since in self._awaited.items() if now - since > _RESULT_SECONDS]:
            self._attempt_ended(attempt, Cause.LOST)

    def _follow(self, ended: Ended) -> None:
        """Follow the end of an attempt: rate limits, and errors that no other attempt can avoid."""
        now = time.time()
        before = self._gate.limit, self._gate.opens_at
        if ended.ends_fleet is not None:
            self._fail(ended.ends_fleet)
            self._draining = True
        if ended.cause is None:
            self._gate.went_well(ended.begun)
        elif CAUSES[ended.cause].slower:
            seconds = _THROTTLE_SECONDS if ended.cause is Cause.THROTTLED else _OVERLOAD_SECONDS
            pause = min(seconds, self._plan.retry.max_delay)
            self._gate.slow_down(ended.begun, now, pause=pause, resets_at=ended.until)
        if (self._gate.limit, self._gate.opens_at) != before:
            self.events.put(
                ConcurrencyChanged(
                    limit=self._gate.limit,
                    most=self._gate.most,
                    until=self._gate.opens_at if self._gate.opens_at > now else None,
                    cause=None if ended.cause is None else ended.cause.word,
                    at=now,
                )
            )
            self._watch.limit_changed(self._gate.limit)

    # -- reports -------------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        """Read what was changed in the journal, here and by others."""
        while True:
            changes = self._journal.changes(self._seen)
            for change in changes:
                self._seen = change.number
                if change.task in self._tasks:
                    self._changed(change)
            if len(changes) < 1000:
                return

    def _changed(self, change: Change) -> None:
        if change.state not in _HELD and (change.task, change.attempt) in self._running:
            self._awaited[change.task, change.attempt] = time.monotonic()
        self._queue.put(change.task, 0.0 if change.state in _WAITS else inf)
        self._asking.discard(change.task)
        if change.cause == Cause.APPROVAL.word and change.state == State.WAITING.word:
            self._asking.add(change.task)
        if change.state == State.CANCELLED.word:
            self._take_requests_back(change.task)
        if change.state in _OVER:
            if change.task in self._open:
                self._open.discard(change.task)
                self._ended_here += 1
                # A program that submitted the task gets its result in any case.
                if self._accepts or self._is_reported_here(change.task, change.attempt):
                    row = self._finished(change.task, change.at)
                    self._watch.task_ended(row.task, change.attempt, row.state, row.seconds)
            return
        self._open.add(change.task)
        if change.state in _WAITS:
            self._watch.queued(change.task, change.at)
        self.events.put(
            TaskChanged(
                task=change.task,
                attempt=change.attempt,
                state=change.state,
                cause=change.cause,
                error=change.note,
                at=change.at,
            )
        )

    def _take_requests_back(self, task: str) -> None:
        broker: Any = self._plan.options_of(self._tasks[task]).approvals
        if hasattr(broker, "conversation"):
            try:
                broker.conversation(approval_key(self._journal.id, task)).withdraw()
            except ApprovalError as error:
                logger.warning("The approvals of a fleet fail: %s", error, extra={"code": "APPROVALS_FAILED"})

    def _is_reported_here(self, task: str, attempt: int) -> bool:
        mine, self._last_leased[task] = self._last_leased.get(task), 0
        return mine == attempt or self._journal.take_report(task, self._worker.holder)

    def _finished(self, task: str, at: float) -> FleetRow:
        [row] = self._journal.rows(task=task)
        self.events.put(TaskFinished(row=self._plan.typed(row, self._tasks.get(task)), at=at))
        return row

    def _charge(self) -> None:
        budget = self._plan.budget
        if budget is None or self._charged is None:
            return
        now = self._journal.spent()
        usd, tokens = now[0] - self._charged[0], now[1] - self._charged[1]
        self._charged = now
        try:
            # The sum falls where the cost of a result is below what was counted during its turn.
            budget.charge(usd, tokens, correction=True)
        except BudgetExceededError as error:
            if self.error is None:
                self._fail(error)
                self.stop()

    def _withdraw(self) -> None:
        """Give back, once, what was leased and not begun: an executor may have it in a queue. No worker can begin it after that."""
        if self._running and not self._withdrawn:
            self._engine.forget(self._journal.give_back(self._worker.holder))
        self._withdrawn = True

    def _halt(self) -> None:
        self._withdraw()
        self._worker.stop()
        if self._engine.remote:
            self._journal.halt([task for task, _ in self._running])

    def _end(self) -> None:
        if self._running and self.error is not None:
            self._halt()
            until = time.monotonic() + 60.0
            while self._running and time.monotonic() < until:
                self._wake.clear()
                while self._done:
                    self._forget(self._done[0][0])
                if self._running:
                    self._wake.wait(_LOOK_SECONDS)
        self._engine.end()
        self._worker.end()
        try:
            self._report()
        except JournalError:
            if self.error is None:
                raise
        self._refuse_new()

    def _refuse_new(self) -> None:
        while self._new:
            new = self._new.popleft()
            if isinstance(new, threading.Event):
                new.set()
            else:
                new[1](self.error or RuntimeError("the fleet was shut down"))
