"""One attempt, in a thread or process of a worker: workspace, CLI, answer, check, and each step in the journal before it is done."""

from __future__ import annotations

import os
import threading
import time
import traceback
import uuid
from collections import deque
from random import uniform
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hackamore import CollectResult
from hackamore.activity.metering import Meter
from hackamore.checked.schemas import MisfitError, decode_raw, raw_output
from hackamore.errors import (
    BudgetExceededError,
    HackamoreError,
    JournalError,
    SessionNotFoundError,
    escape_terminal,
)
from hackamore.fleet.checking import CommandError, Refused, check
from hackamore.fleet.classify import cause_of
from hackamore.fleet.log import AttemptLog
from hackamore.fleet.orders import Ended
from hackamore.fleet.recovery import NANO, Recovered, config_folder, recover, remove_unfinished
from hackamore.fleet.sites import explained
from hackamore.fleet.states import CAUSES, Cause, Opening, State, Trigger
from hackamore.fleet.task import Answer
from hackamore.fleet.watching import AttemptWatch
from hackamore.fleet.workspaces import Folder
from hackamore.messages import ApprovalPendingError, RateLimitedError, ResultError
from hackamore.options.retry import CONTINUE, back_off
from hackamore.storage.holders import process_name
from hackamore.sync.query import query
from hackamore.transports.process.orphans import end_orphan
from hackamore.transports.process.short_runs import ShortRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from hackamore.fleet.journal import Journal, Lease
    from hackamore.fleet.orders import Order
    from hackamore.fleet.workspaces import Place
    from hackamore.messages import Message
    from hackamore.sync.query import QueryStream
    from hackamore.transports.base import TransportSource

T = TypeVar("T")

_LONGEST_ERROR = 4_000
_LOGGED_ERROR = 500
_QUOTES = frozenset({Cause.VERIFY, Cause.OUTPUT, Cause.BUG})
_APPROVALS_SECONDS = 60.0
"""When a task that waits for a person is tried again if the database of approvals cannot be read."""
JOURNAL_SECONDS = 30.0
"""How long a worker tries to write to a journal that fails: another program may hold it, or space may be made."""
_PAUSE_SECONDS = (0.05, 2.0)
_ROOM_SECONDS = 1.0
"""How long an attempt waits for room in a budget."""
_UNWRITTEN = 2
"""Model calls that a killed CLI may have made without a transcript: a reply that it had not written, and the next call."""
_KEPT_MESSAGES = 50
_NEXT = {
    Trigger.ACCEPTED: State.SUCCEEDED,
    Trigger.POSTPONED: State.WAITING,
    Trigger.GIVEN_BACK: State.QUEUED,
    Trigger.GAVE_UP: State.FAILED,
    Trigger.CANCELLED: State.CANCELLED,
}


class _Interrupted(Exception):  # noqa: N818 - it ends no program
    """The attempt has to end: it was cancelled, stopped, or given to another worker."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause


def retry_journal(call: Callable[[], T], stopped: threading.Event) -> T:
    """Call a function of a journal; repeat it while the journal fails.

    Raises:
        JournalError: it failed for too long, or the worker was stopped.
    """
    until = time.monotonic() + JOURNAL_SECONDS
    failures = 0
    while True:
        try:
            return call()
        except JournalError as error:
            if not error.retryable or time.monotonic() > until:
                raise
            failures += 1
            if stopped.wait(back_off(failures, *_PAUSE_SECONDS, max)):  # the database lets them in one by one
                return call()


class AttemptRun:
    """Makes one attempt.

    Attributes:
        begun: True once the journal says that this worker has the attempt.
        finished: True once the journal may say that it has it no more.
    """

    def __init__(self, order: Order, journal: Journal, holder: str, transport: TransportSource | None = None) -> None:
        self.order: Order = order
        self.begun: bool = False
        self.finished: bool = False
        self._journal = journal
        self._holder = holder
        self._transport = transport
        self._lease: Lease = order.lease
        self._session_id: str = order.lease.session_id
        self._meter = Meter(order.prices, resumed=order.lease.resumed)
        self._noted = (0, 0)
        self._place: Place | None = None
        self._open = False
        self._stream: QueryStream | None = None
        self._checks: ShortRun | None = None
        self._stop_cause: Cause | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._log = AttemptLog(order.lease)
        self._watch: AttemptWatch | None = None
        self._next: State | None = None
        self._answers: Any = None  # of people, to calls of earlier attempts

    # -- from other threads --------------------------------------------------------------------------------------------

    def stop(self, cause: Cause) -> None:
        """End the attempt soon: `STOPPED`, `CANCELLED`, or `LOST` if another worker has it."""
        with self._lock:
            if self._stop_cause is not None:
                return
            self._stop_cause = cause
            stream, checks = self._stream, self._checks
        self._stopped.set()
        if stream is not None:
            stream.close()
        if checks is not None:
            checks.cancel()

    # -- the attempt ---------------------------------------------------------------------------------------------------

    def run(self) -> Ended:
        begun = time.time()
        try:
            if not self._begin():
                return self._ended(0.0, Cause.LOST)
        except JournalError as error:
            return self._ended(0.0, Cause.STOPPED, ends_fleet=error)
        lease = self._lease
        self._log.debug("Task %r: attempt %d %s", lease.task, lease.attempt, "resumes" if lease.resumed else "begins")
        self._watch = AttemptWatch(self.order, self._log.ids())
        ended: Ended | None = None
        try:
            ended = self._make(begun)
            return ended
        finally:
            self._report(ended)

    def _make(self, begun: float) -> Ended:
        try:
            self._work()
        except JournalError as error:
            return self._without_journal(begun, Cause.STOPPED, None, error)
        except BaseException as error:
            return self._failed(begun, error)
        return self._ended(begun, None)

    def _without_journal(self, begun: float, cause: Cause, until: float | None, error: JournalError) -> Ended:
        self._log.error(
            "Task %r: attempt %d: %s", self._lease.task, self._lease.attempt, error, extra={"code": "JOURNAL_FAILED"}
        )
        return self._ended(begun, cause, until, error)

    def _report(self, ended: Ended | None) -> None:
        assert self._watch is not None  # noqa: S101
        if ended is None or isinstance(ended.ends_fleet, JournalError):
            failure = "error" if ended is None else type(ended.ends_fleet).__name__
        else:
            failure = "" if ended.cause in (None, Cause.STOPPED, Cause.CANCELLED) else ended.cause.word
        cause = None if ended is None or ended.cause is None else ended.cause.word
        state = None if self._next is None else self._next.word
        self._watch.ended(state, cause, failure, self._session_id)

    def _ended(
        self, begun: float, cause: Cause | None, until: float | None = None, ends_fleet: HackamoreError | None = None
    ) -> Ended:
        return Ended(self._lease.task, self._lease.attempt, begun, cause, until, ends_fleet)

    def _begin(self) -> bool:
        order = self.order
        trace = None
        if order.traces is not None and order.options.trace is None:
            trace = trace_path(order.traces, order.task.id, self._lease.attempt)
        self._trace = trace
        self.begun = self._insist(lambda: self._journal.begin(self._lease, self._holder, trace=trace))
        return self.begun

    def _work(self) -> None:
        answer = self._from_earlier()
        if answer is None:
            answer = self._ask()
        else:
            self._note(folder=self._folder)
        text, output = answer
        usd, tokens = self._new_spending()
        self.finished = over = self.order.task.verify is None and self.order.workspace is None
        if not self._insist(
            lambda: self._journal.answer(
                self._lease, self._holder, text=text, output=output, over=over, usd=usd, tokens=tokens
            )
        ):
            raise _Interrupted(Cause.LOST)
        if over:
            self._remember_state(Trigger.ACCEPTED, written=True)
            return
        self._check(text, output)
        self._accept()

    def _from_earlier(self) -> tuple[str, str | None] | None:
        """End what an earlier attempt left running; prepare the folder; return the answer if there is one already."""
        lease = self._lease
        if lease.process is not None:
            end_orphan(lease.process)
        self._prepare()
        if lease.process is not None and self._place is not None and not isinstance(self.order.workspace, Folder):
            with explained(lease.task):
                unfinished = remove_unfinished(self._folder, lease.process)  # else they are committed with the work
            for path in unfinished:
                self._log.info("Task %r: removed %s, which a killed CLI had not finished", lease.task, path)
        found = self._settle_earlier()
        if lease.opening is Opening.CHECK:
            return lease.text or "", lease.output
        if lease.opening is Opening.CONTINUE and found is not None and found.answered:
            return found.text, found.output
        return None

    def _settle_earlier(self) -> Recovered | None:
        """Write down what killed attempts spent; return what the session of this one has."""
        lease = self._lease
        last: Recovered | None = None
        for attempt, session_id, process in self._journal.unsettled(lease.task, lease.attempt):
            found = self._recover(session_id, lease.before or self.order.task.prompt, killed=process is not None)
            if found is None:
                if process is not None:  # it had not written it yet, or another machine has it
                    self._settle(attempt, None, None, _UNWRITTEN)
                continue
            usd, tokens = self._journal.session_spending(lease.task, session_id, attempt)
            self._settle(attempt, max(0, found.usd - usd), max(0, found.tokens - tokens), found.unknown_calls)
            if session_id == lease.session_id:
                last = found
        return last

    def _recover(self, session_id: str, prompt: str | list[dict[str, Any]], *, killed: bool) -> Recovered | None:
        order = self.order
        output = order.task.output_type is not None or order.options.output_format is not None
        folder = config_folder(order.options)
        return recover(session_id, folder, prompt, order.prices, wants_output=output, killed=killed)

    def _settle(self, attempt: int, usd: int | None, tokens: int | None, unknown_calls: int) -> None:
        self._insist(lambda: self._journal.settle(self._lease.task, attempt, usd, tokens, unknown_calls))

    def _prepare(self) -> None:
        workspace = self.order.workspace
        if workspace is None:
            folder = os.path.abspath(self.order.options.cwd or os.getcwd())
        else:
            fresh = self._lease.attempt > 1 and not self._lease.resumed
            with self._step("prepare"):
                self._place = workspace.prepare(self._lease.task, fresh=fresh)
            folder = self._place.folder
        self._folder = folder

    # -- the CLI -------------------------------------------------------------------------------------------------------

    def _ask(self) -> tuple[str, str | None]:
        lease = self._lease
        if lease.opening is Opening.NEW:
            return self._query(self.order.task.prompt, {"session_id": self._session_id})
        if (broker := self.order.options.approvals) is not None and hasattr(broker, "conversation"):
            self._answers = broker.conversation(approval_key(self._journal.id, lease.task)).answers()
        try:
            prompt = CONTINUE if self._answers is None else self._answers.prompt
            return self._query(lease.prompt or prompt, {"resume": self._session_id})
        except SessionNotFoundError:
            # The attempt ended before its prompt was stored.
            self._session_id = self._log.session_id = str(uuid.uuid4())
            self._note(session_id=self._session_id)
            return self._query(self.order.task.prompt, {"session_id": self._session_id})

    def _query(self, prompt: Any, session: Mapping[str, Any]) -> tuple[str, str | None]:
        order = self.order
        options = order.options.with_output_type(order.task.output_type)
        chosen: dict[str, Any] = dict(session)
        if self._place is not None:
            chosen["cwd"] = self._folder
        if self._trace is not None:
            os.makedirs(os.path.dirname(self._trace), mode=0o700, exist_ok=True)
            chosen["trace"] = self._trace
        if (broker := options.approvals) is not None and hasattr(broker, "conversation"):
            chosen["approvals"] = broker.conversation(approval_key(self._journal.id, self._lease.task))
        # Before the start: what may have been sent must never be sent again.
        own = prompt is CONTINUE or (self._answers is not None and prompt == self._answers.prompt)
        self._note(said=True, folder=self._folder, prompt=prompt if own else None)
        stream = query(prompt, options.replace(**chosen), transport=self._transport)
        with self._lock:
            if self._stop_cause is not None:
                raise _Interrupted(self._stop_cause)
            self._stream = stream
        try:
            return self._read(stream)
        finally:
            stream.close()
            self._stream = None

    def _read(self, stream: QueryStream) -> tuple[str, str | None]:
        messages: deque[Message] = deque(maxlen=_KEPT_MESSAGES)
        results: list[Message] = []
        problem: HackamoreError | None = None
        with stream:
            self._log.pid = stream.pid
            self._note(process=None if stream.pid is None else process_name(stream.pid))
            replies = 0
            try:
                for message in stream:
                    self._open = message.type != "result"
                    self._meter.take(message)
                    messages.append(message)
                    if message.type == "result":
                        results.append(message)
                    if self._meter.replies > replies:
                        replies = self._meter.replies
                        self._note()
            except HackamoreError as error:
                problem = error
        if self._stop_cause is not None:
            raise _Interrupted(self._stop_cause)
        kept = [message for message in messages if message.type != "result"]
        collected = CollectResult([*kept, *results], terminal_error=problem)
        if self._answers is not None and (problem is None or isinstance(problem, ResultError)):
            self.order.options.approvals.done(self._answers)  # type: ignore[union-attr]
        answer = collected.run_result(self.order.task.output_type)
        output = raw_output(answer.result)
        return answer.text, None if output is None else output.decode()

    def _note(self, **facts: Any) -> None:
        usd, tokens = self._new_spending()
        why = self._insist(lambda: self._journal.note(self._lease, self._holder, usd=usd, tokens=tokens, **facts))
        if why is not None:
            raise _Interrupted(why)

    def _new_spending(self) -> tuple[int, int]:
        now = round(self._meter.usd * NANO), self._meter.tokens
        new = now[0] - self._noted[0], now[1] - self._noted[1]
        self._noted = now
        return new

    # -- the end -------------------------------------------------------------------------------------------------------

    def _check(self, text: str, output: str | None) -> None:
        task = self.order.task
        if task.verify is None:
            return
        value = None
        if output is not None:
            try:
                value = decode_raw(output.encode(), task.output_type)
            except MisfitError as error:
                raise Refused(f"The output does not fit: {error}") from error
        answer = Answer(
            task=task.id,
            attempt=self._lease.attempt,
            text=text,
            output=value,
            folder=self._folder,
            branch=None if self._place is None else self._place.branch,
            session_id=self._session_id,
        )
        run = ShortRun(os.urandom(16).hex())
        with self._lock:
            if self._stop_cause is not None:
                raise _Interrupted(self._stop_cause)
            self._checks = run
        with self._step("verify"):
            try:
                check(task.verify, answer, self.order.verify_seconds, run)
            except Refused:
                if run.cancelled and self._stop_cause is not None:
                    raise _Interrupted(self._stop_cause) from None
                raise

    def _accept(self) -> None:
        kept = self._finish_workspace(succeeded=True)
        self.finished = True
        written = self._insist(
            lambda: self._journal.finish(
                self._lease,
                self._holder,
                Trigger.ACCEPTED,
                folder=None if kept is None else kept.folder,
                branch=None if kept is None else kept.branch,
                keep_folder=self.order.workspace is None or kept is not None,
            )
        )
        self._remember_state(Trigger.ACCEPTED, written=written)

    def _remember_state(self, trigger: Trigger, *, written: bool) -> None:
        if written:
            self._next = _NEXT[trigger]
            self._log.debug("Task %r: %s after attempt %d", self._lease.task, self._next.word, self._lease.attempt)

    def _step(self, step: Literal["prepare", "verify", "finish"]) -> AbstractContextManager[None]:
        assert self._watch is not None  # noqa: S101
        return self._watch.step(step)

    def _finish_workspace(self, *, succeeded: bool) -> Place | None:
        if self.order.workspace is None or self._place is None:
            return None
        message = f"{self._lease.task}\n\nAgent session {self._session_id}"
        with self._step("finish"):
            return self.order.workspace.finish(self._lease.task, self._place, succeeded=succeeded, message=message)

    def _failed(self, begun: float, error: BaseException) -> Ended:
        cause, text = self._cause(error)
        policy = CAUSES[cause]
        retry, lease = self.order.retry, self._lease
        failures = lease.failures + policy.counted
        now = time.time()
        until = (
            error.resets_at.timestamp() if isinstance(error, RateLimitedError) and error.resets_at is not None else None
        )
        if isinstance(error, BudgetExceededError) and cause is Cause.SPENT and error.spent < error.limit:
            # The rest is reserved by agents that run, which may not need all of it.
            trigger, not_before = Trigger.POSTPONED, now + _ROOM_SECONDS
        elif cause in (Cause.LOST, Cause.STOPPED, Cause.SPENT, Cause.CLI):
            trigger, not_before = Trigger.GIVEN_BACK, 0.0
        elif cause is Cause.CANCELLED:
            trigger, not_before = Trigger.CANCELLED, 0.0
        elif isinstance(error, ApprovalPendingError):
            trigger, not_before = Trigger.POSTPONED, self._asked_until(error)
        elif policy.again and failures < retry.attempts:
            trigger = Trigger.POSTPONED
            not_before = max(now, until or 0.0) + back_off(max(failures, 1), retry.backoff, retry.max_delay, uniform)
            if until is not None and retry.rate_limit_wait is not None and until - now > retry.rate_limit_wait:
                trigger = Trigger.GAVE_UP
                text += (
                    f" Not tried again: the limit resets in {until - now:.0f} s, and `Retry.rate_limit_wait` is "
                    f"{retry.rate_limit_wait:g} s."
                )
        else:
            trigger, not_before = Trigger.GAVE_UP, 0.0
        ends = cause in (Cause.SPENT, Cause.CLI) and trigger is Trigger.GIVEN_BACK
        ends_fleet = error if ends and isinstance(error, HackamoreError) else None
        try:
            if trigger is Trigger.GAVE_UP:
                try:
                    self._finish_workspace(succeeded=False)
                except HackamoreError as problem:
                    text += f" Then: {problem}"
            self._settle_self(cause)
            usd, tokens = self._new_spending()
            self.finished = True
            if cause is Cause.APPROVAL:
                self._log.info("Task %r: attempt %d waits for a person", lease.task, lease.attempt)
            elif cause not in (Cause.LOST, Cause.STOPPED, Cause.CANCELLED):
                # Checks quote the answer, which stays out of the log.
                reason = cause.word if cause in _QUOTES else f"{cause.word}: {escape_terminal(text, _LOGGED_ERROR)}"
                self._log.warning(
                    "Task %r: attempt %d failed: %s",
                    lease.task,
                    lease.attempt,
                    reason,
                    extra={"code": "ATTEMPT_FAILED"},
                )
            written = self._insist(
                lambda: self._journal.finish(
                    lease,
                    self._holder,
                    trigger,
                    cause=cause,
                    error=escape_terminal(text, _LONGEST_ERROR),
                    counted=policy.counted,
                    not_before=not_before if trigger is Trigger.POSTPONED else 0.0,
                    feedback=_feedback(error) if cause in (Cause.VERIFY, Cause.OUTPUT) else None,
                    usd=usd,
                    tokens=tokens,
                )
            )
        except JournalError as problem:
            return self._without_journal(begun, cause, until, problem)
        self._remember_state(trigger, written=written)
        return self._ended(begun, cause, until, ends_fleet)

    def _asked_until(self, error: ApprovalPendingError) -> float:
        """Return when the last of the requests is answered in any case."""
        broker: Any = self.order.options.approvals
        try:
            return max(float(broker.get(name).deadline) for name in error.requests)
        except HackamoreError as problem:
            self._log.warning("The requests of task %r cannot be read: %s", self._lease.task, problem)
            return time.time() + _APPROVALS_SECONDS

    def _cause(self, error: BaseException) -> tuple[Cause, str]:
        match error:
            case _Interrupted():
                return error.cause, "The attempt was interrupted."
            case Refused():
                return Cause.VERIFY, str(error)
            case CommandError():
                return Cause.BUG, str(error)
            case BudgetExceededError() if error.key == "":
                own = "budget" in self.order.task.options and error.spent >= error.limit
                return Cause.BUDGET if own else Cause.SPENT, str(error)
        if self._stop_cause is not None and isinstance(error, HackamoreError):
            return self._stop_cause, "The attempt was interrupted."
        cause = cause_of(error)
        if cause is Cause.BUG:
            text = "".join(traceback.format_exception(error))
            self._log.error(
                "Task %r: the check of attempt %d raised an exception",
                self._lease.task,
                self._lease.attempt,
                exc_info=error,
                extra={"code": "CHECK_FAILED"},
            )
            return cause, text
        return cause, str(error)

    def _settle_self(self, cause: Cause) -> None:
        """After a process was killed or crashed, take from its transcript what it spent: its result, with the exact numbers, never came."""
        if (
            cause
            not in (Cause.CRASH, Cause.TIMEOUT, Cause.STALL, Cause.STOPPED, Cause.CANCELLED, Cause.SPENT, Cause.BUDGET)
            or not self._open
        ):
            return
        killed = cause is Cause.CRASH
        found = self._recover(self._session_id, "", killed=killed)
        if found is None:
            self._settle(self._lease.attempt, None, None, _UNWRITTEN if killed else 1)
            return
        usd, tokens = self._journal.session_spending(self._lease.task, self._session_id, self._lease.attempt)
        unknown = found.unknown_calls
        self._settle(self._lease.attempt, max(0, found.usd - usd), max(0, found.tokens - tokens), unknown)
        self._noted = round(self._meter.usd * NANO), self._meter.tokens

    def _insist(self, call: Callable[[], T]) -> T:
        return retry_journal(call, self._stopped)


def _feedback(error: BaseException) -> str:
    return (
        f"Your last answer was checked and not accepted:\n\n{escape_terminal(str(error), _LONGEST_ERROR)}\n\n"
        "Correct the work, and answer my first request again."
    )


def approval_key(journal: str, task: str) -> str:
    """Return the name of a task for people who answer its requests: the same one for all attempts, also in a new session."""
    return f"fleet {journal[:8]}: {task}"


def trace_path(folder: str, task: str, attempt: int) -> str:
    """Return the file for the trace of an attempt: task ids are any text, and never a path."""
    import hashlib
    import re

    name = re.sub(r"[^A-Za-z0-9._-]+", "_", task).strip("._-")[:60] or "task"
    if name != task:
        name += "-" + hashlib.sha256(task.encode(errors="surrogatepass")).hexdigest()[:8]
    return os.path.join(folder, f"{name}.{attempt}.jsonl")
