"""Sessions without an event loop.

The order of methods and everything they decide is that of `bridle.aio.session`; the core is the same object. Methods may be called from
any thread.
"""

from __future__ import annotations

import copy
import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from bridle.errors import BridleError
from bridle.messages import Message
from bridle.session.checks import checked_content, checked_timeout
from bridle.session.core import SessionCore
from bridle.session.events import SessionEvent
from bridle.session.inbox import Inbox, Progress, TurnBase
from bridle.session.view import SessionBase
from bridle.sync.driver import Driver
from bridle.sync.operations import Operations
from bridle.transports.opening import open_sync
from bridle.transports.process.prepare import Preparation
from bridle.transports.process.subprocess_sync import SyncChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from bridle.messages import ResultMessage
    from bridle.options.options import Options
    from bridle.protocol.results import ControlResult
    from bridle.transports.base import SyncTransport, TransportSource

__all__ = ["EventCursor", "MessageCursor", "Session", "Turn", "start_session"]

Item = TypeVar("Item")


def _next(driver: Driver, inbox: Inbox) -> Any:
    """Return the next item of an inbox; None at its end.

    Raises:
        BridleError: what ended it.
    """
    while True:
        with driver.lock:
            item = inbox.take()
            if item is not None:
                return item
            if inbox.over:
                error = inbox.the_error()
                if error is not None:
                    raise error
                return None
            event = threading.Event()
            inbox.more.waiters.append(event)
        driver.wait_for(inbox.more, event)


class Turn(TurnBase):
    """One prompt, and its answer: `for message in turn` gives its messages up to its result."""

    def __init__(self, progress: Progress, session: Session) -> None:
        super().__init__(progress)
        self._session = session

    @property
    def session(self) -> Session:
        """The session it belongs to."""
        return self._session

    def __iter__(self) -> Iterator[Message]:
        with self._session._driver.lock:
            self._progress.begin_reading()
        return self

    def __next__(self) -> Message:
        self._progress.begin_reading()
        message: Message | None = _next(self._session._driver, self._inbox)
        if message is None:
            raise StopIteration
        return message

    def result(self) -> ResultMessage | None:
        """Wait for the end and return the result; None if it ended without one (withdrawn, say: `state` tells).

        Messages that nobody has begun to read are not kept.

        Raises:
            TurnTimeoutError: a deadline passed; the turn was interrupted and the session can be used.
            BridleError: what ended the session.
        """
        driver = self._session._driver
        with driver.lock:
            self._inbox.skip(not self._progress.read)
        try:
            driver.wait(self._progress.over)
        finally:
            with driver.lock:
                self._inbox.skip(False)
        with driver.lock:
            error = self._inbox.the_error()
        if error is not None:
            raise error
        return self._progress.result


class _Cursor(Generic[Item]):
    def __init__(self, session: Session, inbox: Inbox) -> None:
        self._session = session
        self._inbox = inbox

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        item: Item | None = _next(self._session._driver, self._inbox)
        if item is None:
            raise StopIteration
        return item

    @property
    def unread(self) -> int:
        """How many items have arrived and wait to be read."""
        return len(self._inbox.items)

    def close(self) -> None:
        """Keep nothing any more."""
        with self._session._driver.lock:
            self._inbox.end()
            self._inbox.clear()


class MessageCursor(_Cursor[Message]):
    """All messages of a session from one moment on: `for message in cursor`. What is not read is kept until it is closed."""


class EventCursor(_Cursor[SessionEvent]):
    """What happens to a session from one moment on: `for event in cursor`. It ends with the session, and raises nothing."""


class Session(SessionBase, Operations):
    """A conversation that is steered while it runs.

    ::

        with Session(options) as session:
            turn = session.send("Hello")
            for message in turn:
                ...

    Args:
        options: how; `Options()` if None.
        transport: where the CLI is; a local child process if None.

    Attributes:
        first_turn: the turn of the prompt that `start_session` was given.
    """

    _for_stream = False

    def __init__(
        self, options: Options | None = None, *, transport: SyncTransport | TransportSource | None = None
    ) -> None:
        drivers: list[Driver] = []  # not the session itself: callbacks must not keep it alive

        def post(function: Callable[[], None]) -> None:
            drivers[0].post(function)

        self._core = SessionCore(options, post, for_stream=self._for_stream)
        self._core.session = weakref.ref(self)
        self._transport: SyncTransport
        self._transport, self._own_transport = open_sync(transport, self._child_process, self._core.options)
        self._driver = Driver(self._core, self._transport)
        drivers.append(self._driver)
        self._preparation: Preparation | None = None
        self._begun = self._launched = False
        self.first_turn: Turn | None = None

    def _child_process(self) -> SyncChildProcess:
        options = self._core.options
        return SyncChildProcess(
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

    def start(self) -> None:
        """Start the CLI and return when it is ready. Calling it again waits for the same.

        Raises:
            StartError: the CLI cannot be started, or does not become ready.
            OptionsError: options that do not fit the file system.
            SessionClosedError: it was stopped.
        """
        core, driver = self._core, self._driver
        first = False
        try:
            with driver.lock:
                first = not self._begun and not core.stop_asked
                if first:
                    self._begun = True
                    core.connection.begin_start()
                elif core.stop_asked and not core.ready.is_set:
                    core.start_error = core.connection.closed_error()
                    core.ready.set()
            if first:
                self._launch()
            driver.wait(core.ready)
        except BaseException:
            if first:
                self.stop()
            raise
        if core.start_error is not None:
            if self._launched:
                driver.wait(core.ended)  # the process is gone when the error is raised
            raise copy.copy(core.start_error)
        if core.stop_asked or core.connection.over:
            raise core.connection.closed_error()

    def _launch(self) -> None:
        core, driver = self._core, self._driver
        preparation = self._preparation = Preparation(core.options, None, session=True, find=self._own_transport)
        try:
            plan = preparation.run()
            for warning in preparation.warnings:
                with driver.lock:
                    core.warn_before_start(warning)
                warnings.warn(warning, stacklevel=4)
            self._transport.start(plan)
        except BridleError as error:
            with driver.lock:
                if core.stop_asked:
                    raise core.connection.closed_error() from None
                core.connection.fail(error)
                driver.flush()
                core.ended.set()
            driver.tell()
            return
        with driver.lock:
            if core.stop_asked:
                raise core.connection.closed_error()
            core.initialize(plan, time.monotonic())
            driver.start()
            self._launched = True  # after it: without its thread nobody would tell that it has ended
            driver.flush()

    def stop(self) -> None:
        """End the session: a running turn is interrupted, the CLI is stopped, and when this returns no process is left.

        Idempotent; from any thread. Whoever waits for something gets `SessionClosedError`.
        """
        core, driver = self._core, self._driver
        with driver.lock:
            core.stop_asked = True
            if self._preparation is not None:
                self._preparation.cancel()
            core.begin_stop(time.monotonic())
            driver.flush()
            if not self._launched:
                core.process_gone(None, b"")
                driver.flush()
                core.ended.set()
        driver.tell()
        until = time.monotonic() + core.interrupt_seconds
        while True:
            with driver.lock:
                if core.may_end or core.ended.is_set:
                    break
                event = threading.Event()
                core.settled.waiters.append(event)
            if not driver.wait_for(core.settled, event, max(0.0, until - time.monotonic())):
                break
        self._transport.stop(turn_open=core.turn_open)
        if not driver.is_here:
            driver.wait(core.ended)
            driver.wait_told()

    def finish(self, *, timeout: float | None = None) -> None:
        """Let the CLI come to its end: when nothing is open and nothing runs any more, its input is closed, and it exits.

        Args:
            timeout: seconds after which it is stopped; None waits for as long as it works.

        Raises:
            BridleError: what ended the session instead.
        """
        core, driver = self._core, self._driver
        timeout = checked_timeout(timeout)
        with driver.lock:
            if self._launched and not core.connection.over:
                core.connection.close_input()
                driver.flush()
        until = None if timeout is None else time.monotonic() + timeout
        while self._launched and not core.stop_asked:
            now = time.monotonic()
            if until is not None and now >= until:
                break
            with driver.lock:
                seconds = core.deadlines.wait_seconds(now)
            # The reader may have begun to wait before the input was closed: that deadline is looked after here. It cannot pass before this.
            limits = (seconds, core.options.timeouts.after_result, None if until is None else until - now)
            if driver.wait(core.ended, min((limit for limit in limits if limit is not None), default=None)):
                break
            with driver.lock:
                core.expire(time.monotonic(), self._transport.stderr_tail)
                driver.flush()
            driver.tell()
        self.stop()
        if core.connection.terminal_error is not None:
            raise core.connection.closed_error()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        if getattr(self, "_launched", False):
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

    def send(self, prompt: str | list[Any] | tuple[Any, ...], **fields: Any) -> Turn:
        """Send a prompt and return at once with its turn.

        Args:
            prompt: a text, or a list of content blocks.
            fields: further fields of the frame, by their names on the wire.

        Raises:
            TypeError: the prompt is nothing that can be a prompt.
            ValueError: JSON cannot hold it.
            SessionClosedError: the session is over.
        """
        driver = self._driver
        with driver.lock:
            turn = Turn(self._core.send(prompt, fields, time.monotonic()), self)
            driver.flush()
        return turn

    def messages(self) -> MessageCursor:
        """Return a cursor over everything that comes from now on, whoever's turn it is."""
        inbox = Inbox()
        with self._driver.lock:
            self._core.add_cursor(inbox, events=False)
        return MessageCursor(self, inbox)

    def events(self) -> EventCursor:
        """Return a cursor over what happens from now on: turns, activity, background tasks, warnings, the end."""
        inbox = Inbox()
        with self._driver.lock:
            self._core.add_cursor(inbox, events=True)
        return EventCursor(self, inbox)

    def wait_idle(self) -> None:
        """Return when no prompt of ours is open, nothing runs in the background, and the CLI says that it is idle.

        Raises:
            BridleError: what ended the session meanwhile.
        """
        core, driver = self._core, self._driver
        while True:
            with driver.lock:
                if core.connection.over:
                    raise core.connection.closed_error()
                if core.connection.quiet:
                    return
                event = threading.Event()
                core.settled.waiters.append(event)
            driver.wait_for(core.settled, event)

    def _ask(
        self, subtype: str, fields: Mapping[str, Any], timeout: float | None, operation: str | None = None
    ) -> ControlResult:
        core, driver = self._core, self._driver
        with driver.lock:
            answer = core.ask(subtype, fields, operation or subtype, timeout, time.monotonic())
            seconds = core.deadline_of(answer)
            driver.flush()
        try:
            if not driver.wait(answer.flag, seconds):
                with driver.lock:
                    core.connection.expire(answer.request_id, seconds)
                    driver.flush()
        finally:
            if not answer.flag.is_set:
                with driver.lock:
                    core.give_up(answer)
                    driver.flush()
        if answer.error is not None:
            try:
                raise answer.error
            finally:
                answer.error = (
                    None  # an error and the frame that raises it must not keep each other, and the session, alive
                )
        assert answer.result is not None  # noqa: S101 - for the type checker
        return answer.result


def start_session(
    prompt: str | list[Any] | None = None,
    options: Options | None = None,
    *,
    transport: SyncTransport | TransportSource | None = None,
) -> Session:
    """Start a session and return it; it is a context manager, too.

    Args:
        prompt: the first prompt, if there is one: its turn is `session.first_turn`.
        options: how; `Options()` if None.
        transport: where the CLI is; a local child process if None.

    Raises:
        TypeError: the prompt is something else; nothing is started then.
    """
    content = None if prompt is None else checked_content(prompt)
    session = Session(options, transport=transport)
    session.start()
    if content is not None:
        try:
            session.first_turn = session.send(content)
        except BaseException:
            session.stop()  # nobody else has it
            raise
    return session
