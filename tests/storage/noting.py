"""Databases of notes, and the locks that this process has on their files."""

from __future__ import annotations

import os
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
    found = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sorted(
        " ".join((line[3], *line[6:]))
        for line in found
        if line[4] == str(os.getpid()) and line[5][line[5].rindex(":") :] in files
    )
