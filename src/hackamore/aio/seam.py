"""The seam between a session and asyncio or trio: how it enters the core, wakes the driver, waits and gives way.

`hackamore.sync.seam` has the same methods for threads. Code over a seam is written once, in `aio`, and generated for `sync`.
The core is only touched in the thread of the event loop, so there is nothing to lock here.
"""

from __future__ import annotations

import time
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import anyio
import anyio.lowlevel

from hackamore.aio.driver import Driver
from hackamore.aio.from_thread import SessionReach

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from contextlib import AbstractContextManager

    from hackamore._engine.launch import LaunchPlan
    from hackamore._engine.protocol.connection import Connection
    from hackamore._engine.session.core import SessionCore
    from hackamore._engine.session.readers import Inbox
    from hackamore.runtime.flags import Flag
    from hackamore.transports.base import AsyncTransport

S = TypeVar("S")

_HOW_TO_START = "Write `session = await start_session(...)` or `async with start_session(...) as session:`."

_TURN_SECONDS = 0.005
"""How long a reader may take items that are already there, or a sender send, before other tasks run."""
_POLL_SECONDS = 0.02
"""How often a stop from another event loop checks whether the session has ended."""


class Seam:
    """The means by which a session waits on an event loop."""

    def __init__(self) -> None:
        # held while the core is read or changed; here it does nothing
        self.lock: AbstractContextManager[object] = nullcontext()
        self.driver: Driver | None = None  # the driver of a session; None before its launch
        self._core: SessionCore[Any]
        self.connection: Connection
        self._transport: AsyncTransport
        self._changes: anyio.Lock | None = None
        self._waited = 0.0  # when a task of the session last let others run

    def connect(self, core: SessionCore[Any], transport: AsyncTransport) -> None:
        self._core = core
        self.connection = core.connection
        self._transport = transport

    def reach(self, session: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that finds the session for a callback, wherever that runs."""
        return SessionReach(session, lambda: self.driver)

    @property
    def launched(self) -> bool:
        """True once a driver works for the session."""
        return self.driver is not None

    # -- enter the core ------------------------------------------------------------------------------------------------

    def check(self, flag: Flag | None = None) -> None:
        """Raise RuntimeError in another event loop, unless `flag` is set: the core must not be touched there, nor would a wait end."""
        if self.driver is None or self.driver.is_here or self._core.ended.is_set or (flag is not None and flag.is_set):
            return
        raise RuntimeError(
            "This session belongs to another event loop; here it can only be stopped. Create the session in the loop that uses it. "
            "A callback that is a plain function uses the `session` of its context."
        )

    def entered(self) -> AbstractContextManager[object]:
        """Return the lock, for a caller that is going to change the core."""
        self.check()
        return self.lock

    def one_at_a_time(self) -> anyio.Lock:
        """Return the lock for operations that must not overlap and wait while they hold it."""
        if self._changes is None:
            self._changes = anyio.Lock()
        return self._changes

    def take(self, inbox: Inbox) -> Any:
        """Return the next item; None if there is none, or if other tasks have to run first (see `pause`)."""
        return inbox.take() if time.monotonic() - inbox.turn_began <= _TURN_SECONDS else None

    # -- wake the driver -----------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the driver send what the core has to send."""
        if self.driver is not None and self.driver.look():  # sent inside the wait: a turn costs 200 us, not 340
            return
        self._core.pump(time.monotonic())
        if self.driver is not None:
            self.driver.wake()

    def post(self, function: Callable[[], None]) -> None:
        """Call a function that changes the core, soon, in the thread of the event loop; may be called from any thread."""
        if self.driver is not None:
            self.driver.post(function)

    def deliver_warnings(self) -> None:
        """Pass new warnings on to the user."""
        self._core.warnings.deliver()

    # -- wait ----------------------------------------------------------------------------------------------------------

    async def wait(self, flag: Flag, seconds: float | None = None, *, since: int | None = None) -> bool:
        """Wait until a flag is set, or woken since it had `since` wakes; False after `seconds`, which count before the launch alone."""
        if flag.is_set or (since is not None and flag.wakes != since):
            return True
        self.check()
        event = anyio.Event()
        flag.waiters.append(event)
        try:
            if seconds is None or self.launched:
                await event.wait()
                self._waited = time.monotonic()
                return True
            with anyio.move_on_after(seconds):
                await event.wait()
            return event.is_set()
        finally:
            flag.leave(event)

    async def wait_at_most(self, flag: Flag, seconds: float | None, *, since: int | None = None) -> bool:
        """Wait until a flag is set or woken, `seconds` at most; None waits without limit. Return False if the time passed."""
        if seconds is None:
            return await self.wait(flag, since=since)
        with anyio.move_on_after(seconds):
            return await self.wait(flag, since=since)
        return flag.is_set or (since is not None and flag.wakes != since)  # set as the time ran out

    async def wait_ended(self, seconds: float | None) -> None:
        """Wait until the session has ended, or the time limit has passed."""
        if self.launched:
            with anyio.move_on_after(seconds):
                await self.wait(self._core.ended)

    # -- give way ------------------------------------------------------------------------------------------------------

    async def give_way(self) -> None:
        """Let other tasks run if none could for a while: a program that only sends must not hold them up.

        A cancellation is not delivered here: the caller has something to return.
        """
        if time.monotonic() - self._waited > _TURN_SECONDS:
            await anyio.lowlevel.cancel_shielded_checkpoint()
            self._waited = time.monotonic()

    async def pause(self, inbox: Inbox) -> None:
        """Let other tasks run if the reader of an inbox has kept them waiting: one of many unread items must not hold up the driver."""
        if time.monotonic() - inbox.turn_began > _TURN_SECONDS:
            await anyio.lowlevel.checkpoint()  # before an item is taken: a cancellation must not lose it
            inbox.turn_began = time.monotonic()

    # -- start and stop ------------------------------------------------------------------------------------------------

    def launch(self, plan: LaunchPlan) -> None:
        """Start the driver, which starts the CLI; raise SessionClosedError if the session was stopped meanwhile."""
        if self._core.stop.asked:
            raise self._core.connection.state.closed_error()
        self.driver = Driver(self._core, self._transport, plan)
        self.driver.start()

    async def stop(self) -> None:
        """Wait until the driver has ended the session, and make sure that the process is gone."""
        core, driver = self._core, self.driver
        cancelled: BaseException | None = None
        with anyio.CancelScope(shield=True):
            if driver is None:
                self.deliver_warnings()
            elif driver.is_here:
                driver.wake()
                while not core.ended.is_set:
                    try:
                        await self.wait(core.ended)
                    except anyio.get_cancelled_exc_class() as error:
                        cancelled = error  # asyncio's own `Task.cancel` ignores shields; the time is bounded
            else:
                driver.post(lambda: None)  # wakes that loop: it sees the stop
                # That loop may stand still: then the process is stopped without its driver.
                until = time.monotonic() + core.stop.interrupt_seconds + _TURN_SECONDS
                while not core.ended.is_set and time.monotonic() < until:  # noqa: ASYNC110 - events do not cross loops
                    await anyio.sleep(_POLL_SECONDS)
            await self._transport.stop(turn_open=core.turn_open)  # also where that loop stands still
        if cancelled is not None:
            raise cancelled


class Starting(Generic[S]):
    """The return value of `start_session`: await it, or enter it with `async with`."""

    def __init__(self, session: Any, start: Callable[[], Awaitable[S]]) -> None:
        self._session = session
        self._start = start
        self._used = False

    def __await__(self) -> Generator[Any, None, S]:
        self._used = True
        return self._start().__await__()

    async def __aenter__(self) -> S:
        self._used = True
        return await self._start()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"no attribute {name!r}: the session was not started. {_HOW_TO_START}", name=name, obj=self
        )

    def __del__(self) -> None:
        if not self.__dict__.get("_used", True):
            warnings.warn(f"a session was not started. {_HOW_TO_START}", RuntimeWarning, stacklevel=2)

    async def __aexit__(self, *_: object) -> None:
        await self._session.stop()


def starting(session: Any, start: Callable[[], Awaitable[S]]) -> Starting[S]:
    """Return an object that starts a session when it is awaited or entered."""
    return Starting(session, start)
