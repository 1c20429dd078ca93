# Generated from src/hackamore/aio/session.py by scripts/make_sync.py. Do not edit: edit the source and run `./dev format`.
"""Sessions for threads.

`SessionRunner` starts and stops the CLI, for a session or for a query over the bidirectional launch (`Steered`).
Methods may be called from any thread. Everything that waits, locks or wakes is in `Seam`.
"""

from __future__ import annotations

import copy
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast, overload

from msgspec import structs

from hackamore._engine.protocol.log import issue
from hackamore._engine.protocol.states.session import SessionState, TurnState
from hackamore._engine.queries.ending import TextDeltas
from hackamore._engine.queries.outcomes import CollectResult, require_format
from hackamore._engine.queries.plain import with_guards
from hackamore._engine.queries.retrying import Attempts
from hackamore._engine.session.core import SessionBase, SessionCore, checked_content, sent_prompt, sent_servers
from hackamore._engine.session.events import SessionEvent
from hackamore._engine.session.readers import Inbox, Progress, Readers, TurnBase
from hackamore._engine.session.steering import SteeredQuery
from hackamore.errors import (
    HackamoreError,
    SessionNotStartedError,
    StoreError,
    TurnCancelledError,
    last_api_error,
    short_traceback,
)
from hackamore.messages import Message
from hackamore.messages.results import ControlResult, McpServersChange
from hackamore.options.bounds import checked_timeout
from hackamore.options.stores import failed
from hackamore.runtime.event_loops import context_for_thread
from hackamore.sync.attempts import answered
from hackamore.sync.operations import Operations
from hackamore.sync.seam import Seam, starting
from hackamore.sync.waits import (
    OtherShell,
    Preparing,
    append_of,
    call_store,
    check_loop,
    checkpoint,
    child_process,
    is_cancellation,
    sleep,
)
from hackamore.transports.opening import open_sync
from hackamore.transports.process.prepare import Preparation
from hackamore.transports.process.private_folders import make_folder, remove_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from types import TracebackType

    from hackamore._engine.protocol.log import SessionLog
    from hackamore._engine.queries.ending import Item as QueryItem
    from hackamore._engine.queries.ending import QueryCore
    from hackamore._engine.queries.outcomes import RunResult
    from hackamore._engine.queries.prompts import Priority, Prompt
    from hackamore._engine.session.readers import Audience
    from hackamore._engine.storing.resume import Private, Step
    from hackamore.errors import StreamWarning
    from hackamore.messages import ResultMessage
    from hackamore.messages.results import SettingsReport
    from hackamore.options.options import Options
    from hackamore.options.retry import Retry
    from hackamore.transports.base import SyncTransport, TransportSource
    from hackamore.transports.process.child import ChildProcess

__all__ = ["EventCursor", "MessageCursor", "QuerySession", "Session", "Steered", "Turn"]
__all__ += ["resolve_settings", "start_session"]

Item = TypeVar("Item")
T = TypeVar("T")
R = TypeVar("R", bound=ControlResult)
A = TypeVar("A", bound="Audience")


class SessionRunner(Generic[A]):
    """One CLI, from its launch to its end."""

    def __init__(
        self, options: Options | None, transport: SyncTransport | TransportSource | None, audience: type[A]
    ) -> None:
        self.seam: Seam = Seam()  # waits for the core
        self.core: SessionCore[A] = SessionCore(options, self.seam.post, audience)
        self.transport: SyncTransport
        core = weakref.ref(self.core)
        guarded = with_guards(self.core.options, _reporter(weakref.ref(self.seam), core), _ids_of(core))
        self._child: ChildProcess | None = None
        self._carries: Callable[[object], str] | None = getattr(transport, "conversation_folder", None)
        self.transport, self._own_transport = open_sync(transport, lambda: self._make_child(guarded), guarded)
        if self.core.storing is not None and self.core.options.session_store is not None:
            store = self.core.options.session_store
            self.core.storing.use(append_of(store, self.core.options.timeouts.store))
        self.seam.connect(self.core, self.transport)
        self.core.log.pid = lambda transport=self.transport: transport.pid  # type: ignore[misc]
        self.begun: bool = False  # True once a start was requested
        self._interrupted = False
        self._preparation: Preparation | None = None
        self._preparing: Preparing | None = None
        self._private: Private | None = None

    def _make_child(self, options: Options) -> Any:
        self._child = child_process(options, options.timeouts.stop_grace if self.core.kind == "query" else None)
        return self._child

    def begin(self, *, resumable: bool = False) -> None:
        """Start the CLI and return when it is ready. Further calls wait for the same start.

        If this is cancelled, the next call continues the start if it is `resumable`; else the cancellation stops the CLI. It raises what
        `Session.start` does.
        """
        check_loop()
        core, seam = self.core, self.seam
        mine = False
        try:
            with seam.lock:
                first = not self.begun and not core.stop.asked
                mine = first or (self._interrupted and not (seam.launched or core.stop.asked or core.ready.is_set))
                if first:
                    self.begun = True
                    core.connection.state.begin_start()
                elif not mine and core.stop.asked and not core.ready.is_set:  # no handshake will set `ready`
                    core.start_error = core.connection.state.closed_error()
                    core.ready.set()
            if mine:
                self._launch()
            seam.wait(core.ready)
        except BaseException as error:
            self._interrupted = resumable and is_cancellation(error)
            if mine and not self._interrupted:
                self.stop()
            raise
        if core.start_error is not None:
            if seam.launched:
                seam.wait(core.ended)  # the process is gone when the error is raised
            raise copy.copy(core.start_error)  # each caller of `start` has a traceback of its own
        if core.stop.asked or core.connection.state.over:
            raise core.connection.state.closed_error()

    def _launch(self) -> None:
        core, seam = self.core, self.seam
        try:
            if self._preparation is None or self._preparing is None:
                options = self._resumed()
                if core.observers is not None:
                    options = core.observers.options_with_variables(options)
                self._preparation = Preparation(options, None, session=True, find=self._own_transport)
                self._preparing = Preparing(self._preparation)
            plan = self._preparing.plan()
            if self._private is not None:
                plan = structs.replace(plan, private_folder=self._private.folder)
            for warning in (*self._preparation.warnings, *(self._private.warnings if self._private else ())):
                with seam.lock:
                    core.warnings.add_before_start(warning)
                issue(warning)
            seam.launch(plan)
            self._private = None  # the child removes it from here on, with its other belongings
        except HackamoreError as error:
            self._drop_private()
            with seam.lock:
                if core.stop.asked:  # the stop is the reason, and not the start that it broke off
                    raise core.connection.state.closed_error() from None
                core.connection.fail(error)
                seam.wake()
                core.ended.set()
            seam.deliver_warnings()

    def _resumed(self) -> Options:
        """Return the options for the launch: those of a private folder if a session is resumed from a store."""
        core = self.core
        options = core.options
        if core.storing is None or not (self._own_transport or self._carries is not None):
            return options  # a custom transport has files of its own
        from hackamore._engine.storing.resume import resume_steps, wants_store

        if not wants_store(options):
            return options
        if self._private is None:
            try:
                far = None if self._carries is None else self._carries(options.cwd)
                steps = resume_steps(options, make_folder, remove_folder, far=far)
                self._private = drive(steps, options, options.resume)
            except OSError as error:
                raise StoreError("load", f"the private folder cannot be written: {error}", options.resume) from error
        if self._private is None:
            return options
        core.storing.resumed(self._private.project_key)
        return self._private.options(options)

    def _drop_private(self) -> None:
        private, self._private = self._private, None
        if private is not None:
            remove_folder(private.folder)

    def stop(self, seconds: float | None = None) -> None:
        """Interrupt a running turn and stop the CLI; wait for `seconds` at most, or as long as the child process says. Idempotent."""
        core, seam = self.core, self.seam
        if self._child is not None:
            self._child.stop_seconds = self._child.stop_seconds if seconds is None else seconds
            seconds = self._child.seconds_left()
        if seconds is not None:
            core.stop.limit(seconds)
        with seam.lock:
            core.stop.ask()
            if self._preparation is not None:
                self._preparation.cancel()  # a running `claude --version` is ended, not awaited
            self._drop_private()
            if not seam.launched:
                core.stop.begin(time.monotonic())
                core.process_gone(None, b"")
                seam.wake()
                core.ended.set()
        seam.stop()

    def abandon(self) -> None:
        """End the CLI without waiting: it has no user any more."""
        if self.begun and not self.core.ended.is_set:
            self.core.stop.ask(abandon=True)
            if self._preparation is not None:
                self._preparation.cancel()
            self._drop_private()
            self.transport.abandon()


def drive(steps: Generator[Step, Any, T], options: Options, session_id: str | None) -> T:
    """Make the calls that a function of the session stores yields, with the timeout of a store in the options; return its value.

    Raise StoreError, with the session's id, if a method of the store failed.
    """
    try:
        step = next(steps)
        while True:
            step = steps.send(_made(step, options, session_id))
    except StopIteration as end:
        return cast("T", end.value)
    finally:
        steps.close()


def _made(step: Step, options: Options, session_id: str | None) -> Any:
    if not step.operation:
        return call_store(step.function, step.arguments, None)
    seconds = options.timeouts.store
    try:
        return call_store(step.function, step.arguments, seconds)
    except StoreError:  # the store says more, such as a conflict
        raise
    except TimeoutError as error:
        reason = str(error) or f"it did not return within {seconds} s. Raise `Timeouts.store`."
        raise StoreError(step.operation, reason, session_id) from error
    except (Exception, SystemExit) as error:  # a store cannot end the program
        raise failed(step.operation, error, session_id) from error


def _reporter(seam: weakref.ref[Seam], core: weakref.ref[SessionCore[Any]]) -> Callable[[StreamWarning], None]:
    """Return a function that gives a warning to a session from any thread, without keeping the session alive."""

    def report(warning: StreamWarning) -> None:
        here, there = seam(), core()
        if here is not None and there is not None:
            here.post(lambda: there.warnings.add(warning))

    return report


def _ids_of(core: weakref.ref[SessionCore[Any]]) -> Callable[[], Mapping[str, Any]]:
    """Return a function that returns the attributes of a log record of a session, without keeping the session alive."""

    def ids() -> Mapping[str, Any]:
        there = core()
        return {} if there is None else there.log.ids()

    return ids


def _next(seam: Seam, inbox: Inbox, timeout: float | None = None) -> Any:
    """Wait for the next item of an inbox; return None at its end. Raise TimeoutError if no item came in time."""
    seam.pause(inbox)
    until = None if timeout is None else time.monotonic() + timeout
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
        left = None if until is None else max(0.0, until - time.monotonic())
        if not seam.wait_at_most(inbox.more, left, since=seen):
            trouble = last_api_error(seam.connection.conversation.api_error)
            raise TimeoutError(
                f"No item came within {timeout:g} s. {trouble}Nothing was lost: the next call continues."
            )


class Turn(TurnBase):
    """One prompt and its answer: `for message in turn` iterates over its messages, up to its result."""

    __module__ = "hackamore.sync"

    def __init__(self, progress: Progress, session: Session, seam: Seam) -> None:
        super().__init__(progress)
        self._session = session
        self._seam = seam

    @property
    def session(self) -> Session:
        """The session of the turn."""
        return self._session

    def __iter__(self) -> Iterator[Message]:
        with self._seam.lock:
            self._progress.begin_reading()
        return self

    def __next__(self) -> Message:
        self._progress.begin_reading()
        message: Message | None = self._seam.take(self._inbox)
        if message is None:
            message = self.next_item()
            if message is None:
                raise StopIteration
        return message

    def next_item(self, *, timeout: float | None = None) -> Message | None:
        """Return the next message of the turn, or None at its end.

        Args:
            timeout: seconds to wait for a message; None waits without limit. No message is lost after a timeout: call again.

        Returns:
            The message; None at the end of the turn.

        Raises:
            TimeoutError: no message came in time.
            TurnTimeoutError: a timeout of the turn passed; the turn was interrupted, and the session can still be used.
            HackamoreError: the session failed.
        """
        self._progress.begin_reading()
        with short_traceback:
            try:
                message: Message | None = _next(self._seam, self._inbox, checked_timeout(timeout))
            except HackamoreError as error:
                raise self._with_partial(error)  # noqa: B904 - the same error
            return message

    def text_stream(self) -> Iterator[str]:
        """Iterate over the text of the answer as it arrives.

        With `Options(include_partial_messages=True)` each item is a few words; otherwise it is the text of a whole message.

        Returns:
            An iterator of texts.

        Raises:
            HackamoreError: as iterating over the turn.

        Example:
            ::

                for text in turn.text_stream():
                    print(text, end="", flush=True)
        """
        deltas = TextDeltas()
        for message in self:
            if text := deltas.of(message):
                yield text

    def interrupt(self, *, timeout: float | None = None) -> bool:
        """Interrupt this turn, or cancel its prompt if the CLI has not begun it. Other turns continue.

        The turn ends as `interrupted`, usually with a result. Does nothing if the turn is over, also if its result is still on its way.
        Prompts that the CLI answers together are interrupted together. An old CLI interrupts the turn that runs when it reads the request.

        Args:
            timeout: seconds to wait for each answer of the CLI; None for `Timeouts.control`.

        Returns:
            True if the turn was interrupted, or its prompt cancelled. False if it was over.

        Raises:
            ControlError: the CLI refused the request, or did not answer in time.
            SessionClosedError: the session is over.

        Example:
            ::

                turn = session.send("Write a long story.")
                if turn.interrupt():
                    print("stopped")
        """
        with short_traceback:
            if self.state is TurnState.QUEUED:
                cancelled = self._session.cancel_async_message(self.id, timeout=timeout)
                if cancelled.cancelled:  # else the CLI has begun it meanwhile
                    return True
            if self.state.over:
                return False
            # With its name: the CLI may be a turn further than its output that was read.
            answer = self._session.request("interrupt", timeout=timeout, for_user_message_uuids=[self.id])
            return bool(answer.data.get("turn", "stopped") == "stopped")

    def _with_partial(self, error: HackamoreError) -> HackamoreError:
        return error.add_partial(self._progress.recent.partial(error.session_id or self._session.session_id))

    def result(self, *, timeout: float | None = None) -> ResultMessage:
        """Wait until the turn is over and return its result.

        Messages of a turn that has no reader yet are dropped.

        Args:
            timeout: seconds to wait; None waits without limit. The turn continues after a timeout: call again, or `session.interrupt()`.

        Returns:
            The result, also if it is an error: `result.raise_for_error()` raises that.

        Raises:
            TurnCancelledError: the turn ended without a result, because its prompt was cancelled, for example.
            TurnTimeoutError: a timeout of the turn passed; the turn was interrupted, and the session can still be used.
            TimeoutError: `timeout` passed; the turn continues.
            HackamoreError: the session failed.

        Example:
            ::

                turn = session.send("Which tests fail?")
                print((turn.result()).text)
        """
        with short_traceback:
            return self._result(checked_timeout(timeout))

    def _result(self, timeout: float | None) -> ResultMessage:
        seam = self._seam
        seam.check(self._progress.over)  # before messages are dropped
        with seam.lock:
            self._inbox.skip(not self._progress.read)  # unread, they would fill `Limits.buffered_bytes`
        try:
            over = seam.wait_at_most(self._progress.over, timeout)
        finally:
            with seam.lock:
                self._inbox.skip(False)
        if not over:
            trouble = last_api_error(seam.connection.conversation.api_error)
            raise TimeoutError(
                f"The turn has no result after {timeout:g} s. {trouble}The turn continues: call `result()` again, or interrupt it."
            )
        with seam.lock:
            error = self._inbox.the_error()
        if error is not None:
            raise self._with_partial(error)
        if self._progress.result is None:
            raise self._with_partial(TurnCancelledError(self.id, str(self.state)))
        return self._progress.result


class _Cursor(Generic[Item]):
    def __init__(self, session: Session, seam: Seam, inbox: Inbox) -> None:
        self._session = session
        self._seam = seam
        self._inbox = inbox

    def __repr__(self) -> str:
        return f"{type(self).__name__}(unread={self.unread}, session={self._session!r})"

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        item: Item | None = self._seam.take(self._inbox)
        if item is None:
            item = self.next_item()
            if item is None:
                raise StopIteration
        return item

    def next_item(self, *, timeout: float | None = None) -> Item | None:
        """Return the next item, or None at the end.

        Args:
            timeout: seconds to wait for an item; None waits without limit. No item is lost after a timeout: call again.

        Raises:
            TimeoutError: no item came in time.
            SessionNotStartedError: the session was not started.
            HackamoreError: the session failed (only from `messages()`).
        """
        with short_traceback:
            if not (self._inbox.items or self._inbox.over) and self._session.state is SessionState.NEW:
                raise SessionNotStartedError("next_item")
            item: Item | None = _next(self._seam, self._inbox, checked_timeout(timeout))
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
    """An iterator over all messages of a session from one moment on: `for message in cursor`.

    Unread messages are kept until it is closed.
    """


class EventCursor(_Cursor[SessionEvent]):
    """An iterator over the events of a session from one moment on: `for event in cursor`.

    It ends with the session and never raises.
    """


class Session(OtherShell, SessionBase, Operations):
    """A conversation with the Claude Code CLI that can be steered while it runs.

    Args:
        options: settings of the session; `Options()` if None.
        transport: connection to the CLI; a local child process if None.

    Example:
        ::

            with Session(options) as session:
                turn = session.send("Hello")
                for message in turn:
                    ...
    """

    __module__ = "hackamore.sync"

    def __init__(
        self, options: Options | None = None, *, transport: SyncTransport | TransportSource | None = None
    ) -> None:
        self._use(SessionRunner(options, transport, Readers))

    def _use(self, life: SessionRunner[Any]) -> None:
        self._life = life
        self._core = life.core
        self._seam = life.seam
        self._core.session = life.seam.reach(weakref.ref(self))  # callbacks must not keep it alive
        self._first_turn: Turn | None = None

    @property
    def first_turn(self) -> Turn | None:
        """The turn of the prompt given to `start_session`; None without one."""
        return self._first_turn

    @property
    def pid(self) -> int | None:
        """The process id of the CLI; None before it is started, and if the transport has none."""
        return self._life.transport.pid

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the CLI and return when it is ready. Further calls wait for the same start.

        Raises:
            StartError: the CLI cannot be started, or does not become ready in time.
            OptionsError: an option does not fit the file system.
            SessionClosedError: the session was stopped.

        Example:
            ::

                session = hackamore.Session()
                session.start()
        """
        with short_traceback:
            self._life.begin()

    def stop(self, *, timeout: float | None = None) -> None:
        """Interrupt a running turn and stop the CLI. When this returns, no process is left, unless `timeout` passed.

        Idempotent; may be called from any thread. All pending calls fail
        with `SessionClosedError`.

        Args:
            timeout: seconds to wait. A local CLI that ignores signals is then killed and reaped behind the caller. None waits for that.

        Example:
            ::

                session.stop()
        """
        self._life.stop(checked_timeout(timeout))

    def close(self) -> None:
        """Stop the session: the same as `stop()`, for `contextlib` and frameworks that close what they opened."""
        self.stop()

    def finish(self, *, timeout: float | None = None) -> None:
        """Wait for open turns and background tasks, close stdin, and wait for the CLI to exit.

        Args:
            timeout: seconds after which the CLI is stopped; None waits without limit.

        Raises:
            HackamoreError: the session failed.
        """
        core, seam = self._core, self._seam
        timeout = checked_timeout(timeout)
        with seam.entered():
            if seam.launched and not core.connection.state.over:
                core.connection.outbox.close_input()
                seam.wake()
        seam.wait_ended(timeout)
        self.stop()
        if core.connection.state.terminal_error is not None:
            raise core.connection.state.closed_error()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        if hasattr(self, "_life"):  # not if the constructor refused an argument
            self._life.abandon()

    # -- talking -------------------------------------------------------------------------------------------------------

    def send(
        self,
        prompt: Prompt | Mapping[str, Any],
        *,
        priority: Priority | None = None,
        extra: Mapping[str, Any] | None = None,
        uuid: str | None = None,
    ) -> Turn:
        """Send a prompt and return its turn immediately.

        Args:
            prompt: a text, a list of content blocks, or a whole user frame as a dict.
            priority: when the CLI reads the prompt if a turn is running: `now`, `next` or `later`; None leaves it to the CLI.
            extra: further fields of the frame, by their names on the wire, such as `{"shouldQuery": False}`.
            uuid: the id of the turn, with which the CLI names it; None for that of the frame, or else for a random one.

        Returns:
            The turn of the prompt: iterate over it, or wait for `turn.result()`.

        Raises:
            TypeError: `prompt` or `extra` has an unsupported type.
            ValueError: JSON cannot represent the prompt, or `priority` or a name in `extra` is not allowed.
            OptionsError: the uuid is malformed, or another prompt of the session has it; nothing was sent.
            SessionNotStartedError: the session was not started.
            SessionClosedError: the session is over.

        Example:
            ::

                turn = session.send("Summarize the README.")
                print((turn.result()).text)
        """
        seam = self._seam
        with short_traceback:
            self._require_start("send")
            content, turn_id, fields = sent_prompt(prompt, priority, extra, uuid)
            with seam.entered():
                progress = self._core.send(content, fields, time.monotonic(), turn_id, context_for_thread())
                turn = Turn(progress, self, seam)
                seam.wake()
        seam.give_way()
        return turn

    @overload
    def ask(
        self, prompt: Prompt, *, output_type: type[T], check: Literal[True] = True, retry: Retry | None = None
    ) -> RunResult[T]: ...
    @overload
    def ask(
        self, prompt: Prompt, *, output_type: type[T], check: bool, retry: Retry | None = None
    ) -> RunResult[T | None]: ...
    @overload
    def ask(
        self, prompt: Prompt, *, output_type: Any = None, check: bool = True, retry: Retry | None = None
    ) -> RunResult[Any]: ...
    def ask(
        self, prompt: Prompt, *, output_type: Any = None, check: bool = True, retry: Retry | None = None
    ) -> RunResult[Any]:
        """Send a prompt, wait for the end of its turn and return the answer, as `run` does for a single prompt.

        A cancelled call interrupts the turn; the session stays usable.

        Args:
            prompt: a text, or a list of content blocks.
            output_type: a type for the answer: `output` is an object of it. The CLI takes a JSON schema only at its start, so the session
                needs `Options(output_format=...)` with this type, or with a schema that fits it. None for an answer in text.
            check: raise `ResultError` if the turn ended in an error; default True. Errors of the session are always raised.
            retry: attempts and waits after errors that are `retryable`, in this session; None makes one attempt.

        Returns:
            The result, with `text`, `output`, `messages`, `cost` and `session_id`. `warnings` are those of the session meanwhile. `errors`
            is empty: a session logs lines that are not valid JSON.

        Raises:
            OptionsError: the session has no `output_format` for `output_type`; nothing was sent.
            RateLimitedError: a rate limit ended the turn, and `check` is True.
            ResultError: the turn ended in another error, and `check` is True.
            OutputError: the structured output does not fit `output_type`.
            TurnCancelledError: the turn ended without a result.
            TurnTimeoutError: a timeout of the turn passed; the turn was interrupted, and the session can still be used.
            HackamoreError: the session failed.

        Example:
            ::

                with hackamore.Session(Options(output_format=int)) as session:
                    answer = session.ask("How many tests are there?", output_type=int)
                    print(answer.output)
        """
        with short_traceback:
            self._require_start("ask")
            core = self._core
            require_format(core.options, output_type)
            attempts = Attempts(
                prompt, core.options, retry, check=check, reopened=True, goes_on=lambda: not core.connection.state.over
            )
            return answered(attempts, output_type, self._collect, sleep)

    def _collect(self, prompt: Prompt, _: Options) -> CollectResult:
        core, seam = self._core, self._seam
        earlier = list(core.warnings.kept)
        turn = self.send(prompt)
        messages: list[Message] = []
        error: HackamoreError | None = None
        try:
            for message in turn:
                messages.append(message)  # noqa: PERF402 - what came before an error is kept
            turn.result()  # a turn that was cancelled has messages, and no result
        except HackamoreError as problem:
            error = problem
        except BaseException:
            # No caller waits for the answer any more: the model must not work on.
            with seam.lock:
                core.connection.expire_turn(turn.id)
                seam.wake()
            raise
        known = {id(warning) for warning in earlier}  # no positions: the deque drops its oldest
        return CollectResult(messages, [each for each in core.warnings.kept if id(each) not in known], (), error)

    def messages(self) -> MessageCursor:
        """Return an iterator over all messages from now on, including those of other turns.

        Returns:
            An iterator of messages; it ends with the session.

        Raises:
            SessionNotStartedError: the session was not started.

        Example:
            ::

                for message in session.messages():
                    print(message)
        """
        self._require_start("messages")
        inbox = Inbox()
        with self._seam.lock:
            self._core.audience.add(inbox, events=False)
        return MessageCursor(self, self._seam, inbox)

    def events(self) -> EventCursor:
        """Return an iterator over all events from now on: turns, activity, background tasks, warnings, the end.

        It may be created before the start, to see `SessionStarted`; waiting for its items needs a session that was started.

        Returns:
            An iterator of `SessionEvent` objects; it ends with the session.

        Example:
            ::

                for event in session.events():
                    print(event)
        """
        inbox = Inbox()
        with self._seam.lock:
            self._core.audience.add(inbox, events=True)
        return EventCursor(self, self._seam, inbox)

    def wait_idle(self, *, timeout: float | None = None) -> None:
        """Wait until no prompt is open, no background task runs, and the CLI reports that it is idle.

        Args:
            timeout: seconds to wait; None waits without limit.

        Raises:
            TimeoutError: the session is still busy after `timeout`.
            SessionNotStartedError: the session was not started.
            HackamoreError: the session ended meanwhile.

        Example:
            ::

                session.send("Start the tests in the background.")
                session.wait_idle(timeout=600)
        """
        with short_traceback:
            self._require_start("wait_idle")
            self._wait_idle(checked_timeout(timeout))

    def _wait_idle(self, timeout: float | None) -> None:
        core, seam = self._core, self._seam
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with seam.lock:
                if core.connection.state.over:
                    raise core.connection.state.closed_error()
                if core.quiet:
                    return
                seen = core.settled.wakes
            left = None if until is None else max(0.0, until - time.monotonic())
            if not seam.wait_at_most(core.settled, left, since=seen):
                trouble = last_api_error(seam.connection.conversation.api_error)
                raise TimeoutError(f"The session is still busy after {timeout:g} s. {trouble}".rstrip())

    # -- control operations: the others are in `Operations` ------------------------------------------------------------

    def request(self, subtype: str, *, timeout: float | None = None, **fields: Any) -> ControlResult:
        """Send any control request and return its answer, also for requests that have no method.

        Args:
            subtype: name of the request on the wire.
            timeout: seconds to wait for the answer; None for `Timeouts.control`.
            fields: fields of the request. Names from the tables of this documentation or from the wire; unknown ones are sent as they are.

        Returns:
            The answer; `data` contains all of its fields.

        Raises:
            ControlError: the CLI refused the request, or did not answer in time.
            TypeError: a field is missing or has the wrong type.
            SessionClosedError: the session is over.

        Example:
            ::

                answer = session.request("mcp_status")
                print(answer.data)
        """
        return self._ask(ControlResult, subtype, fields, timeout)

    def set_mcp_servers(self, servers: Mapping[str, Any], *, timeout: float | None = None) -> McpServersChange:
        """Replace the dynamic MCP servers.

        New servers are available immediately. Servers that are replaced or left out stop when the CLI has accepted; if it refuses,
        nothing changes. Concurrent calls are sent one after the other. A name that gets another server is removed and added again, in
        two requests, and is in `added` and `removed` of the answer.

        Args:
            servers: configurations and in-process servers by name, as in `Options(mcp_servers=...)`; `{}` removes all.
            timeout: seconds to wait for each answer; None for `Timeouts.control`.

        Returns:
            The answer, with the names that were added and removed, and errors by name.

        Raises:
            OptionsError: a value is not a server, or its package is not installed.
            ControlError: the CLI refused the request, or did not answer in time.
            SessionClosedError: the session is over.

        Example:
            ::

                session.set_mcp_servers({"shop": [price, stock]})
        """
        wire, inside = sent_servers(servers)
        lock, change = self._seam.lock, self._core.callbacks.servers.change
        with self._seam.one_at_a_time():
            steps = change(wire, inside)
            try:
                with lock:
                    fields = {"servers": next(steps)}
                while True:
                    try:
                        answer = self._ask(McpServersChange, "mcp_set_servers", fields, timeout, "set_mcp_servers")
                    except BaseException as error:  # also a cancellation: `change` decides what stays reachable
                        with lock:
                            fields = {"servers": steps.throw(error)}
                    else:
                        with lock:
                            fields = {"servers": steps.send(answer)}
            except StopIteration as done:
                return cast("McpServersChange", done.value)

    def _ask(
        self,
        result: type[R],
        subtype: str,
        fields: Mapping[str, Any],
        timeout: float | None,
        operation: str | None = None,
    ) -> R:
        with short_traceback:
            self._require_start(operation or subtype)
            return self._answer(result, subtype, fields, timeout, operation or subtype)

    def _answer(
        self, result: type[R], subtype: str, fields: Mapping[str, Any], timeout: float | None, operation: str
    ) -> R:
        core, seam = self._core, self._seam
        with seam.entered():
            answer = core.requests.ask(subtype, fields, operation, timeout, time.monotonic())
            seconds = core.requests.deadline_of(answer)
            seam.wake()
        try:
            if not seam.wait(answer.flag, seconds):
                with seam.lock:
                    core.connection.expire(answer.request_id, seconds)
                    seam.wake()
        finally:
            if not answer.flag.is_set:  # cancelled: it must hold no place in `Limits.pending_requests`
                with seam.lock:
                    core.requests.give_up(answer)
                    seam.wake()
        return cast("R", answer.take())


def resolve_settings(options: Options | None = None) -> SettingsReport:
    """Return the settings in force for a session with these options, without a session and without a prompt.

    A CLI starts, reads its files and policies, reports, and stops.

    Args:
        options: `settings`, `setting_sources`, `managed_settings` and `cwd` decide; `Options()` if None.

    Returns:
        The merged settings as `effective`, and those of each source, lowest first, as `sources`.

    Raises:
        StartError: the CLI cannot be started.
        ControlError: the CLI is too old to report its settings.

    Example:
        ::

            print((hackamore.resolve_settings(Options(cwd="project"))).effective.get("model"))
    """
    with Session(options) as session:
        return session.get_settings()


class QuerySession(Session):
    """The session that the callbacks of a query get.

    Args:
        life: the CLI of the query.
    """

    def __init__(self, life: SessionRunner[Any]) -> None:
        self._use(life)


class Steered:
    """The bidirectional launch, with the methods of `query._Plain`."""

    def __init__(self, prompt: object, options: Options, transport: SyncTransport | TransportSource | None) -> None:
        self._life = SessionRunner(options, transport, SteeredQuery)
        self._session = QuerySession(self._life)  # callbacks find it as long as the stream lives
        self._seam = self._life.seam
        self._audience = self._life.core.audience
        self.transport: SyncTransport = self._life.transport
        self.core: QueryCore = self._audience.core
        self.log: SessionLog = self._life.core.log
        self.items: deque[QueryItem] = deque()
        self.gone: bool = False
        self._prompt = prompt
        self._fed = False
        self._closed = False

    @property
    def over(self) -> bool:
        """True once no further item can come."""
        return self._audience.over

    def start(self, *, resumable: bool) -> None:
        """Send the prompt, which waits for the handshake, and start the CLI."""
        if not self._fed:  # a start that was cancelled continues with the next call
            self._fed = True
            with self._seam.lock:
                self._audience.send_all(self._prompt, time.monotonic())
        try:
            self._life.begin(resumable=resumable)
        except HackamoreError:
            if not self._audience.tells_the_end:
                raise

    def resumes(self, error: BaseException) -> bool:
        """Return whether the next call of `start` can continue after this error."""
        return is_cancellation(error)

    def advance(self, limit: float | None = None) -> None:
        """Take the next portion of items, or wait for one, `limit` seconds at most."""
        checkpoint()  # before items are taken: a cancellation must not lose them
        audience = self._audience
        with self._seam.lock:
            portion = audience.take()
            done, seen = self._closed or audience.over, audience.more.wakes
        if portion:
            self.items.extend(portion)
        elif not done:
            self._seam.wait_at_most(audience.more, limit, since=seen)

    def close(self) -> None:
        """End a wait that runs in another task or thread."""
        self._closed = True
        self._seam.post(self._audience.more.wake)

    def stop(self, *, turn_open: bool | None = None) -> None:
        """Stop the CLI; the core knows whether a turn is open."""
        self._life.stop()
        self.gone = True

    def abandon(self) -> None:
        """End the CLI without waiting, if it was started."""
        self._life.abandon()


class PromptedSession(Session):
    """The session of `start_session(prompt)`: its first prompt was sent."""

    @property
    def first_turn(self) -> Turn:
        """The turn of the prompt given to `start_session`."""
        if self._first_turn is None:
            raise SessionNotStartedError("first_turn")
        return self._first_turn

    def send_first(self, prompt: Prompt) -> None:
        """Send the prompt of `first_turn`."""
        self._first_turn = self.send(prompt)


def _begin(session: Session, prompt: Prompt | None) -> Session:
    session.start()
    if isinstance(session, PromptedSession) and prompt is not None:
        try:
            session.send_first(prompt)
        except BaseException:
            session.stop()  # the caller does not get it
            raise
    return session


@overload
def start_session(
    prompt: Prompt,
    options: Options | None = None,
    *,
    transport: SyncTransport | TransportSource | None = None,
) -> PromptedSession: ...
@overload
def start_session(
    prompt: None = None,
    options: Options | None = None,
    *,
    transport: SyncTransport | TransportSource | None = None,
) -> Session: ...
def start_session(
    prompt: Prompt | None = None,
    options: Options | None = None,
    *,
    transport: SyncTransport | TransportSource | None = None,
) -> Any:
    """Start a session: `session = start_session(...)`, or `with start_session(...) as session`.

    Args:
        prompt: the first prompt; its turn is `session.first_turn`. None sends none.
        options: settings of the session; `Options()` if None.
        transport: connection to the CLI; a local child process if None.

    Returns:
        An object that starts the session.

    Raises:
        TypeError: `prompt` has an unsupported type; nothing was started.

    Example:
        ::

            with start_session("Which tests fail?") as session:
                print((session.first_turn.result()).text)
    """
    content = None if prompt is None else checked_content(prompt)
    session = (Session if content is None else PromptedSession)(options, transport=transport)
    return starting(session, lambda: _begin(session, content))
