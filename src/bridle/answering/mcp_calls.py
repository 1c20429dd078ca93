"""What the CLI asks of the servers of this process, and what they say by themselves.

Nothing here waits. Tools and functions are run by the shell, one job for each call. A server object of the `mcp` package runs for as long
as its connection, as a job of its own, which belongs to no exchange; its calls are handed to it and end when it answers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from bridle.answering.jobs import Event, Exchanges, Job
from bridle.answering.servers import Entry, Servers
from bridle.checked.functions import AnswerError, is_async
from bridle.errors import printable, text_of
from bridle.tools import CancelledCall, ToolCallPlan, rpc_error, server_kind

if TYPE_CHECKING:
    from bridle.answering.mcp_objects import McpRun
    from bridle.protocol.events import RequestReceived

__all__ = ["McpCalls"]

logger = logging.getLogger("bridle")

_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603
_ACKNOWLEDGEMENT = {"jsonrpc": "2.0", "id": 0, "result": {}}


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


class McpCalls(Exchanges):
    """The servers of this process, and the calls that are open.

    Attributes:
        servers: the servers.
        serving: the connections to server objects that have not ended yet.
        all_served: who waits for their end.
    """

    def __init__(self, servers: Mapping[str, Any], *base: Any, **more: Any) -> None:
        super().__init__(*base, **more)
        self.servers = Servers(servers, self._drop)
        self.serving: set[McpRun] = set()
        self.all_served: list[Event] = []
        self._ended = False

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
            answer = rpc_error(
                head.id, _INVALID_REQUEST, "`id` must be a text or a whole number, and no open request's."
            )
            self._answer(job, {"mcp_response": answer})
            return None
        run.initialized = run.initialized or opening
        job.rpc = (run, head.id)
        job.finish = lambda outcome: {"mcp_response": outcome}
        job.stop = lambda: run.cancel(head.id)
        job.begin = lambda: run.put(message)
        return self._options.timeouts.mcp

    def _start_run(self, entry: Entry) -> McpRun:
        from bridle.answering.mcp_objects import McpRun

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
        reason = "it ended by itself" if error is None else f"{type(error).__name__}: {text_of(error)}"
        if error is not None:
            logger.debug("MCP server %r crashed", entry.name, exc_info=error)
        self._warn(
            "CALLBACK_FAILED",
            f"MCP server `{printable(entry.name, 200)}` has ended: {printable(reason, 500).rstrip('.')}.",
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
