"""Faults around a transport of asyncio and trio."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from bridle.testing.faults.flow import Ended, FaultState, FaultyTransport, Pause

if TYPE_CHECKING:
    from bridle.launch.plan import LaunchPlan
    from bridle.transports.base import AsyncTransport

__all__ = ["FaultyAsyncTransport"]


class FaultyAsyncTransport(FaultyTransport):
    """An `AsyncTransport` around another one, with faults."""

    def __init__(self, inner: AsyncTransport, state: FaultState) -> None:
        super().__init__(inner, state)
        self._inner = inner
        self._pumping = False

    async def start(self, plan: LaunchPlan) -> None:
        """Start the peer."""
        await self._inner.start(plan)

    async def send(self, data: bytes) -> None:
        """Queue `data`, and write what is due."""
        self._state.outbound.push(data)
        await self._pump()

    async def end_input(self) -> None:
        """End the peer's input after all that was sent, as the faults let it."""
        self._state.outbound.push(Ended())
        await self._pump()

    async def receive(self) -> bytes:
        """Return the next bytes that the faults let through; b"" at their end."""
        state = self._state
        while True:
            await anyio.lowlevel.checkpoint()  # before anything is taken: a cancellation must not lose it
            await self._pump()
            item = state.next_output(time.monotonic())
            if isinstance(item, bytes):
                return item
            seconds = item.seconds if isinstance(item, Pause) else None
            limit = state.limit(seconds, item is not None)
            data: bytes | None = None
            with anyio.CancelScope() as scope:
                if limit is not None:
                    scope.deadline = anyio.current_time() + limit
                if state.may_read(item is not None):
                    data = await self._inner.receive()
                else:
                    await anyio.sleep_forever()
            if data is not None:
                state.received(data)

    async def wait_exit(self) -> int | None:
        """Wait for the exit; return its status, or the one that a fault made up."""
        state = self._state
        while state.exit_code is None:
            await self._pump()
            limit = state.limit(None, paused=state.outbound.waiting)
            with anyio.move_on_after(limit):
                return await self._inner.wait_exit()
        return state.exit_code

    async def stop(self, *, turn_open: bool) -> None:
        """End the peer; returns when it is gone."""
        self._state.stopped = True
        await self._inner.stop(turn_open=turn_open)

    async def _pump(self) -> None:
        """Give the peer what is due. Whoever does it already goes on until nothing is left: the order must stay."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while (item := self._state.next_input(time.monotonic())) is not None:
                with anyio.CancelScope(shield=True):  # taken is taken; a transport's `send` does not wait for its peer
                    if isinstance(item, Ended):
                        await self._inner.end_input()
                    else:
                        await self._inner.send(item)
        finally:
            self._pumping = False
