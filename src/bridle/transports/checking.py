"""Checks the shape of a transport when it is handed in: no member is missing, and `async` is where the protocol has it.

The protocols in `base.py` are the table: their members are looked up in the object, and compared.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from bridle.transports.base import (
    AsyncPushTransport,
    AsyncTransport,
    SyncPushTransport,
    SyncTransport,
    Transport,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_shape"]

_MISSING = object()
_AWAITABLES = ("Awaitable", "Coroutine", "Future", "Task")


def check_shape(transport: object, *, blocking: bool, parameter: str = "`transport`") -> None:
    """Do nothing if `transport` has the shape of a pull transport, or of a push transport.

    Args:
        transport: the object to check.
        blocking: True for the form of `bridle.sync`, False for the async form.
        parameter: the name of the object in the message.

    Raises:
        TypeError: it has not; the message names each wrong member.
    """
    pull, push = (SyncTransport, SyncPushTransport) if blocking else (AsyncTransport, AsyncPushTransport)
    members = dict(_members(pull))
    extra = {name: wanted for name, wanted in _members(push) if name not in members}
    protocol, given = pull.__name__, type(transport).__name__
    article = "a" if blocking else "an"
    if isinstance(transport, type) or not any(_of(transport, member) is not _MISSING for member in members):
        given = f"the class {transport.__name__} itself" if isinstance(transport, type) else given
        raise TypeError(
            f"{parameter} must be {article} {protocol} or a TransportSource, not {given}: see `bridle.transports.base`"
        )
    if any(_of(transport, member) is not _MISSING for member in extra):
        protocol = push.__name__
        members |= extra
    problems = [
        text for member, wanted in members.items() if (text := _problem(_of(transport, member), wanted, member))
    ]
    if problems:
        raise TypeError(
            f"{parameter}: {given} is not {article} {protocol}: {', '.join(problems)}. See `bridle.transports.base`."
        )


def _members(protocol: type) -> Iterator[tuple[str, object]]:
    """Yield the members of a protocol, the inherited ones as well."""
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
