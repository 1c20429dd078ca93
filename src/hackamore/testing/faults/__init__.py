"""Faults: problems between a host and its CLI, put around any transport.

::

    source = with_faults(SimulatedCLI(script), Split(1), Delay(0.001))
    result = hackamore.sync.run("Hello", transport=source)      # or hackamore.run, on asyncio and trio

Faults act in the order in which they are given, each on what the one before left. They are deterministic: the same seed and
the same traffic give the same faults, in every connection and in all three shells. `inbound` is what the CLI writes, `outbound` what it
is to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hackamore.testing.faults.flow import FaultState, Stage
from hackamore.testing.faults.kinds import (
    Corrupt,
    Cut,
    Delay,
    Direction,
    Drop,
    Duplicate,
    Insert,
    Note,
    Reorder,
    Silence,
    SlowReader,
    Split,
    StalledWriter,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.transports.base import AsyncTransport, SyncTransport, TransportSource

__all__ = [
    "Applied",
    "Corrupt",
    "Cut",
    "Delay",
    "Drop",
    "Duplicate",
    "Fault",
    "FaultySource",
    "Insert",
    "Reorder",
    "Silence",
    "SlowReader",
    "Split",
    "StalledWriter",
    "with_faults",
]


@runtime_checkable
class Fault(Protocol):
    """A fault. The faults of this module are values; write your own with a `Stage` of `hackamore.testing.faults.flow`."""

    @property
    def direction(self) -> Direction:
        """Which way."""

    def stage(self, random: Random, note: Note) -> Stage:
        """Return a new stage for one direction of one connection; `note` is called with each thing that it does."""


@dataclass(frozen=True)
class Applied:
    """Something that a fault did.

    Attributes:
        connection: the number of the connection, from 1.
        direction: `inbound` or `outbound`.
        fault: which fault.
        what: the effect.
    """

    connection: int
    direction: str
    fault: Fault
    what: str


class FaultySource:
    """A transport source whose transports have faults. Made by `with_faults`.

    Args:
        base: a transport source, a transport, or None for the local child process that the options ask for.
        faults: the faults, in order.
        seed: seed of the random decisions.
    """

    def __init__(
        self,
        base: TransportSource | AsyncTransport | SyncTransport | None,
        faults: tuple[Fault, ...],
        seed: int | str,
    ) -> None:
        self.base = base
        self._faults = faults
        self._seed = seed
        self._connections = 0
        self._applied: list[Applied] = []

    @property
    def applied(self) -> tuple[Applied, ...]:
        """The effects of the faults so far, except for effects on every read and write (splits, delays)."""
        return tuple(self._applied)

    def for_async(self) -> AsyncTransport:
        """Return a new faulty transport for asyncio or trio.

        Returns:
            The transport with the faults.

        Raises:
            TypeError: the inner transport is not an async one.
        """
        from hackamore.transports.process.subprocess_async import AsyncChildProcess

        return self.around_async(self._inner(AsyncChildProcess, blocking=False))

    def for_sync(self) -> SyncTransport:
        """Return a new faulty transport without an event loop.

        Returns:
            The transport with the faults.

        Raises:
            TypeError: the inner transport is not a blocking one.
        """
        from hackamore.transports.process.subprocess_sync import SyncChildProcess

        return self.around_sync(self._inner(SyncChildProcess, blocking=True))

    def _inner(self, child: Callable[[], Any], *, blocking: bool) -> Any:
        from hackamore.transports.base import TransportSource
        from hackamore.transports.opening import check_shape

        inner: Any = child() if self.base is None else self.base
        if isinstance(inner, TransportSource):
            inner = inner.for_sync() if blocking else inner.for_async()
        check_shape(inner, blocking=blocking, parameter="with_faults: the source")
        return inner

    def around_async(self, transport: AsyncTransport) -> AsyncTransport:
        """Return a transport that does what `transport` does, with the faults.

        Args:
            transport: the transport to wrap.

        Returns:
            The transport with the faults.
        """
        from hackamore.testing.faults.wrappers import FaultyAsyncTransport

        return FaultyAsyncTransport(transport, self._state())

    def around_sync(self, transport: SyncTransport) -> SyncTransport:
        """Return a blocking transport that does what `transport` does, with the faults.

        Args:
            transport: the transport to wrap.

        Returns:
            The transport with the faults.
        """
        from hackamore.testing.faults.wrappers import FaultySyncTransport

        return FaultySyncTransport(transport, self._state())

    def _state(self) -> FaultState:
        self._connections += 1
        connection = self._connections

        def stages(way: str) -> list[Stage]:
            found = []
            for number, fault in enumerate(self._faults):
                if fault.direction in (way, "both"):

                    def note(what: str, fault: Fault = fault) -> None:
                        self._applied.append(Applied(connection, way, fault, what))

                    # The same in every connection: a test that runs on three shells meets the same faults on each.
                    found.append(fault.stage(Random(f"{self._seed} {number} {way}"), note))  # noqa: S311
            return found

        return FaultState(stages("inbound"), stages("outbound"))

    def __repr__(self) -> str:
        base = "a child process" if self.base is None else repr(self.base)
        return f"<{base} with {', '.join(map(repr, self._faults)) or 'no faults'}>"


def with_faults(
    source: TransportSource | AsyncTransport | SyncTransport | None, *faults: Fault, seed: int | str = 0
) -> FaultySource:
    """Return a transport source that behaves like `source`, with faults: for `transport=` of queries and sessions.

    Args:
        source: a transport source, a transport, or None for the local child process that the options ask for.
        faults: the faults, in order: each acts on the output of the one before.
        seed: seed of the random decisions.

    Returns:
        The transport source.

    Raises:
        TypeError: an entry of `faults` is not a fault.
    """
    for fault in faults:
        if isinstance(fault, type) or not isinstance(fault, Fault):
            raise TypeError(f"with_faults: {fault!r} is not a fault; they are instances, such as `Split(1)`")
    return FaultySource(source, faults, seed)
