"""The blocking shell: the same names and the same behaviour, without an event loop. For scripts, notebooks and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore.sync.query import QueryStream, query, run

if TYPE_CHECKING:
    from hackamore.serving.sync import serve_stdio
    from hackamore.sync.mapping import MapStream, map  # noqa: A004
    from hackamore.sync.pool import SessionPool
    from hackamore.sync.session import Session, Turn, start_session

__all__ = [
    "MapStream",
    "QueryStream",
    "Session",
    "SessionPool",
    "Turn",
    "map",
    "query",
    "run",
    "serve_stdio",
    "start_session",
]


def __getattr__(name: str) -> Any:
    # Loaded when it is used: a query needs none of it.
    if name in {"Session", "Turn", "start_session"}:
        from hackamore.sync import session

        return getattr(session, name)
    if name in {"MapStream", "map"}:
        from hackamore.sync import mapping

        return getattr(mapping, name)
    if name == "SessionPool":
        from hackamore.sync.pool import SessionPool

        return SessionPool
    if name == "serve_stdio":
        from hackamore.serving.sync import serve_stdio

        return serve_stdio
    raise AttributeError(f"module 'hackamore.sync' has no attribute {name!r}")
