"""CLIs whose host was killed: the watchdog of the host ends them, which takes moments, and may have been killed as well."""

from __future__ import annotations

import os
import time

from hackamore.runtime.log import logger
from hackamore.storage.holders import identity_in, runs
from hackamore.transports.process import processes
from hackamore.transports.process.watchdog_main import end

WAIT_SECONDS = 5.0
"""How long a CLI without its host may take to end by itself, or by the watchdog."""
_POLL_SECONDS = 0.05


def end_orphan(name: str) -> None:
    """Wait until a CLI that another host or pool started has ended; end it, with all that it started, if that takes long.

    Args:
        name: its name, as `process_name` made it. A process that cannot be looked at from here is left alone.
    """
    until = time.monotonic() + WAIT_SECONDS
    while runs(name):
        if time.monotonic() > until:
            who = identity_in(name)
            logger.warning(
                "The CLI %d of a program that is gone still runs, and is ended",
                who[0],
                extra={"code": "ORPHAN_ENDED", "pid": who[0]},
            )
            end({_mark_of(who[0]): who}, processes)
            return
        time.sleep(_POLL_SECONDS)


def _mark_of(pid: int) -> str:
    """Return the mark of a CLI in its environment; empty if it cannot be read."""
    wanted = f"{processes.CHILD_ID_VARIABLE}=".encode()
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = [each for each in file.read().split(b"\0") if each.startswith(wanted)]
    except OSError:
        return ""
    return os.fsdecode(found[0][len(wanted) :]) if found else ""
