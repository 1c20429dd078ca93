"""The two transports in memory behind a `SimulatedCLI`: no process, no thread, no socket.

What is sent is played at once, in the call that sends it; what comes of it waits to be received. A lock makes that safe from any
thread, and from the garbage collector.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import anyio

from bridle.waiting.event_loops import Loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.launch.plan import LaunchPlan
    from bridle.testing.simulation.simulation import Simulation

__all__ = ["AsyncSimulatedTransport", "SyncSimulatedTransport"]

_TAIL = 64 * 1024


class _Simulated:
    """What both kinds share.

    Args:
        make: starts the simulated process.
        ended: told when it has ended.
    """

    def __init__(self, make: Callable[[LaunchPlan], Simulation], ended: Callable[[Simulation], None]) -> None:
        self._make = make
        self._tell_end = ended
        self._simulation: Simulation | None = None
        self._told = False
        self._stopped = False
        # Reentrant: the garbage collector may abandon one transport while this thread is inside another call of it.
        self._lock = threading.RLock()

    @property
    def pid(self) -> int | None:
        """None: there is no process."""
        return None

    @property
    def stderr_tail(self) -> bytes:
        """The last part of what the simulated CLI printed to stderr."""
        simulation = self._simulation
        return b"" if simulation is None else bytes(simulation.stderr[-_TAIL:])

    def abandon(self) -> None:
        """End the simulated CLI without waiting."""
        with self._lock:
            self._stopped = True
            if self._simulation is not None:
                self._simulation.kill()
            self._finish()
        self._wake()

    def _start(self, plan: LaunchPlan) -> None:
        with self._lock:
            if self._stopped:
                raise RuntimeError("this transport was stopped")
            if self._simulation is None:
                self._simulation = self._make(plan)
                self._finish()

    def _started(self) -> Simulation:
        if self._simulation is None:
            raise RuntimeError("this transport was not started")
        return self._simulation

    def _send(self, data: bytes) -> None:
        with self._lock:
            self._started().receive_data(data)
            self._finish()
        self._wake()

    def _end_input(self) -> None:
        with self._lock:
            self._started().receive_eof()
            self._finish()
        self._wake()

    def _take(self) -> bytes | None:
        """Return what can be received now: b"" at the end, None if there is nothing yet."""
        with self._lock:
            simulation = self._started()
            if not self._stopped:
                simulation.tick()
            data = simulation.data_to_send()
            if not data and (self._stopped or simulation.exit_code is not None):
                self._finish()
                return b""
            return data or None

    def _end(self) -> None:
        """Stop like a local child: what only waits for the end of its input ends by itself, the rest is ended."""
        with self._lock:
            simulation = self._simulation
            if simulation is not None and not self._stopped:
                if not simulation.in_turn:
                    simulation.receive_eof()
                simulation.terminate()
                simulation.kill()
            self._stopped = True
            self._finish()
        self._wake()

    def _finish(self) -> None:
        simulation = self._simulation
        if simulation is not None and simulation.exit_code is not None and not self._told:
            self._told = True
            self._tell_end(simulation)

    def _wake(self) -> None:
        raise NotImplementedError


class SyncSimulatedTransport(_Simulated):
    """A `SyncTransport` to a simulated CLI."""

    def __init__(self, make: Callable[[LaunchPlan], Simulation], ended: Callable[[Simulation], None]) -> None:
        super().__init__(make, ended)
        self._changed = threading.Condition(self._lock)

    def start(self, plan: LaunchPlan) -> None:
        """Start the simulated CLI."""
        self._start(plan)

    def send(self, data: bytes) -> None:
        """Hand the CLI `data`, and let it do what follows from that."""
        self._send(data)

    def end_input(self) -> None:
        """Close the CLI's input."""
        self._end_input()

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next bytes; b"" at the end, None after `timeout` seconds."""
        with self._changed:
            clock = self._started().clock
            until = None if timeout is None else clock() + timeout
            while (data := self._take()) is None:
                left = None if until is None else until - clock()
                if left is not None and left <= 0:
                    return None
                until_tick = self._started().wait_seconds()
                self._changed.wait(min((s for s in (left, until_tick) if s is not None), default=None))
            return data

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Return the exit status; None if there is none within `timeout` seconds."""
        with self._changed:
            clock = self._started().clock
            until = None if timeout is None else clock() + timeout
            while (code := self._started().exit_code) is None and not self._stopped:
                left = None if until is None else until - clock()
                if left is not None and left <= 0:
                    break
                self._started().tick()
                until_tick = self._started().wait_seconds()
                self._changed.wait(min((s for s in (left, until_tick) if s is not None), default=None))
            return code

    def stop(self, *, turn_open: bool) -> None:
        """End the simulated CLI."""
        self._end()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class AsyncSimulatedTransport(_Simulated):
    """An `AsyncTransport` to a simulated CLI, for asyncio and trio."""

    def __init__(self, make: Callable[[LaunchPlan], Simulation], ended: Callable[[Simulation], None]) -> None:
        super().__init__(make, ended)
        self._loop: Loop | None = None
        self._events: list[anyio.Event] = []

    async def start(self, plan: LaunchPlan) -> None:
        """Start the simulated CLI."""
        self._loop = Loop()
        await self._loop.turn()
        self._start(plan)

    async def send(self, data: bytes) -> None:
        """Hand the CLI `data`, and let it do what follows from that."""
        self._send(data)
        await self._turn()

    async def end_input(self) -> None:
        """Close the CLI's input."""
        self._end_input()
        await self._turn()

    async def receive(self) -> bytes:
        """Return the next bytes; b"" at the end."""
        # Before anything is taken: a cancellation must not lose it.
        await self._turn()
        while (data := self._take()) is None:
            await self._wait()
        return data

    async def wait_exit(self) -> int | None:
        """Return the exit status."""
        await self._turn()
        while (code := self._started().exit_code) is None and not self._stopped:
            self._take()
            await self._wait()
        return code

    async def stop(self, *, turn_open: bool) -> None:
        """End the simulated CLI."""
        self._end()

    async def _turn(self) -> None:
        if self._loop is None:
            raise RuntimeError("this transport was not started")
        await self._loop.turn()

    async def _wait(self) -> None:
        event = anyio.Event()
        self._events.append(event)
        try:
            # Between the look and this list nothing else ran here, but another thread may have: look again.
            if self._simulation is not None and (self._simulation.exit_code is not None or self._stopped):
                return
            with anyio.move_on_after(self._started().wait_seconds()):
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
