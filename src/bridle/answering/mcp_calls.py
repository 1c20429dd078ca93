"""Messages of the CLI for the servers of this process: each becomes a job that its server answers.

Tools and functions are called by the shell, one job for each call. Server objects of the `mcp` package run for as long as their
connection: `mcp_objects` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from bridle.answering.mcp_objects import McpObjects
from bridle.answering.rpc import ACKNOWLEDGEMENT, Head, answered, cancel_call, failed, send_message
from bridle.answering.servers import Entry, Servers
from bridle.checked.functions import AnswerError, is_async
from bridle.errors import printable
from bridle.tools import CancelledCall, ToolCallPlan, server_kind
from bridle.tools.server import METHOD_NOT_FOUND, rpc_error

if TYPE_CHECKING:
    from bridle.answering.jobs import Job, Jobs, SessionParts
    from bridle.protocol.events import RequestReceived

__all__ = ["McpCalls"]


class _McpRequest(msgspec.Struct):
    server_name: str
    message: Raw


_mcp_request = msgspec.json.Decoder(_McpRequest).decode


class McpCalls:
    """The servers of this process, and the calls of their tools.

    Args:
        servers: by name.
        timeout: of a call.
        jobs: the open requests.
        parts: the parts of the session.

    Attributes:
        servers: the servers.
        objects: the running server objects of the `mcp` package.
    """

    def __init__(self, servers: Mapping[str, Any], timeout: float | None, jobs: Jobs, parts: SessionParts) -> None:
        self.objects = McpObjects(jobs, parts)
        self.servers = Servers(servers, self.objects.drop)
        self._timeout = timeout
        self._jobs = jobs
        self._parts = parts

    def prepare(self, job: Job, event: RequestReceived) -> float | None:
        """Prepare what a message asks of its server."""
        asked = _mcp_request(event.frame.request_raw)
        head = Head.of(asked.message)
        name = asked.server_name
        entry = self.servers.find(name)
        if entry is None:
            answer = rpc_error(head.id, METHOD_NOT_FOUND, f"There is no server {printable(name, 200)!r} here.")
            self._jobs.answer(job, answered(answer))
            return None
        job.name = f"server {name!r}"
        job.fail = lambda reason: failed(head.id, reason)
        match server_kind(entry.server):
            case "tools":
                self._tool(job, entry, asked.message)
            case "mcp":
                self.objects.prepare(job, entry, bytes(asked.message), head)
            case _:
                self._function(job, entry, asked.message, head)
        return self._timeout

    def _function(self, job: Job, entry: Entry, raw: Raw, head: Head) -> None:
        if head.method == "notifications/cancelled":
            cancel_call(self._jobs, entry, head.cancelled_id)  # and the function gets the notification as well
        server = entry.server
        message = msgspec.json.decode(raw)
        job.rpc = (entry, head.id)
        job.is_async = is_async(server)
        job.call = lambda: server(message)
        job.finish = lambda outcome: answered(_opaque(outcome, head.id))

    def _tool(self, job: Job, entry: Entry, message: Raw) -> None:
        name = entry.name

        def notify(notification: dict[str, Any]) -> None:
            def send() -> None:
                if not job.over:
                    send_message(self._parts.connection, name, notification)

            self._parts.post(send)

        made = entry.server.handle(bytes(message), session=self._parts.session, notify=notify)
        if not isinstance(made, ToolCallPlan):
            if isinstance(made, CancelledCall):
                cancel_call(self._jobs, entry, made.request_id)
            self._jobs.answer(job, answered(dict(made)))
            return
        plan = job.plan = made
        job.rpc = (entry, plan.request_id)
        job.name = f"tool `{name}.{plan.tool.name}`"
        job.is_async = plan.is_async
        job.call = plan.call
        job.finish = lambda outcome: answered(plan.finish(outcome))
        job.fail = lambda reason: answered(plan.fail(reason))

    def end(self) -> None:
        """End the servers: the session is over."""
        self.objects.end(self.servers.all())


def _opaque(outcome: Any, message_id: Any) -> Any:
    if outcome is None and message_id is None:
        return ACKNOWLEDGEMENT
    if not isinstance(outcome, Mapping):
        raise AnswerError(f"it must return a JSON-RPC dict, not {type(outcome).__name__}")
    return dict(outcome)
