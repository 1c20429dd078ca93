"""The blocking shell: the same names and the same behaviour, without an event loop. For scripts, notebooks and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.sync.query import QueryStream, query, run

if TYPE_CHECKING:
    from bridle.sync.mapping import MapStream, map  # noqa: A004
    from bridle.sync.pool import SessionPool
    from bridle.sync.session import Session, Turn, start_session

__all__ = ["MapStream", "QueryStream", "Session", "SessionPool", "Turn", "map", "query", "run", "start_session"]


def __getattr__(name: str) -> Any:
    # Loaded when it is used: a query needs none of it.
    if name in {"Session", "Turn", "start_session"}:
        from bridle.sync import session

        return getattr(session, name)
    if name in {"MapStream", "map"}:
        from bridle.sync import mapping

        return getattr(mapping, name)
    if name == "SessionPool":
        from bridle.sync.pool import SessionPool

        return SessionPool
    raise AttributeError(f"module 'bridle.sync' has no attribute {name!r}")
