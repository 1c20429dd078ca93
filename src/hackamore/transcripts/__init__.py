"""Conversations that the CLI keeps on the disk, or a session store: list, read, search, change and export them, and add up their usage.

::

    import hackamore.transcripts

    for each in hackamore.transcripts.list(limit=10):
        print(each.modified, each.title)

The functions block. `hackamore.transcripts.aio` has the same names to await.
"""

from __future__ import annotations

from hackamore.storage.places import project_key
from hackamore.transcripts.accounting import Price, Tokens, UsageReport, UsageRow, usage
from hackamore.transcripts.changes import PruneResult, archive, clean_tag, delete, is_archived, prune, rename, tag
from hackamore.transcripts.entries import Entry
from hackamore.transcripts.export import ExportFormat, copy_to_store, export, import_
from hackamore.transcripts.forking import fork
from hackamore.transcripts.index import SearchHit, SearchRole, search
from hackamore.transcripts.listing import TitleSource, TranscriptInfo, find, fold_summary, info
from hackamore.transcripts.listing import list_sessions as list  # noqa: A004 - the name that users read
from hackamore.transcripts.transcript import (
    Branch,
    Entries,
    FileChange,
    Messages,
    Subagent,
    Transcript,
    TranscriptMessage,
    TranscriptTurn,
    list_subagents,
    read,
    read_subagent,
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
    "clean_tag",
    "copy_to_store",
    "delete",
    "export",
    "find",
    "fold_summary",
    "fork",
    "import_",
    "info",
    "is_archived",
    "list",
    "list_subagents",
    "project_key",
    "prune",
    "read",
    "read_subagent",
    "rename",
    "search",
    "tag",
    "usage",
]
