"""Faults around a transport: of asyncio and trio, and without an event loop."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from hackamore.testing.faults.flow import Ended, FaultState, Pause

if TYPE_CHECKING:
    from hackamore.transports.base import AsyncTransport, LaunchPlan, SyncTransport, Transport


class _Faulty:
    """The part that both kinds share."""

    def __init__(self, inner: Transport, state: FaultState) -> None:
        self._inner_transport = inner
        self._state = state

    @property
    def pid(self) -> int | None:
        """The process id, where there is one."""
        return self._inner_transport.pid

    @property
    def stderr_tail(self) -> bytes:
        """The last part of what the peer wrote to stderr."""
        return self._inner_transport.stderr_tail

    def abandon(self) -> None:
        """End the peer without waiting."""
        self._state.stopped = True
        self._inner_transport.abandon()

    def __repr__(self) -> str:
        return f"<{self._inner_transport!r} with faults>"


class FaultyAsyncTransport(_Faulty):
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
        """Give the peer what is due. A call that already does this continues until nothing is left: the order must stay."""
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


class FaultySyncTransport(_Faulty):
    """A `SyncTransport` around another one, with faults. May be used by several threads, like any other."""

    def __init__(self, inner: SyncTransport, state: FaultState) -> None:
        super().__init__(inner, state)
        self._inner = inner
        self._lock = threading.RLock()  # a signal handler may stop it in the middle of a read
        self._stopping = threading.Event()

    def start(self, plan: LaunchPlan) -> None:
        """Start the peer."""
        self._inner.start(plan)

    def send(self, data: bytes) -> None:
        """Queue `data`, and write what is due."""
        with self._lock:
            self._state.outbound.push(data)
            self._pump()

    def end_input(self) -> None:
        """End the peer's input after all that was sent, as the faults let it."""
        with self._lock:
            self._state.outbound.push(Ended())
            self._pump()

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next bytes that the faults let through; b"" at their end; None after `timeout` seconds."""
        state = self._state
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                self._pump()
                item = state.next_output(time.monotonic())
            if isinstance(item, bytes):
                return item
            paused = isinstance(item, Pause)
            left = None if until is None else max(0.0, until - time.monotonic())
            wanted = item.seconds if isinstance(item, Pause) else left
            if left is not None and wanted is not None:
                wanted = min(wanted, left)
            limit = state.limit(wanted, paused)
            if state.may_read(paused):
                data = self._inner.receive(limit)
                if data is not None:
                    with self._lock:
                        state.received(data)
            else:
                data = None
                self._stopping.wait(limit)
            if data is None and left is not None and until is not None and until <= time.monotonic():
                return None

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Wait for the exit, `timeout` seconds at most; return its status, or the one that a fault made up."""
        state = self._state
        until = None if timeout is None else time.monotonic() + timeout
        while state.exit_code is None:
            with self._lock:
                self._pump()
            left = None if until is None else max(0.0, until - time.monotonic())
            limit = state.limit(left, paused=state.outbound.waiting)
            began = time.monotonic()
            code = self._inner.wait_exit(limit)
            # It may also return without a status: because there is none, or because the peer is being stopped.
            if code is not None or limit is None or time.monotonic() - began < limit:
                return code
            if until is not None and until <= time.monotonic():
                return None
        return state.exit_code

    def stop(self, *, turn_open: bool) -> None:
        """End the peer; returns when it is gone."""
        self._state.stopped = True
        self._stopping.set()
        self._inner.stop(turn_open=turn_open)

    def abandon(self) -> None:
        """End the peer without waiting."""
        super().abandon()
        self._stopping.set()

    def _pump(self) -> None:
        """Give the peer what is due; under the lock. A transport's `send` does not wait for its peer."""
        while (item := self._state.next_input(time.monotonic())) is not None:
            if isinstance(item, Ended):
                self._inner.end_input()
            else:
                self._inner.send(item)
