"""Which transport a query or a session uses: the given one, one made by a source, or a local child process; recorded, if asked for.

A recorder (`bridle.testing.cassette`, or the option `trace`) sits between the two: it may wrap what it is given, and it may put
something else in its place, so that no process is ever started.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from bridle.transports.base import AsyncTransport, SyncTransport, TransportSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.options import Options

__all__ = ["ChildWrapper", "Recorder", "open_async", "open_sync", "recorder"]


@runtime_checkable
class ChildWrapper(TransportSource, Protocol):
    """A transport source that may be put around the local child process which the options ask for, and then leaves its start to us."""

    @property
    def wraps_child(self) -> bool:
        """True if it is put around the child process, False if it has a peer of its own."""

    def around_async(self, transport: AsyncTransport) -> AsyncTransport:
        """Return the transport to be used for this child."""

    def around_sync(self, transport: SyncTransport) -> SyncTransport:
        """Return the transport to be used for this child."""


class Recorder(Protocol):
    """What stands between a shell and its transport.

    `given` is the transport of the user, or None where a local child process would be used, which `make_child` makes. It returns the
    transport to be used, and whether that is our child process: only for it a CLI is looked for.
    """

    def open_async(
        self, given: AsyncTransport | None, make_child: Callable[[], AsyncTransport], options: Options
    ) -> tuple[AsyncTransport, bool]:
        """Return the transport, and whether it is a local child process in the end."""

    def open_sync(
        self, given: SyncTransport | None, make_child: Callable[[], SyncTransport], options: Options
    ) -> tuple[SyncTransport, bool]:
        """Return the transport, and whether it is a local child process in the end."""


recorder: ContextVar[Recorder | None] = ContextVar("bridle_recorder", default=None)
"""Whoever records what is opened in this context."""


def open_async(
    given: AsyncTransport | TransportSource | None, make_child: Callable[[], AsyncTransport], options: Options
) -> tuple[AsyncTransport, bool]:
    """Return the transport of an async query or session, and whether it is a local child process.

    Raises:
        TypeError: what was given is a transport for `bridle.sync`, or none at all.
    """
    if isinstance(given, ChildWrapper) and given.wraps_child:
        wrapper, make_bare = given, make_child
        given, make_child = None, lambda: wrapper.around_async(make_bare())
    transport = given.for_async() if isinstance(given, TransportSource) else given
    if transport is not None and not isinstance(transport, AsyncTransport):
        raise TypeError(f"`transport` must be an AsyncTransport or a TransportSource, not {type(transport).__name__}")
    active = recorder.get()
    if active is not None:
        return active.open_async(transport, make_child, options)
    return (make_child(), True) if transport is None else (transport, False)


def open_sync(
    given: SyncTransport | TransportSource | None, make_child: Callable[[], SyncTransport], options: Options
) -> tuple[SyncTransport, bool]:
    """Return the transport of a blocking query or session, and whether it is a local child process.

    Raises:
        TypeError: what was given is no transport at all.
    """
    if isinstance(given, ChildWrapper) and given.wraps_child:
        wrapper, make_bare = given, make_child
        given, make_child = None, lambda: wrapper.around_sync(make_bare())
    transport = given.for_sync() if isinstance(given, TransportSource) else given
    if transport is not None and not isinstance(transport, SyncTransport):
        raise TypeError(f"`transport` must be a SyncTransport or a TransportSource, not {type(transport).__name__}")
    active = recorder.get()
    if active is not None:
        return active.open_sync(transport, make_child, options)
    return (make_child(), True) if transport is None else (transport, False)
