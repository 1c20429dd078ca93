"""What every record of the logger `hackamore` has, whoever logs it."""

from __future__ import annotations

import logging

IDS = ("session_id", "turn_id", "pid")
OF_FLEETS = ("task", "attempt")


class CompleteRecords(logging.Handler):
    """Keeps the records, and finds those that are not as promised.

    Attributes:
        records: all of them.
        incomplete: what is wrong with some of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.incomplete: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a record."""
        self.records.append(record)
        fields, message = vars(record), record.getMessage()
        place = f"{record.pathname}:{record.lineno}: {message!r}"
        wanted = (*IDS, *OF_FLEETS) if "/hackamore/fleet/" in record.pathname else IDS
        if missing := [name for name in wanted if name not in fields]:
            self.incomplete.append(f"{place} has no {', '.join(missing)}")
        elif not isinstance(fields["pid"], int | None) or not isinstance(fields["session_id"], str | None):
            self.incomplete.append(f"{place} has {fields['pid']!r}, {fields['session_id']!r}")
        if len(message.splitlines()) > 1 or record.levelno not in (logging.DEBUG, logging.WARNING, logging.ERROR):
            self.incomplete.append(f"{place} has several lines, or the level {record.levelname}")
        if "/runtime/log.py" in record.pathname:
            self.incomplete.append(f"{place} names the wrong line of code")
