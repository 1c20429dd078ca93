"""Private folders of child processes: readable by this user alone, and removed also when the host is killed."""

from __future__ import annotations

import os
import time

from hackamore.transports.process.reaper import reaper
from hackamore.transports.process.watchdog import watchdog

_REMOVALS = 5
_REMOVAL_SECONDS = 0.1


def make_folder() -> str:
    """Return the path of a new, empty folder with the mode 0700."""
    import tempfile  # here, because it costs a program without such folders 4 ms; it loads `shutil` as well

    folder = tempfile.mkdtemp(prefix="hackamore-session-")
    reaper.attend()  # it retires the watchdog
    watchdog.add_folder(folder)
    return folder


def remove_folder(folder: str) -> None:
    """Remove a folder. Links in it are removed, and not followed."""
    import shutil

    for attempt in range(_REMOVALS):
        if attempt:
            time.sleep(_REMOVAL_SECONDS)  # a child of the CLI may have written until now
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            break
    watchdog.remove_folder(folder)
    reaper.rest()
