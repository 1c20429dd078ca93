"""Waits of a query and of a start on an event loop: the launch plan, output, the exit. `hackamore.sync.waits` has the same for threads."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterable, AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from hackamore.checked.functions import is_async
from hackamore.runtime.log import logger
from hackamore.runtime.threads import Call
from hackamore.transports.process.prepare import child_settings
from hackamore.transports.process.spawn import spawn_error
from hackamore.transports.process.subprocess_async import AsyncChildProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hackamore._engine.launch import LaunchPlan
    from hackamore.options.options import Options
    from hackamore.options.stores import SessionStore
    from hackamore.transports.base import AsyncTransport
    from hackamore.transports.process.prepare import Preparation


def check_loop() -> None:
    """Raise RuntimeError where neither asyncio nor trio runs."""
    try:
        anyio.current_time()
    except RuntimeError:
        pass
    else:
        return
    raise RuntimeError(
        "No asyncio or trio event loop is running. Use `asyncio.run(main())` with `async def main()`, or the blocking API `hackamore.sync`."
    )


class Preparing:
    """A preparation that may be cancelled while it is awaited, and awaited again."""

    def __init__(self, preparation: Preparation, transport: AsyncTransport | None = None) -> None:
        self._preparation = preparation
        self._child = transport if isinstance(transport, AsyncChildProcess) else None
        self._call: Call[LaunchPlan] | None = None

    def _run(self) -> LaunchPlan:
        """Prepare; if there is nothing to warn of or to log, start the process as well: one change of threads less."""
        plan = self._preparation.run()
        nothing_to_say = not self._preparation.warnings and not logger.isEnabledFor(logging.DEBUG)
        if self._child is not None and nothing_to_say and not self._preparation.cancelled:
            self._child.start_ahead(plan)
        return plan

    async def plan(self) -> LaunchPlan:
        """Return the launch plan. The next call continues one that was cancelled."""
        if not self._preparation.may_block:
            return self._preparation.run()
        if self._call is None:
            try:
                self._call = Call(self._run)
            except (OSError, RuntimeError) as error:  # no descriptor or no thread is available
                raise spawn_error(self._preparation.program, None, error) from error
        return await self._call.wait()


def child_process(options: Options, stop_seconds: float | None = None) -> AsyncChildProcess:
    """Return the local child process that the options ask for."""
    return AsyncChildProcess(**child_settings(options), stop_seconds=stop_seconds)


def receive(transport: AsyncTransport, seconds: float | None) -> Awaitable[bytes | None]:
    """Wait for the next output, b"" at its end; None after `seconds`."""
    return transport.receive() if seconds is None else _receive_within(transport, seconds)


async def _receive_within(transport: AsyncTransport, seconds: float) -> bytes | None:
    with anyio.move_on_after(seconds):
        return await transport.receive()
    return None


async def sleep(seconds: float) -> None:
    """Wait; a cancellation ends it immediately."""
    await anyio.sleep(seconds)


def iterator_of(values: Any) -> Any:
    """Return an iterator of a plain or async iterable, for `next_of`."""
    return aiter(values) if isinstance(values, AsyncIterable) else iter(values)


async def next_of(iterator: Any, end: Any) -> Any:
    """Return the next value of an iterator; `end` at its end."""
    return await anext(iterator, end) if isinstance(iterator, AsyncIterator) else next(iterator, end)


async def wait_exit(transport: AsyncTransport, seconds: float | None) -> tuple[bool, int | None]:
    """Wait `seconds` at most; return whether the process has exited, and its exit status, if there is one."""
    with anyio.move_on_after(seconds):
        return True, await transport.wait_exit()
    return False, None


def append_of(store: SessionStore, _seconds: float | None) -> Callable[..., Any]:
    """Return the function that appends to a store; one that is async runs in the event loop of the session."""
    return store.append


async def call_store(function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float | None) -> Any:
    """Call a method of a store; a plain one runs in a thread. Raise TimeoutError if it did not return in time."""
    with anyio.fail_after(seconds):
        if is_async(function):
            return await function(*arguments)
        call = Call(partial(function, *arguments))
        try:
            outcome = await call.wait()
        except BaseException:
            call.leave()
            raise
        return await outcome if inspect.isawaitable(outcome) else outcome


async def checkpoint() -> None:
    """Let other tasks run, and take a cancellation."""
    await anyio.lowlevel.checkpoint()


def is_cancellation(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of the task."""
    return isinstance(error, anyio.get_cancelled_exc_class())


class OtherShell:
    """Says which words to use for an async object that is used like a blocking one."""

    if not TYPE_CHECKING:  # type checkers find the mistake without these methods

        def __enter__(self):
            """Raise a TypeError."""
            raise TypeError(_other_shell(self, "with"))

        def __exit__(self, *_):
            """Do nothing: `__enter__` raises."""

        def __getitem__(self, _):
            """Raise a TypeError: `for` ends here where there is no `__iter__`."""
            raise TypeError(_other_shell(self, "for"))


def _other_shell(used: object, word: str) -> str:
    name = type(used).__name__
    return f"`{name}` is async: use `async {word}`, or the blocking API in `hackamore.sync`, which works with `{word}`."
