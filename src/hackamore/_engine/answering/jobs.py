"""Requests of the CLI as jobs: how they begin, wait for their turn and end, and which answer counts.

A request becomes a `Job`; the shell runs its `call` and hands in the outcome. The first of answer, timeout, crash and cancellation ends
the exchange; later outcomes are dropped. A limited number of jobs of each kind (hooks, permissions, MCP, dialogs) runs at the same time;
the others are queued, and their timeout counts while they are.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import msgspec

from hackamore._engine.protocol.log import one_line
from hackamore.checked.functions import Answer, AnswerError, callback_failure, place_of
from hackamore.errors import escape_terminal, text_of
from hackamore.options.observing import CallbackEnd
from hackamore.tools import ToolError

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Iterator

    from hackamore._engine.protocol.connection import Connection
    from hackamore._engine.protocol.deadlines import Deadlines
    from hackamore._engine.protocol.log import SessionLog
    from hackamore.checked.functions import Reach
    from hackamore.options.observing import CallbackCall
    from hackamore.runtime.log import Log
    from hackamore.tools import ToolCallPlan

CANCELLED = CallbackEnd("cancelled", None, "")


class JobObserver(Protocol):
    def callback_started(self, job: Job) -> Job:
        """Report a callback; return the job to run."""

    def callback_ended(self, request_id: str, end: CallbackEnd) -> None:
        """Report that a callback has ended."""


class SessionParts(NamedTuple):
    """The parts of a session that answers use."""

    connection: Connection
    answers: Answers
    deadlines: Deadlines  # keeps the timeouts of kind `callback`, by request
    answered: Callable[[], object]  # notes that an answer was given
    warn: Callable[..., None]
    reach: Callable[[], Reach]  # returns how a callback of this moment reaches its session, and for whom it is called
    post: Callable[[Callable[[], None]], None]  # runs a function where the core may be touched; safe from any thread
    log: SessionLog
    observers: JobObserver | None


class Answers(Protocol):
    def send_response(self, request_id: str, payload: dict[str, Any]) -> object:
        """Send the answer of a job; raise ValueError if JSON cannot hold it."""

    def fail_request(self, request_id: str, reason: str) -> object:
        """Send the answer to a request whose job has none for a failure."""


class JobParts(NamedTuple):
    """The parts that jobs use, for tools without a session."""

    answers: Answers
    deadlines: Deadlines
    answered: Callable[[], object]
    warn: Callable[..., None]
    log: Log
    observers: JobObserver | None = None


def _nothing(_: object = None) -> Any:
    return None


class Callee(NamedTuple):
    """The part of the program that answers requests, as it is known before a request is read."""

    name: str  # its name, for people
    # makes the answer for a failure from its reason; None instead if the row of the request has that answer
    fail: Callable[[str], Answer | None] = _nothing
    function: Any = None  # the function of the user; None if there is none
    is_async: bool = False  # True if a call returns an awaitable; others are made in a worker thread
    timeout: float | None = None  # seconds for an answer; None for no timeout


class RpcCall(NamedTuple):
    """The JSON-RPC call that a job makes."""

    owner: object  # the connection that it came by
    id: Any  # its id
    plan: ToolCallPlan | None = None  # the call of a tool, whose exceptions are outcomes
    cancel: Callable[[], object] | None = (
        None  # cancels a call that a running server answers. `Jobs` makes such a call, and not the shell
    )


class JobState(msgspec.Struct, eq=False):
    """The state of a job, which only `Jobs` changes. It is made before the job: callbacks look at it, and must not keep the job alive."""

    arrived: float = 0.0
    context: contextvars.Context | None = None  # the variables that the callback sees; None for those of the start
    over: bool = False
    cancelled: bool = False  # the answer is no longer needed
    stop: Any = None  # ends the running callback


class Job(msgspec.Struct, frozen=True, eq=False):
    """A callback to run, and how its outcome becomes an answer."""

    # the request, as observers see it. The kind is `hook`, `permission`, `mcp` or `dialog`; jobs that answer nothing have others
    about: CallbackCall
    callee: Callee
    state: JobState
    call: Callable[[], Any] = _nothing  # makes the call; returns an awaitable if the callee is async
    finish: Callable[[Any], Answer] = _nothing  # makes the answer from the outcome; raises if it cannot be sent
    ended: Callable[[object, BaseException | None], None] | None = (
        None  # takes the outcome of a job that answers nothing
    )
    rpc: RpcCall | None = None  # its JSON-RPC call, if it makes one

    def calling(self, call: Callable[[], Any]) -> Job:
        """Return this job with another call."""
        return msgspec.structs.replace(self, call=call)

    def started(self, stop: Callable[[], object]) -> bool:
        """Set how the running callback is stopped; return False if it is to be stopped immediately."""
        self.state.stop = stop
        return not self.state.cancelled

    def stop(self) -> None:
        """Stop the callback, if it runs."""
        stop = self.state.stop or (self.rpc and self.rpc.cancel)
        if stop is not None:
            stop()


Found: TypeAlias = tuple[Callee, Callable[["Reach", JobState], Job | Answer]]
"""The callee of a request, and the function that reads the request: it returns its job, or the answer if nothing is to be called."""


def _call(owner: object, message_id: Any) -> tuple[object, object]:
    # The peer may send any JSON as an id.
    return owner, message_id if isinstance(message_id, (str, int, float)) else (repr(message_id),)  # a list has no hash


def _keys(job: Job) -> tuple[object, ...]:
    return () if job.rpc is None else (job.rpc.owner, _call(job.rpc.owner, job.rpc.id))


class _Lane:
    """The jobs of one kind: how many run, and those that wait."""

    __slots__ = ("queue", "running", "said")

    def __init__(self) -> None:
        self.running = 0
        # By id: among thousands that wait, a cancelled one leaves without a search.
        self.queue: OrderedDict[str, Job] = OrderedDict()
        self.said = False


class Jobs:
    """The open requests of the CLI; of each kind, `limit` run at a time. The shell starts those `to_run`, and stops those `to_stop`."""

    def __init__(self, limit: int, parts: JobParts | SessionParts) -> None:
        self.to_run: deque[Job] = deque()
        self.to_stop: deque[Job] = deque()
        self._limit = limit
        self._parts = parts
        self._open: dict[str, Job] = {}
        self._calls: dict[object, dict[str, Job]] = {}  # open JSON-RPC calls, by owner, and by owner and id
        # Each kind has its own: hooks that hang do not keep permission questions waiting.
        self._lanes = {kind: _Lane() for kind in ("hook", "permission", "mcp", "dialog")}

    @property
    def count(self) -> int:
        """The number of open requests, those in queues included."""
        return len(self._open)

    def take(self) -> Iterator[Job]:
        """Stop callbacks whose answers are not needed, and yield the jobs to start."""
        while self.to_stop:
            self.to_stop.popleft().stop()
        while self.to_run:
            job = self.to_run.popleft()
            if not job.state.over:  # else it ended in the queue
                yield job

    def start(self, job: Job) -> None:
        """Run a job that answers nothing."""
        self.to_run.append(job)

    def drop(self, job: Job) -> None:
        """Stop a job that answers nothing; its outcome is dropped."""
        job.state.over = True
        self._abandon(job)

    def open(self, job: Job) -> None:
        """Run a job as soon as its kind has room."""
        request_id, kind = job.about.id, job.about.kind
        self._open[request_id] = job
        for key in _keys(job):
            self._calls.setdefault(key, {})[request_id] = job
        # Before the queue, so that waiting extends no timeout: a flood must not open a guard.
        self._parts.deadlines.arm("callback", request_id, job.callee.timeout)
        lane = self._lanes[kind]
        if lane.running < self._limit:
            lane.running += 1
            self._run(job)
            return
        lane.queue[request_id] = job
        if not lane.said:
            lane.said = True
            text = f"{self._limit} callbacks of the kind `{kind}` run already; more wait until one ends, or for their timeout."
            self._parts.warn("CALLBACK_QUEUE_FULL", text, kind=kind, limit=self._limit)

    def _run(self, job: Job) -> None:
        if job.rpc is None or job.rpc.cancel is None:
            self.to_run.append(job)
        else:
            job.call()

    def finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        """End a job with what its callback returned or raised."""
        if job.state.over:
            return
        if job.ended is not None:
            job.state.over = True
            job.ended(outcome, error)
            return
        try:
            if error is not None:
                # `ToolError` is how a tool fails on purpose: the model reads it.
                if not isinstance(error, ToolError) or job.rpc is None or job.rpc.plan is None:
                    ids, kind = self._parts.log.ids(), job.about.kind
                    self._parts.warn(
                        callback_failure(job.callee.name, job.callee.function, error, kind=kind, extra=ids)
                    )
                if job.rpc is None or job.rpc.plan is None:
                    self.fail(job, f"{job.callee.name} raised {type(error).__name__}: {text_of(error)}")
                    return
            answer = job.finish(outcome if error is None else error)
            for warning in answer.warnings:
                self._parts.warn(warning)
            self.answer(job, answer)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            # An outcome may have methods, and `SystemExit` in them is a failure like others.
            if not isinstance(problem, (AnswerError, ValueError, TypeError)):
                self._parts.log.exception("the answer of a callback could not be made")
            self.crash(job, f"{job.callee.name}: {text_of(problem)}")

    def expire(self, request_id: str, seconds: float) -> None:
        """End a job whose timeout expired."""
        job = self._open.get(request_id)
        if job is None:
            return
        name, kind = job.callee.name, job.about.kind
        reason = f"{name} did not answer within {seconds:g} s"
        self._parts.warn("CALLBACK_TIMED_OUT", f"{escape_terminal(reason)}.", kind=kind, callback=name, seconds=seconds)
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
        return next(iter(self._calls.get(_call(owner, message_id), {}).values()), None)

    def of_owner(self, owner: object) -> list[Job]:
        """Return the open jobs of all JSON-RPC calls with that owner."""
        return [*self._calls.get(owner, {}).values()]

    def cancel(self, job: Job, answer: Answer) -> None:
        """Answer a job and stop its callback."""
        self.answer(job, answer)
        self._abandon(job)

    def answer(self, job: Job, answer: Answer) -> None:
        """End a job with an answer. If JSON cannot hold it, raise ValueError and change nothing."""
        self._parts.answers.send_response(job.about.id, answer.wire)  # raises before anything has changed
        ended = (
            None
            if self._parts.observers is None
            else CallbackEnd("answered", answer.wire, "", answer.decision, answer.ruling)
        )
        self._note(job, answer.decision or "no decision", ended)
        self._close(job)

    def fail(self, job: Job, reason: str) -> None:
        """End a job with the answer for a failure."""
        answer, end = job.callee.fail(reason), None
        if answer is None:  # its callee was not found: observers have not heard of it
            self._parts.answers.fail_request(job.about.id, escape_terminal(reason, 1_000))
        else:
            self._parts.answers.send_response(job.about.id, answer.wire)
            end = CallbackEnd("failed", answer.wire, reason, answer.decision)
        self._note(job, f"failed ({reason})", end)
        self._close(job)

    def crash(self, job: Job, reason: str) -> None:
        """End a job whose request or answer cannot be used, with a warning."""
        name, function, kind = job.callee.name, job.callee.function, job.about.kind
        place = f" ({place_of(function)})" if function is not None else ""
        text = f"{escape_terminal(reason, 500).rstrip('.')}{escape_terminal(place)}."
        self._parts.warn("CALLBACK_FAILED", text, kind=kind, callback=name, reason=reason)
        self.fail(job, reason)

    def _note(self, job: Job, said: str, end: CallbackEnd | None) -> None:
        """Log the answer of a request and its duration, and tell observers."""
        if end is not None and self._parts.observers is not None:
            self._parts.observers.callback_ended(job.about.id, end)
        log = self._parts.log
        if log.isEnabledFor(logging.DEBUG):
            name, seconds = escape_terminal(job.callee.name), self._parts.deadlines.now - job.state.arrived
            log.debug("%s: %s, after %.3f s", name, one_line(escape_terminal(said, 300)), seconds)

    def _abandon(self, job: Job) -> None:
        job.state.cancelled = True
        if job.rpc is not None and job.rpc.plan is not None:
            job.rpc.plan.cancel()
        self.to_stop.append(job)

    def _close(self, job: Job) -> None:
        job.state.over = True
        request_id = job.about.id
        self._parts.deadlines.disarm("callback", request_id)
        self._parts.answered()
        for key in _keys(job):
            jobs = self._calls.get(key, {})
            jobs.pop(request_id, None)
            if not jobs:
                self._calls.pop(key, None)
        if self._open.pop(request_id, None) is None:
            return  # nothing is called for it
        lane = self._lanes[job.about.kind]
        if lane.queue.pop(request_id, None) is not None:
            return
        lane.running -= 1
        if lane.queue:
            lane.running += 1
            _, following = lane.queue.popitem(last=False)
            self._run(following)
        else:
            lane.said = False
