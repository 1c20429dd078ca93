"""The logger `hackamore`: each record is one line, and names its session, turn and process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    Adapter = logging.LoggerAdapter[logging.Logger]
else:
    Adapter = logging.LoggerAdapter


def one_line(text: object) -> str:
    """Return a text for a log record: its lines separated by semicolons."""
    return "; ".join(line.strip() for line in str(text).splitlines() if line.strip())


class Log(Adapter):
    """A logger whose records have the attributes `session_id`, `turn_id` and `pid`; each is None where it is unknown."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger("hackamore"))

    def ids(self) -> dict[str, Any]:
        return {"session_id": None, "turn_id": None, "pid": None}

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the attributes to a record."""
        kwargs["extra"] = {**self.ids(), **(kwargs.get("extra") or {})}
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a record; texts and exceptions in it become one line each."""
        if self.isEnabledFor(level):
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            super().log(level, msg, *map(_flat, args), **kwargs)


def _flat(value: object) -> object:
    return one_line(value) if isinstance(value, (str, BaseException)) else value


logger: Log = Log()
"""For records that belong to no session, or to none that is known where they are logged."""
