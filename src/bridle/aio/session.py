"""Sessions for asyncio and trio.

Methods may be called from any task of the loop, and none holds a cancel scope when it returns: a session may be opened in one task and
closed in another.
"""

from __future__ import annotations

import copy
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import anyio
import anyio.lowlevel

from bridle.aio.driver import Driver
from bridle.aio.from_thread import SessionReach
from bridle.aio.operations import Operations
from bridle.errors import BridleError
from bridle.messages import Message
from bridle.session.checks import checked_content, checked_timeout
from bridle.session.core import SessionCore
from bridle.session.events import SessionEvent
from bridle.session.inbox import Flag, Inbox, Progress, TurnBase
from bridle.session.view import SessionBase
from bridle.transports.opening import open_async
from bridle.transports.process.prepare import Preparation
from bridle.transports.process.subprocess_async import AsyncChildProcess
from bridle.waiting.offload import Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Mapping
    from types import TracebackType

    from bridle.launch import LaunchPlan
    from bridle.messages import ResultMessage
    from bridle.options.options import Options
    from bridle.protocol.results import ControlResult
    from bridle.transports.base import AsyncTransport, TransportSource

__all__ = ["EventCursor", "MessageCursor", "Session", "Turn", "start_session", "wait_for"]

Item = TypeVar("Item")


async def wait_for(flag: Flag) -> None:
    """Wait until a flag is set, or wakes whoever waits."""
    if flag.is_set:
        return
    event = anyio.Event()
    flag.waiters.append(event)
    try:
        await event.wait()
    finally:
        flag.leave(event)


_TURN_SECONDS = 0.005
"""For how long items that are there already are handed out before other tasks get their turn."""


_POLL_SECONDS = 0.02
"""How often a stop from another event loop looks whether it is done."""


async def _next(session: Session, inbox: Inbox) -> Any:
    """Return the next item of an inbox; None at its end.

    Not every item costs a turn of the event loop, but a slow reader of many unread ones must not hold up the driver.

    Raises:
        BridleError: what ended it.
        RuntimeError: its session lives in another event loop.
    """
    now = time.monotonic()
    if now - inbox.turn_began > _TURN_SECONDS:
        await anyio.lowlevel.checkpoint()  # before an item is taken: a cancellation must not lose it
        inbox.turn_began = time.monotonic()
    while True:
        item = inbox.take()
        if item is not None:
            return item
        if inbox.over:
            error = inbox.the_error()
            if error is not None:
                raise error
            return None
        await session._wait_for(inbox.more)


class Turn(TurnBase):
    """One prompt, and its answer: `async for message in turn` gives its messages up to its result."""

    def __init__(self, progress: Progress, session: Session) -> None:
        super().__init__(progress)
        self._session = session

    @property
    def session(self) -> Session:
        """The session it belongs to."""
        return self._session

    def __aiter__(self) -> AsyncIterator[Message]:
        self._progress.begin_reading()
        return self

    async def __anext__(self) -> Message:
        self._progress.begin_reading()
        message: Message | None = await _next(self._session, self._inbox)
        if message is None:
            raise StopAsyncIteration
        return message

    async def result(self) -> ResultMessage | None:
        """Wait for the end and return the result; None if it ended without one (withdrawn, say: `state` tells).

        Messages that nobody has begun to read are not kept.

        Raises:
            TurnTimeoutError: a deadline passed; the turn was interrupted and the session can be used.
            BridleError: what ended the session.
        """
        if not self._progress.over.is_set:
            self._session._require_this_loop()
        self._inbox.skip(not self._progress.read)
        try:
            await wait_for(self._progress.over)
        finally:
            self._inbox.skip(False)
        error = self._inbox.the_error()
        if error is not None:
            raise error
        return self._progress.result


class _Cursor(Generic[Item]):
    def __init__(self, session: Session, inbox: Inbox) -> None:
        self._session = session
        self._inbox = inbox

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        item: Item | None = await _next(self._session, self._inbox)
        if item is None:
            raise StopAsyncIteration
        return item

    @property
    def unread(self) -> int:
        """How many items have arrived and wait to be read."""
        return len(self._inbox.items)

    def close(self) -> None:
        """Keep nothing any more."""
        self._inbox.end()
        self._inbox.clear()


class MessageCursor(_Cursor[Message]):
    """All messages of a session from one moment on: `async for message in cursor`. What is not read is kept until it is closed."""


class EventCursor(_Cursor[SessionEvent]):
    """What happens to a session from one moment on: `async for event in cursor`. It ends with the session, and raises nothing."""


class Session(SessionBase, Operations):
    """A conversation that is steered while it runs.

    ::

        async with Session(options) as session:
            turn = await session.send("Hello")
            async for message in turn:
                ...

    Args:
        options: how; `Options()` if None.
        transport: where the CLI is; a local child process if None.

    Attributes:
        first_turn: the turn of the prompt that `start_session` was given.
    """

    _for_stream = False

    def __init__(
        self, options: Options | None = None, *, transport: AsyncTransport | TransportSource | None = None
    ) -> None:
        self._driver: Driver | None = None
        this = weakref.ref(self)
        post_to: list[Driver] = []  # not the session itself: callbacks must not keep it alive

        def post(function: Callable[[], None]) -> None:
            if post_to:
                post_to[0].post(function)

        self._post_to = post_to
        self._core = SessionCore(options, post, for_stream=self._for_stream)
        self._core.session = SessionReach(this, post_to)
        self._transport: AsyncTransport
        self._transport, self._own_transport = open_async(transport, self._child_process, self._core.options)
        self._preparation: Preparation | None = None
        self._preparing: Call[LaunchPlan] | None = None
        self._begun = False
        self.first_turn: Turn | None = None

    def _child_process(self) -> AsyncChildProcess:
        options = self._core.options
        return AsyncChildProcess(
            stop_grace=options.timeouts.stop_grace,
            kill_grace=options.timeouts.kill_grace,
            stderr_tail_bytes=options.limits.stderr_tail,
            on_stderr=options.stderr,
        )

    @property
    def pid(self) -> int | None:
        """The CLI's process id, once it is started."""
        return self._transport.pid

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the CLI and return when it is ready. Calling it again waits for the same.

        Raises:
            StartError: the CLI cannot be started, or does not become ready.
            OptionsError: options that do not fit the file system.
            SessionClosedError: it was stopped.
        """
        await self._begin(resumable=False)

    async def _begin(self, *, resumable: bool) -> None:
        """Start; a `resumable` start that is cancelled is taken up again by the next call. Only a stream asks for one."""
        core = self._core
        first = not self._begun and not core.stop_asked
        # One task at a time starts a stream: nobody else goes on with it.
        unfinished = self._for_stream and self._driver is None
        mine = first or (unfinished and not core.stop_asked and not core.ready.is_set)
        try:
            if mine:
                if first:
                    self._begun = True
                    core.connection.begin_start()
                await self._launch(resumable=resumable)
            elif core.stop_asked and not core.ready.is_set:
                core.start_error = core.connection.closed_error()
                core.ready.set()
            await self._wait_for(core.ready)
        except BaseException as error:
            if mine and not (resumable and isinstance(error, anyio.get_cancelled_exc_class())):
                await self.stop()
            raise
        if core.start_error is not None:
            if self._driver is not None:
                await self._wait_for(core.ended)  # the process is gone when the error is raised
            raise copy.copy(core.start_error)
        if core.stop_asked or core.connection.over:
            raise core.connection.closed_error()

    async def _launch(self, *, resumable: bool) -> None:
        core = self._core
        if self._preparation is None or self._preparing is None:
            self._preparation = Preparation(core.options, None, session=True, find=self._own_transport)
            self._preparing = Call(self._preparation.run) if self._preparation.may_block else None
        preparation = self._preparation
        try:
            plan = await self._preparing.wait() if self._preparing is not None else preparation.run()
        except anyio.get_cancelled_exc_class():
            if not resumable:
                preparation.cancel()
            raise
        except BridleError as error:
            if core.stop_asked:
                raise core.connection.closed_error() from None
            core.connection.fail(error)
            core.pump(time.monotonic())
            core.ended.set()
            return
        for warning in preparation.warnings:
            core.warn_before_start(warning)
            warnings.warn(warning, stacklevel=5)
        if core.stop_asked:
            raise core.connection.closed_error()
        self._driver = Driver(core, self._transport, plan)
        self._post_to.append(self._driver)
        self._driver.start()

    async def stop(self) -> None:
        """End the session: a running turn is interrupted, the CLI is stopped, and when this returns no process is left.

        Idempotent; from any task, and even from another event loop; not to be cut short by cancellation. Whoever waits for
        something gets `SessionClosedError`.
        """
        core = self._core
        core.stop_asked = True
        cancelled: BaseException | None = None
        with anyio.CancelScope(shield=True):
            if self._preparation is not None:
                self._preparation.cancel()
            if self._driver is None:
                now = time.monotonic()
                core.begin_stop(now)
                core.process_gone(None, b"")
                core.pump(now)
                core.tell()
                core.ended.set()
            elif not self._driver.is_here:
                self._driver.post(lambda: None)
                # That loop may stand still: then the process is ended without its driver.
                until = time.monotonic() + core.interrupt_seconds + _TURN_SECONDS
                while not core.ended.is_set and time.monotonic() < until:  # noqa: ASYNC110 - events do not cross loops
                    await anyio.sleep(_POLL_SECONDS)
            else:
                self._driver.wake()
                while not core.ended.is_set:
                    try:
                        await wait_for(core.ended)
                    except anyio.get_cancelled_exc_class() as error:
                        cancelled = (
                            error  # a scope does not shield from asyncio's own `Task.cancel`; the time is bounded
                        )
            await self._transport.stop(turn_open=core.turn_open)
        if cancelled is not None:
            raise cancelled

    async def finish(self, *, timeout: float | None = None) -> None:
        """Let the CLI come to its end: when nothing is open and nothing runs any more, its input is closed, and it exits.

        Args:
            timeout: seconds after which it is stopped; None waits for as long as it works.

        Raises:
            BridleError: what ended the session instead.
        """
        core = self._core
        timeout = checked_timeout(timeout)
        self._require_this_loop()
        if self._driver is None:
            await self.stop()
            return
        if not core.connection.over:
            core.connection.close_input()
            self._driver.wake()
        with anyio.move_on_after(timeout):
            await wait_for(core.ended)
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
        if getattr(self, "_begun", False):
            self._abandon()

    def _abandon(self) -> None:
        """End it without waiting for anything: nobody wants it any more."""
        core = self._core
        if not core.ended.is_set:
            core.abandoned = core.stop_asked = True
            if self._preparation is not None:
                self._preparation.cancel()
            self._transport.abandon()

    # -- talking -------------------------------------------------------------------------------------------------------

    async def send(self, prompt: str | list[Any] | tuple[Any, ...], **fields: Any) -> Turn:
        """Send a prompt and return at once with its turn.

        Args:
            prompt: a text, or a list of content blocks.
            fields: further fields of the frame, by their names on the wire.

        Raises:
            TypeError: the prompt is nothing that can be a prompt.
            ValueError: JSON cannot hold it.
            SessionClosedError: the session is over.
            RuntimeError: the session lives in another event loop.
        """
        self._require_this_loop()
        turn = Turn(self._core.send(prompt, fields, time.monotonic()), self)
        self._wake()
        await anyio.lowlevel.cancel_shielded_checkpoint()
        return turn

    def messages(self) -> MessageCursor:
        """Return a cursor over everything that comes from now on, whoever's turn it is."""
        inbox = Inbox()
        self._core.add_cursor(inbox, events=False)
        return MessageCursor(self, inbox)

    def events(self) -> EventCursor:
        """Return a cursor over what happens from now on: turns, activity, background tasks, warnings, the end."""
        inbox = Inbox()
        self._core.add_cursor(inbox, events=True)
        return EventCursor(self, inbox)

    async def wait_idle(self) -> None:
        """Return when no prompt of ours is open, nothing runs in the background, and the CLI says that it is idle.

        Raises:
            BridleError: what ended the session meanwhile.
        """
        connection = self._core.connection
        while True:
            if connection.over:
                raise connection.closed_error()
            if connection.quiet:
                return
            await self._wait_for(self._core.settled)

    async def _ask(
        self, subtype: str, fields: Mapping[str, Any], timeout: float | None, operation: str | None = None
    ) -> ControlResult:
        core = self._core
        self._require_this_loop()
        answer = core.ask(subtype, fields, operation or subtype, timeout, time.monotonic())
        self._wake()
        try:
            # Before the start there is no driver yet that would look after the deadline.
            seconds = core.deadline_of(answer) if self._driver is None else None
            with anyio.move_on_after(seconds) as scope:
                await wait_for(answer.flag)
            if scope.cancelled_caught and not answer.flag.is_set:
                core.connection.expire(answer.request_id, seconds)
                core.pump(time.monotonic())
        finally:
            if not answer.flag.is_set:
                core.give_up(answer)
                self._wake()
        if answer.error is not None:
            try:
                raise answer.error
            finally:
                answer.error = (
                    None  # an error and the frame that raises it must not keep each other, and the session, alive
                )
        assert answer.result is not None  # noqa: S101 - for the type checker
        return answer.result

    def _require_this_loop(self) -> None:
        """Refuse to be used where the core must not be touched, and where nothing would ever wake who waits."""
        if self._driver is not None and not self._core.ended.is_set and not self._driver.is_here:
            raise RuntimeError(
                "this session lives in another event loop and can only be stopped from here; "
                "a plain function that is called back has it as `session` of what it is given"
            )

    async def _wait_for(self, flag: Flag) -> None:
        if not flag.is_set:
            self._require_this_loop()
            await wait_for(flag)

    def _wake(self) -> None:
        if self._driver is not None:
            self._driver.wake()


class _Starting:
    """What `start_session` returns: to be awaited, or to be entered."""

    def __init__(self, session: Session, prompt: Any) -> None:
        self._session = session
        self._prompt = prompt

    async def _start(self) -> Session:
        session = self._session
        await session.start()
        if self._prompt is not None:
            try:
                session.first_turn = await session.send(self._prompt)
            except BaseException:
                await session.stop()  # nobody else has it
                raise
        return session

    def __await__(self) -> Generator[Any, None, Session]:
        return self._start().__await__()

    async def __aenter__(self) -> Session:
        return await self._start()

    async def __aexit__(self, *_: object) -> None:
        await self._session.stop()


def start_session(
    prompt: str | list[Any] | None = None,
    options: Options | None = None,
    *,
    transport: AsyncTransport | TransportSource | None = None,
) -> _Starting:
    """Start a session: `session = await start_session(...)`, or `async with start_session(...) as session`.

    Args:
        prompt: the first prompt, if there is one: its turn is `session.first_turn`.
        options: how; `Options()` if None.
        transport: where the CLI is; a local child process if None.

    Raises:
        TypeError: the prompt is something else; nothing is started then.
    """
    return _Starting(Session(options, transport=transport), None if prompt is None else checked_content(prompt))
