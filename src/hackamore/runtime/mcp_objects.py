"""Runs a server object of the `mcp` package on the event loop that is there: asyncio or trio.

The package's own in-memory transport stands between a run (`hackamore._engine.answering.servers.ObjectRun`) and the server. The package is
loaded when a run begins, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import anyio

from hackamore.runtime.event_loops import Loop
from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable


GRACE_SECONDS = 2.0
"""How long a server has to end after its input has ended, before it is cancelled."""


class Run(Protocol):
    """The other side of the server: takes what it sends, and has what it is to get."""

    server: Any
    name: str
    inbox: deque[bytes]
    closing: bool
    wake: Callable[[], None] | None

    def received(self, message: dict[str, Any]) -> None:
        """Handle a message of the server."""

    def note_initialize(self, message: bytes) -> None:
        """Record the `initialize` that the server gets."""

    def unreadable(self, message: bytes, error: ValueError) -> None:
        """Handle a message that the package cannot read."""


class _Package(NamedTuple):
    """The parts of the `mcp` package that Hackamore uses; the names are the same from 1.9 to 2.3."""

    streams: Any
    wrap: Any
    decode: Callable[[bytes], Any]
    notification_options: Any


def load() -> _Package:
    """Import the package; raise ImportError if it is missing or too old."""
    from mcp.server.lowlevel import NotificationOptions
    from mcp.shared.memory import create_client_server_memory_streams
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(JSONRPCMessage)
    return _Package(create_client_server_memory_streams, SessionMessage, adapter.validate_json, NotificationOptions)


async def serve(run: Run) -> None:
    """Run the server until its input ends; raise its exception, taken out of a group of one."""
    signals = _Signals(run)
    run.wake = signals.waker()
    if run.closing:
        return
    package = load()
    crash: Exception | None = None
    async with package.streams() as ((read, write), (server_read, server_write)), anyio.create_task_group() as group:
        group.start_soon(_listen, run, read)
        group.start_soon(_feed, run, signals, package, write)
        group.start_soon(_see_it_end, run, signals.closed, group.cancel_scope)
        try:
            await run.server.run(server_read, server_write, _initialization(run.server, package))
        except Exception as error:
            crash = error
        group.cancel_scope.cancel()
    while isinstance(crash, ExceptionGroup) and len(crash.exceptions) == 1:
        crash = crash.exceptions[0]
    if crash is not None:
        raise crash


class _Signals:
    """Wakes the tasks of one run: there is a message, or its input is over."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.news = anyio.Event()
        self.closed = anyio.Event()

    def waker(self) -> Callable[[], None]:
        """Return a function that wakes them, from any thread."""
        loop = Loop()

        def wake() -> None:
            loop.post(self._woken)

        return wake

    def _woken(self) -> None:
        self.news.set()
        if self._run.closing:
            self.closed.set()


def _initialization(server: Any, package: _Package) -> Any:
    # Always declare that the lists may change: the CLI ignores changes of servers that do not.
    options = package.notification_options(tools_changed=True, prompts_changed=True, resources_changed=True)
    try:
        return server.create_initialization_options(options)
    except TypeError:  # overridden, without the argument
        return server.create_initialization_options()


async def _feed(run: Run, signals: _Signals, package: _Package, write: Any) -> None:
    while True:
        news = signals.news = anyio.Event()  # before looking: what comes afterwards sets it
        while run.inbox:
            await _feed_one(run, package, write, run.inbox.popleft())
        if run.closing:
            break
        await news.wait()
    await write.aclose()


async def _feed_one(run: Run, package: _Package, write: Any, message: bytes) -> None:
    try:
        decoded = package.decode(message)
    except ValueError as error:
        run.unreadable(message, error)
        return
    if getattr(getattr(decoded, "root", decoded), "method", None) == "initialize":
        run.note_initialize(message)
    try:
        await write.send(package.wrap(decoded))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # the server has closed its side: its end is reported separately


async def _see_it_end(run: Run, closed: anyio.Event, scope: anyio.CancelScope) -> None:
    """Cancel a server that outlives its connection: one that does not read would keep its input from being closed as well."""
    await closed.wait()
    await anyio.sleep(GRACE_SECONDS)
    logger.warning("MCP server %r did not end within %g s of the end of its input", run.name, GRACE_SECONDS)
    scope.cancel()


async def _listen(run: Run, read: Any) -> None:
    async for item in read:
        if isinstance(item, Exception):
            logger.debug("MCP server %r: %s", run.name, item)
        else:
            run.received(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True))
