"""The log of one query or session: records on the logger `bridle` that name their session, turn and process."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from bridle.protocol.connection import Connection

    Adapter = logging.LoggerAdapter[logging.Logger]
else:
    Adapter = logging.LoggerAdapter


class SessionLog(Adapter):
    """A logger whose records have the attributes `session_id`, `turn_id` and `pid`; each is None while it is unknown.

    Args:
        connection: the connection of the query or session.

    Attributes:
        pid: returns the process id of the CLI.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(logging.getLogger("bridle"))
        self.pid: Callable[[], int | None] = _unknown
        self._connection = connection

    def ids(self) -> dict[str, Any]:
        """Return the attributes of a record."""
        turns = self._connection.turns.current_ids
        return {
            "session_id": self._connection.session_id,
            "turn_id": turns[0] if turns else None,
            "pid": self.pid(),
        }

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the attributes to a record."""
        kwargs["extra"] = {**self.ids(), **(kwargs.get("extra") or {})}
        return msg, kwargs


def _unknown() -> None:
    return None


def issue(warning: Warning) -> None:
    """Issue a warning with `warnings.warn`, at the line of the program that called Bridle."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - `inspect` has the same, and reads files
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith("bridle."):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


def one_line(text: object) -> str:
    """Return a text for a log record: its lines separated by semicolons."""
    return "; ".join(line.strip() for line in str(text).splitlines() if line.strip())
