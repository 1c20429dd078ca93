"""Sessions that a process works on at this moment, from the CLI's own register: `<configuration>/sessions/<pid>.json`.

A process writes its file at the start and removes it at the end. A file that was left by a killed process does not count: its process
is gone, or another one has its id since. A process of another machine or container cannot be looked at; it counts while its file is young.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import msgspec

from hackamore.storage.holders import is_running, process_domain
from hackamore.storage.places import StrPath, config_folder

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE_SECONDS = 86_400.0
"""The age of a register entry after which a process that cannot be looked at counts as gone."""


class _Entry(msgspec.Struct, gc=False, rename="camel"):
    session_id: str
    pid: int
    proc_start: str | None = None
    pid_domain: str | None = None


_entry = msgspec.json.Decoder(_Entry).decode


def running_sessions(config_dir: StrPath | None = None) -> dict[str, int]:
    """Return the ids of the processes that work on sessions, by session id; empty for versions of the CLI without a register."""
    found: dict[str, int] = {}
    folder = config_folder(config_dir) / "sessions"
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    here = process_domain()
    for name in names:
        if not name.endswith(".json"):
            continue
        path = folder / name
        try:
            entry = _entry(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        elsewhere = entry.pid_domain is not None and here is not None and entry.pid_domain != here
        if _is_young(path) if elsewhere else is_running(entry.pid, entry.proc_start) is not False:
            found[entry.session_id] = entry.pid
    return found


def _is_young(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < ELSEWHERE_SECONDS
    except OSError:
        return False
