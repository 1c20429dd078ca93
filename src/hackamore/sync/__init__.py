"""The blocking shell: the same names and the same behaviour, without an event loop. For scripts, notebooks and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore.sync.query import QueryStream, query, run

if TYPE_CHECKING:
    from hackamore.serving.sync import serve_stdio
    from hackamore.sync.mapping import MapStream, map  # noqa: A004
    from hackamore.sync.pool import SessionPool
    from hackamore.sync.session import Session, Turn, resolve_settings, start_session

__all__ = [
    "MapStream",
    "QueryStream",
    "Session",
    "SessionPool",
    "Turn",
    "map",
    "query",
    "resolve_settings",
    "run",
    "serve_stdio",
    "start_session",
]


_PLACES = {
    "hackamore.sync.session": "Session Turn resolve_settings start_session",
    "hackamore.sync.mapping": "MapStream map",
    "hackamore.sync.pool": "SessionPool",
    "hackamore.serving.sync": "serve_stdio",
}
"""Names that are loaded when they are used: a query needs none of them."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for place, names in _PLACES.items():
        if name in names.split():
            return getattr(import_module(place), name)
    raise AttributeError(f"module 'hackamore.sync' has no attribute {name!r}")
