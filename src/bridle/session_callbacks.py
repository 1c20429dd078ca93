"""What the CLI asks of us: which callback answers, which answer counts, and what it gets when there is none.

Nothing here waits. A request becomes a `Job`, the shell runs its `call` somewhere and hands in the outcome. The first of answer,
deadline, crash and cancellation ends the exchange; what comes later is dropped. Of each kind (hooks, permissions, MCP, dialogs) only so
many jobs run at the same time; more wait for their turn, and for no longer than their deadline.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from bridle.callbacks import AnswerError, is_async
from bridle.errors import DecodeError, printable
from bridle.hooks import HookContext, decode_hook_input, decode_hook_request, encode_hook_output, fail_output
from bridle.permissions import decode_permission_request, deny, encode_permission_result
from bridle.permissions.requests import PermissionRequestError
from bridle.tools import CancelledCall, ToolCallPlan, rpc_error, server_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.hooks import Registration
    from bridle.options import Options
    from bridle.protocol.connection import Connection
    from bridle.protocol.events import RequestReceived

__all__ = ["Callbacks", "Job"]

logger = logging.getLogger("bridle")

_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603
_ACKNOWLEDGEMENT = {"jsonrpc": "2.0", "id": 0, "result": {}}


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
        cancelled: True once nobody waits for the answer.
        plan: the call of a tool, if it is one.
        stop: ends the running callback; set by the shell.
        ended: takes what it returned and what it raised, where there is no exchange to be answered.
    """

    __slots__ = (
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
        "request_id",
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
        self.cancelled = False
        self.plan: ToolCallPlan | None = None
        self.stop: Callable[[], object] | None = None
        self.ended: Callable[[object, BaseException | None], None] | None = None


class _Lane:
    """The jobs of one kind."""

    __slots__ = ("queue", "running", "said")

    def __init__(self) -> None:
        self.running = 0
        self.queue: deque[Job] = deque()
        self.said = False


class _McpRequest(msgspec.Struct):
    server_name: str
    message: Raw


class _MessageHead(msgspec.Struct):
    id: int | float | str | None = None


_mcp_request = msgspec.json.Decoder(_McpRequest).decode
_message_head = msgspec.json.Decoder(_MessageHead).decode
_KINDS = {"hook_callback": "hook", "can_use_tool": "permission", "mcp_message": "mcp"}


class Callbacks:
    """All callbacks of a session.

    Attributes:
        servers: the in-process servers, by name.
        to_run: jobs to be started by the shell.
        to_stop: jobs whose callbacks nobody waits for any more.
    """

    def __init__(
        self,
        options: Options,
        hooks: Registration,
        servers: dict[str, Any],
        connection: Connection,
        *,
        warn: Callable[..., None],
        session: Callable[[], Any],
        post: Callable[[Callable[[], None]], None],
        arm: Callable[[str, str, float | None], None],
        disarm: Callable[[str, str], None],
        answered: Callable[[], None],
    ) -> None:
        self.servers = servers
        self.to_run: deque[Job] = deque()
        self.to_stop: deque[Job] = deque()
        self._options = options
        self._hooks = hooks.callbacks
        self._connection = connection
        self._warn = warn
        self._session = session
        self._post = post
        self._arm = arm
        self._disarm = disarm
        self._answered = answered
        self._jobs: dict[str, Job] = {}
        self._lanes = {kind: _Lane() for kind in ("hook", "permission", "mcp", "dialog")}

    # -- the life of a job ---------------------------------------------------------------------------------------------

    def begin(self, event: RequestReceived) -> None:
        """Take a request: answer it at once, or make a job of it."""
        job = Job(event.request_id, _KINDS.get(event.subtype, "dialog"))
        try:
            deadline = getattr(self, f"_{job.kind}")(job, event)
        except Exception as error:
            if isinstance(error, (PermissionRequestError, DecodeError)):
                logger.debug("a request cannot be read: %s", error)
            else:
                logger.exception("preparing a callback failed")
            self._end_badly(job, f"{type(error).__name__}: {error}")
            return
        if job.over:
            return
        self._jobs[job.request_id] = job
        self._arm("callback", job.request_id, deadline)
        lane = self._lanes[job.kind]
        limit = self._options.limits.inflight_callbacks
        if lane.running < limit:
            lane.running += 1
            self.to_run.append(job)
            return
        lane.queue.append(job)
        if not lane.said:
            lane.said = True
            text = (
                f"{limit} callbacks of the kind `{job.kind}` run already; more wait until one ends, or their deadline."
            )
            self._warn("CALLBACK_QUEUE_FULL", text, kind=job.kind, limit=limit)

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
                self._end_badly(job, f"{job.name} raised {type(error).__name__}: {error}", error)
                return
            self._answer(job, job.finish(error if error is not None else outcome))
        except Exception as problem:
            if not isinstance(problem, (AnswerError, ValueError, TypeError)):
                logger.exception("the answer of a callback could not be made")
            self._end_badly(job, f"{job.name}: {problem}")

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
        self._warn("CALLBACK_FAILED", f"{printable(reason, 500)}.", kind=job.kind, callback=job.name, reason=reason)
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
        self._disarm("callback", job.request_id)
        self._answered()
        if self._jobs.pop(job.request_id, None) is None:
            return  # it was answered before it became a job
        lane = self._lanes[job.kind]
        if job in lane.queue:
            lane.queue.remove(job)
            return
        lane.running -= 1
        if lane.queue:
            lane.running += 1
            self.to_run.append(lane.queue.popleft())
        else:
            lane.said = False

    # -- the kinds -----------------------------------------------------------------------------------------------------

    def _hook(self, job: Job, event: RequestReceived) -> float | None:
        asked = decode_hook_request(event.frame.request_raw)
        hook = self._hooks.get(asked.callback_id)
        if hook is None:
            logger.warning("the CLI calls hook %r, which was never registered", printable(asked.callback_id, 100))
            self._answer(job, {})
            return None
        job.name = f"{hook.event} hook `{_name(hook.callback)}`"
        job.is_async = hook.is_async
        job.fail = lambda reason: fail_output(hook.on_failure, hook.event, reason)
        context = HookContext(asked.tool_use_id, self._session(), lambda: job.cancelled)
        # Here and not in the callback's thread: a warning belongs to the session.
        value = decode_hook_input(hook.event, asked.input_raw, self._warn)

        def finish(outcome: Any) -> dict[str, Any]:
            encoded = encode_hook_output(outcome, hook.event)
            for warning in encoded.warnings:
                self._warn(warning)
            return encoded.wire

        job.call = lambda: hook.callback(value, context)
        job.finish = finish
        return hook.timeout

    def _permission(self, job: Job, event: RequestReceived) -> float | None:
        callback = self._options.can_use_tool
        if callback is None:
            self._answer(job, deny("Nobody is there to be asked: no `can_use_tool` was set."))
            return None
        job.fail = deny
        request = decode_permission_request(
            event.frame.request_raw,
            request_id=event.request_id,
            session=self._session(),
            cancelled=lambda: job.cancelled,
            warn=self._warn,
        )
        job.name = f"`can_use_tool` ({_name(callback)})"
        job.is_async = is_async(callback)
        job.call = lambda: callback(request)
        job.finish = lambda outcome: encode_permission_result(outcome, request)
        return self._options.timeouts.permission

    def _dialog(self, job: Job, event: RequestReceived) -> float | None:
        elicitation = event.subtype == "elicitation"
        callback = self._options.on_elicitation if elicitation else self._options.on_user_dialog
        if callback is None:
            self._connection.fail_request(job.request_id, "nobody is there to be asked")
            self._close(job)
            return None
        request = event.frame.request
        job.name = f"`{'on_elicitation' if elicitation else 'on_user_dialog'}` ({_name(callback)})"
        job.is_async = is_async(callback)
        job.call = lambda: callback(request)

        def finish(outcome: Any) -> dict[str, Any]:
            if outcome is None:
                return {"action": "decline"} if elicitation else {"behavior": "cancelled"}
            if not isinstance(outcome, Mapping):
                raise AnswerError(f"it must return a dict or None, not {type(outcome).__name__}")
            return dict(outcome)

        job.finish = finish
        return self._options.timeouts.permission

    def _mcp(self, job: Job, event: RequestReceived) -> float | None:
        asked = _mcp_request(event.frame.request_raw)
        try:
            message_id = _message_head(asked.message).id
        except ValueError:
            message_id = None
        name = asked.server_name
        server = self.servers.get(name)
        if server is None:
            answer = rpc_error(message_id, _METHOD_NOT_FOUND, f"There is no server {printable(name, 200)!r} here.")
            self._answer(job, {"mcp_response": answer})
            return None
        kind = server_kind(server)
        if kind == "tools":
            return self._tool(job, server, name, asked.message)
        if kind == "callable":
            job.name = f"server {name!r}"
            job.is_async = is_async(server)
            message = msgspec.json.decode(asked.message)
            job.call = lambda: server(message)
            job.finish = lambda outcome: {"mcp_response": _opaque(outcome, message_id)}
            return self._options.timeouts.mcp
        answer = rpc_error(message_id, _INTERNAL_ERROR, f"Server {name!r} cannot be served by this version.")
        self._answer(job, {"mcp_response": answer})
        return None

    def _tool(self, job: Job, server: Any, name: str, message: Raw) -> float | None:
        def notify(notification: dict[str, Any]) -> None:
            self._post(lambda: self._send_notification(job, name, notification))

        made = server.handle(bytes(message), session=self._session(), notify=notify)
        if not isinstance(made, ToolCallPlan):
            if isinstance(made, CancelledCall):
                self._cancel_call(name, made.request_id)
            self._answer(job, {"mcp_response": dict(made)})
            return None
        plan = job.plan = made
        job.name = f"tool `{name}.{plan.tool.name}`"
        job.is_async = plan.is_async
        job.call = plan.call
        job.finish = lambda outcome: {"mcp_response": plan.finish(outcome)}
        job.fail = lambda reason: {"mcp_response": plan.fail(reason)}
        return self._options.timeouts.mcp

    def _send_notification(self, job: Job, name: str, notification: dict[str, Any]) -> None:
        if not job.over and not self._connection.over:
            try:
                fields = {"server_name": name, "message": notification}
                self._connection.send_request("mcp_message", fields, internal=True)
            except Exception as error:
                logger.debug("a notification of server %r was not sent: %s", name, error)

    def _cancel_call(self, server: str, message_id: Any) -> None:
        for job in list(self._jobs.values()):
            plan = job.plan
            if plan is not None and plan.request_id == message_id and plan.context.server == self.servers[server].name:
                self._answer(job, {"mcp_response": plan.cancel()})
                self._abandon(job)


def _opaque(outcome: Any, message_id: Any) -> Any:
    if outcome is None and message_id is None:
        return _ACKNOWLEDGEMENT
    if not isinstance(outcome, Mapping):
        raise AnswerError(f"it must return a JSON-RPC dict, not {type(outcome).__name__}")
    return dict(outcome)


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__
