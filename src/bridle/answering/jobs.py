"""What the CLI asks of us, as jobs: how they begin, wait for their turn and end, and which answer counts.

Nothing here waits. A request becomes a `Job`, the shell runs its `call` somewhere and hands in the outcome. The first of answer,
deadline, crash and cancellation ends the exchange; what comes later is dropped. Of each kind (hooks, permissions, MCP, dialogs) only so
many jobs run at the same time; more wait for their turn, and for no longer than their deadline.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from bridle.checked.functions import AnswerError, Reach
from bridle.errors import DecodeError, printable, text_of
from bridle.permissions.requests import PermissionRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.options.options import Options
    from bridle.protocol.connection import Connection
    from bridle.protocol.events import RequestReceived
    from bridle.tools import ToolCallPlan

__all__ = ["Event", "Exchanges", "Job"]

logger = logging.getLogger("bridle")

_KINDS = {"hook_callback": "hook", "can_use_tool": "permission", "mcp_message": "mcp"}


class Event(Protocol):
    """What wakes one waiter: `anyio.Event`, `threading.Event`."""

    def set(self) -> Any:
        """Wake whoever waits."""


class Job:
    """A callback that is to be run, runs, or ran.

    Attributes:
        request_id: the exchange.
        kind: `hook`, `permission`, `mcp` or `dialog`.
        name: what is called, for messages.
        call: calls it; returns what it returns, an awaitable if `is_async`.
        is_async: False: it belongs into a thread.
        finish: makes the answer of what was returned or raised; raises if it cannot be sent.
        fail: makes the answer for a failure; None: the request's row says it.
        over: True once the exchange has ended.
        queued: True while it waits for its turn.
        cancelled: True once nobody waits for the answer.
        plan: the call of a tool, if it is one.
        stop: ends the running callback; set by the shell.
        ended: takes what it returned and what it raised, where there is no exchange to be answered.
        begin: begins it here instead of in the shell; set by those that are run by something that runs already.
        rpc: whose JSON-RPC call it is, and the call's id; None if it is none.
    """

    __slots__ = (
        "begin",
        "call",
        "cancelled",
        "ended",
        "fail",
        "finish",
        "is_async",
        "kind",
        "name",
        "over",
        "plan",
        "queued",
        "request_id",
        "rpc",
        "stop",
    )

    def __init__(self, request_id: str, kind: str) -> None:
        self.request_id = request_id
        self.kind = kind
        self.name = kind
        self.call: Callable[[], Any] = lambda: None
        self.is_async = False
        self.finish: Callable[[Any], dict[str, Any]] = lambda outcome: {}
        self.fail: Callable[[str], dict[str, Any] | None] = lambda reason: None
        self.over = False
        self.queued = False
        self.cancelled = False
        self.plan: ToolCallPlan | None = None
        self.stop: Callable[[], object] | None = None
        self.ended: Callable[[object, BaseException | None], None] | None = None
        self.begin: Callable[[], None] | None = None
        self.rpc: tuple[object, Any] | None = None

    def take(self) -> Callable[[], Any]:
        """Return what calls it, once: what is called knows the job, which must not keep it alive."""
        call, self.call = self.call, _none
        return call

    def forget(self) -> None:
        """Let go of what it was about, once nothing is to be made of it any more: these functions refer to the job, as it does to them."""
        self.finish = _nothing
        self.fail = _nothing


def _none() -> None:
    return None


def _nothing(_: object) -> dict[str, Any]:
    return {}


class _Lane:
    """The jobs of one kind."""

    __slots__ = ("queue", "running", "said")

    def __init__(self) -> None:
        self.running = 0
        self.queue: deque[Job] = deque()
        self.said = False


class Exchanges:
    """The requests of the CLI that are open, and how they end. What a kind of request calls is for subclasses.

    Attributes:
        to_run: jobs to be started by the shell.
        to_stop: jobs whose callbacks nobody waits for any more.
    """

    def __init__(
        self,
        options: Options,
        connection: Connection,
        *,
        warn: Callable[..., None],
        session: Callable[[], Any],
        post: Callable[[Callable[[], None]], None],
        arm: Callable[[str, str, float | None], None],
        disarm: Callable[[str, str], None],
        answered: Callable[[], None],
    ) -> None:
        self.to_run: deque[Job] = deque()
        self.to_stop: deque[Job] = deque()
        self._options = options
        self._connection = connection
        self._warn = warn
        self._session = Reach(session)
        self._post = post
        self._arm = arm
        self._disarm = disarm
        self._answered = answered
        self._jobs: dict[str, Job] = {}
        self._lanes = {kind: _Lane() for kind in ("hook", "permission", "mcp", "dialog")}

    def _prepare(self, job: Job, event: RequestReceived) -> float | None:
        """Answer a request at once, or say what is to be called; return its deadline in seconds."""
        raise NotImplementedError

    def begin(self, event: RequestReceived) -> None:
        """Take a request: answer it at once, or make a job of it."""
        job = Job(event.request_id, _KINDS.get(event.subtype, "dialog"))
        try:
            deadline = self._prepare(job, event)
        except Exception as error:
            if isinstance(error, (PermissionRequestError, DecodeError)):
                logger.debug("a request cannot be read: %s", error)
            else:
                logger.exception("preparing a callback failed")
            self._end_badly(job, f"{type(error).__name__}: {text_of(error)}")
            return
        if job.over:
            return
        self._jobs[job.request_id] = job
        self._arm("callback", job.request_id, deadline)
        lane = self._lanes[job.kind]
        limit = self._options.limits.inflight_callbacks
        if lane.running < limit:
            lane.running += 1
            self._run(job)
            return
        job.queued = True
        lane.queue.append(job)
        if not lane.said:
            lane.said = True
            text = (
                f"{limit} callbacks of the kind `{job.kind}` run already; more wait until one ends, or their deadline."
            )
            self._warn("CALLBACK_QUEUE_FULL", text, kind=job.kind, limit=limit)

    def _run(self, job: Job) -> None:
        if job.begin is None:
            self.to_run.append(job)
        else:
            job.begin()

    def finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        """Take how a callback ended."""
        if job.over:
            return
        if job.ended is not None:
            job.over = True
            job.ended(outcome, error)
            return
        try:
            if error is not None and job.plan is None:
                self._end_badly(job, f"{job.name} raised {type(error).__name__}: {text_of(error)}", error)
                return
            self._answer(job, job.finish(error if error is not None else outcome))
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            # What was returned may have methods, and `SystemExit` in them is a failure, too.
            if not isinstance(problem, (AnswerError, ValueError, TypeError)):
                logger.exception("the answer of a callback could not be made")
            self._end_badly(job, f"{job.name}: {text_of(problem)}")

    def expire(self, request_id: str, seconds: float) -> None:
        """Take that a callback's deadline passed."""
        job = self._jobs.get(request_id)
        if job is None or job.over:
            return
        reason = f"{job.name} did not answer within {seconds:g} s"
        self._warn("CALLBACK_TIMED_OUT", f"{printable(reason)}.", kind=job.kind, callback=job.name, seconds=seconds)
        self._fail(job, reason)
        self._abandon(job)

    def cancelled(self, request_id: str) -> None:
        """Take that the exchange is over without an answer of ours."""
        job = self._jobs.get(request_id)
        if job is not None and not job.over:
            self._close(job)
            self._abandon(job)

    def _abandon(self, job: Job) -> None:
        job.cancelled = True
        if job.plan is not None:
            job.plan.cancel()
        self.to_stop.append(job)

    def _answer(self, job: Job, payload: dict[str, Any]) -> None:
        self._connection.send_response(job.request_id, payload)  # raises before anything has changed
        self._close(job)

    def _end_badly(self, job: Job, reason: str, error: BaseException | None = None) -> None:
        if error is not None:
            logger.debug("a callback raised", exc_info=error)
        self._warn(
            "CALLBACK_FAILED", f"{printable(reason, 500).rstrip('.')}.", kind=job.kind, callback=job.name, reason=reason
        )
        self._fail(job, reason)

    def _fail(self, job: Job, reason: str) -> None:
        payload = job.fail(reason)
        if payload is None:
            self._connection.fail_request(job.request_id, printable(reason, 1_000))
        else:
            self._connection.send_response(job.request_id, payload)
        self._close(job)

    def _close(self, job: Job) -> None:
        job.over = True
        job.forget()
        self._disarm("callback", job.request_id)
        self._answered()
        if self._jobs.pop(job.request_id, None) is None:
            return  # it was answered before it became a job
        lane = self._lanes[job.kind]
        if job.queued:
            lane.queue.remove(job)
            return
        lane.running -= 1
        if lane.queue:
            lane.running += 1
            following = lane.queue.popleft()
            following.queued = False
            self._run(following)
        else:
            lane.said = False
