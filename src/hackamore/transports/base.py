"""The protocols of a transport: bytes in, bytes out, end of input, exit status, tail of stderr.

Write a transport to reach a CLI in a container, on another machine, or over a socket. There are two protocols, each in an async form (for
`hackamore.query` and `hackamore.Session` on asyncio and trio) and in a blocking form (for `hackamore.sync`):

- Pull (`AsyncTransport`, `SyncTransport`): the session calls `send` and `receive`. Every transport implements this one.
- Push (`AsyncPushTransport`, `SyncPushTransport`): in addition, the session writes without waiting, sees when the peer stops reading, and,
  on asyncio and trio, gets output by callback. It saves a task switch for each read. The transport of the local child process uses it.

Hackamore checks a transport when it is handed in: a missing method, or one that is `async` where it must not be, is a `TypeError`.
`hackamore.testing.check_transport` tests the rules below on a running transport.

Rules:

- `send` takes whole frames. It must not wait until the peer reads: queue the data that cannot be written immediately, and let `receive`
  write the rest.
- `receive` can be cancelled, or time out, and be called again without losing a byte.
- After `stop` no process of the peer is left.
- `abandon` is called by the garbage collector and must not wait.
- A transport that has one member of a push protocol must have all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hackamore._engine.launch.plan import LaunchPlan

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AsyncPushTransport",
    "AsyncTransport",
    "LaunchPlan",
    "PushTransport",
    "SyncPushTransport",
    "SyncTransport",
    "Transport",
    "TransportSource",
]


@runtime_checkable
class Transport(Protocol):
    """The members that the async and the blocking form of a transport share."""

    @property
    def pid(self) -> int | None:
        """Process id of the peer; None if it has none, or before the start."""

    @property
    def stderr_tail(self) -> bytes:
        """Last part of what the peer wrote to stderr."""

    def abandon(self) -> None:
        """Stop the peer without waiting."""


@runtime_checkable
class PushTransport(Transport, Protocol):
    """The members that the async and the blocking form of a push transport add."""

    @property
    def input_broken(self) -> bool:
        """True once the peer is known not to read any more. The session then waits only a short time for its exit."""

    def send_nowait(self, data: bytes) -> None:
        """Queue `data`, and write what can be written without waiting. The data follows everything that was sent before.

        Args:
            data: whole frames, with their line ends.
        """


@runtime_checkable
class AsyncTransport(Transport, Protocol):
    """Pull transport for asyncio and trio."""

    async def start(self, plan: LaunchPlan) -> None:
        """Start the peer as `plan` says.

        Args:
            plan: command line, environment and working directory of the CLI.

        Raises:
            StartError: the peer cannot be started; nothing is left behind.
        """

    async def send(self, data: bytes) -> None:
        """Write all of `data`, after everything that was sent before.

        Args:
            data: whole frames, with their line ends.

        Raises:
            HackamoreError: the connection is lost. It ends the session; any other exception ends it with `SessionClosedError`.
        """

    async def end_input(self) -> None:
        """Close the peer's input, after everything that was sent."""

    async def receive(self) -> bytes:
        """Return the next bytes of output.

        Returns:
            The bytes; b"" at the end, each time it is called there.

        Raises:
            HackamoreError: the connection is lost. It ends the session; any other exception ends it with `SessionClosedError`.
        """

    async def wait_exit(self) -> int | None:
        """Wait until the peer has exited.

        Returns:
            The exit status, negative for a signal; None if the peer has none.
        """

    async def stop(self, *, turn_open: bool) -> None:
        """Stop the peer; return when it is gone. Idempotent, and not cut short by cancellation.

        Args:
            turn_open: True if the model may be working; then the peer gets no time to finish.
        """


@runtime_checkable
class SyncTransport(Transport, Protocol):
    """Pull transport for `hackamore.sync`: the same methods, blocking, called from several threads."""

    def start(self, plan: LaunchPlan) -> None:
        """Start the peer as `plan` says.

        Args:
            plan: command line, environment and working directory of the CLI.

        Raises:
            StartError: the peer cannot be started; nothing is left behind.
        """

    def send(self, data: bytes) -> None:
        """Write all of `data`, after everything that was sent before.

        Args:
            data: whole frames, with their line ends.

        Raises:
            HackamoreError: the connection is lost. It ends the session; any other exception ends it with `SessionClosedError`.
        """

    def end_input(self) -> None:
        """Close the peer's input, after everything that was sent."""

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next bytes of output.

        Args:
            timeout: seconds to wait; None waits without limit.

        Returns:
            The bytes; b"" at the end, or when another thread stops the transport; None after the timeout.

        Raises:
            HackamoreError: the connection is lost. It ends the session; any other exception ends it with `SessionClosedError`.
        """

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Wait until the peer has exited.

        Args:
            timeout: seconds to wait; None waits without limit.

        Returns:
            The exit status, negative for a signal; None after the timeout, or if the peer has none.
        """

    def stop(self, *, turn_open: bool) -> None:
        """Stop the peer; return when it is gone. Idempotent, and safe from any thread.

        Args:
            turn_open: True if the model may be working; then the peer gets no time to finish.
        """


@runtime_checkable
class AsyncPushTransport(AsyncTransport, PushTransport, Protocol):
    """Push transport for asyncio and trio."""

    async def push_to(self, take: Callable[[bytes], bool]) -> bytes | None:
        """Call `take` with output as it arrives, from the event loop itself, until it returns False.

        It can be cancelled and called again without losing a byte, and alternates with `receive`.

        Args:
            take: gets the next bytes; returns whether to continue. It does not wait.

        Returns:
            b"" at the end of the output; None after `take` returned False, or once the peer stops reading.
        """


@runtime_checkable
class SyncPushTransport(SyncTransport, PushTransport, Protocol):
    """Push transport for `hackamore.sync`.

    It has no `push_to`: the thread that calls `receive` waits for output in any case. `receive` also returns None, once, when the peer
    stops reading.
    """


@runtime_checkable
class TransportSource(Protocol):
    """Factory of transports of both forms: give one as `transport=` to use the same object on asyncio, trio and threads."""

    def for_async(self) -> AsyncTransport:
        """Return a new transport for one query or session of `hackamore`.

        Returns:
            A transport for asyncio and trio.

        Raises:
            NotSupportedError: there is no async form.
        """

    def for_sync(self) -> SyncTransport:
        """Return a new transport for one query or session of `hackamore.sync`.

        Returns:
            A blocking transport.

        Raises:
            NotSupportedError: there is no blocking form.
        """
