"""One way to talk to both kinds of transports, so that each check is written once: coroutines, which in the blocking shell never wait."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hackamore.testing.conformance.report import Failed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from hackamore.transports.base import LaunchPlan, TransportSource

Shell: TypeAlias = Literal["asyncio", "trio", "threads"]
SHELLS: tuple[Shell, ...] = ("asyncio", "trio", "threads")
CHECK_SECONDS = 60.0
"""The time for one check, in seconds; the default graces of a stop take ten seconds."""


class Wire:
    """A transport of either kind under test; `doing` is the method that runs, for the report on a check that hangs."""

    def __init__(self, source: TransportSource, shell: Shell) -> None:
        self.shell = shell
        self.blocking: bool = shell == "threads"
        self.doing: str = ""
        self.transport: Any = source.for_sync() if self.blocking else source.for_async()

    async def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        self.doing = name
        outcome = getattr(self.transport, name)(*arguments, **named)
        if not self.blocking:
            outcome = await outcome
        self.doing = ""
        return outcome

    async def start(self, plan: LaunchPlan) -> None:
        """Start the peer."""
        await self._call("start", plan)

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        await self._call("send", data)

    async def end_input(self) -> None:
        """End the peer's input."""
        await self._call("end_input")

    async def stop(self, *, turn_open: bool = True) -> None:
        """Stop the peer."""
        await self._call("stop", turn_open=turn_open)

    def abandon(self) -> None:
        """Abandon the peer."""
        self.doing = "abandon"
        self.transport.abandon()
        self.doing = ""

    async def _within(self, seconds: float | None, name: str, *arguments: Any) -> Any:
        """Return what a method returns; None if it took longer."""
        if self.blocking:
            return await self._call(name, *arguments, seconds)
        import anyio

        with anyio.move_on_after(seconds):
            return await self._call(name, *arguments)
        return None

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return what `receive` returns; None if it took longer."""
        return await self._within(seconds, "receive")  # type: ignore[no-any-return]

    async def wait_exit(self, seconds: float | None = None) -> int | None:
        """Return what `wait_exit` returns; None if it took longer."""
        return await self._within(seconds, "wait_exit")  # type: ignore[no-any-return]

    def send_nowait(self, data: bytes) -> None:
        """Send bytes without waiting."""
        self.doing = "send_nowait"
        self.transport.send_nowait(data)
        self.doing = ""

    async def push_to(self, take: Callable[[bytes], bool], seconds: float) -> bytes | None:
        """Return what `push_to` returns, None if it took longer; a blocking transport is read by `receive` instead."""
        if not self.blocking:
            return await self._within(seconds, "push_to", take)  # type: ignore[no-any-return]
        while data := await self.receive(seconds):
            if not take(data):
                return None
        return data

    async def read_until(self, end: Callable[[bytes], bool] = lambda read: False, seconds: float = 30.0) -> bytes:
        """Return what comes until `end` holds, or the output ends; raise `Failed` if neither comes."""
        read = bytearray()
        until = time.monotonic() + seconds
        while not end(bytes(read[-64:])):
            data = await self.receive(max(0.0, until - time.monotonic()))
            if data is None and time.monotonic() < until:
                continue  # a blocking transport may report so that its input broke
            if data is None:
                raise Failed(f"after {len(read)} bytes nothing more came for {seconds:g} s, and no end of the output")
            if not isinstance(data, bytes):
                raise Failed(f"`receive` returned a {type(data).__name__} and no bytes")
            if not data:
                break
            read += data
        return bytes(read)

    async def both(self, one: Callable[[], Awaitable[Any]], other: Callable[[], Awaitable[Any]]) -> tuple[Any, Any]:
        """Run two things at the same time; return what they returned or raised."""
        outcomes: list[Any] = [None, None]

        async def keep(place: int, function: Callable[[], Awaitable[Any]]) -> None:
            try:
                outcomes[place] = await function()
            except Exception as error:
                outcomes[place] = error

        if self.blocking:
            thread = threading.Thread(target=_drive, args=(keep(0, one),), name="conformance", daemon=True)
            thread.start()
            _drive(keep(1, other))
            thread.join(CHECK_SECONDS)
        else:
            import anyio

            async with anyio.create_task_group() as group:
                group.start_soon(keep, 0, one)
                group.start_soon(keep, 1, other)
        return outcomes[0], outcomes[1]


def _drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise Failed("a blocking transport waited for an event loop")


def run_bounded(wire: Wire, check: Callable[[Wire], Coroutine[Any, Any, None]], seconds: float) -> None:
    """Run a check in a thread of its own; if it takes too long, raise `Failed` and leave the thread to itself."""
    outcome: list[BaseException | None] = []

    def run() -> None:
        try:
            if wire.blocking:
                _drive(check(wire))
            else:
                import anyio

                anyio.run(check, wire, backend=wire.shell)
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="conformance-check", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise Failed(f"`{wire.doing or 'the check'}` had not returned after {seconds:g} s")
    if outcome[0] is not None:
        raise outcome[0]
