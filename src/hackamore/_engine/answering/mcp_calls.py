"""Messages of the CLI for the servers of this process: each becomes a job that its server answers.

Tools and functions are called by the shell, one job for each call. A server object of the `mcp` package runs for as long as its connection:
a run is a job of its own, which belongs to no exchange. Messages go in as the CLI sent them; what the server sends comes out, and ends the
calls that it answers. `hackamore.runtime.mcp_objects` moves the messages, on the event loop of the shell, and loads the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw

from hackamore._engine.answering.jobs import Job
from hackamore._engine.answering.servers import (
    ACKNOWLEDGEMENT,
    Entry,
    Head,
    ObjectRun,
    Servers,
    answered,
    cancel_call,
    describe_call,
    failed,
    plan_call,
    send_message,
)
from hackamore.checked.functions import AnswerError, is_async
from hackamore.errors import OptionsError, StreamWarning, escape_terminal, text_of
from hackamore.messages.base import plain
from hackamore.tools import CancelledCall, ToolCallPlan, mcp_instance, server_kind
from hackamore.tools.server import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, rpc_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hackamore._engine.answering.jobs import Jobs, SessionParts
    from hackamore._engine.protocol.events import RequestReceived


class _McpRequest(msgspec.Struct):
    server_name: str
    message: Raw


_mcp_request = msgspec.json.Decoder(_McpRequest).decode


class McpCalls:
    """The servers of this process, and the calls of their tools."""

    def __init__(self, servers: Mapping[str, Any], timeout: float | None, jobs: Jobs, parts: SessionParts) -> None:
        self.objects: McpObjects = McpObjects(jobs, parts)
        self.servers: Servers = Servers(servers, self.objects.drop)
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
            answer = rpc_error(head.id, METHOD_NOT_FOUND, f"There is no server {escape_terminal(name, 200)!r} here.")
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
        message = plain(raw)
        job.rpc = (entry, head.id)
        job.is_async = is_async(server)
        job.function = server
        job.call = lambda: server(message)
        if self._parts.observers is not None:
            describe_call(job, entry.name, head)
        job.finish = lambda outcome: answered(_opaque(outcome, head.id))

    def _tool(self, job: Job, entry: Entry, message: Raw) -> None:
        name = entry.name

        def notify(notification: dict[str, Any]) -> None:
            def send() -> None:
                if not job.over:
                    send_message(self._parts.connection, name, notification)

            self._parts.post(send)

        made = entry.server.handle(bytes(message), session=self._parts.reach(), notify=notify)
        if not isinstance(made, ToolCallPlan):
            if isinstance(made, CancelledCall):
                cancel_call(self._jobs, entry, made.request_id)
            self._jobs.answer(job, answered(dict(made)))
            return
        plan_call(job, entry, name, made)

    def end(self) -> None:
        """End the servers: the session is over."""
        self.objects.end(self.servers.all())


def _opaque(outcome: Any, message_id: Any) -> Any:
    if outcome is None and message_id is None:
        return ACKNOWLEDGEMENT
    if not isinstance(outcome, Mapping):
        raise AnswerError(f"it must return a JSON-RPC dict, not {type(outcome).__name__}")
    return dict(outcome)


def check_package(name: str, server: Any) -> None:
    """Raise OptionsError if the `mcp` package is missing or too old, or the object has no server inside."""
    from hackamore.runtime.mcp_objects import load

    field = f"mcp_servers.{name}"
    try:
        load()
    except ImportError as error:
        raise OptionsError(
            f"`{field}` is a server object of the `mcp` package, which is missing or too old ({error}). Install `hackamore[mcp]`, which "
            "takes 1.9 or later, or make the server with `hackamore.tool_server`, which needs no package.",
            field=field,
        ) from None
    inner = mcp_instance(server)
    if not callable(getattr(inner, "run", None)) or not callable(getattr(inner, "create_initialization_options", None)):
        raise OptionsError(
            f"`{field}` looks like a server object of the `mcp` package and has no low-level server inside: this version of "
            "Hackamore does not support it.",
            field=field,
        )


class Waker(Protocol):
    """Wakes one waiter of a shell: `anyio.Event`, `threading.Event`."""

    def set(self) -> Any:
        """Wake the waiter."""


class McpObjects:
    """The running server objects of a session, and their calls."""

    def __init__(self, jobs: Jobs, parts: SessionParts) -> None:
        self._jobs = jobs
        self._parts = parts
        self._runs: set[ObjectRun] = set()
        self._wakers: list[Waker] = []
        self._ended = False

    def prepare(self, job: Job, entry: Entry, message: bytes, head: Head) -> None:
        """Hand a message to the run of its server, which is started if there is none."""
        opening = head.method == "initialize"
        if opening:
            if entry.run is not None and entry.run.initialized:
                self._close(entry, "The CLI has connected again.")
            entry.crashed = None
        if entry.crashed is not None or self._ended:
            reason = f"Server {entry.name!r} has ended: {entry.crashed or 'the session is over'}."
            self._jobs.answer(job, failed(head.id, reason))
            return
        run = entry.run = entry.run or self._start(entry)
        if head.id is None or head.method is None:
            if head.method == "notifications/cancelled":
                cancel_call(self._jobs, run, head.cancelled_id)
            else:
                run.put(message)
            self._jobs.answer(job, answered(ACKNOWLEDGEMENT))
            return
        # The package takes a request with another kind of id for a notification, and never answers it.
        if isinstance(head.id, float) or self._jobs.of_call(run, head.id) is not None:
            text = "`id` must be a text or a whole number, and no open request's."
            self._jobs.answer(job, answered(rpc_error(head.id, INVALID_REQUEST, text)))
            return
        run.initialized = run.initialized or opening
        job.rpc = (run, head.id)
        job.finish = answered
        job.stop = lambda: run.cancel(head.id)
        job.begin = lambda: run.put(message)
        if self._parts.observers is not None and describe_call(job, entry.name, head):

            def with_meta(meta: dict[str, str]) -> None:
                fuller = msgspec.json.decode(message)
                fuller["params"]["_meta"] = {**meta, **fuller["params"].get("_meta", {})}
                job.begin = lambda: run.put(msgspec.json.encode(fuller))

            job.with_meta = with_meta

    def _start(self, entry: Entry) -> ObjectRun:
        def was_answered(message_id: Any, message: dict[str, Any]) -> None:
            self._parts.post(lambda: self._was_answered(run, message_id, message))

        def was_sent(message: dict[str, Any]) -> None:
            self._parts.post(lambda: self._was_sent(run, message))

        def serve() -> Any:
            from hackamore.runtime.mcp_objects import serve

            return serve(run)

        run = ObjectRun(entry.server, entry.name, answered=was_answered, sent=was_sent)
        job = Job("", "server")
        job.name = f"MCP server {entry.name!r}"
        job.is_async = True
        job.call = serve
        job.ended = lambda outcome, error: self._run_ended(entry, run, error)
        self._runs.add(run)
        self._jobs.to_run.append(job)
        return run

    def _was_answered(self, run: ObjectRun, message_id: Any, message: dict[str, Any]) -> None:
        job = self._jobs.of_call(run, message_id)
        if job is not None:
            self._jobs.finish(job, message, None)

    def _was_sent(self, run: ObjectRun, message: dict[str, Any]) -> None:
        if run.closing:
            return
        if not send_message(self._parts.connection, run.name, message) and "id" in message:
            answer = rpc_error(message["id"], INTERNAL_ERROR, "The request could not be sent to Claude Code.")
            run.put(msgspec.json.encode(answer))

    def _run_ended(self, entry: Entry, run: ObjectRun, error: BaseException | None) -> None:
        self._runs.discard(run)
        if not self._runs:
            for waker in self._wakers:
                waker.set()
        if error is not None:
            self._parts.log.error("MCP server %r ended with an error", entry.name, exc_info=error)
        if run.closing or self._ended or self._parts.connection.over:
            return
        reason = "it ended by itself" if error is None else f"{type(error).__name__}: {text_of(error)}"
        warning = StreamWarning(
            "CALLBACK_FAILED",
            f"MCP server `{escape_terminal(entry.name, 200)}` has ended: {escape_terminal(reason, 500).rstrip('.')}.",
            {"kind": "mcp", "callback": entry.name, "reason": reason},
        )
        warning.exception = error
        self._parts.warn(warning)
        entry.crashed = escape_terminal(reason, 300)
        self._close(entry, f"The server has ended: {reason}.")

    def _close(self, entry: Entry, reason: str) -> None:
        """End the connection of an entry; its open calls get an error."""
        run, entry.run = entry.run, None
        if run is None:
            return
        run.close()
        for job in self._jobs.of_owner(run):
            self._jobs.fail(job, reason)

    def drop(self, entry: Entry) -> None:
        """End the server of an entry that the CLI does not know any more."""
        self._close(entry, "The server was removed.")

    def end(self, entries: Iterable[Entry]) -> None:
        """End all servers: the session is over."""
        self._ended = True
        for entry in entries:
            self._close(entry, "The session is over.")

    def wake_when_ended(self, waker: Waker) -> bool:
        """Wake a waiter once all runs have ended; False if none is left."""
        self._wakers.append(waker)
        return bool(self._runs)
