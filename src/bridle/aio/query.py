"""One-shot queries for asyncio and trio.

`QueryStream` moves bytes between a transport and the core and owns the clock; it decides nothing itself. It holds no task, scope or
lock between calls. Messages that one read brought are handed out without touching the event loop.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import anyio

from bridle.errors import BridleError, ConcurrentUseError, DecodeError, StreamWarning
from bridle.queries.outcomes import CollectResult, RunResult, conclude
from bridle.queries.stream import SHORTEST_WAIT, StreamBase, is_steered, with_output_type
from bridle.transports.opening import open_async
from bridle.transports.process.prepare import Preparation
from bridle.transports.process.subprocess_async import AsyncChildProcess
from bridle.waiting.offload import Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from bridle.launch import LaunchPlan
    from bridle.messages import Message, ResultMessage
    from bridle.options.options import Options
    from bridle.transports.base import AsyncTransport, TransportSource

__all__ = ["QueryStream", "query", "run"]

T = TypeVar("T")
A = TypeVar("A")


class QueryStream(StreamBase):
    """The messages of one query, as they come.

    `async for message in stream` gives messages and raises what ends the stream in error; warnings and undecodable lines are collected
    in `warnings` and `errors`. `next_item()` and `items()` give those as values too. `async with stream` makes sure that nothing is left
    when the block is left; without it, leaving early still stops the process, in the background.
    """

    def __init__(
        self,
        prompt: object,
        options: Options | None = None,
        *,
        transport: AsyncTransport | TransportSource | None = None,
    ) -> None:
        super().__init__(prompt, options)
        self._transport: AsyncTransport
        self._transport, self._own_transport = self._open(transport)
        self._preparing: Call[LaunchPlan] | None = None
        self._plan: LaunchPlan | None = None
        self._fed = False
        self._up = False

    # -- life ----------------------------------------------------------------------------------------------------------

    def _open(self, transport: AsyncTransport | TransportSource | None) -> tuple[AsyncTransport, bool]:
        return open_async(transport, lambda: AsyncChildProcess(**self._child_settings()), self.options)

    async def start(self) -> None:
        """Start the CLI and hand it the prompt. Reading does this by itself; call it to meet start errors early.

        Raises:
            StartError: the CLI cannot be started.
            OptionsError: options that do not fit the file system.
        """
        if self._up or self._ended:
            return
        with self._reading("start"):
            await self._start(resumable=False)

    async def _start(self, *, resumable: bool) -> None:
        """Start, or go on with a start that was cancelled (`next_item` is safe to be called again, from its first call on)."""
        self._started = True
        transport = self._transport
        try:
            if self._plan is None:
                self._plan = await self._prepare(resumable=resumable)
                self._prepared = True
            plan = self._plan
            if self._closing:
                return
            await transport.start(plan)
            if not self._fed:
                self._fed = True
                self._connect(time.monotonic())
                if plan.stdin:
                    await transport.send(plan.stdin)
            await transport.end_input()
            self._up = True
        except BaseException as error:
            at_our_transport = self._own_transport or not self._prepared
            if resumable and at_our_transport and isinstance(error, anyio.get_cancelled_exc_class()):
                raise
            self._ended = True
            await self._stop(turn_open=True)
            if not (self._closing and isinstance(error, BridleError)):
                raise  # what fails because somebody closed the stream meanwhile is an end, and no error

    async def _prepare(self, *, resumable: bool) -> LaunchPlan:
        if self._preparation is None or self._preparing is None:
            self._preparation = Preparation(self.options, self._prompt, find=self._own_transport)
            self._preparing = Call(self._preparation.run) if self._preparation.may_block else None
        try:
            plan = await self._preparing.wait() if self._preparing is not None else self._preparation.run()
        except anyio.get_cancelled_exc_class():
            if not resumable:
                self._preparation.cancel()
            raise
        self._preparing = None
        self._warn_before_start(self._preparation.warnings)
        self._log_plan(plan)
        return plan

    async def _stop(self, *, turn_open: bool) -> None:
        await self._transport.stop(turn_open=turn_open)

    async def aclose(self) -> None:
        """Stop the CLI, if it still runs, and end the stream: when this returns, no process is left. Idempotent."""
        self._closing = self._ended = True
        self._items.clear()
        if self._preparation is not None and not self._prepared:
            self._preparation.cancel()  # a start that is under way in another thread or task ends, too
        await self._stop(turn_open=self._connection.turn_open)
        self._finished = True

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
            except (StopAsyncIteration, BridleError):
                raise
            except BaseException:
                # Cancelled in the middle of an iteration, which cannot be taken up again: the model must not work on for nobody.
                self._ended = True
                self._abandon()
                raise

    async def next_item(self) -> Message | StreamWarning | DecodeError | None:
        """Return the next item, or None at the end. Always safe to call again, after an error or a cancellation too.

        Raises:
            BridleError: what ended the stream, once.
            ConcurrentUseError: another task is reading.
        """
        while True:
            try:
                item = self._items.popleft()
                break
            except IndexError:
                # Not asked first: `aclose` may empty it at any moment.
                if not await self._more("next_item"):
                    return None
        if item.__class__ in _NOT_MESSAGES:
            self._note(item)  # type: ignore[arg-type]
        return item

    async def items(self) -> AsyncIterator[Message | StreamWarning | DecodeError]:
        """Give everything: messages, warnings and undecodable lines, in order.

        Raises:
            BridleError: what ended the stream.
        """
        while (item := await self.next_item()) is not None:
            yield item

    async def collect(self) -> CollectResult:
        """Read to the end and return everything. What ends the stream in error is returned too, not raised; start errors are raised."""
        messages: list[Message] = []
        terminal_error: BridleError | None = None
        async with self:
            try:
                async for message in self:
                    messages.append(message)  # noqa: PERF401 - what came before an error is kept
            except ConcurrentUseError:
                raise
            except BridleError as error:
                terminal_error = error
        return CollectResult(messages, self.warnings, self.errors, terminal_error)

    async def fold(self, initial: A, combine: Callable[[A, Message], A]) -> A:
        """Read to the end and return `combine` of all messages, beginning with `initial`.

        Raises:
            BridleError: what ended the stream.
        """
        value = initial
        async with self:
            async for message in self:
                value = combine(value, message)
        return value

    async def result(self) -> ResultMessage | None:
        """Read to the end and return the last result; None if the CLI ended well without one (`warnings` says so).

        Raises:
            BridleError: what ended the stream.
        """
        async with self:
            async for _ in self:
                pass
        return self._connection.last_result

    async def _more(self, call: str) -> bool:
        """Wait until there is an item; False at the end. The end is given only when the process is gone."""
        if self._ended:
            return False
        with self._reading(call):
            if not self._up:
                await self._start(resumable=call == "next_item")
                if self._closing:
                    await self._stop(turn_open=True)
                    return False
            connection = self._connection
            while not self._items and not connection.over:
                await self._advance()
                if self._closing:
                    self._items.clear()
                    await self._stop(turn_open=connection.turn_open)
                    return False
            if self._items:
                return True
            if not self._finished:
                # It was given its time, or may be at work for nobody: there is nothing to wait for.
                await self._stop(turn_open=True)
                self._finished = True
            error = self._give_end()
            if error is not None:
                raise error
            return False

    async def _advance(self) -> None:
        """Wait for one happening and tell the core."""
        connection, transport = self._connection, self._transport
        seconds = self._wait_seconds(time.monotonic())
        if connection.output_ended:
            exit_code: int | None = None
            with anyio.move_on_after(seconds) as patience:
                exit_code = await transport.wait_exit()
            if not patience.cancelled_caught:
                # Stopped first: then everything that was on stderr has been read, and the diagnosis is complete.
                await self._stop(turn_open=connection.crashed(exit_code))
                self._finished = True
                connection.process_exited(exit_code, transport.stderr_tail)
            else:
                connection.expire(time.monotonic(), transport.stderr_tail)
            return
        data: bytes | None = None
        if seconds is None:
            data = await transport.receive()
        else:
            with anyio.move_on_after(seconds):
                data = await transport.receive()
        self._took(data, transport.stderr_tail, due=seconds is not None and seconds <= SHORTEST_WAIT)


# Exact classes: the core makes no others, and asking for subclasses costs three times as much for every message.
_NOT_MESSAGES = frozenset({StreamWarning, DecodeError})


def query(
    prompt: object, options: Options | None = None, *, transport: AsyncTransport | TransportSource | None = None
) -> QueryStream:
    """Ask once: return the stream of messages. Nothing is started before the stream is read, entered or started.

    Args:
        prompt: what to ask: a text, a list of content blocks, or an (async) iterable of such prompts.
        options: how; `Options()` if None. Callbacks, in-process tools and other options that need it, and all prompts but a text,
            make the same query run over the bidirectional protocol.
        transport: where the CLI is; a local child process if None.

    Raises:
        TypeError: the prompt is nothing that can be a prompt.
        OptionsError: it is empty, or options do not go together.
    """
    if is_steered(prompt, options):
        from bridle.aio.steered import SteeredStream

        return SteeredStream(prompt, options, transport=transport)
    return QueryStream(prompt, options, transport=transport)


@overload
async def run(
    prompt: object,
    options: Options | None = None,
    *,
    output_type: type[T],
    check: bool = True,
    transport: AsyncTransport | TransportSource | None = None,
) -> RunResult[T]: ...
@overload
async def run(
    prompt: object,
    options: Options | None = None,
    *,
    output_type: Any = None,
    check: bool = True,
    transport: AsyncTransport | TransportSource | None = None,
) -> RunResult[Any]: ...
async def run(
    prompt: object,
    options: Options | None = None,
    *,
    output_type: Any = None,
    check: bool = True,
    transport: AsyncTransport | TransportSource | None = None,
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
    return conclude(await stream.collect(), output_type, check=check)
