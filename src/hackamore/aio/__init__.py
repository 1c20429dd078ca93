"""The async shell: asyncio and trio, through anyio."""

from __future__ import annotations

from hackamore.aio.query import QueryStream, query, run

__all__ = ["QueryStream", "query", "run"]
