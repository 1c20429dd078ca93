"""The watchdog process: ends what a host leaves behind when the host itself is killed.

Run as a script (`python -I -S watchdog_main.py DESCRIPTOR`) by `watchdog.py`, with the standard library alone. The end of its standard
input means that the host is gone. Then it reads lines from an open file that the host has written: `add CHILD_ID`,
`started CHILD_ID PID START_TIME`, `remove CHILD_ID`, and for private folders `folder HEX_PATH`, `gone HEX_PATH`. Each child on the list is
ended within five seconds, then the folders are removed, and then the watchdog ends. With an empty list it ends immediately.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TERMINATE_SECONDS = 2.0
"""How long a CLI may take to end its own children after SIGTERM before everything is killed."""
_POLL_SECONDS = 0.05


def watch(lines: object) -> tuple[dict[str, tuple[int, str] | None], list[str]]:
    """Return the children that the host left, by child id, and its private folders."""
    children: dict[str, tuple[int, str] | None] = {}
    folders: dict[str, None] = {}
    for line in lines:  # type: ignore[attr-defined]
        match line.split():
            case ["add", child_id]:
                children[child_id] = None
            case ["started", child_id, pid, start_time]:
                children[child_id] = (int(pid), start_time)
            case ["remove", child_id]:
                children.pop(child_id, None)
            case ["folder", path]:
                folders[path] = None
            case ["gone", path]:
                folders.pop(path, None)
            case _:
                pass
    return children, [os.fsdecode(bytes.fromhex(path)) for path in folders]


def remove(folders: list[str]) -> None:
    """Remove folders; links in them are not followed."""
    import shutil

    until = time.monotonic() + TERMINATE_SECONDS
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        while os.path.lexists(folder) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)  # a killed child may have written until now
            shutil.rmtree(folder, ignore_errors=True)


def end(children: dict[str, tuple[int, str] | None], processes: Any) -> None:
    """End the children and all that descends from them; `processes` is the module of that name."""
    doomed: set[tuple[int, str]] = set()

    def note() -> None:
        for child_id, who in children.items():
            if who is not None:
                doomed.add(who)
                doomed.update(processes.descendants(who[0]))
            doomed.update(processes.marked_with(child_id))

    note()
    for child_id, who in children.items():
        # A child whose pid never arrived is known by its mark alone.
        for target in [who] if who is not None else processes.marked_with(child_id):
            processes.kill_identity(target, signal.SIGTERM)
    until = time.monotonic() + TERMINATE_SECONDS
    while time.monotonic() < until and any(processes.identity(who[0]) == who for who in doomed):
        time.sleep(_POLL_SECONDS)
    note()
    for who in doomed:
        processes.kill_identity(who, signal.SIGKILL)


def main() -> None:
    """Run until the host is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    with open(int(sys.argv[1]), encoding="ascii", errors="replace") as file:
        file.seek(0)
        children, folders = watch(file)
    if children:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import processes  # type: ignore[import-not-found]  # the file beside this one: see the module's docstring

        end(children, processes)
    remove(folders)
    os._exit(0)


if __name__ == "__main__":
    main()
