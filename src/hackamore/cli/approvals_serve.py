"""`hackamore approvals serve`: the page of approvals on this machine."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

from hackamore.approvals.local import ApprovalsServer
from hackamore.approvals.page import Person
from hackamore.cli.approvals import opened
from hackamore.cli.running import USAGE
from hackamore.errors import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal

_MOST_PORT = 65_535


def serve(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Serve the page of approvals until Ctrl-C."""
    port, name = given.get("port") or 0, given.get("by") or getpass.getuser()
    if not 0 <= port <= _MOST_PORT:
        terminal.error(f"`--port` must be 0 to {_MOST_PORT}, got {port}")
        return USAGE
    try:
        with opened(given) as approvals:
            approvals.pending()  # fails here, and not in the browser
            with ApprovalsServer(approvals, Person(name, tuple(given.get("groups") or ())), port) as server:
                terminal.line(server.url)
                terminal.note(
                    f"Open this address once, on this machine. You answer as {escape_terminal(name)}. Ctrl-C ends it."
                )
                server.serve_forever(poll_interval=0.2)
    except OSError as error:
        terminal.error(f"port {port} cannot be used: {error.strerror or error}; leave `--port` out for a free one")
        return USAGE
    return 0
