"""Server objects of the `mcp` package: one run of such a server for each connection of a session.

A run is a job of its own, which belongs to no exchange. JSON-RPC messages go in as the CLI sent them; what the server sends comes out,
and ends the calls that it answers. `bridle.waiting.mcp_objects` moves the messages, on the event loop of the shell, and loads the
package; this room decides what becomes of them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from bridle.answering.jobs import Job
from bridle.answering.object_run import ObjectRun
from bridle.answering.rpc import ACKNOWLEDGEMENT, Head, answered, cancel_call, failed, send_message
from bridle.errors import OptionsError, printable, text_of
from bridle.tools import mcp_instance
from bridle.tools.server import INTERNAL_ERROR, INVALID_REQUEST, rpc_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridle.answering.jobs import Jobs, SessionParts
    from bridle.answering.servers import Entry

__all__ = ["McpObjects", "Waker", "check_package"]

logger = logging.getLogger("bridle")


def check_package(name: str, server: Any) -> None:
    """Check that a server object can be served.

    Raises:
        OptionsError: the `mcp` package is missing or too old, or the object has no server inside.
    """
    from bridle.waiting.mcp_objects import load

    field = f"mcp_servers.{name}"
    try:
        load()
    except ImportError as error:
        raise OptionsError(
            f"`{field}` is a server object of the `mcp` package, which is missing or too old ({error}). Install `bridle[mcp]`, which "
            "takes 1.9 or later, or make the server with `bridle.tool_server`, which needs no package.",
            field=field,
        ) from None
    inner = mcp_instance(server)
    if not callable(getattr(inner, "run", None)) or not callable(getattr(inner, "create_initialization_options", None)):
        raise OptionsError(
            f"`{field}` looks like a server object of the `mcp` package and has no low-level server inside: it cannot be served by this "
            "version of Bridle.",
            field=field,
        )


class Waker(Protocol):
    """Wakes one waiter of a shell: `anyio.Event`, `threading.Event`."""

    def set(self) -> Any:
        """Wake the waiter."""


class McpObjects:
    """The running server objects of a session, and their calls.

    Args:
        jobs: the open requests.
        parts: the parts of the session.
    """

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
                self._close(entry, "The CLI has connected anew.")
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

    def _start(self, entry: Entry) -> ObjectRun:
        def was_answered(message_id: Any, message: dict[str, Any]) -> None:
            self._parts.post(lambda: self._was_answered(run, message_id, message))

        def was_sent(message: dict[str, Any]) -> None:
            self._parts.post(lambda: self._was_sent(entry, run, message))

        def serve() -> Any:
            from bridle.waiting.mcp_objects import serve

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

    def _was_sent(self, entry: Entry, run: ObjectRun, message: dict[str, Any]) -> None:
        if run.closing or entry.run is not run:
            return
        if not send_message(self._parts.connection, entry.name, message) and "id" in message:
            answer = rpc_error(message["id"], INTERNAL_ERROR, "Claude Code could not be asked.")
            run.put(msgspec.json.encode(answer))

    def _run_ended(self, entry: Entry, run: ObjectRun, error: BaseException | None) -> None:
        self._runs.discard(run)
        if not self._runs:
            for waker in self._wakers:
                waker.set()
        if error is not None:
            logger.debug("MCP server %r ended with an error", entry.name, exc_info=error)
        if run.closing or self._ended or self._parts.connection.over:
            return
        reason = "it ended by itself" if error is None else f"{type(error).__name__}: {text_of(error)}"
        self._parts.warnings.warn(
            "CALLBACK_FAILED",
            f"MCP server `{printable(entry.name, 200)}` has ended: {printable(reason, 500).rstrip('.')}.",
            kind="mcp",
            callback=entry.name,
            reason=reason,
        )
        entry.crashed = printable(reason, 300)
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
