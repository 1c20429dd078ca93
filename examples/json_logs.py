"""Write the log of Hackamore as JSON, one object a line, with the session, the turn and the process of each record."""

# scripted: "4"

from __future__ import annotations

import io
import json
import logging
from datetime import UTC, datetime

import hackamore.sync


class JSONFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback is a text with escaped line ends."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            # Records of other libraries have none of these.
            "session_id": getattr(record, "session_id", None),
            "turn_id": getattr(record, "turn_id", None),
            "pid": getattr(record, "pid", None),
            "code": getattr(record, "code", None),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: value for name, value in fields.items() if value is not None}, default=str)


def main() -> None:
    out = io.StringIO()  # for a program: sys.stderr, the default
    handler = logging.StreamHandler(out)
    handler.setFormatter(JSONFormatter())
    logger = logging.getLogger("hackamore")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        answer = hackamore.sync.run("What is 2 + 2?")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)

    records = [json.loads(line) for line in out.getvalue().splitlines()]
    for record in records:
        print(record["level"], record.get("session_id"), record["message"][:60])
    assert answer.session_id in {record.get("session_id") for record in records}


if __name__ == "__main__":
    main()
