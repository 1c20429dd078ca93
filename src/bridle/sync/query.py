# Generated from src/bridle/aio/query.py by scripts/make_sync.py. Do not edit: edit the source and run `./dev format`.
"""Queries for threads.

`QueryStream` takes items from the core of the query and gives them to its user; the launch decides how they get there. A plain query holds
no task, scope or lock between calls: it reads when it is asked. A query over the bidirectional launch has a driver (`steered.py`).
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

from bridle.errors import BridleError, ConcurrentUseError, DecodeError, StreamWarning
from bridle.queries.outcomes import CollectResult, RunResult, conclude
from bridle.queries.plain import PlainQuery
from bridle.queries.stream import StreamBase, is_steered, warn_before_start, with_output_type
from bridle.sync.waits import Preparing, child_process, is_cancellation, receive, wait_exit
from bridle.transports.opening import open_sync
from bridle.transports.process.prepare import Preparation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from bridle.launch import LaunchPlan
    from bridle.messages import Message, ResultMessage
    from bridle.options.options import Options
    from bridle.sync.steered import Steered
    from bridle.transports.base import SyncTransport, TransportSource

__all__ = ["QueryStream", "query", "run"]

logger = logging.getLogger("bridle")

T = TypeVar("T")
A = TypeVar("A")

_SHORTEST_WAIT = 0.01
"""A timeout that has passed still leaves one look at what is readable, so that data which came in time counts."""


class _Plain:
    """The one-way launch: the prompt goes with it, and the stream reads when it is asked. `Steered` has the same methods.

    Attributes:
        transport: the connection to the CLI.
        core: the items and the ending.
        items: the items that the stream gives next.
        gone: True once the CLI was stopped.
    """

    def __init__(self, prompt: str, options: Options, transport: SyncTransport | TransportSource | None) -> None:
        self.transport: SyncTransport
        self.transport, self._local = open_sync(transport, lambda: child_process(options), options)
        self.gone = False
        self._query = PlainQuery(options)
        self.core = self._query.core
        self.items = self.core.items
        self._options = options
        self.preparation = Preparation(options, prompt, find=self._local)
        self._preparing = Preparing(self.preparation)
        self._plan: LaunchPlan | None = None
        self._begun = False
        self._fed = False
        self._closed = False

    @property
    def over(self) -> bool:
        """True once no further item can come."""
        return self.core.over

    def start(self, *, resumable: bool) -> None:
        """Start the CLI and give it the prompt. The next call continues a `resumable` start that was cancelled."""
        self._begun = True
        if self._plan is None:
            try:
                plan = self._preparing.plan()
            except BaseException as error:
                if not resumable and is_cancellation(error):
                    self.preparation.cancel()
                raise
            warn_before_start(self._options, self.preparation.warnings)
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("starting\n%s", plan.describe())
            self._plan = plan
        if self._closed:
            return
        self.transport.start(self._plan)
        if not self._fed:
            self._fed = True
            self._query.begin(time.monotonic())
            if self._plan.stdin:
                self.transport.send(self._plan.stdin)
        self.transport.end_input()

    def resumes(self, error: BaseException) -> bool:
        """Return whether the next call of `start` can continue after this error."""
        return is_cancellation(error) and (self._local or self._plan is None)

    def advance(self) -> None:
        """Wait for output, for the exit, or for the next timeout."""
        query, transport = self._query, self.transport
        seconds = query.wait_seconds(time.monotonic())
        if seconds is not None:
            seconds = max(_SHORTEST_WAIT, seconds)
        if query.output_ended:
            exited, exit_code = wait_exit(transport, seconds)
            if exited:
                # Stopped first: then all of stderr has been read, and the diagnosis is complete.
                self.stop(turn_open=query.crashed(exit_code))
                query.process_exited(exit_code, transport.stderr_tail)
            else:
                query.expire(time.monotonic(), transport.stderr_tail)
            return
        data = receive(transport, seconds)
        now = time.monotonic()
        if data:
            query.receive_data(data, now)
        elif data is not None:
            query.receive_eof(now)
        if data is None or (seconds is not None and seconds <= _SHORTEST_WAIT):
            query.expire(now, transport.stderr_tail)

    def close(self) -> None:
        """End a start that goes on in another task or thread. `stop` follows."""
        self._closed = True
        if self._plan is None:
            self.preparation.cancel()

    def stop(self, *, turn_open: bool | None = None) -> None:
        """Stop the CLI; `turn_open` tells whether the model may be at work (None: the core knows)."""
        self.transport.stop(turn_open=self._query.turn_open if turn_open is None else turn_open)
        self.gone = True

    def abandon(self) -> None:
        """End the CLI without waiting, if it was started."""
        if self._begun and not self.gone:
            if self._plan is None:
                self.preparation.cancel()
            self.transport.abandon()


class QueryStream(StreamBase):
    """The messages of one query, as they come.

    `for message in stream` gives messages and raises what ends the stream in error; warnings and undecodable lines are collected
    in `warnings` and `errors`. `next_item()` and `items()` give those as values too. `with stream` makes sure that nothing is left
    when the block is left; without it, leaving early still stops the process, in the background.
    """

    def __init__(
        self,
        prompt: object,
        options: Options | None = None,
        *,
        transport: SyncTransport | TransportSource | None = None,
    ) -> None:
        super().__init__(options)
        self._way: _Plain | Steered
        if is_steered(prompt, self.options):
            from bridle.sync.steered import Steered

            self._way = Steered(prompt, self.options, transport)
        else:
            self._way = _Plain(cast("str", prompt), self.options, transport)
        self._core = self._way.core
        self._items = self._way.items
        self._up = False

    @property
    def pid(self) -> int | None:
        """The process id of the CLI; None before it is started, and if the transport has none."""
        return self._way.transport.pid

    def __del__(self) -> None:
        if hasattr(self, "_up"):
            self._way.abandon()

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the CLI and hand it the prompt. Reading does this by itself; call it to meet start errors early.

        Raises:
            StartError: the CLI cannot be started.
            OptionsError: options that do not fit the file system.
        """
        if self._up or self._ended:
            return
        with self._reading("start"):
            self._start(resumable=False)

    def _start(self, *, resumable: bool) -> None:
        """Start, or continue a start that was cancelled (`next_item` is safe to be called again, from its first call on)."""
        try:
            self._way.start(resumable=resumable)
        except BaseException as error:
            if resumable and self._way.resumes(error):
                raise
            self._ended = True
            self._way.stop(turn_open=True)
            if not (self._closing and isinstance(error, BridleError)):
                raise  # an error because the stream was closed meanwhile is an end, and no error
        self._up = True

    def close(self) -> None:
        """Stop the CLI, if it still runs, and end the stream: when this returns, no process is left. Idempotent."""
        self._closing = self._ended = True
        self._items.clear()
        self._way.close()
        self._way.stop()

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
                # Interrupted in the middle of an iteration, which cannot be taken up again: the model must not work on for nobody.
                self._ended = True
                self._way.abandon()
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
        return self._core.last_result

    def _more(self, call: str) -> bool:
        """Wait until there is an item; False at the end. The end is given only when the process is gone."""
        if self._ended:
            return False
        with self._reading(call):
            way = self._way
            if not self._up:
                self._start(resumable=call == "next_item")
            while not (self._closing or self._items or way.over):
                way.advance()
            if self._closing:
                self._items.clear()
                way.stop()
                return False
            if self._items:
                return True
            if not way.gone:
                # It was given its time, or may be at work for no reader: there is nothing to wait for.
                way.stop(turn_open=True)
            error = self._give_end()
            if error is not None:
                raise error
            return False


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
