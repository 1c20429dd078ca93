"""Databases of notes, and the locks that this process has on their files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hackamore.storage.sqlite import Database

__all__ = ["TABLES", "locks", "note", "notes"]

TABLES = ("CREATE TABLE IF NOT EXISTS notes (text TEXT)",)


def note(database: Database, text: str) -> None:
    """Add a note."""
    database.transaction(lambda connection: connection.execute("INSERT INTO notes VALUES (?)", (text,)))


def notes(database: Database) -> list[str]:
    """Return the notes in order."""
    return database.look(lambda connection: [text for (text,) in connection.execute("SELECT text FROM notes")])


def locks(path: str) -> list[str]:
    """Return the kinds and ranges of the locks that this process has on a file, and on its shared memory."""
    files = {f":{os.stat(path + end).st_ino}" for end in ("", "-shm")}
    found = []
    for descriptor in os.listdir("/proc/self/fdinfo"):
        with suppress(OSError):  # that of the list
            facts = Path("/proc/self/fdinfo", descriptor).read_text().splitlines()
            # Of `/proc/locks` a reader may get lines twice, or not at all, while other programs lock files.
            found += [line.split()[1:] for line in facts if line.startswith("lock:")]
    return sorted(
        " ".join((line[3], *line[6:]))
        for line in found
        if line[4] == str(os.getpid()) and line[5][line[5].rindex(":") :] in files
    )
