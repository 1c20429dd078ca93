"""Opens the transport of a query or session: the given one, one of a source, or a local child process; recorded, if asked for.

The protocols in `base.py` are the table by which the shape of a transport is checked.
A recorder (`hackamore.testing.cassette`, or the option `trace`) sits between the two. It wraps the transport that it gets, or replaces it,
so that no process is started.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

from hackamore.transports.base import (
    AsyncPushTransport,
    AsyncTransport,
    SyncPushTransport,
    SyncTransport,
    Transport,
    TransportSource,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.options.options import Options


@runtime_checkable
class ChildWrapper(TransportSource, Protocol):
    """A transport source that can wrap the local child process which the options ask for, or the transport of a recorder."""

    @property
    def base(self) -> object:
        """The source or transport that it wraps; None for the child process, which the session then starts."""

    def around_async(self, transport: AsyncTransport) -> AsyncTransport:
        """Return the transport to use for this one."""

    def around_sync(self, transport: SyncTransport) -> SyncTransport:
        """Return the transport to use for this one."""


@runtime_checkable
class ConfigurableSource(TransportSource, Protocol):
    """A transport source that starts something by itself, and takes graces, limits and `stderr` from the options."""

    def configured(self, options: Options) -> TransportSource:
        """Return the source for these options."""


class Recorder(Protocol):
    """Stands between a shell and its transport."""

    def open(
        self, make: Callable[[], Any], options: Options, *, local: bool, blocking: bool, name: str | None
    ) -> tuple[Any, bool]:
        """Return the transport to use, and whether it is a local child process in the end.

        Args:
            local: True if `make` makes the local child process, for which a CLI is searched.
        """


recorder: ContextVar[Recorder | None] = ContextVar("hackamore_recorder", default=None)
"""Records what is opened in this context."""


class Everywhere:
    """Where everything that is opened in this process is traced, unless its options name a trace."""

    path: str | None = None


everywhere: Everywhere = Everywhere()


class RecordedBy:
    """A value for `transport=` that is recorded wherever it is opened: threads do not inherit the context.

    Args:
        inner: the transport to record; a local child process if None.
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
        from hackamore.options.options import Options

        return open_async(self, _no_child, Options())[0]

    def for_sync(self) -> SyncTransport:
        """Return the recorded transport, with default options: for wrappers that call this themselves."""
        from hackamore.options.options import Options

        return open_sync(self, _no_child, Options())[0]


def _no_child() -> NoReturn:
    raise TypeError("A recorded child process must be given as `transport=` itself, not inside another source.")


def open_async(
    given: AsyncTransport | TransportSource | None, make_child: Callable[[], AsyncTransport], options: Options
) -> tuple[AsyncTransport, bool]:
    """Return the transport of an async query or session, and whether it is a local child process; raise TypeError for a wrong shape."""
    return _open(given, make_child, options, blocking=False)


def open_sync(
    given: SyncTransport | TransportSource | None, make_child: Callable[[], SyncTransport], options: Options
) -> tuple[SyncTransport, bool]:
    """Return the transport of a blocking query or session, and whether it is a local child process; raise TypeError for a wrong shape."""
    return _open(given, make_child, options, blocking=True)


def _open(given: object, make_child: Callable[[], Any], options: Options, *, blocking: bool) -> tuple[Any, bool]:
    active, source, name = recorder.get(), given, None
    trace = options.trace if options.trace is not None else everywhere.path
    if given is None and active is None and trace is None:
        return make_child(), True
    around: Callable[[Any], Any] | None = None
    if isinstance(given, ChildWrapper) and isinstance(given.base, RecordedBy):
        # It wraps a replay as it wraps the recorded transport: the recorder of the context must not replace both.
        around = given.around_sync if blocking else given.around_async
        given = given.base
    if isinstance(given, RecordedBy):
        active, source, name = given.by, given.inner, given.name
    local, make = source is None, make_child
    if isinstance(source, ChildWrapper) and source.base is None:
        local, wrap = True, source.around_sync if blocking else source.around_async
        make = lambda: wrap(make_child())  # noqa: E731
    elif isinstance(source, TransportSource):
        source = source.configured(options) if isinstance(source, ConfigurableSource) else source
        make = source.for_sync if blocking else source.for_async
    elif source is not None:
        check_shape(source, blocking=blocking)
        make = lambda: source  # noqa: E731
    if active is None:
        opened = make()
    else:
        opened, local = active.open(make, options, local=local, blocking=blocking, name=name)
    opened = around(opened) if around else opened
    check_shape(opened, blocking=blocking)
    if trace is not None:
        from hackamore.transports.recording.recorder import traced

        opened = traced(opened, trace, options.limits.line_bytes, local=local, blocking=blocking)
    return opened, local


_MISSING = object()
_AWAITABLES = ("Awaitable", "Coroutine", "Future", "Task")


def check_shape(transport: object, *, blocking: bool, parameter: str = "`transport`") -> None:
    """Raise TypeError, which names each wrong member, unless the transport has the shape of a pull transport or of a push transport."""
    pull, push = (SyncTransport, SyncPushTransport) if blocking else (AsyncTransport, AsyncPushTransport)
    members = dict(_members(pull))
    extra = {name: wanted for name, wanted in _members(push) if name not in members}
    protocol, given = pull.__name__, type(transport).__name__
    article = "a" if blocking else "an"
    if isinstance(transport, type) or not any(_of(transport, member) is not _MISSING for member in members):
        given = f"the class {transport.__name__} itself" if isinstance(transport, type) else given
        raise TypeError(
            f"{parameter} must be {article} {protocol} or a TransportSource, not {given}: see `hackamore.transports.base`"
        )
    if any(_of(transport, member) is not _MISSING for member in extra):
        protocol = push.__name__
        members |= extra
    problems = [
        text for member, wanted in members.items() if (text := _problem(_of(transport, member), wanted, member))
    ]
    if problems:
        raise TypeError(
            f"{parameter}: {given} is not {article} {protocol}: {', '.join(problems)}. See `hackamore.transports.base`."
        )


def _members(protocol: type) -> Iterator[tuple[str, object]]:
    for part in reversed(protocol.__mro__):
        if part.__module__ == Transport.__module__:
            yield from ((name, member) for name, member in vars(part).items() if not name.startswith("_"))


def _of(transport: object, name: str) -> object:
    """Return a member of a transport without running its properties, if that is possible."""
    static = inspect.getattr_static(transport, name, _MISSING)
    if isinstance(static, property):
        return static
    return getattr(transport, name, _MISSING)


def _problem(member: object, wanted: object, name: str) -> str:
    """Return what is wrong with a member; an empty text if nothing is."""
    if member is _MISSING:
        return f"`{name}` is missing"
    if isinstance(wanted, property):
        return f"`{name}` must be a property, not a method" if inspect.isroutine(member) else ""
    if not callable(member):
        return f"`{name}` must be a method"
    is_async = inspect.iscoroutinefunction(member)
    if inspect.iscoroutinefunction(wanted):
        return "" if is_async or not _is_plain(member) else f"`{name}` must be `async def`"
    return f"`{name}` must not be async" if is_async else ""


def _is_plain(member: object) -> bool:
    """Return whether this is a `def` that does not say that it returns an awaitable."""
    if not (inspect.isfunction(member) or inspect.ismethod(member)):
        return False
    returned = str(getattr(member, "__annotations__", {}).get("return", ""))
    return not any(word in returned for word in _AWAITABLES)
