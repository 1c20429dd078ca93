"""`hackamore approvals serve`: the page of approvals on this machine."""

from __future__ import annotations

import getpass
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hackamore.approvals import Approvals
from hackamore.approvals.local import ApprovalsServer
from hackamore.approvals.page import Person
from hackamore.approvals.requests import KIND
from hackamore.cli.running import USAGE
from hackamore.errors import ApprovalError, escape_terminal
from hackamore.storage.postgres_store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal

_MOST_PORT = 65_535


def serve(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Serve the page of approvals until Ctrl-C."""
    place, port = given.get("place") or os.environ.get("HACKAMORE_APPROVALS"), given.get("port") or 0
    name = given.get("by") or getpass.getuser()
    if not place:
        terminal.error("pass the place of the approvals, a file or a postgresql:// URL, or set HACKAMORE_APPROVALS")
        return USAGE
    if not 0 <= port <= _MOST_PORT:
        terminal.error(f"`--port` must be 0 to {_MOST_PORT}, got {port}")
        return USAGE
    try:
        open_store(KIND, place, create=False).close()  # a mistyped place must not become an empty database
        with closing(Approvals(place)) as approvals:
            approvals.pending()  # fails here, and not in the browser
            with ApprovalsServer(approvals, Person(name, tuple(given.get("groups") or ())), port) as server:
                terminal.line(server.url)
                terminal.note(
                    f"Open this address once, on this machine. You answer as {escape_terminal(name)}. Ctrl-C ends it."
                )
                server.serve_forever(poll_interval=0.2)
    except ApprovalError as error:
        terminal.error(str(error))
        return USAGE
    except OSError as error:
        terminal.error(f"port {port} cannot be used: {error.strerror or error}; leave `--port` out for a free one")
        return USAGE
    return 0
