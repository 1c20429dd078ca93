"""Conversations that the CLI keeps on the disk: list, read, search, change and export them, and add up their usage.

::

    import bridle.transcripts

    for each in bridle.transcripts.list(limit=10):
        print(each.modified, each.title)

The functions block. `bridle.transcripts.aio` has the same names to await.
"""

from __future__ import annotations

from bridle.transcripts.accounting import Price, Tokens, UsageReport, UsageRow, usage
from bridle.transcripts.changes import PruneResult, archive, delete, is_archived, prune, rename, tag
from bridle.transcripts.entries import Entry
from bridle.transcripts.export import ExportFormat, export, import_
from bridle.transcripts.forking import fork
from bridle.transcripts.index import SearchHit, SearchRole, search
from bridle.transcripts.listing import TitleSource, TranscriptInfo, find, info
from bridle.transcripts.listing import list_sessions as list  # noqa: A004 - the name that users read
from bridle.transcripts.places import project_key
from bridle.transcripts.transcript import (
    Branch,
    Entries,
    FileChange,
    Messages,
    Subagent,
    Transcript,
    TranscriptMessage,
    TranscriptTurn,
    read,
)

__all__ = [
    "Branch",
    "Entries",
    "Entry",
    "ExportFormat",
    "FileChange",
    "Messages",
    "Price",
    "PruneResult",
    "SearchHit",
    "SearchRole",
    "Subagent",
    "TitleSource",
    "Tokens",
    "Transcript",
    "TranscriptInfo",
    "TranscriptMessage",
    "TranscriptTurn",
    "UsageReport",
    "UsageRow",
    "archive",
    "delete",
    "export",
    "find",
    "fork",
    "import_",
    "info",
    "is_archived",
    "list",
    "project_key",
    "prune",
    "read",
    "rename",
    "search",
    "tag",
    "usage",
]
