"""Conversations that the CLI keeps on the disk: list, read and search them, and add up their usage.

::

    import bridle.transcripts

    for each in bridle.transcripts.list(limit=10):
        print(each.modified, each.title)

The functions block. `bridle.transcripts.aio` has the same names to await.
"""

from __future__ import annotations

from bridle.transcripts.listing import TitleSource, TranscriptInfo, find, info
from bridle.transcripts.listing import list_sessions as list  # noqa: A004 - the name that users read
from bridle.transcripts.places import project_key

__all__ = ["TitleSource", "TranscriptInfo", "find", "info", "list", "project_key"]
