"""Opens the transport of a query or session: the given one, one of a source, or a local child process; recorded, if asked for.

A recorder (`bridle.testing.cassette`, or the option `trace`) sits between the two. It wraps the transport that it gets, or replaces it, so
that no process is started.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar, runtime_checkable

from bridle.transports.base import AsyncTransport, SyncTransport, TransportSource
from bridle.transports.checking import checked_async, checked_sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.options.options import Options

__all__ = ["ChildWrapper", "RecordedBy", "Recorder", "open_async", "open_sync", "recorder"]

T = TypeVar("T")


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
    """Stands between a shell and its transport.

    `make` makes the transport; `local` is True if that is the local child process, for which a CLI is searched. The methods return the
    transport to use, and whether that is a local child process in the end.
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
"""Records what is opened in this context."""


class RecordedBy:
    """A value for `transport=` that is recorded wherever it is opened: threads do not inherit the context.

    Args:
        by: the recorder.
        inner: the transport to record; a local child process if None.
    """

    def __init__(self, by: Recorder, inner: AsyncTransport | SyncTransport | TransportSource | None = None) -> None:
        self.by = by
        self.inner = inner

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


class _Form(Generic[T]):
    """One form of transports: the same steps with other names.

    Args:
        checked: checks the shape of a transport.
        made: returns a new transport of a source.
        around: returns the transport to use for a child process.
        recorded: asks a recorder.
        traced: returns a transport with `Options(trace=...)` before it.
    """

    def __init__(
        self,
        checked: Callable[[object], T],
        made: Callable[[TransportSource], T],
        around: Callable[[ChildWrapper, T], T],
        recorded: Callable[[Recorder, Callable[[], T], Options, bool], tuple[T, bool]],
        traced: Callable[[Any, T, Options, bool], T],
    ) -> None:
        self._checked, self._made, self._around, self._recorded, self._traced = checked, made, around, recorded, traced

    def open(self, given: object, make_child: Callable[[], T], options: Options) -> tuple[T, bool]:
        """Return the transport, and whether it is a local child process."""
        active, source = recorder.get(), given
        if isinstance(given, RecordedBy):
            active, source = given.by, given.inner
        local = source is None
        if source is None:
            make = make_child
        elif isinstance(source, ChildWrapper) and source.wraps_child:
            wrapper, local = source, True
            make = lambda: self._around(wrapper, make_child())  # noqa: E731
        elif isinstance(source, TransportSource):
            known = source
            make = lambda: self._made(known)  # noqa: E731
        else:
            transport = self._checked(source)
            make = lambda: transport  # noqa: E731
        if active is None:
            opened = make()
        else:
            opened, local = self._recorded(active, make, options, local)
        self._checked(opened)
        if options.trace is not None:
            from bridle.transports.recording import wrappers

            opened = self._traced(wrappers, opened, options, local)
        return opened, local


_ASYNC = _Form[AsyncTransport](
    checked_async,
    lambda source: source.for_async(),
    lambda wrapper, transport: wrapper.around_async(transport),
    lambda active, make, options, local: active.open_async(make, options, local=local),
    lambda wrappers, transport, options, local: wrappers.trace_async(transport, options, local=local),
)
_SYNC = _Form[SyncTransport](
    checked_sync,
    lambda source: source.for_sync(),
    lambda wrapper, transport: wrapper.around_sync(transport),
    lambda active, make, options, local: active.open_sync(make, options, local=local),
    lambda wrappers, transport, options, local: wrappers.trace_sync(transport, options, local=local),
)


def open_async(
    given: AsyncTransport | TransportSource | None, make_child: Callable[[], AsyncTransport], options: Options
) -> tuple[AsyncTransport, bool]:
    """Return the transport of an async query or session, and whether it is a local child process.

    Raises:
        TypeError: the transport has not the shape of an async one.
    """
    return _ASYNC.open(given, make_child, options)


def open_sync(
    given: SyncTransport | TransportSource | None, make_child: Callable[[], SyncTransport], options: Options
) -> tuple[SyncTransport, bool]:
    """Return the transport of a blocking query or session, and whether it is a local child process.

    Raises:
        TypeError: the transport has not the shape of a blocking one.
    """
    return _SYNC.open(given, make_child, options)
