"""The connection of an object to PostgreSQL, through `psycopg`: opened on first use, and again after it was lost."""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

T = TypeVar("T")
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "fallback_application_name": "hackamore",
}
"""Settings of connections, unless the user has others. A server that is gone is noticed within half a minute."""


def parsed(conninfo: str) -> dict[str, Any] | None:
    """Return the settings of a connection string; None if it is not one. The error of `psycopg` has all of it, with the password."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    with suppress(ProgrammingError):
        return dict(conninfo_to_dict(conninfo))
    return None


class Postgres:
    """A connection that threads share and a fork leaves to the parent process.

    Args:
        settings: those of libpq and of `psycopg.connect`.
        prepare: a method of the owner that is called with each new connection. If it raises, the connection is closed.

    Attributes:
        lock: must be held during all calls.
        client: a name for this object in this process.
        connection: the last connection; None if there is none.
    """

    def __init__(self, settings: Mapping[str, Any], prepare: Callable[[psycopg.Connection[Any]], None]) -> None:
        self._settings = {**_DEFAULTS, **settings, "autocommit": True}
        self._prepare = weakref.WeakMethod(prepare)  # an owner that is forgotten closes the connection immediately
        self.connection: psycopg.Connection[Any] | None = None
        self._renew()
        _all.add(self)

    def _renew(self) -> None:
        self.lock: threading.RLock = threading.RLock()  # a signal handler may interrupt a call
        self.client: str = secrets.token_hex(16)

    def opened(self) -> psycopg.Connection[Any]:
        """Return the connection, or a new one if it was lost."""
        if self.connection is None or self.connection.closed:
            import psycopg

            self.connection = None
            connection = psycopg.connect(**self._settings)
            try:
                self._prepare()(connection)  # type: ignore[misc]
            except BaseException:
                connection.close()
                raise
            self.connection = connection
        return self.connection

    def use(self, call: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Call a function with the connection; once more with another one if the connection was lost in the meantime."""
        import psycopg

        try:
            return call(self.opened())
        except psycopg.Error:
            if self.connection is None or not self.connection.closed:
                raise
        return call(self.opened())

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def after_fork(self) -> None:
        """Leave the connection to the parent process."""
        self._renew()
        connection, self.connection = self.connection, None
        if connection is not None:
            _inherited.append(connection)
            with suppress(Exception):  # it was closed
                os.close(connection.fileno())

    def __del__(self) -> None:
        if "connection" in self.__dict__:
            self.close()


_all: weakref.WeakSet[Postgres] = weakref.WeakSet()
_inherited: list[object] = []
"""Connections of the parent process. They are kept: `psycopg` warns of one that is dropped while the parent has it open."""


def _after_fork() -> None:
    for each in list(_all):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)
