"""What a transport is: bytes in, bytes out, end of input, exit status, the tail of stderr.

Write one to reach a CLI somewhere else (a container, another machine, a socket): two small classes' worth of methods, of which each
shell needs one kind. `subprocess_async.py` and `subprocess_sync.py` are the ones for a local child process.

Rules for authors. `send` takes whole frames and must not wait for the peer to read what it sends before it reads what the peer sends:
queue what cannot be written at once, and let `receive` go on with it. `receive` may be cancelled (or time out) and called again
without losing a byte. After `stop` nothing of the peer is left. `abandon` is called by the garbage collector: it must not wait.
A transport that can find out that the peer reads nothing any more says so with a property `input_broken`; a session then ends soon.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bridle.launch.plan import LaunchPlan

__all__ = ["AsyncTransport", "LaunchPlan", "SyncTransport", "Transport", "TransportSource"]


@runtime_checkable
class Transport(Protocol):
    """What both kinds share."""

    @property
    def pid(self) -> int | None:
        """The process id, where there is one."""

    @property
    def stderr_tail(self) -> bytes:
        """The last part of what the peer wrote to stderr."""

    def abandon(self) -> None:
        """End the peer without waiting for anything."""


@runtime_checkable
class AsyncTransport(Transport, Protocol):
    """A transport for `bridle.query`, `bridle.run`: asyncio and trio."""

    async def start(self, plan: LaunchPlan) -> None:
        """Start the peer as `plan` says.

        Raises:
            StartError: it cannot be started; nothing is left behind.
        """

    async def send(self, data: bytes) -> None:
        """Write `data`, as a whole and in order."""

    async def end_input(self) -> None:
        """Close the peer's input, after everything that was sent."""

    async def receive(self) -> bytes:
        """Return the next bytes of output; b"" when no more will come."""

    async def wait_exit(self) -> int | None:
        """Wait until the peer has exited; return its exit status, negative for a signal, None where there is none."""

    async def stop(self, *, turn_open: bool) -> None:
        """End the peer: when this returns it is gone. Idempotent, and not to be cut short by cancellation.

        Args:
            turn_open: True if the model may be at work; then it is not given time to finish.
        """


@runtime_checkable
class SyncTransport(Transport, Protocol):
    """A transport for `bridle.sync`: the same methods, blocking."""

    def start(self, plan: LaunchPlan) -> None:
        """Start the peer as `plan` says.

        Raises:
            StartError: it cannot be started; nothing is left behind.
        """

    def send(self, data: bytes) -> None:
        """Write `data`, as a whole and in order."""

    def end_input(self) -> None:
        """Close the peer's input, after everything that was sent."""

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next bytes of output; b"" when no more will come (or another thread stops it); None after `timeout` seconds."""

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Wait until the peer has exited, `timeout` seconds at most; return its exit status, negative for a signal, else None."""

    def stop(self, *, turn_open: bool) -> None:
        """End the peer: when this returns it is gone. Idempotent, and safe from any thread."""


@runtime_checkable
class TransportSource(Protocol):
    """Makes transports of both kinds: what is given as `transport=` where one object is to serve asyncio, trio and threads."""

    def for_async(self) -> AsyncTransport:
        """Return a new transport for one query or session of `bridle`."""

    def for_sync(self) -> SyncTransport:
        """Return a new transport for one query or session of `bridle.sync`."""
