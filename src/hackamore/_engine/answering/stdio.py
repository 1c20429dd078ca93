"""A tool server behind two pipes: lines of JSON-RPC become jobs, and their ends become lines. Nothing here waits.

The same server and the same jobs answer the CLI inside a session; here another MCP client is on the other side. Everything that may grow
has a limit: the length of a line, the open calls, the progress reports of a call, and the output that the client has not read.
"""

from __future__ import annotations

import contextlib
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore._engine.answering.jobs import Job, JobParts, Jobs, JobState
from hackamore._engine.answering.servers import answered, tool_job
from hackamore._engine.protocol.deadlines import Deadlines
from hackamore._engine.protocol.frames import encode
from hackamore._engine.protocol.framing import LineFramer, OversizedLine
from hackamore.errors import StreamWarning, escape_terminal
from hackamore.options.bounds import Limits
from hackamore.runtime.log import Log, logger
from hackamore.tools import CancelledCall, ToolCallPlan
from hackamore.tools.server import INTERNAL_ERROR, INVALID_REQUEST, rpc_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.checked.functions import Answer
    from hackamore.tools import ToolServer

WAITING_CALLS = 256
"""How many calls may wait while others run; more are refused."""
UNREAD_BYTES = 4 * 1024 * 1024
"""How much output may wait for the client before no more of its messages are read."""
_REPORTS = 64
"""How many progress reports of one call may wait for the event loop; older ones are dropped."""


class StdioConnection:
    """One client of a tool server.

    `post` calls a function where the connection may be touched, and looks at it afterwards, from any thread. `limits` are the longest line,
    and the calls that run at the same time; None for the defaults.
    """

    def __init__(
        self, server: ToolServer, post: Callable[[Callable[[], None]], object], limits: Limits | None = None
    ) -> None:
        limits = limits or Limits()
        self.deadlines: Deadlines = Deadlines()  # keeps the time of the log
        self.log: Log = Log()
        self.over: bool = False  # True once the input has ended
        self.running: set[Job] = set()  # the jobs whose functions run, those of cancelled calls included
        self._server = server
        self._post = post
        self._framer = LineFramer(limits.line_bytes)
        self._limits = limits
        self._most_calls = limits.inflight_callbacks + WAITING_CALLS
        self._jobs = Jobs(limits.inflight_callbacks, JobParts(self, self.deadlines, _nothing, self.warn, self.log))
        self._numbers = count(1)
        self._output: list[bytes] = []
        self._unread = 0
        self.take: Callable[[], Iterator[Job]] = self._jobs.take  # stops callbacks, and yields the jobs to start

    # -- bytes --------------------------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        for line in self._framer.receive_data(data):
            self._receive(line)

    def receive_eof(self) -> None:
        """Take the end of the client's output: nothing waits for answers any more."""
        rest = self._framer.receive_eof()
        if rest is not None and not self.over:
            self._receive(rest)
        self.end()

    def data_to_send(self) -> bytes:
        """Return the output since the last call."""
        data = b"".join(self._output)
        self._output.clear()
        self._unread = 0
        return data

    @property
    def wants_input(self) -> bool:
        """False while too much output waits for the client: its next messages would only make more."""
        return not self.over and self._unread < UNREAD_BYTES

    # -- jobs ---------------------------------------------------------------------------------------------------------------------------

    def finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        """End a call with the value that its function returned or the exception that it raised."""
        self._jobs.finish(job, outcome, error)

    def end(self) -> None:
        """Cancel all open calls; nothing is answered afterwards."""
        if self.over:
            return
        self.over = True
        jobs = self._jobs.of_owner(self)
        if jobs:
            self.log.debug("%d tool calls are cancelled: the client has gone", len(jobs))
        for job in jobs:
            self._jobs.cancelled(job.about.id)

    def send_response(self, request_id: str, payload: dict[str, Any]) -> None:
        self._send(payload["mcp_response"])

    def fail_request(self, request_id: str, reason: str) -> None:
        self._send(rpc_error(None, INTERNAL_ERROR, escape_terminal(reason, 1_000)))

    def warn(self, warning: str | StreamWarning, message: str = "", **_: object) -> None:
        """Log a warning; the exception of a tool has been logged already."""
        if not isinstance(warning, StreamWarning):
            self.log.warning("%s: %s", warning, message, extra={"code": warning})

    def _send(self, message: dict[str, Any]) -> None:
        line = encode(message) + b"\n"
        self._output.append(line)
        self._unread += len(line)

    def _receive(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine):
            text = f"A message may have {self._limits.line_bytes} bytes."
            self._send(rpc_error(None, INVALID_REQUEST, text))  # its id is among the bytes that were skipped
            return
        reports = _Reports(lambda: self._report(job, reports), self._post)
        made = self._server.handle(line, notify=reports.add)
        if isinstance(made, ToolCallPlan):
            job = tool_job(str(next(self._numbers)), self, self._server.name, made, JobState(self.deadlines.now))
            self._open(job, made, reports)
        elif isinstance(made, CancelledCall):
            cancelled = self._jobs.of_call(self, made.request_id)
            if cancelled is not None:
                self._jobs.cancelled(cancelled.about.id)  # MCP wants no answer
        elif "id" in made:  # else it acknowledges a notification, which MCP has no message for
            self._send(made)

    def _open(self, job: Job, plan: ToolCallPlan, reports: _Reports) -> None:
        if self._jobs.of_call(self, plan.request_id) is not None:
            self._send(rpc_error(plan.request_id, INVALID_REQUEST, "`id` belongs to a call that is still open."))
            return
        # A function in a thread runs on when its call was cancelled, and counts for as long.
        if max(self._jobs.count, len(self.running)) >= self._most_calls:
            text = f"Too many calls: {self._most_calls} are open already. Wait until one has ended."
            self.log.warning("a call of `%s` is refused: %s", plan.tool.name, text)
            self._send(plan.fail(text))
            return

        def finish(outcome: object) -> Answer:
            self._report(job, reports)  # MCP allows no progress after the answer
            return answered(plan.finish(outcome))

        self._jobs.open(msgspec.structs.replace(job, call=self._counted(job), finish=finish))

    def _counted(self, job: Job) -> Callable[[], Any]:
        @contextlib.contextmanager
        def running() -> Iterator[None]:
            self.running.add(job)
            try:
                yield
            finally:
                self.running.discard(job)
                if self.over:
                    self._post(_nothing)  # the shell waits for the last function, and nothing else wakes it

        def call() -> Any:
            with running():
                return job.call()

        async def call_async() -> Any:
            with running():
                return await job.call()

        return call_async if job.callee.is_async else call

    def _report(self, job: Job, reports: _Reports) -> None:
        for notification in reports.take():
            if job.state.over or self.over:
                return
            if self._unread >= UNREAD_BYTES:
                logger.debug("a progress report of %s is dropped: the client does not read", job.callee.name)
                continue
            try:
                self._send(notification)
            except ValueError as error:
                logger.warning("a progress report of %s cannot be sent: %s", job.callee.name, error)


def _nothing() -> None:
    """Have the shell look at the connection."""


class _Reports:
    """The progress reports of one call that wait for the event loop. `post`, from any thread, has `send` called there for them."""

    __slots__ = ("_post", "_posted", "_send", "_waiting")

    def __init__(self, send: Callable[[], None], post: Callable[[Callable[[], None]], object]) -> None:
        self._send = send
        self._post = post
        self._posted = False
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_REPORTS)

    def add(self, notification: dict[str, Any]) -> None:
        self._waiting.append(notification)
        if not self._posted:
            self._posted = True
            self._post(self._send)

    def take(self) -> Iterator[dict[str, Any]]:
        self._posted = False
        while self._waiting:
            yield self._waiting.popleft()
