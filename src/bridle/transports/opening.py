"""Opens the transport of a query or session: the given one, one of a source, or a local child process; recorded, if asked for.

A recorder (`bridle.testing.cassette`, or the option `trace`) sits between the two. It wraps the transport that it gets, or replaces it, so
that no process is started.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

from bridle.transports.base import AsyncTransport, SyncTransport, TransportSource
from bridle.transports.checking import check_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.options.options import Options

__all__ = ["ChildWrapper", "RecordedBy", "Recorder", "open_async", "open_sync", "recorder"]


@runtime_checkable
class ChildWrapper(TransportSource, Protocol):
    """A transport source that can wrap the local child process which the options ask for; the session then starts that process."""

    @property
    def wraps_child(self) -> bool:
        """True if it wraps the child process, False if it has a peer of its own."""

    def around_async(self, transport: AsyncTransport) -> AsyncTransport:
        """Return the transport to use for this child."""

    def around_sync(self, transport: SyncTransport) -> SyncTransport:
        """Return the transport to use for this child."""


class Recorder(Protocol):
    """Stands between a shell and its transport."""

    def open(
        self, make: Callable[[], Any], options: Options, *, local: bool, blocking: bool, name: str | None
    ) -> tuple[Any, bool]:
        """Return the transport to use, and whether it is a local child process in the end.

        Args:
            make: makes the transport.
            options: those of the query or session.
            local: True if `make` makes the local child process, for which a CLI is searched.
            blocking: True for a `SyncTransport`, False for an `AsyncTransport`.
            name: the name that the user gave the session, if any.
        """


recorder: ContextVar[Recorder | None] = ContextVar("bridle_recorder", default=None)
"""Records what is opened in this context."""


class RecordedBy:
    """A value for `transport=` that is recorded wherever it is opened: threads do not inherit the context.

    Args:
        by: the recorder.
        inner: the transport to record; a local child process if None.
        name: the name of the session in the recording.
    """

    def __init__(
        self,
        by: Recorder,
        inner: AsyncTransport | SyncTransport | TransportSource | None = None,
        name: str | None = None,
    ) -> None:
        self.by = by
        self.inner = inner
        self.name = name

    def for_async(self) -> AsyncTransport:
        """Return the recorded transport, with default options: for wrappers that call this themselves."""
        from bridle.options.options import Options

        return open_async(self, _no_child, Options())[0]

    def for_sync(self) -> SyncTransport:
        """Return the recorded transport, with default options: for wrappers that call this themselves."""
        from bridle.options.options import Options

        return open_sync(self, _no_child, Options())[0]


def _no_child() -> NoReturn:
    raise TypeError("A recorded child process must be given as `transport=` itself, not inside another source.")


def open_async(
    given: AsyncTransport | TransportSource | None, make_child: Callable[[], AsyncTransport], options: Options
) -> tuple[AsyncTransport, bool]:
    """Return the transport of an async query or session, and whether it is a local child process.

    Raises:
        TypeError: the transport has not the shape of an async one.
    """
    return _open(given, make_child, options, blocking=False)


def open_sync(
    given: SyncTransport | TransportSource | None, make_child: Callable[[], SyncTransport], options: Options
) -> tuple[SyncTransport, bool]:
    """Return the transport of a blocking query or session, and whether it is a local child process.

    Raises:
        TypeError: the transport has not the shape of a blocking one.
    """
    return _open(given, make_child, options, blocking=True)


def _open(given: object, make_child: Callable[[], Any], options: Options, *, blocking: bool) -> tuple[Any, bool]:
    active, source, name = recorder.get(), given, None
    if isinstance(given, RecordedBy):
        active, source, name = given.by, given.inner, given.name
    local, make = source is None, make_child
    if isinstance(source, ChildWrapper) and source.wraps_child:
        local, around = True, source.around_sync if blocking else source.around_async
        make = lambda: around(make_child())  # noqa: E731
    elif isinstance(source, TransportSource):
        make = source.for_sync if blocking else source.for_async
    elif source is not None:
        check_shape(source, blocking=blocking)
        make = lambda: source  # noqa: E731
    if active is None:
        opened = make()
    else:
        opened, local = active.open(make, options, local=local, blocking=blocking, name=name)
    check_shape(opened, blocking=blocking)
    if options.trace is not None:
        from bridle.transports.recording.wrappers import traced

        opened = traced(opened, options, local=local, blocking=blocking)
    return opened, local
