"""Faults around a transport without an event loop."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from bridle.testing.faults.flow import Ended, FaultState, FaultyTransport, Pause

if TYPE_CHECKING:
    from bridle.launch.plan import LaunchPlan
    from bridle.transports.base import SyncTransport

__all__ = ["FaultySyncTransport"]


class FaultySyncTransport(FaultyTransport):
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
            # It may return without a status, too: because there is none, or because the peer is being stopped.
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
