"""Queries for asyncio and trio.

`QueryStream` takes items from the core of the query and gives them to its user; the launch decides how they get there. A plain query holds
no task, scope or lock between calls: it reads when its caller reads. A query over the bidirectional launch has a driver (`session.py`).
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast, overload

from hackamore._engine.protocol.log import one_line
from hackamore._engine.queries.ending import TextDeltas
from hackamore._engine.queries.outcomes import CollectResult, RunResult
from hackamore._engine.queries.plain import PlainQuery, deliver_warning, is_steered, warn_before_start, with_guards
from hackamore._engine.queries.retrying import Attempts
from hackamore.aio.attempts import answered
from hackamore.aio.waits import (
    OtherShell,
    Preparing,
    check_loop,
    child_process,
    is_cancellation,
    receive,
    sleep,
    wait_exit,
)
from hackamore.errors import (
    ConcurrentUseError,
    DecodeError,
    HackamoreError,
    StreamWarning,
    last_api_error,
    short_traceback,
)
from hackamore.options.bounds import checked_timeout
from hackamore.options.options import Options
from hackamore.runtime.threads import Mark, starters
from hackamore.transports.base import TransportSource
from hackamore.transports.opening import open_async
from hackamore.transports.process.prepare import Preparation
from hackamore.transports.recording.masking import Mask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from hackamore._engine.launch import LaunchPlan
    from hackamore._engine.queries.prompts import Prompt, Prompts
    from hackamore.aio.session import Steered
    from hackamore.messages import Message, ResultMessage
    from hackamore.options.retry import Retry
    from hackamore.transports.base import AsyncTransport

T = TypeVar("T")
A = TypeVar("A")

_SHORTEST_WAIT = 0.01
"""A timeout that has passed still leaves one look at what is readable, so that data which came in time counts."""


class _Plain:
    """The one-way launch: the prompt goes with it, and the stream reads when its caller reads. `Steered` has the same members."""

    def __init__(self, prompt: str, options: Options, transport: AsyncTransport | TransportSource | None) -> None:
        self.transport: AsyncTransport
        self._query = PlainQuery(options)
        self.core = self._query.core
        options = with_guards(options, self.core.warned, self._query.log.ids)
        grace = options.timeouts.stop_grace
        self.transport, self._local = open_async(transport, lambda: child_process(options, grace), options)
        self.gone = False
        self._query.wake = self.transport.abandon
        self.log = self._query.log
        self.log.pid = lambda transport=self.transport: transport.pid  # type: ignore[misc]
        self.items = self.core.items
        self._options = options
        self.preparation = Preparation(options, prompt, find=self._local)
        self._preparing = Preparing(self.preparation, self.transport)
        self._plan: LaunchPlan | None = None
        self._prompt = prompt
        self._observed = False
        self._begun = False
        self._fed = False
        self._closed = False

    @property
    def over(self) -> bool:
        """True once no further item can come."""
        return self.core.over

    async def start(self, *, resumable: bool) -> None:
        """Start the CLI and give it the prompt. The next call continues a `resumable` start that was cancelled."""
        try:
            await self._start(resumable=resumable)
        except HackamoreError as error:
            self._query.start_error = error
            raise

    async def _start(self, *, resumable: bool) -> None:
        check_loop()
        self._begun = True
        if self._plan is None:
            if not self._observed:
                self._observed = True
                self.preparation.options = self._query.observed(self._prompt, self._options)
            try:
                plan = await self._preparing.plan()
            except BaseException as error:
                if not resumable and is_cancellation(error):
                    self.preparation.cancel()
                raise
            warn_before_start(self._options, self.preparation.warnings)
            if self.log.isEnabledFor(logging.DEBUG):
                self.log.debug("starting; %s", one_line(plan.describe()))
            self._plan, self._query.connection.reader.mask = plan, Mask(plan)
        if self._closed:
            return
        await self.transport.start(self._plan)
        if not self._fed:
            self._fed = True
            self._query.begin(time.monotonic())
            if self._plan.stdin:
                await self.transport.send(self._plan.stdin)
        await self.transport.end_input()

    def resumes(self, error: BaseException) -> bool:
        """Return whether the next call of `start` can continue after this error."""
        return is_cancellation(error) and (self._local or self._plan is None)

    async def advance(self, limit: float | None = None) -> None:
        """Wait for output, for the exit, or for the next timeout; `limit` seconds at most."""
        query, transport = self._query, self.transport
        seconds = query.wait_seconds(time.monotonic())
        if limit is not None:
            seconds = limit if seconds is None else min(limit, seconds)
        if seconds is not None:
            seconds = max(_SHORTEST_WAIT, seconds)
        if query.output_ended:
            exited, exit_code = await wait_exit(transport, seconds)
            if exited:
                # Stopped first: then all of stderr has been read, and the diagnosis is complete.
                await transport.stop(turn_open=query.crashed(exit_code))
                self.gone = True
                query.process_exited(exit_code, transport.stderr_tail)
            else:
                query.expire(time.monotonic(), transport.stderr_tail)
            return
        try:
            data = await receive(transport, seconds)
        except HackamoreError as error:
            query.lost(error)
            return
        now = time.monotonic()
        if data:
            query.receive_data(data, now)
        elif data is not None:
            query.receive_eof(now)
        if data is None or (seconds is not None and seconds <= _SHORTEST_WAIT):
            query.expire(now, transport.stderr_tail)

    def close(self) -> None:
        """End a start that runs in another task or thread. `stop` follows."""
        self._closed = True
        if self._plan is None:
            self.preparation.cancel()

    async def stop(self, *, turn_open: bool | None = None) -> None:
        """Stop the CLI; `turn_open` tells whether the model may be at work (None: the core knows)."""
        await self.transport.stop(turn_open=self._query.turn_open if turn_open is None else turn_open)
        self.gone = True
        self._query.closed()

    def abandon(self) -> None:
        """End the CLI without waiting, if it was started."""
        if self._begun and not self.gone:
            if self._plan is None:
                self.preparation.cancel()
            self.transport.abandon()
            if self._query.observers is not None:
                # Elsewhere: the garbage collector may call this in the middle of an observer's own work.
                with suppress(RuntimeError):  # no thread can be had: the interpreter ends
                    starters.run(self._query.closed)


class QueryStream(OtherShell):
    """The messages of one query, as they arrive.

    `async for message in stream` gives messages and raises the error of the stream. Warnings and undecodable lines are collected in
    `warnings` and `errors`; `next_item()` and `items()` also give them as values. `async with stream` makes sure that no process is left
    when the block is left; without it, leaving early still stops the process, in the background.

    Args:
        prompt: a text, a list of content blocks, or an (async) iterable of such prompts.
        options: settings of the query; `Options()` if None.
        transport: connection to the CLI; a local child process if None.

    Attributes:
        options: the options of the query.
        warnings: the warnings so far.
        errors: the lines so far that were not JSON objects.

    Raises:
        TypeError: `prompt` or `options` has an unsupported type.

    Example:
        ::

            async with hackamore.query("What is 2 + 2?") as stream:
                async for message in stream:
                    print(message)
    """

    __module__ = "hackamore"

    def __init__(
        self,
        prompt: Prompt | Prompts,
        options: Options | None = None,
        *,
        transport: AsyncTransport | TransportSource | None = None,
    ) -> None:
        if options is not None and not isinstance(options, Options):
            raise TypeError(f"`options` must be a hackamore.Options, not {type(options).__name__}")
        self.options: Options = options if options is not None else Options()
        self.warnings: list[StreamWarning] = []
        self.errors: list[DecodeError] = []
        self._mark = Mark()
        self._error_given = False
        self._ended = False
        self._closing = False
        self._way: _Plain | Steered
        if is_steered(prompt, self.options):
            from hackamore.aio.session import Steered

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

    @property
    def session_id(self) -> str | None:
        """The session id, from the first message that names it, for `Options(resume=...)`."""
        return self._core.connection.state.session_id

    @property
    def results(self) -> list[ResultMessage]:
        """The results received so far."""
        return list(self._core.results)

    def __del__(self) -> None:
        if hasattr(self, "_up"):
            self._way.abandon()

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the CLI and hand it the prompt. Reading does this by itself; call it to meet start errors early.

        Raises:
            StartError: the CLI cannot be started.
            OptionsError: options that do not fit the file system.
        """
        if self._up or self._ended:
            return
        with self._reading("start"), short_traceback:
            await self._start(resumable=False)

    async def _start(self, *, resumable: bool) -> None:
        """Start, or continue a start that was cancelled (`next_item` is safe to be called again, from its first call on)."""
        try:
            await self._way.start(resumable=resumable)
        except BaseException as error:
            if resumable and self._way.resumes(error):
                raise
            self._ended = True
            await self._way.stop(turn_open=True)
            if not (self._closing and isinstance(error, HackamoreError)):
                raise  # an error because the stream was closed meanwhile is an end, and no error
        self._up = True

    async def aclose(self) -> None:
        """Stop the CLI, if it still runs, and end the stream. Idempotent.

        It waits for the end of the process, at most `Timeouts.stop_grace`: a CLI that ignores signals is killed behind it.
        """
        self._closing = self._ended = True
        self._items.clear()
        self._way.close()
        await self._way.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- reading -------------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
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
                if not await self._more("async for"):
                    raise StopAsyncIteration
            except (StopAsyncIteration, HackamoreError):
                raise
            except BaseException:
                # A cancelled iteration cannot be resumed. Stop the CLI: no reader is left.
                self._ended = True
                self._way.abandon()
                raise

    async def next_item(self, *, timeout: float | None = None) -> Message | StreamWarning | DecodeError | None:
        """Return the next item, or None at the end. It may be called again after an error, a timeout or a cancellation.

        Args:
            timeout: seconds to wait for an item, not counting the start of the CLI; None waits without limit. No item is lost after a
                timeout: call again.

        Returns:
            A message, a warning, an undecodable line, or None at the end.

        Raises:
            TimeoutError: no item came in time.
            HackamoreError: the error of the stream; raised once.
            ConcurrentUseError: another task is reading.
        """
        while True:
            try:
                item = self._items.popleft()
                break
            except IndexError:
                # Not asked first: `aclose` may empty it at any moment.
                if not await self._more("next_item", checked_timeout(timeout)):
                    return None
        if item.__class__ in _NOT_MESSAGES:
            self._note(item)  # type: ignore[arg-type]
        return item

    async def items(self) -> AsyncIterator[Message | StreamWarning | DecodeError]:
        """Iterate over everything in order: messages, warnings and undecodable lines.

        Returns:
            An iterator of the items.

        Raises:
            HackamoreError: the error of the stream.

        Example:
            ::

                async for item in hackamore.query("What is 2 + 2?").items():
                    print(item)
        """
        while (item := await self.next_item()) is not None:
            yield item

    async def collect(self) -> CollectResult:
        """Read to the end and return everything. An error of the stream is returned also, not raised; start errors are raised.

        Returns:
            Messages, result, warnings, undecodable lines and the error of the stream, if there was one.

        Raises:
            StartError: the CLI could not be started.

        Example:
            ::

                collected = await hackamore.query("What is 2 + 2?").collect()
                print(collected.result, collected.error)
        """
        messages: list[Message] = []
        terminal_error: HackamoreError | None = None
        async with self:
            try:
                async for message in self:
                    messages.append(message)  # noqa: PERF401 - what came before an error is kept
            except ConcurrentUseError:
                raise
            except HackamoreError as error:
                terminal_error = error
        return CollectResult(messages, self.warnings, self.errors, terminal_error)

    async def fold(self, initial: A, combine: Callable[[A, Message], A]) -> A:
        """Read to the end and combine all messages into one value.

        Args:
            initial: the value before the first message.
            combine: returns the new value for the value so far and the next message.

        Returns:
            The last value of `combine`; `initial` if there was no message.

        Raises:
            HackamoreError: the error of the stream.
        """
        value = initial
        async with self:
            async for message in self:
                value = combine(value, message)
        return value

    async def result(self) -> ResultMessage | None:
        """Read to the end and return the last result.

        Returns:
            The result; None if the CLI exited cleanly without one, which is then a warning in `warnings`.

        Raises:
            HackamoreError: the error of the stream.

        Example:
            ::

                result = await hackamore.query("What is 2 + 2?").result()
                print(result.text if result else "no result")
        """
        async with self:
            async for _ in self:
                pass
        return self._core.last_result

    async def _more(self, call: str, timeout: float | None = None) -> bool:
        """Wait until there is an item; False at the end. The end is given only when the process is gone."""
        if self._ended:
            return False
        with self._reading(call), short_traceback:
            if not self._up:
                await self._start(resumable=call == "next_item")
            await self._wait(timeout)
            way = self._way
            if self._closing:
                self._items.clear()
                await way.stop()
                return False
            if self._items:
                return True
            if not way.gone:
                # It was given its time, or may be at work for no reader: there is nothing to wait for.
                await way.stop(turn_open=True)
            error = self._give_end()
            if error is not None:
                raise error.add_partial(self._core.recent.partial(self.session_id))
            return False

    async def _wait(self, timeout: float | None) -> None:
        """Wait until there is an item or the end; raise TimeoutError if the time has passed."""
        way = self._way
        until = None if timeout is None else time.monotonic() + timeout
        left = timeout
        while not (self._closing or self._items or way.over):
            if left is not None and left < 0:
                trouble = last_api_error(self._core.connection.conversation.api_error)
                raise TimeoutError(
                    f"No item came within {timeout:g} s. {trouble}Nothing was lost: the next call continues."
                )
            await way.advance(left)
            left = None if until is None else until - time.monotonic()

    def __repr__(self) -> str:
        state = "ended" if self._ended else "running" if self._up else "not started"
        return f"{type(self).__name__}(state={state!r}, session_id={self.session_id!r}, pid={self.pid})"

    async def text_stream(self) -> AsyncIterator[str]:
        """Iterate over the text of the answer as it arrives.

        With `Options(include_partial_messages=True)` each item is a few words; otherwise it is the text of a whole message.

        Returns:
            An iterator of texts.

        Raises:
            HackamoreError: as iterating over the stream.

        Example:
            ::

                async for text in hackamore.query("Tell me a story.").text_stream():
                    print(text, end="", flush=True)
        """
        deltas = TextDeltas()
        async with self:
            async for message in self:
                if text := deltas.of(message):
                    yield text

    def _note(self, item: StreamWarning | DecodeError) -> None:
        code = item.reason if isinstance(item, DecodeError) else item.code
        self._way.log.warning("%s", item, extra={"code": code})
        if isinstance(item, DecodeError):
            self.errors.append(item)
        else:
            self.warnings.append(item)
            if (failure := deliver_warning(self.options, item, self._way.log.ids())) is not None:
                self.warnings.append(failure)

    def _reading(self, call: str) -> Mark:
        """Mark the stream as being read for the length of a `with` block; raise ConcurrentUseError if another reader has it."""
        if not self._mark.take():
            raise ConcurrentUseError.for_call(call)
        return self._mark

    def _give_end(self) -> HackamoreError | None:
        """Return the terminal error the first time, then None: an error is raised once."""
        self._ended = True
        self._core.asked_at_the_end()
        if self._error_given or self._closing:
            return None
        self._error_given = True
        return self._core.terminal_error


# Exact classes: the core makes no others, and asking for subclasses costs three times as much for every message.
_NOT_MESSAGES = frozenset({StreamWarning, DecodeError})


def query(
    prompt: Prompt | Prompts,
    options: Options | None = None,
    *,
    transport: AsyncTransport | TransportSource | None = None,
) -> QueryStream:
    """Send one prompt and return the stream of its messages. The CLI starts when the stream is read, entered or started.

    Args:
        prompt: a text, a list of content blocks, or an (async) iterable of such prompts.
        options: settings of the query; `Options()` if None. Callbacks, in-process tools and prompts that are not a
            text use the bidirectional protocol; the stream behaves the same.
        transport: connection to the CLI; a local child process if None.

    Returns:
        The stream of messages.

    Raises:
        TypeError: `prompt` has an unsupported type.
        OptionsError: the prompt is empty, or options contradict each other.

    Example:
        ::

            async for message in hackamore.query("What does this project do?"):
                print(message)
    """
    with short_traceback:
        return QueryStream(prompt, options, transport=transport)


@overload
async def run(
    prompt: Prompt | Prompts,
    options: Options | None = None,
    *,
    output_type: type[T],
    check: Literal[True] = True,
    retry: Retry | None = None,
    transport: AsyncTransport | TransportSource | None = None,
) -> RunResult[T]: ...
@overload
async def run(
    prompt: Prompt | Prompts,
    options: Options | None = None,
    *,
    output_type: type[T],
    check: bool,
    retry: Retry | None = None,
    transport: AsyncTransport | TransportSource | None = None,
) -> RunResult[T | None]: ...
@overload
async def run(
    prompt: Prompt | Prompts,
    options: Options | None = None,
    *,
    output_type: Any = None,
    check: bool = True,
    retry: Retry | None = None,
    transport: AsyncTransport | TransportSource | None = None,
) -> RunResult[Any]: ...
async def run(
    prompt: Prompt | Prompts,
    options: Options | None = None,
    *,
    output_type: Any = None,
    check: bool = True,
    retry: Retry | None = None,
    transport: AsyncTransport | TransportSource | None = None,
) -> RunResult[Any]:
    """Send one prompt, wait for the end and return the answer: text, typed output, messages, cost.

    Args:
        prompt: a text, a list of content blocks, or an (async) iterable of such prompts.
        options: settings of the query; `Options()` if None.
        output_type: a type (dataclass, TypedDict, msgspec struct, pydantic model, ...) for the answer: the CLI
            receives its JSON schema, and `output` is an object of it. None for an answer in text.
        check: raise `ResultError` if the turn ended in an error; default True. Stream errors are always raised, even
            with False.
        retry: attempts and waits after errors that are `retryable`; None makes one attempt. Each retry is a warning with the code
            `RETRYING`.
        transport: connection to the CLI; a local child process if None.

    Returns:
        The result, with `text`, `output`, `messages`, `cost` and `session_id`.

    Raises:
        RateLimitedError: a rate limit ended the turn, and `check` is True.
        ResultError: the turn ended in another error, and `check` is True.
        OutputError: the structured output does not fit `output_type`.
        StartError, StreamError: the CLI could not be started, or the stream failed.

    Example:
        ::

            answer = await hackamore.run("How many tests are there?", output_type=int)
            print(answer.output)
    """
    with short_traceback:
        repeatable = transport is None or isinstance(transport, TransportSource)
        attempts = Attempts(
            prompt, (options or Options()).with_output_type(output_type), retry, check=check, reopened=repeatable
        )
        return await answered(
            attempts, output_type, lambda prompt, options: query(prompt, options, transport=transport).collect(), sleep
        )
