"""Requests of the CLI as jobs: how they begin, wait for their turn and end, and which answer counts.

A request becomes a `Job`; the shell runs its `call` and hands in the outcome. The first of answer, timeout, crash and cancellation ends
the exchange; later outcomes are dropped. A limited number of jobs of each kind (hooks, permissions, MCP, dialogs) runs at the same time;
the others are queued, and their timeout counts while they are.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hackamore._engine.protocol.log import one_line
from hackamore.activity.decisions import decision
from hackamore.checked.functions import AnswerError, callback_failure, place_of
from hackamore.errors import escape_terminal, text_of
from hackamore.options.observing import CallbackEnd
from hackamore.tools import ToolError

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Iterator

    from hackamore._engine.answering.observers import Observers
    from hackamore._engine.protocol.connection import Connection
    from hackamore._engine.protocol.deadlines import Deadlines, TurnDeadlines
    from hackamore._engine.protocol.log import SessionLog
    from hackamore.checked.functions import Reach
    from hackamore.errors import StreamWarning
    from hackamore.runtime.log import Log
    from hackamore.tools import ToolCallPlan

__all__ = ["Job", "JobParts", "Jobs", "SessionParts"]

CANCELLED = CallbackEnd("cancelled", None, "")


class SessionParts(NamedTuple):
    """The parts of a session that answers use.

    Attributes:
        deadlines: keeps the timeouts of kind `callback`, by request.
        silence: hears of each answer.
        reach: returns how a callback of this moment reaches its session, and for whom it is called.
        post: runs a function where the core may be touched; safe from any thread.
    """

    connection: Connection
    deadlines: Deadlines
    silence: TurnDeadlines
    warn: Callable[..., None]
    reach: Callable[[], Reach]
    post: Callable[[Callable[[], None]], None]
    log: SessionLog
    observers: Observers | None


class Answers(Protocol):
    def send_response(self, request_id: str, payload: dict[str, Any]) -> object:
        """Send the answer of a job; raise ValueError if JSON cannot hold it."""

    def fail_request(self, request_id: str, reason: str) -> object:
        """Send the answer to a request whose job has none for a failure."""


class Silence(Protocol):
    def answered(self) -> object:
        """Restart the measured silence after an answer."""


class JobParts(Protocol):
    """The part of `SessionParts` that jobs need, which tools without a session have as well."""

    @property
    def connection(self) -> Answers:
        """The receiver of answers."""

    @property
    def deadlines(self) -> Deadlines:
        """The timeouts."""

    @property
    def silence(self) -> Silence:
        """Hears of each answer."""

    @property
    def warn(self) -> Callable[..., None]:
        """Takes failures and timeouts."""

    @property
    def log(self) -> Log:
        """The log."""

    @property
    def observers(self) -> Observers | None:
        """The observers of callbacks; None without observers."""


class Job:
    """A callback to run, and how its outcome becomes an answer."""

    is_async = over = False  # a plain one runs in a worker thread
    queued = False  # other jobs of its kind run first
    cancelled = False  # the answer is no longer needed
    plan: ToolCallPlan | None = None  # the call of a tool, if it is one
    stop: Callable[[], object] | None = None  # ends the running callback; set by the shell
    ended: Callable[[object, BaseException | None], None] | None = None  # takes the end of one that answers nothing
    begin: Callable[[], None] | None = None  # begins it in place of the shell, for calls that a running server takes
    rpc: tuple[object, Any] | None = None  # the owner of its JSON-RPC call, and the call's id
    arrived: float | None = None
    event = on_failure = ""
    tool = ""  # the tool that it is about, as the model knows it
    with_meta: Callable[[dict[str, str]], None] | None = None  # adds to `_meta` of a call that a running server takes
    tool_use_id: str | None = None
    request: Any = None  # the argument of the callback
    context: contextvars.Context | None = None  # the context variables of the callback; None for those of the start

    def __init__(self, request_id: str, kind: str) -> None:
        self.request_id = request_id
        self.kind = kind  # `hook`, `permission`, `mcp` or `dialog`; `server` and `prompts` for jobs that answer nothing
        self.name: str = kind
        self.function: Any = None  # of the user, which `call` calls
        self.call: Callable[[], Any] = _none  # returns an awaitable if `is_async`
        self.finish: Callable[[Any], dict[str, Any]] = _nothing  # makes the answer; raises if it cannot be sent
        self.fail: Callable[[str], dict[str, Any] | None] = (
            _none  # None: the request's row says the answer of a failure
        )

    def take(self) -> Callable[[], Any]:
        """Return `call`, once: it refers to the job, which must not keep it alive."""
        call, self.call = self.call, _none
        return call

    def forget(self) -> None:
        """Drop the functions that make answers: they refer to the job, as it does to them."""
        self.finish, self.fail, self.function, self.request = _nothing, _none, None, None


def _none(_: object = None) -> None:
    return None


def _nothing(_: object) -> dict[str, Any]:
    return {}


def _call(owner: object, message_id: Any) -> tuple[object, object]:
    # The peer may send any JSON as an id.
    return owner, message_id if isinstance(message_id, (str, int, float)) else (repr(message_id),)


def _keys(job: Job) -> tuple[object, ...]:
    return () if job.rpc is None else (job.rpc[0], _call(*job.rpc))


class _Lane:
    """The jobs of one kind: how many run, and those that wait."""

    __slots__ = ("queue", "running", "said")

    def __init__(self) -> None:
        self.running = 0
        self.queue: OrderedDict[str, Job] = OrderedDict()
        self.said = False


class Jobs:
    """The open requests of the CLI. Of each kind, `limit` jobs run at the same time.

    Attributes:
        to_run: jobs for the shell to start.
        to_stop: jobs whose callbacks the shell is to stop.
    """

    def __init__(self, limit: int, parts: JobParts) -> None:
        self.to_run: deque[Job] = deque()
        self.to_stop: deque[Job] = deque()
        self._limit = limit
        self._parts = parts
        self._open: dict[str, Job] = {}
        self._calls: dict[object, dict[Job, None]] = {}  # open JSON-RPC calls, by owner, and by owner and id
        self._lanes = {kind: _Lane() for kind in ("hook", "permission", "mcp", "dialog")}

    @property
    def count(self) -> int:
        """The number of open requests, those in queues included."""
        return len(self._open)

    def take(self) -> Iterator[Job]:
        """Stop callbacks whose answers are not needed, and yield the jobs to start."""
        while self.to_stop:
            job = self.to_stop.popleft()
            if job.stop is not None:
                job.stop()
        while self.to_run:
            job = self.to_run.popleft()
            if not job.over:  # else it ended in the queue
                yield job

    def open(self, job: Job, timeout: float | None) -> None:
        """Run a job as soon as its kind has room."""
        self._open[job.request_id] = job
        for key in _keys(job):
            self._calls.setdefault(key, {})[job] = None
        job.arrived = self._parts.deadlines.now
        self._parts.deadlines.arm("callback", job.request_id, timeout)
        lane = self._lanes[job.kind]
        if lane.running < self._limit:
            lane.running += 1
            self._run(job)
            return
        job.queued = True
        lane.queue[job.request_id] = job
        if not lane.said:
            lane.said = True
            text = f"{self._limit} callbacks of the kind `{job.kind}` run already; more wait until one ends, or for their timeout."
            self._parts.warn("CALLBACK_QUEUE_FULL", text, kind=job.kind, limit=self._limit)

    def _run(self, job: Job) -> None:
        if job.begin is None:
            self.to_run.append(job)
        else:
            job.begin()

    def finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        """End a job with what its callback returned or raised."""
        if job.over:
            return
        if job.ended is not None:
            job.over = True
            job.ended(outcome, error)
            return
        try:
            if error is not None and job.plan is None:
                self._parts.warn(self._failure(job, error))
                self.fail(job, f"{job.name} raised {type(error).__name__}: {text_of(error)}")
                return
            if error is not None and not isinstance(error, ToolError):
                self._parts.warn(self._failure(job, error))
            self.answer(job, job.finish(error if error is not None else outcome))
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            # An outcome may have methods, and `SystemExit` in them is a failure like others.
            if not isinstance(problem, (AnswerError, ValueError, TypeError)):
                self._parts.log.exception("the answer of a callback could not be made")
            self.crash(job, f"{job.name}: {text_of(problem)}")

    def expire(self, request_id: str, seconds: float) -> None:
        """End a job whose timeout expired."""
        job = self._open.get(request_id)
        if job is None:
            return
        reason = f"{job.name} did not answer within {seconds:g} s"
        self._parts.warn(
            "CALLBACK_TIMED_OUT", f"{escape_terminal(reason)}.", kind=job.kind, callback=job.name, seconds=seconds
        )
        self.fail(job, reason)
        self._abandon(job)

    def cancelled(self, request_id: str) -> None:
        """End a job without an answer: the exchange is over."""
        job = self._open.get(request_id)
        if job is not None:
            self._note(job, "cancelled", CANCELLED)
            self._close(job)
            self._abandon(job)

    def of_call(self, owner: object, message_id: Any) -> Job | None:
        """Return the open job of a JSON-RPC call; None if there is none, or for no id."""
        if message_id is None:
            return None
        return next(iter(self._calls.get(_call(owner, message_id), ())), None)

    def of_owner(self, owner: object) -> list[Job]:
        """Return the open jobs of all JSON-RPC calls with that owner."""
        return [*self._calls.get(owner, ())]

    def cancel(self, job: Job, answer: dict[str, Any]) -> None:
        self.answer(job, answer)
        self._abandon(job)

    def answer(self, job: Job, payload: dict[str, Any]) -> None:
        """End a job with an answer. If JSON cannot hold it, raise ValueError and change nothing."""
        self._parts.connection.send_response(job.request_id, payload)
        self._note(job, payload, None if self._parts.observers is None else CallbackEnd("answered", payload, ""))
        self._close(job)

    def fail(self, job: Job, reason: str) -> None:
        """End a job with the answer for a failure."""
        payload = job.fail(reason)
        if payload is None:
            self._parts.connection.fail_request(job.request_id, escape_terminal(reason, 1_000))
        else:
            self._parts.connection.send_response(job.request_id, payload)
        self._note(job, f"failed ({reason})", CallbackEnd("failed", payload, reason))
        self._close(job)

    def crash(self, job: Job, reason: str) -> None:
        """End a job whose request or answer cannot be used, with a warning."""
        place = f" ({place_of(job.function)})" if job.function is not None else ""
        self._parts.warn(
            "CALLBACK_FAILED",
            f"{escape_terminal(reason, 500).rstrip('.')}{escape_terminal(place)}.",
            kind=job.kind,
            callback=job.name,
            reason=reason,
        )
        self.fail(job, reason)

    def _failure(self, job: Job, error: BaseException) -> StreamWarning:
        """Log the exception of a callback and return the warning about it."""
        return callback_failure(job.name, job.function, error, kind=job.kind, extra=self._parts.log.ids())

    def _note(self, job: Job, answer: dict[str, Any] | str, end: CallbackEnd | None) -> None:
        """Log the answer of a request and its duration, and tell observers."""
        if end is not None and self._parts.observers is not None:
            self._parts.observers.callback_ended(job.request_id, end)
        log, now = self._parts.log, self._parts.deadlines.now
        if log.isEnabledFor(logging.DEBUG):
            nothing = "no decision" if job.kind == "hook" else "answered"
            said = answer if isinstance(answer, str) else decision(answer).name or nothing
            seconds = now - (job.arrived if job.arrived is not None else now)
            log.debug("%s: %s, after %.3f s", escape_terminal(job.name), one_line(escape_terminal(said, 300)), seconds)

    def _abandon(self, job: Job) -> None:
        job.cancelled = True
        if job.plan is not None:
            job.plan.cancel()
        self.to_stop.append(job)

    def _close(self, job: Job) -> None:
        job.over = True
        job.forget()
        self._parts.deadlines.disarm("callback", job.request_id)
        self._parts.silence.answered()
        for key in _keys(job):
            jobs = self._calls.get(key, {})
            jobs.pop(job, None)
            if not jobs:
                self._calls.pop(key, None)
        if self._open.pop(job.request_id, None) is None:
            return  # it was answered before it was opened
        lane = self._lanes[job.kind]
        if job.queued:
            del lane.queue[job.request_id]
            return
        lane.running -= 1
        if lane.queue:
            lane.running += 1
            _, following = lane.queue.popitem(last=False)
            following.queued = False
            self._run(following)
        else:
            lane.said = False
