"""Sessions for asyncio and trio.

Methods may be called from any task of the event loop. None holds a cancel scope when it returns: a session may be opened in one task and
closed in another. Everything that waits, locks or wakes is in `Seam`.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from bridle.aio.life import Life
from bridle.aio.operations import Operations
from bridle.aio.seam import Seam, starting
from bridle.messages import Message
from bridle.protocol.results import ControlResult, McpServersChange
from bridle.session.checks import checked_content, checked_timeout, sent_servers
from bridle.session.events import SessionEvent
from bridle.session.inbox import Inbox, Progress, TurnBase
from bridle.session.readers import Readers
from bridle.session.view import SessionBase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from types import TracebackType

    from bridle.aio.seam import Starting
    from bridle.messages import ResultMessage
    from bridle.options.options import Options
    from bridle.transports.base import AsyncTransport, TransportSource

__all__ = ["EventCursor", "MessageCursor", "QuerySession", "Session", "Turn", "start_session"]

Item = TypeVar("Item")
R = TypeVar("R", bound=ControlResult)


async def _next(seam: Seam, inbox: Inbox) -> Any:
    """Wait for the next item of an inbox; return None at its end."""
    await seam.pause(inbox)
    while True:
        with seam.lock:
            item = inbox.take()
            if item is not None:
                return item
            if inbox.over:
                error = inbox.the_error()
                if error is not None:
                    raise error
                return None
            seen = inbox.more.wakes
        await seam.wait(inbox.more, since=seen)


class Turn(TurnBase):
    """One prompt and its answer: `async for message in turn` iterates over its messages, up to its result."""

    def __init__(self, progress: Progress, session: Session, seam: Seam) -> None:
        super().__init__(progress)
        self._session = session
        self._seam = seam

    @property
    def session(self) -> Session:
        """The session of the turn."""
        return self._session

    def __aiter__(self) -> AsyncIterator[Message]:
        with self._seam.lock:
            self._progress.begin_reading()
        return self

    async def __anext__(self) -> Message:
        self._progress.begin_reading()
        message: Message | None = self._seam.take(self._inbox)
        if message is None:
            message = await _next(self._seam, self._inbox)
            if message is None:
                raise StopAsyncIteration
        return message

    async def result(self) -> ResultMessage | None:
        """Wait until the turn is over and return its result.

        Messages of a turn that has no reader yet are dropped.

        Returns:
            The result; None if the turn ended without one, because its prompt was cancelled, for example (see `state`).

        Raises:
            TurnTimeoutError: a timeout passed; the turn was interrupted, and the session can still be used.
            BridleError: the session failed.
        """
        seam = self._seam
        seam.check(self._progress.over)  # before messages are dropped
        with seam.lock:
            self._inbox.skip(not self._progress.read)
        try:
            await seam.wait(self._progress.over)
        finally:
            with seam.lock:
                self._inbox.skip(False)
        with seam.lock:
            error = self._inbox.the_error()
        if error is not None:
            raise error
        return self._progress.result


class _Cursor(Generic[Item]):
    def __init__(self, seam: Seam, inbox: Inbox) -> None:
        self._seam = seam
        self._inbox = inbox

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        item: Item | None = self._seam.take(self._inbox)
        if item is None:
            item = await _next(self._seam, self._inbox)
            if item is None:
                raise StopAsyncIteration
        return item

    @property
    def unread(self) -> int:
        """The number of items that have arrived and were not read."""
        return len(self._inbox.items)

    def close(self) -> None:
        """Drop unread items and keep no further ones."""
        with self._seam.lock:
            self._inbox.end()
            self._inbox.clear()


class MessageCursor(_Cursor[Message]):
    """An iterator over all messages of a session from one moment on: `async for message in cursor`.

    Unread messages are kept until it is closed.
    """


class EventCursor(_Cursor[SessionEvent]):
    """An iterator over the events of a session from one moment on: `async for event in cursor`.

    It ends with the session and never raises.
    """


class Session(SessionBase, Operations):
    """A conversation with the Claude Code CLI that can be steered while it runs.

    Args:
        options: settings of the session; `Options()` if None.
        transport: connection to the CLI; a local child process if None.

    Attributes:
        first_turn: the turn of the prompt given to `start_session`; None without one.

    Example:
        ::

            async with Session(options) as session:
                turn = await session.send("Hello")
                async for message in turn:
                    ...
    """

    def __init__(
        self, options: Options | None = None, *, transport: AsyncTransport | TransportSource | None = None
    ) -> None:
        self._use(Life(options, transport, Readers))

    def _use(self, life: Life[Any]) -> None:
        self._life = life
        self._core = life.core
        self._seam = life.seam
        self._core.session = life.seam.reach(weakref.ref(self))  # callbacks must not keep it alive
        self.first_turn: Turn | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the CLI; None before it is started, and if the transport has none."""
        return self._life.transport.pid

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the CLI and return when it is ready. Further calls wait for the same start.

        Raises:
            StartError: the CLI cannot be started, or does not become ready in time.
            OptionsError: an option does not fit the file system.
            SessionClosedError: the session was stopped.
        """
        await self._life.begin()

    async def stop(self) -> None:
        """Interrupt a running turn and stop the CLI. When this returns, no process is left.

        Idempotent; may be called from any task, even of another event loop. Cancellation does not shorten it. All pending calls fail
        with `SessionClosedError`.
        """
        await self._life.stop()

    async def finish(self, *, timeout: float | None = None) -> None:
        """Wait for open turns and background tasks, close stdin, and wait for the CLI to exit.

        Args:
            timeout: seconds after which the CLI is stopped; None waits without limit.

        Raises:
            BridleError: the session failed.
        """
        core, seam = self._core, self._seam
        timeout = checked_timeout(timeout)
        with seam.entered():
            if seam.launched and not core.connection.over:
                core.connection.close_input()
                seam.wake()
        await seam.wait_ended(timeout)
        await self.stop()
        if core.connection.terminal_error is not None:
            raise core.connection.closed_error()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def __del__(self) -> None:
        if hasattr(self, "_life"):
            self._life.abandon()

    # -- talking -------------------------------------------------------------------------------------------------------

    async def send(self, prompt: str | list[Any] | tuple[Any, ...], **fields: Any) -> Turn:
        """Send a prompt and return its turn immediately.

        Args:
            prompt: a text, or a list of content blocks.
            fields: further fields of the frame, by their names on the wire.

        Raises:
            TypeError: `prompt` has an unsupported type.
            ValueError: JSON cannot represent the prompt.
            SessionClosedError: the session is over.
            RuntimeError: the session belongs to another event loop.
        """
        seam = self._seam
        with seam.entered():
            turn = Turn(self._core.send(prompt, fields, time.monotonic()), self, seam)
            seam.wake()
        await seam.give_way()
        return turn

    def messages(self) -> MessageCursor:
        """Return an iterator over all messages from now on, including those of other turns."""
        inbox = Inbox()
        with self._seam.lock:
            self._core.audience.add(inbox, events=False)
        return MessageCursor(self._seam, inbox)

    def events(self) -> EventCursor:
        """Return an iterator over all events from now on: turns, activity, background tasks, warnings, the end."""
        inbox = Inbox()
        with self._seam.lock:
            self._core.audience.add(inbox, events=True)
        return EventCursor(self._seam, inbox)

    async def wait_idle(self) -> None:
        """Wait until no prompt is open, no background task runs, and the CLI reports that it is idle.

        Raises:
            BridleError: the session ended meanwhile.
        """
        core, seam = self._core, self._seam
        while True:
            with seam.lock:
                if core.connection.over:
                    raise core.connection.closed_error()
                if core.connection.quiet:
                    return
                seen = core.settled.wakes
            await seam.wait(core.settled, since=seen)

    # -- control operations: the others are in `Operations` ------------------------------------------------------------

    async def request(self, subtype: str, *, timeout: float | None = None, **fields: Any) -> ControlResult:
        """Send any control request and return its answer, also for requests that have no method.

        Args:
            subtype: name of the request on the wire.
            timeout: seconds to wait for the answer; None for `Timeouts.control`.
            fields: fields of the request. Names from the tables of this documentation or from the wire; unknown ones are sent as they are.

        Raises:
            ControlError: the CLI refused the request, or did not answer in time.
            TypeError: a field is missing or has the wrong type.
            SessionClosedError: the session is over.
        """
        return await self._ask(ControlResult, subtype, fields, timeout)

    async def set_mcp_servers(self, servers: Mapping[str, Any], *, timeout: float | None = None) -> McpServersChange:
        """Replace the dynamic MCP servers.

        New servers are available immediately. Servers that are replaced or left out stop when the CLI has accepted; if it refuses,
        nothing changes. Concurrent calls are sent one after the other. A name that gets another server is removed and added again, in
        two requests, and is in `added` and `removed` of the answer.

        Args:
            servers: configurations and in-process servers by name, as in `Options(mcp_servers=...)`; `{}` removes all.
            timeout: seconds to wait for each answer; None for `Timeouts.control`.

        Raises:
            OptionsError: a value is not a server, or its package is not installed.
            ControlError: the CLI refused the request, or did not answer in time.
            SessionClosedError: the session is over.
        """
        wire, inside = sent_servers(servers)
        lock, change = self._seam.lock, self._core.callbacks.servers.change
        async with self._seam.one_at_a_time():
            steps = change(wire, inside)
            try:
                with lock:
                    fields = {"servers": next(steps)}
                while True:
                    try:
                        answer = await self._ask(
                            McpServersChange, "mcp_set_servers", fields, timeout, "set_mcp_servers"
                        )
                    except BaseException as error:
                        with lock:
                            fields = {"servers": steps.throw(error)}
                    else:
                        with lock:
                            fields = {"servers": steps.send(answer)}
            except StopIteration as done:
                return cast("McpServersChange", done.value)

    async def _ask(
        self,
        result: type[R],
        subtype: str,
        fields: Mapping[str, Any],
        timeout: float | None,
        operation: str | None = None,
    ) -> R:
        core, seam = self._core, self._seam
        with seam.entered():
            answer = core.ask(subtype, fields, operation or subtype, timeout, time.monotonic())
            seconds = core.deadline_of(answer)
            seam.wake()
        try:
            if not await seam.wait(answer.flag, seconds):
                with seam.lock:
                    core.connection.expire(answer.request_id, seconds)
                    seam.wake()
        finally:
            if not answer.flag.is_set:
                with seam.lock:
                    core.give_up(answer)
                    seam.wake()
        return cast("R", answer.take())


class QuerySession(Session):
    """The session that the callbacks of a query get.

    Args:
        life: the CLI of the query.
    """

    def __init__(self, life: Life[Any]) -> None:
        self._use(life)


async def _begin(session: Session, content: str | list[Any] | None) -> Session:
    await session.start()
    if content is not None:
        try:
            session.first_turn = await session.send(content)
        except BaseException:
            await session.stop()  # the caller does not get it
            raise
    return session


def start_session(
    prompt: str | list[Any] | None = None,
    options: Options | None = None,
    *,
    transport: AsyncTransport | TransportSource | None = None,
) -> Starting[Session]:
    """Start a session: `session = await start_session(...)`, or `async with start_session(...) as session`.

    Args:
        prompt: the first prompt; its turn is `session.first_turn`. None sends none.
        options: settings of the session; `Options()` if None.
        transport: connection to the CLI; a local child process if None.

    Raises:
        TypeError: `prompt` has an unsupported type; nothing was started.
    """
    content = None if prompt is None else checked_content(prompt)
    session = Session(options, transport=transport)
    return starting(session, lambda: _begin(session, content))
