"""Transports in memory: no process, no thread, no socket. A simulated CLI and a replayed session are the peers behind them.

Sent data is played immediately, in the call that sends it; the output waits to be received. A lock makes that safe from any thread, and
from the garbage collector.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

import anyio

from hackamore.runtime.event_loops import Loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.transports.base import LaunchPlan

_TAIL = 64 * 1024


class Peer(Protocol):
    """The other end. It never waits, and is called by one thread at a time."""

    @property
    def exit_code(self) -> int | None:
        """The exit status, negative for a signal; None while there is none."""

    @property
    def exited(self) -> bool:
        """True once the exit status is there, or will never be."""

    @property
    def stderr(self) -> bytes | bytearray:
        """The bytes printed to stderr."""

    def receive_data(self, data: bytes) -> None:
        """Receive bytes of stdin."""

    def receive_eof(self) -> None:
        """Receive the end of stdin."""

    def next(self) -> tuple[bytes | None, float | None]:
        """Return the output (b"" at its end), or None and the seconds until time alone brings some."""

    def tick(self) -> float | None:
        """Do what is due by now; return the seconds until the next call."""

    def stop(self) -> None:
        """Stop like a local child: a CLI that only waits for the end of its input ends by itself."""

    def kill(self) -> None:
        """End immediately."""


class _InMemory:
    """The part that both kinds share. `ended` is called without the lock by `wait_exit` and after a stop, so more than once."""

    def __init__(self, make: Callable[[LaunchPlan], Peer], ended: Callable[[], None] = lambda: None) -> None:
        self._make = make
        self._tell_end = ended
        self._peer: Peer | None = None
        self._stopped = False
        # Reentrant: the garbage collector may abandon one transport while this thread is inside another call of it.
        self._lock = threading.RLock()

    @property
    def pid(self) -> int | None:
        """None: there is no process."""
        return None

    @property
    def stderr_tail(self) -> bytes:
        """The last part of stderr."""
        return b"" if self._peer is None else bytes(self._peer.stderr[-_TAIL:])

    def abandon(self) -> None:
        """End the peer without waiting."""
        with self._lock:
            self._stopped = True
            if self._peer is not None:
                self._peer.kill()
        self._wake()

    def _start(self, plan: LaunchPlan) -> None:
        with self._lock:
            if self._stopped:
                raise RuntimeError("this transport was stopped")
            if self._peer is None:
                self._peer = self._make(plan)

    def change(self, action: Callable[[Peer], bool]) -> bool:
        """Call a function with the peer, from any thread; return its result, or False if no peer was started."""
        with self._lock:
            changed = self._peer is not None and not self._stopped and action(self._peer)
        self._wake()
        return changed

    def _started(self) -> Peer:
        if self._peer is None:
            raise RuntimeError("this transport was not started")
        return self._peer

    def _send(self, data: bytes | None) -> None:
        with self._lock:
            if data is None:
                self._started().receive_eof()
            else:
                self._started().receive_data(data)
        self._wake()

    def _end(self) -> None:
        with self._lock:
            if self._peer is not None and not self._stopped:
                self._peer.stop()
            self._stopped = True
        self._wake()
        self._tell_end()

    def _wake(self) -> None:
        raise NotImplementedError


class SyncMemoryTransport(_InMemory):
    """A `SyncTransport` in memory."""

    def __init__(self, make: Callable[[LaunchPlan], Peer], ended: Callable[[], None] = lambda: None) -> None:
        super().__init__(make, ended)
        self._changed = threading.Condition(self._lock)

    def start(self, plan: LaunchPlan) -> None:
        """Start the peer."""
        self._start(plan)

    def send(self, data: bytes) -> None:
        """Pass `data` to the peer, and let it play what follows."""
        self._send(data)

    def end_input(self) -> None:
        """Close the peer's input."""
        self._send(None)

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next bytes; b"" at the end, None after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                data, seconds = self._started().next()
                if data is not None or not self._wait(until, seconds):
                    return data

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Return the exit status; None if there is none within `timeout` seconds."""
        self._tell_end()
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while (code := self._started().exit_code) is None and not self._stopped:
                if not self._wait(until, self._started().tick()):
                    break
            return code

    def stop(self, *, turn_open: bool) -> None:
        """Stop the peer."""
        self._end()

    def _wait(self, until: float | None, seconds: float | None) -> bool:
        """Wait for a change, `seconds` at most; return False if the time was over before."""
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            return False
        self._changed.wait(min((s for s in (left, seconds) if s is not None), default=None))
        return True

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class AsyncMemoryTransport(_InMemory):
    """An `AsyncTransport` in memory, for asyncio and trio."""

    def __init__(self, make: Callable[[LaunchPlan], Peer], ended: Callable[[], None] = lambda: None) -> None:
        super().__init__(make, ended)
        self._loop: Loop | None = None
        self._events: list[anyio.Event] = []

    async def start(self, plan: LaunchPlan) -> None:
        """Start the peer."""
        self._loop = Loop()
        await self._loop.turn()
        self._start(plan)

    async def send(self, data: bytes) -> None:
        """Pass `data` to the peer, and let it play what follows."""
        self._send(data)
        await self._turn()

    async def end_input(self) -> None:
        """Close the peer's input."""
        self._send(None)
        await self._turn()

    async def receive(self) -> bytes:
        """Return the next bytes; b"" at the end."""
        await self._turn()  # before anything is taken: a cancellation must not lose it
        while True:
            with self._lock:
                data, seconds = self._started().next()
            if data is not None:
                return data
            await self._wait(seconds)

    async def wait_exit(self) -> int | None:
        """Return the exit status."""
        await self._turn()
        self._tell_end()
        while not (self._started().exited or self._stopped):
            with self._lock:
                seconds = self._started().tick()
            await self._wait(seconds)
        return self._started().exit_code

    async def stop(self, *, turn_open: bool) -> None:
        """Stop the peer."""
        self._end()

    async def _turn(self) -> None:
        if self._loop is None:
            raise RuntimeError("this transport was not started")
        await self._loop.turn()

    async def _wait(self, seconds: float | None) -> None:
        event = anyio.Event()
        self._events.append(event)
        try:
            # Between the look and this list nothing else ran here, but another thread may have stopped it.
            if not self._stopped:
                with anyio.move_on_after(seconds):
                    await event.wait()
        finally:
            self._events.remove(event)

    def _wake(self) -> None:
        loop = self._loop
        if loop is None or not self._events:
            return
        if loop.is_current:
            self._set_events()
        else:
            loop.post(self._set_events)

    def _set_events(self) -> None:
        for event in self._events:
            event.set()
