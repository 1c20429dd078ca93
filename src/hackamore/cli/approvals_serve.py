"""`hackamore approvals serve`: the page of approvals on this machine."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

from hackamore.approvals.local import ApprovalsServer
from hackamore.approvals.page import Person
from hackamore.cli.approvals import opened
from hackamore.cli.flags import port_error, port_of
from hackamore.errors import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal


def serve(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Serve the page of approvals until Ctrl-C."""
    port, name = port_of(given), given.get("by") or getpass.getuser()
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
        raise port_error(port, error) from None
    return 0
