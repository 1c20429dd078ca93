"""Which transport a query or a session uses: the given one, one made by a source, or a local child process; recorded, if asked for.

A recorder (`bridle.testing.cassette`, or the option `trace`) sits between the two: it may wrap what it is given, and it may put
something else in its place, so that no process is ever started.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NoReturn, Protocol, runtime_checkable

from bridle.transports.base import AsyncTransport, SyncTransport, TransportSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.options.options import Options

__all__ = ["ChildWrapper", "RecordedBy", "Recorder", "open_async", "open_sync", "recorder"]


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

    `make` makes the transport, and `local` tells whether that is our child process, for which a CLI is looked for. It returns the
    transport to be used, and whether that is a local child process in the end.
    """

    def open_async(
        self, make: Callable[[], AsyncTransport], options: Options, *, local: bool
    ) -> tuple[AsyncTransport, bool]:
        """Return the transport, and whether it is a local child process in the end."""

    def open_sync(
        self, make: Callable[[], SyncTransport], options: Options, *, local: bool
    ) -> tuple[SyncTransport, bool]:
        """Return the transport, and whether it is a local child process in the end."""


recorder: ContextVar[Recorder | None] = ContextVar("bridle_recorder", default=None)
"""Whoever records what is opened in this context."""


class RecordedBy:
    """What is given as `transport=` to be recorded wherever it is opened: threads do not inherit the context.

    Args:
        who: the recorder.
        inner: what is recorded; a local child process if None.
    """

    def __init__(self, who: Recorder, inner: AsyncTransport | SyncTransport | TransportSource | None = None) -> None:
        self.who = who
        self.inner = inner

    def for_async(self) -> AsyncTransport:
        """Return the recorded transport, with default options: for wrappers that ask for it themselves."""
        from bridle.options.options import Options

        return open_async(self, _no_child, Options())[0]

    def for_sync(self) -> SyncTransport:
        """Return the recorded transport, with default options: for wrappers that ask for it themselves."""
        from bridle.options.options import Options

        return open_sync(self, _no_child, Options())[0]


def _no_child() -> NoReturn:
    raise TypeError("A recorded child process must be given as `transport=` itself, and not inside of another source.")


def open_async(
    given: AsyncTransport | TransportSource | None,
    make_child: Callable[[], AsyncTransport],
    options: Options,
) -> tuple[AsyncTransport, bool]:
    """Return the transport of an async query or session, and whether it is a local child process.

    Raises:
        TypeError: what was given is a transport for `bridle.sync`, or none at all.
    """
    active = recorder.get()
    source: object = given
    if isinstance(given, RecordedBy):
        active, source = given.who, given.inner
    make, local = make_child, source is None
    if isinstance(source, ChildWrapper) and source.wraps_child:
        wrapper, local = source, True
        make = lambda: wrapper.around_async(make_child())  # noqa: E731
    elif source is not None:
        if not isinstance(source, (AsyncTransport, TransportSource)):
            raise TypeError(f"`transport` must be an AsyncTransport or a TransportSource, not {type(source).__name__}")
        known = source
        make = lambda: known.for_async() if isinstance(known, TransportSource) else known  # noqa: E731
    if active is not None:
        transport, local = active.open_async(make, options, local=local)
    else:
        transport = make()
    if not isinstance(transport, AsyncTransport):
        raise TypeError(f"`transport` must be an AsyncTransport or a TransportSource, not {type(transport).__name__}")
    if options.trace is not None:
        from bridle.transports.recording.wrappers import trace_async

        transport = trace_async(transport, options, local=local)
    return transport, local


def open_sync(
    given: SyncTransport | TransportSource | None,
    make_child: Callable[[], SyncTransport],
    options: Options,
) -> tuple[SyncTransport, bool]:
    """Return the transport of a blocking query or session, and whether it is a local child process.

    Raises:
        TypeError: what was given is no transport at all.
    """
    active = recorder.get()
    source: object = given
    if isinstance(given, RecordedBy):
        active, source = given.who, given.inner
    make, local = make_child, source is None
    if isinstance(source, ChildWrapper) and source.wraps_child:
        wrapper, local = source, True
        make = lambda: wrapper.around_sync(make_child())  # noqa: E731
    elif source is not None:
        if not isinstance(source, (SyncTransport, TransportSource)):
            raise TypeError(f"`transport` must be a SyncTransport or a TransportSource, not {type(source).__name__}")
        known = source
        make = lambda: known.for_sync() if isinstance(known, TransportSource) else known  # noqa: E731
    if active is not None:
        transport, local = active.open_sync(make, options, local=local)
    else:
        transport = make()
    if not isinstance(transport, SyncTransport):
        raise TypeError(f"`transport` must be a SyncTransport or a TransportSource, not {type(transport).__name__}")
    if options.trace is not None:
        from bridle.transports.recording.wrappers import trace_sync

        transport = trace_sync(transport, options, local=local)
    return transport, local
