"""What the CLI asks of us: which callback answers, which answer counts, and what it gets when there is none.

Nothing here waits. A request becomes a `Job`, the shell runs its `call` somewhere and hands in the outcome. The first of answer,
deadline, crash and cancellation ends the exchange; what comes later is dropped. Of each kind (hooks, permissions, MCP, dialogs) only so
many jobs run at the same time; more wait for their turn, and for no longer than their deadline.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw

from bridle import dialogs
from bridle.callbacks import AnswerError, Reach, is_async
from bridle.errors import DecodeError, printable
from bridle.hooks import HookContext, decode_hook_input, decode_hook_request, encode_hook_output, fail_output
from bridle.permissions import decode_permission_request, deny, encode_permission_result
from bridle.permissions.requests import PermissionRequestError
from bridle.session_servers import Entry, Servers
from bridle.tools import CancelledCall, ToolCallPlan, rpc_error, server_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.hooks import Registration
    from bridle.mcp_bridge import McpRun
    from bridle.options import Options
    from bridle.protocol.connection import Connection
    from bridle.protocol.events import RequestReceived

__all__ = ["Callbacks", "Job"]

logger = logging.getLogger("bridle")

_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603
_ACKNOWLEDGEMENT = {"jsonrpc": "2.0", "id": 0, "result": {}}


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
        self.cancelled = False
        self.plan: ToolCallPlan | None = None
        self.stop: Callable[[], object] | None = None
        self.ended: Callable[[object, BaseException | None], None] | None = None
        self.begin: Callable[[], None] | None = None
        self.rpc: tuple[object, Any] | None = None


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
    method: str | None = None
    params: Raw = Raw()


class _Cancelled(msgspec.Struct):
    request_id: int | float | str | None = msgspec.field(default=None, name="requestId")


_mcp_request = msgspec.json.Decoder(_McpRequest).decode
_message_head = msgspec.json.Decoder(_MessageHead).decode
_KINDS = {"hook_callback": "hook", "can_use_tool": "permission", "mcp_message": "mcp"}


class Callbacks:
    """All callbacks of a session.

    Attributes:
        servers: the in-process servers.
        change_lock: held while the servers are replaced; made by the shell.
        serving: the connections to server objects that have not ended yet.
        all_served: who waits for their end.
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
        for name in ("on_elicitation", "on_user_dialog"):
            if getattr(options, name) is not None:
                dialogs.check_dialog_callback(getattr(options, name), name)
        self.servers = Servers(servers, self._drop)
        self.change_lock: Any = None
        self.serving: set[McpRun] = set()
        self.all_served: list[Event] = []
        self.to_run: deque[Job] = deque()
        self.to_stop: deque[Job] = deque()
        self._options = options
        self._hooks = hooks.callbacks
        self._connection = connection
        self._warn = warn
        self._session = Reach(session)
        self._post = post
        self._arm = arm
        self._disarm = disarm
        self._answered = answered
        self._jobs: dict[str, Job] = {}
        self._ended = False
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
            self._run(job)
            return
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
            self._run(lane.queue.popleft())
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
        context = HookContext(asked.tool_use_id, self._session, lambda: job.cancelled)
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
            session=self._session,
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
        default = dialogs.DECLINED if elicitation else dialogs.CANCELLED
        job.name = f"`{'on_elicitation' if elicitation else 'on_user_dialog'}`"
        job.fail = lambda reason: dict(default)
        if callback is None:
            self._answer(job, dict(default))
            return None
        decode = dialogs.decode_elicitation if elicitation else dialogs.decode_user_dialog
        request = decode(
            event.frame.request_raw,
            request_id=event.request_id,
            session=self._session,
            cancelled=lambda: job.cancelled,
            warn=self._warn,
        )
        job.name += f" ({_name(callback)})"
        job.is_async = is_async(callback)
        job.call = lambda: callback(request)
        job.finish = dialogs.encode_elicitation if elicitation else dialogs.encode_user_dialog
        return self._options.timeouts.permission

    def _mcp(self, job: Job, event: RequestReceived) -> float | None:
        asked = _mcp_request(event.frame.request_raw)
        try:
            head = _message_head(asked.message)
        except ValueError:
            head = _MessageHead()
        name = asked.server_name
        entry = self.servers.find(name)
        if entry is None:
            answer = rpc_error(head.id, _METHOD_NOT_FOUND, f"There is no server {printable(name, 200)!r} here.")
            self._answer(job, {"mcp_response": answer})
            return None
        job.name = f"server {name!r}"
        job.fail = lambda reason: {"mcp_response": _failed(head.id, reason)}
        match server_kind(entry.server):
            case "tools":
                return self._tool(job, entry, asked.message)
            case "mcp":
                return self._object(job, entry, bytes(asked.message), head)
            case _:
                return self._function(job, entry, asked.message, head)

    def _function(self, job: Job, entry: Entry, raw: Raw, head: _MessageHead) -> float | None:
        if head.method == "notifications/cancelled":
            self._cancel_call(entry, _cancelled_id(head))  # and the function is told, too
        server = entry.server
        message = msgspec.json.decode(raw)
        job.rpc = (entry, head.id)
        job.is_async = is_async(server)
        job.call = lambda: server(message)
        job.finish = lambda outcome: {"mcp_response": _opaque(outcome, head.id)}
        return self._options.timeouts.mcp

    def _tool(self, job: Job, entry: Entry, message: Raw) -> float | None:
        name = entry.name

        def notify(notification: dict[str, Any]) -> None:
            def send() -> None:
                if not job.over:
                    self._send_message(name, notification)

            self._post(send)

        made = entry.server.handle(bytes(message), session=self._session, notify=notify)
        if not isinstance(made, ToolCallPlan):
            if isinstance(made, CancelledCall):
                self._cancel_call(entry, made.request_id)
            self._answer(job, {"mcp_response": dict(made)})
            return None
        plan = job.plan = made
        job.rpc = (entry, plan.request_id)
        job.name = f"tool `{name}.{plan.tool.name}`"
        job.is_async = plan.is_async
        job.call = plan.call
        job.finish = lambda outcome: {"mcp_response": plan.finish(outcome)}
        job.fail = lambda reason: {"mcp_response": plan.fail(reason)}
        return self._options.timeouts.mcp

    def _send_message(self, server: str, message: dict[str, Any]) -> bool:
        """Send what a server says by itself; False if it could not be sent."""
        if self._connection.over:
            return False
        try:
            fields = {"server_name": server, "message": message}
            self._connection.send_request("mcp_message", fields, internal=True)
        except Exception as error:
            logger.debug("a message of server %r was not sent: %s", server, error)
            return False
        return True

    def _cancel_call(self, owner: object, message_id: Any) -> None:
        """End a call that the CLI does not wait for any more."""
        job = self._call_of(owner, message_id)
        if job is None:
            return
        plan = job.plan
        answer = plan.cancel() if plan is not None else _failed(message_id, "The call was cancelled.")
        self._answer(job, {"mcp_response": answer})
        self._abandon(job)

    def _call_of(self, owner: object, message_id: Any) -> Job | None:
        for job in self._jobs.values():
            if job.rpc is not None and job.rpc[0] is owner and job.rpc[1] == message_id is not None:
                return job
        return None

    # -- server objects of the `mcp` package ---------------------------------------------------------------------------

    def _object(self, job: Job, entry: Entry, message: bytes, head: _MessageHead) -> float | None:
        opening = head.method == "initialize"
        if opening:
            if entry.run is not None and entry.run.initialized:
                self._close_run(entry, "The CLI has connected anew.")
            entry.crashed = None
        if entry.crashed is not None or self._ended:
            reason = f"Server {entry.name!r} has ended: {entry.crashed or 'the session is over'}."
            self._answer(job, {"mcp_response": _failed(head.id, reason)})
            return None
        run = entry.run = entry.run or self._start_run(entry)
        if head.id is None or head.method is None:
            if head.method == "notifications/cancelled":
                self._cancel_call(run, _cancelled_id(head))
            else:
                run.put(message)
            self._answer(job, {"mcp_response": _ACKNOWLEDGEMENT})
            return None
        # The package takes a request with another kind of id for a notification, and never answers it.
        if isinstance(head.id, float) or self._call_of(run, head.id) is not None:
            answer = rpc_error(head.id, _INVALID_REQUEST, "`id` must be a text or a whole number, and no open request's.")
            self._answer(job, {"mcp_response": answer})
            return None
        run.initialized = run.initialized or opening
        job.rpc = (run, head.id)
        job.finish = lambda outcome: {"mcp_response": outcome}
        job.stop = lambda: run.cancel(head.id)
        job.begin = lambda: run.put(message)
        return self._options.timeouts.mcp

    def _start_run(self, entry: Entry) -> McpRun:
        from bridle.mcp_bridge import McpRun

        def answered(message_id: Any, message: dict[str, Any]) -> None:
            self._post(lambda: self._object_answered(run, message_id, message))

        def sent(message: dict[str, Any]) -> None:
            self._post(lambda: self._object_sent(entry, run, message))

        run = McpRun(entry.server, entry.name, answered=answered, sent=sent)
        job = Job("", "server")
        job.name = f"MCP server {entry.name!r}"
        job.is_async = True
        job.call = run.serve
        job.ended = lambda outcome, error: self._run_ended(entry, run, error)
        self.serving.add(run)
        self.to_run.append(job)
        return run

    def _object_answered(self, run: McpRun, message_id: Any, message: dict[str, Any]) -> None:
        job = self._call_of(run, message_id)
        if job is not None:
            self.finish(job, message, None)

    def _object_sent(self, entry: Entry, run: McpRun, message: dict[str, Any]) -> None:
        if run.closing or entry.run is not run:
            return
        if not self._send_message(entry.name, message) and "id" in message:
            answer = rpc_error(message["id"], _INTERNAL_ERROR, "Claude Code could not be asked.")
            run.put(msgspec.json.encode(answer))

    def _run_ended(self, entry: Entry, run: McpRun, error: BaseException | None) -> None:
        self.serving.discard(run)
        if not self.serving:
            for waiter in self.all_served:
                waiter.set()
        if run.closing or self._ended or self._connection.over:
            if error is not None:
                logger.debug("MCP server %r ended with an error", entry.name, exc_info=error)
            return
        reason = "it ended by itself" if error is None else f"{type(error).__name__}: {error}"
        if error is not None:
            logger.debug("MCP server %r crashed", entry.name, exc_info=error)
        self._warn(
            "CALLBACK_FAILED",
            f"MCP server `{printable(entry.name, 200)}` has ended: {printable(reason, 500)}.",
            kind="mcp",
            callback=entry.name,
            reason=reason,
        )
        entry.crashed = printable(reason, 300)
        self._close_run(entry, f"The server has ended: {reason}.")

    def _close_run(self, entry: Entry, reason: str) -> None:
        """End the connection of an entry; its open calls get an error."""
        run, entry.run = entry.run, None
        if run is None:
            return
        run.close()
        for job in [job for job in self._jobs.values() if job.rpc is not None and job.rpc[0] is run]:
            self._fail(job, reason)

    def _drop(self, entry: Entry) -> None:
        self._close_run(entry, "The server was removed.")

    def end(self) -> None:
        """Take that the session is over: the servers end."""
        self._ended = True
        for entry in self.servers.all():
            self._close_run(entry, "The session is over.")


def _failed(message_id: Any, reason: str) -> dict[str, Any]:
    """Return the answer to a message that could not be answered; a notification wants none."""
    return _ACKNOWLEDGEMENT if message_id is None else rpc_error(message_id, _INTERNAL_ERROR, printable(reason, 1_000))


def _cancelled_id(head: _MessageHead) -> Any:
    try:
        return msgspec.json.decode(head.params, type=_Cancelled).request_id
    except ValueError:
        return None


def _opaque(outcome: Any, message_id: Any) -> Any:
    if outcome is None and message_id is None:
        return _ACKNOWLEDGEMENT
    if not isinstance(outcome, Mapping):
        raise AnswerError(f"it must return a JSON-RPC dict, not {type(outcome).__name__}")
    return dict(outcome)


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__
