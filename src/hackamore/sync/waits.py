"""Waits of a query and of a start in a thread: the launch plan, output, the exit. `hackamore.aio.waits` has the same for event loops."""

from __future__ import annotations

import contextvars
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any

from hackamore.checked.functions import is_async
from hackamore.runtime import private_loop
from hackamore.transports.process.prepare import child_settings
from hackamore.transports.process.subprocess_sync import SyncChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.launch import LaunchPlan
    from hackamore.options.options import Options
    from hackamore.options.stores import SessionStore
    from hackamore.transports.base import SyncTransport
    from hackamore.transports.process.prepare import Preparation


def check_loop() -> None:
    """Do nothing: threads need no event loop."""


class Preparing:
    """A preparation; `Preparation.cancel` ends it from another thread."""

    def __init__(self, preparation: Preparation, _transport: SyncTransport | None = None) -> None:
        self._preparation = preparation

    def plan(self) -> LaunchPlan:
        return self._preparation.run()


def child_process(options: Options, stop_seconds: float | None = None) -> SyncChildProcess:
    """Return the local child process that the options ask for."""
    return SyncChildProcess(**child_settings(options), stop_seconds=stop_seconds)


def receive(transport: SyncTransport, seconds: float | None) -> bytes | None:
    """Return the next output, b"" at its end; None after `seconds`."""
    return transport.receive(seconds)


def sleep(seconds: float) -> None:
    """Wait; a `KeyboardInterrupt` ends it immediately."""
    time.sleep(seconds)


def iterator_of(values: Any) -> Any:
    """Return an iterator of an iterable, for `next_of`."""
    return iter(values)


def next_of(iterator: Any, end: Any) -> Any:
    return next(iterator, end)


def wait_exit(transport: SyncTransport, seconds: float | None) -> tuple[bool, int | None]:
    """Wait `seconds` at most; return whether the process has exited, and its exit status, if there is one."""
    until = None if seconds is None else time.monotonic() + seconds
    exit_code = transport.wait_exit(seconds)
    return exit_code is not None or until is None or time.monotonic() < until, exit_code


def append_of(store: SessionStore, seconds: float | None) -> Callable[..., Any]:
    """Return the function that appends to a store; one that is async runs in the one event loop for stores."""
    function: Any = store.append
    if not is_async(function):
        return store.append
    return lambda *arguments: private_loop.run(function, *arguments, seconds=seconds)


def call_store(function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float | None) -> Any:
    """Call a method of a store, in a thread of its own; raise TimeoutError if it did not return in time."""
    if is_async(function):
        return private_loop.run(function, *arguments, seconds=seconds)
    outcome: list[Any] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value = context.run(function, *arguments)
            outcome.append((value, None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=work, name="hackamore-store", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError
    value, error = outcome.pop()
    if error is not None:
        raise error
    if inspect.isawaitable(value):

        async def rest() -> Any:
            return await value

        return private_loop.run(rest, seconds=seconds)
    return value


def checkpoint() -> None:
    """Do nothing: threads share the processor by themselves."""


def is_cancellation(_error: BaseException) -> bool:
    return False


class OtherShell:
    """Says which words to use for a blocking object that is used like an async one."""

    if not TYPE_CHECKING:  # type checkers find the mistake without these methods

        async def __aenter__(self):
            raise TypeError(_other_shell(self, "with"))

        async def __aexit__(self, *_):
            """Do nothing: `__aenter__` raises."""

        def __aiter__(self):
            raise TypeError(_other_shell(self, "for"))


def _other_shell(used: object, word: str) -> str:
    name = type(used).__name__.replace("QueryStream", "query").replace("MapStream", "map")
    return f"`hackamore.sync.{name}` is blocking: use `{word}`, or `hackamore.{name}`, which works with `async {word}`."
