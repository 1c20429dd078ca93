"""Messages of the CLI for the servers of this process: each becomes a job that its server answers.

Tools and functions are called by the shell, one job for each call. A server object of the `mcp` package runs for as long as its connection:
a run is a job of its own, which belongs to no exchange. Messages go in as the CLI sent them; what the server sends comes out, and ends the
calls that it answers. `hackamore.runtime.mcp_objects` moves the messages, on the event loop of the shell, and loads the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw

from hackamore._engine.answering.jobs import Callee, Job, JobState, RpcCall
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
    send_message,
    tool_job,
)
from hackamore.checked.functions import AnswerError, is_async
from hackamore.errors import OptionsError, StreamWarning, escape_terminal, text_of
from hackamore.messages.base import plain
from hackamore.options.observing import CallbackCall
from hackamore.tools import CancelledCall, ToolCallPlan, mcp_instance, server_kind
from hackamore.tools.server import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, rpc_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hackamore._engine.answering.jobs import Found, Jobs, SessionParts
    from hackamore._engine.protocol.events import RequestReceived
    from hackamore.checked.functions import Answer, Reach


class _McpRequest(msgspec.Struct):
    server_name: str
    message: Raw


_mcp_request = msgspec.json.Decoder(_McpRequest).decode


class _Message(NamedTuple):
    """A message for a server."""

    request_id: str
    entry: Entry
    raw: Raw
    head: Head


class McpCalls:
    """The servers of this process, and the calls of their tools."""

    def __init__(self, servers: Mapping[str, Any], timeout: float | None, jobs: Jobs, parts: SessionParts) -> None:
        self.objects: McpObjects = McpObjects(jobs, parts)
        self.servers: Servers = Servers(servers, self.objects.drop)
        self._timeout = timeout
        self._jobs = jobs
        self._parts = parts

    def find(self, event: RequestReceived) -> Found:
        """Return the server that a message is for, and how the message becomes a job."""
        asked = _mcp_request(event.frame.request_raw)
        head = Head.of(asked.message)
        name = asked.server_name
        entry = self.servers.find(name)
        if entry is None:
            answer = rpc_error(head.id, METHOD_NOT_FOUND, f"There is no server {escape_terminal(name, 200)!r} here.")
            return Callee("mcp"), lambda *_: answered(answer)
        callee = Callee(f"server {name!r}", lambda reason: failed(head.id, reason), timeout=self._timeout)
        kind = server_kind(entry.server)
        prepare = self._tool if kind == "tools" else self.objects.prepare if kind == "mcp" else self._function
        return callee, partial(prepare, _Message(event.request_id, entry, asked.message, head), callee)

    def _function(self, message: _Message, callee: Callee, reach: Reach, state: JobState) -> Job:
        request_id, entry, raw, head = message
        if head.method == "notifications/cancelled":
            cancel_call(self._jobs, entry, head.cancelled_id)  # and the function gets the notification as well
        server, read = entry.server, plain(raw)
        about = CallbackCall(request_id, "mcp", callee.name)
        return Job(
            about if self._parts.observers is None else describe_call(about, entry.name, head),
            callee._replace(function=server, is_async=is_async(server)),
            state,
            lambda: server(read),
            lambda outcome: answered(_opaque(outcome, head.id)),
            rpc=RpcCall(entry, head.id),
        )

    def _tool(self, message: _Message, _: Callee, reach: Reach, state: JobState) -> Job | Answer:
        entry = message.entry
        name = entry.name

        def notify(notification: dict[str, Any]) -> None:
            def send() -> None:
                if not state.over:  # MCP allows no progress after the answer
                    send_message(self._parts.connection, name, notification)

            self._parts.post(send)

        made = entry.server.handle(bytes(message.raw), session=reach, notify=notify)
        if isinstance(made, ToolCallPlan):
            return tool_job(message.request_id, entry, name, made, state, timeout=self._timeout)
        if isinstance(made, CancelledCall):
            cancel_call(self._jobs, entry, made.request_id)
        return answered(dict(made))

    def end(self) -> None:
        """End the servers: the session is over."""
        self.objects.end(self.servers.all())


def _opaque(outcome: Any, message_id: Any) -> Any:
    if outcome is None and message_id is None:  # 2.1.327 waits for an answer to a notification as well
        return ACKNOWLEDGEMENT
    if not isinstance(outcome, Mapping):
        raise AnswerError(f"it must return a JSON-RPC dict, not {type(outcome).__name__}")
    return dict(outcome)


def check_package(name: str, server: Any) -> None:
    """Raise OptionsError if the `mcp` package is missing or too old, or the object has no server inside."""
    from hackamore.runtime.mcp_objects import load

    field = f"mcp_servers.{name}"
    try:
        load()  # the `mcp` package takes 0.5 s and 63 MB: only with a server object
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


def _with_meta(message: Raw, meta: dict[str, str] | None) -> bytes:
    if not meta:
        return bytes(message)  # unchanged: `1e2` stays `1e2`
    fuller = msgspec.json.decode(message)
    fuller["params"]["_meta"] = {**meta, **fuller["params"].get("_meta", {})}  # entries of the CLI win
    return msgspec.json.encode(fuller)


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

    def prepare(self, message: _Message, callee: Callee, reach: Reach, state: JobState) -> Job | Answer:
        """Hand a message to the run of its server, which is started if there is none."""
        request_id, entry, raw, head = message
        opening = head.method == "initialize"
        if opening:
            if entry.run is not None and entry.run.initialized:
                self._close(entry, "The CLI has connected again.")
            entry.crashed = None
        if entry.crashed is not None or self._ended:
            return failed(head.id, f"Server {entry.name!r} has ended: {entry.crashed or 'the session is over'}.")
        run = entry.run = entry.run or self._start(entry)
        if head.id is None or head.method is None:
            if head.method == "notifications/cancelled":
                cancel_call(self._jobs, run, head.cancelled_id)
            else:
                run.put(bytes(raw))
            return answered(ACKNOWLEDGEMENT)
        # The package takes a request with another kind of id for a notification, and never answers it.
        if isinstance(head.id, float) or self._jobs.of_call(run, head.id) is not None:
            text = "`id` must be a text or a whole number, and no open request's."
            return answered(rpc_error(head.id, INVALID_REQUEST, text))
        run.initialized = run.initialized or opening
        about = CallbackCall(request_id, "mcp", callee.name)
        if self._parts.observers is not None and (described := describe_call(about, entry.name, head)).tool:
            about = described._replace(meta={})
        rpc = RpcCall(run, head.id, cancel=lambda: run.cancel(head.id))
        return Job(about, callee, state, lambda: run.put(_with_meta(raw, about.meta)), answered, rpc=rpc)

    def _start(self, entry: Entry) -> ObjectRun:
        def was_answered(message_id: Any, message: dict[str, Any]) -> None:
            self._parts.post(lambda: self._was_answered(run, message_id, message))

        def was_sent(message: dict[str, Any]) -> None:
            self._parts.post(lambda: self._was_sent(run, message))

        def serve() -> Any:
            from hackamore.runtime.mcp_objects import serve

            return serve(run)

        run = ObjectRun(entry.server, entry.name, answered=was_answered, sent=was_sent)
        callee = Callee(f"MCP server {entry.name!r}", is_async=True)
        about, state = CallbackCall("", "server"), JobState()
        self._runs.add(run)
        self._jobs.start(Job(about, callee, state, serve, ended=lambda _, error: self._run_ended(entry, run, error)))
        return run

    def _was_answered(self, run: ObjectRun, message_id: Any, message: dict[str, Any]) -> None:
        job = self._jobs.of_call(run, message_id)
        if job is not None:
            self._jobs.finish(job, message, None)

    def _was_sent(self, run: ObjectRun, message: dict[str, Any]) -> None:
        if run.closing:
            return
        # A request that could not be sent must not leave the server waiting.
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
        if run.closing or self._ended or self._parts.connection.state.over:
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
