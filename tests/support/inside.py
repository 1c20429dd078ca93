"""The few looks that tests take inside an object of the library, in one place. Everything else goes through public names."""

# ruff: noqa: SLF001 - this is what the module is for

from __future__ import annotations

from typing import Any


def hurry(session: Any) -> None:
    """Wait shortly for the interrupted turn when the session stops: its CLI will not answer."""
    session._core.stop.interrupt_seconds = 0.2


def pending_requests(session: Any) -> int:
    """Return how many control requests wait for an answer."""
    return len(session._core.connection.exchanges.pending)


def wake(session: Any) -> None:
    """Wake the driver, as each call of a session does."""
    session._seam.wake()


def unread_of(reader: Any) -> Any:
    """Return what a turn or a cursor has not read yet."""
    return reader._inbox


def is_read(stream: Any) -> bool:
    """Return whether somebody waits for the next item of a query."""
    return bool(getattr(stream, "wrapped", stream)._mark.taken)


def asks_version(stream: Any) -> bool:
    """Return whether a query has started the process that it asks for the version."""
    return stream.wrapped._way.preparation._query._process is not None
