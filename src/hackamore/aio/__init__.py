"""The async shell: asyncio and trio, through anyio."""

from __future__ import annotations

from bridle.aio.query import QueryStream, query, run

__all__ = ["QueryStream", "query", "run"]
