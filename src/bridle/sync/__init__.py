"""The blocking shell: the same names and the same behaviour, without an event loop. For scripts, notebooks and threads."""

from __future__ import annotations

from bridle.sync.query import QueryStream, query, run

__all__ = ["QueryStream", "query", "run"]
