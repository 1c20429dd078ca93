"""One-shot queries without an event loop.

The order of methods and everything they decide is that of `bridle.aio.query`; the core and the child process are the same objects.
Only the waiting differs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from bridle.errors import BridleError, ConcurrentUseError, DecodeError, StreamWarning
from bridle.queries.outcomes import CollectResult, RunResult, conclude
from bridle.queries.stream import SHORTEST_WAIT, StreamBase, is_steered, with_output_type
from bridle.transports.opening import open_sync
from bridle.transports.process.prepare import Preparation
from bridle.transports.process.subprocess_sync import SyncChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from bridle.launch import LaunchPlan
    from bridle.messages import Message, ResultMessage
    from bridle.options.options import Options
    from bridle.transports.base import SyncTransport, TransportSource

__all__ = ["QueryStream", "query", "run"]

T = TypeVar("T")
A = TypeVar("A")


class QueryStream(StreamBase):
    """The messages of one query, as they come.

    `for message in stream` gives messages and raises what ends the stream in error; warnings and undecodable lines are collected in
    `warnings` and `errors`. `next_item()` and `items()` give those as values too. `with stream` makes sure that nothing is left when the
    block is left; without it, leaving early still stops the process, in the background.

    One thread reads at a time; `close()` may be called from any thread and ends a blocked read at once.
    """

    def __init__(
        self,
        prompt: object,
        options: Options | None = None,
        *,
        transport: SyncTransport | TransportSource | None = None,
    ) -> None:
        super().__init__(prompt, options)
        self._transport: SyncTransport
        self._transport, self._own_transport = self._open(transport)

    # -- life ----------------------------------------------------------------------------------------------------------

    def _open(self, transport: SyncTransport | TransportSource | None) -> tuple[SyncTransport, bool]:
        return open_sync(transport, lambda: SyncChildProcess(**self._child_settings()), self.options)

    def start(self) -> None:
        """Start the CLI and hand it the prompt. Reading does this by itself; call it to meet start errors early.

        Raises:
            StartError: the CLI cannot be started.
            OptionsError: options that do not fit the file system.
        """
        if self._started or self._ended:
            return
        with self._reading("start"):
            self._start()

    def _start(self) -> None:
        self._started = True
        try:
            plan = self._prepare()
            self._prepared = True
            if self._closing:
                return
            self._transport.start(plan)
            self._connect(time.monotonic())
            if plan.stdin:
                self._transport.send(plan.stdin)
            self._transport.end_input()
        except BaseException as error:
            self._ended = True
            self._stop(turn_open=True)
            if not (self._closing and isinstance(error, BridleError)):
                raise  # what fails because somebody closed the stream meanwhile is an end, and no error

    def _prepare(self) -> LaunchPlan:
        self._preparation = preparation = Preparation(self.options, self._prompt, find=self._own_transport)
        plan = preparation.run()
        self._warn_before_start(preparation.warnings)
        self._log_plan(plan)
        return plan

    def _stop(self, *, turn_open: bool) -> None:
        self._transport.stop(turn_open=turn_open)

    def close(self) -> None:
        """Stop the CLI, if it still runs, and end the stream: when this returns, no process is left. Idempotent, from any thread."""
        self._closing = self._ended = True
        self._items.clear()
        if self._preparation is not None and not self._prepared:
            self._preparation.cancel()  # a start that is under way in another thread or task ends, too
        self._stop(turn_open=self._connection.turn_open)
        self._finished = True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- reading -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        while True:
            # Nearly always this is all that is done for a message.
            try:
                item = self._items.popleft()
            except IndexError:
                pass
            else:
                if item.__class__ not in _NOT_MESSAGES:
                    return item  # type: ignore[return-value]
                self._note(item)  # type: ignore[arg-type]
                continue
            try:
                if not self._more("for"):
                    raise StopIteration
            except (StopIteration, BridleError):
                raise
            except BaseException:
                # Ctrl-C in the middle of an iteration, which cannot be taken up again: the model must not work on for nobody.
                self._ended = True
                self._abandon()
                raise

    def next_item(self) -> Message | StreamWarning | DecodeError | None:
        """Return the next item, or None at the end. Always safe to call again, after an error too.

        Raises:
            BridleError: what ended the stream, once.
            ConcurrentUseError: another thread is reading.
        """
        while True:
            try:
                item = self._items.popleft()
                break
            except IndexError:
                # Not asked first: `close` may empty it at any moment.
                if not self._more("next_item"):
                    return None
        if item.__class__ in _NOT_MESSAGES:
            self._note(item)  # type: ignore[arg-type]
        return item

    def items(self) -> Iterator[Message | StreamWarning | DecodeError]:
        """Give everything: messages, warnings and undecodable lines, in order.

        Raises:
            BridleError: what ended the stream.
        """
        while (item := self.next_item()) is not None:
            yield item

    def collect(self) -> CollectResult:
        """Read to the end and return everything. What ends the stream in error is returned too, not raised; start errors are raised."""
        messages: list[Message] = []
        terminal_error: BridleError | None = None
        with self:
            try:
                for message in self:
                    messages.append(message)  # noqa: PERF402 - what came before an error is kept
            except ConcurrentUseError:
                raise
            except BridleError as error:
                terminal_error = error
        return CollectResult(messages, self.warnings, self.errors, terminal_error)

    def fold(self, initial: A, combine: Callable[[A, Message], A]) -> A:
        """Read to the end and return `combine` of all messages, beginning with `initial`.

        Raises:
            BridleError: what ended the stream.
        """
        value = initial
        with self:
            for message in self:
                value = combine(value, message)
        return value

    def result(self) -> ResultMessage | None:
        """Read to the end and return the last result; None if the CLI ended well without one (`warnings` says so).

        Raises:
            BridleError: what ended the stream.
        """
        with self:
            for _ in self:
                pass
        return self._connection.last_result

    def _more(self, call: str) -> bool:
        """Wait until there is an item; False at the end. The end is given only when the process is gone."""
        if self._ended:
            return False
        with self._reading(call):
            if not self._started:
                self._start()
                if self._closing:
                    self._stop(turn_open=True)
                    return False
            connection = self._connection
            while not self._items and not connection.over:
                self._advance()
                if self._closing:
                    self._items.clear()
                    self._stop(turn_open=connection.turn_open)
                    return False
            if self._items:
                return True
            if not self._finished:
                # It was given its time, or may be at work for nobody: there is nothing to wait for.
                self._stop(turn_open=True)
                self._finished = True
            error = self._give_end()
            if error is not None:
                raise error
            return False

    def _advance(self) -> None:
        """Wait for one happening and tell the core."""
        connection, transport = self._connection, self._transport
        seconds = self._wait_seconds(time.monotonic())
        if connection.output_ended:
            until = None if seconds is None else time.monotonic() + seconds
            exit_code = transport.wait_exit(seconds)
            if exit_code is not None or until is None or time.monotonic() < until:
                # Stopped first: then everything that was on stderr has been read, and the diagnosis is complete.
                self._stop(turn_open=connection.crashed(exit_code))
                self._finished = True
                connection.process_exited(exit_code, transport.stderr_tail)
            else:
                connection.expire(time.monotonic(), transport.stderr_tail)
            return
        data = transport.receive(seconds)
        self._took(data, transport.stderr_tail, due=seconds is not None and seconds <= SHORTEST_WAIT)


# Exact classes: the core makes no others, and asking for subclasses costs three times as much for every message.
_NOT_MESSAGES = frozenset({StreamWarning, DecodeError})


def query(
    prompt: object, options: Options | None = None, *, transport: SyncTransport | TransportSource | None = None
) -> QueryStream:
    """Ask once: return the stream of messages. Nothing is started before the stream is read, entered or started.

    Args:
        prompt: what to ask: a text, a list of content blocks, or an iterable of such prompts.
        options: how; `Options()` if None. Callbacks, in-process tools and other options that need it, and all prompts but a text,
            make the same query run over the bidirectional protocol.
        transport: where the CLI is; a local child process if None.

    Raises:
        TypeError: the prompt is nothing that can be a prompt.
        OptionsError: it is empty, or options do not go together.
    """
    if is_steered(prompt, options):
        from bridle.sync.steered import SteeredStream

        return SteeredStream(prompt, options, transport=transport)
    return QueryStream(prompt, options, transport=transport)


@overload
def run(
    prompt: object,
    options: Options | None = None,
    *,
    output_type: type[T],
    check: bool = True,
    transport: SyncTransport | TransportSource | None = None,
) -> RunResult[T]: ...
@overload
def run(
    prompt: object,
    options: Options | None = None,
    *,
    output_type: Any = None,
    check: bool = True,
    transport: SyncTransport | TransportSource | None = None,
) -> RunResult[Any]: ...
def run(
    prompt: object,
    options: Options | None = None,
    *,
    output_type: Any = None,
    check: bool = True,
    transport: SyncTransport | TransportSource | None = None,
) -> RunResult[Any]:
    """Ask once and return the answer: text, typed output, messages, cost.

    Args:
        prompt: what to ask.
        options: how; `Options()` if None.
        output_type: a type (dataclass, TypedDict, msgspec struct, pydantic model, ...): the model is asked for JSON that fits it, and
            `output` is an object of it.
        check: raise `ResultError` if the turn ended in an error. What ends the stream in error is raised in any case.
        transport: where the CLI is; a local child process if None.

    Raises:
        ResultError: the turn ended in an error. (CLI 2.1.328 then exits with code 1; that is no error of its own.)
        OutputError: the structured output does not fit `output_type`.
        StartError, StreamError: as their names say.
    """
    stream = query(prompt, with_output_type(options, output_type), transport=transport)
    return conclude(stream.collect(), output_type, check=check)
