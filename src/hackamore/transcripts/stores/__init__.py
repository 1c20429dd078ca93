"""Session stores: transcripts in a database instead of, and besides, the disk of one host.

::

    from hackamore.transcripts.stores import SQLiteStore

    options = Options(session_store=SQLiteStore("sessions.db"))

Each adapter is loaded when it is first used. `SQLiteStore` and `MemoryStore` need no other package; the others are extras of Hackamore:
`hackamore[redis]`, `hackamore[postgres]`, `hackamore[s3]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hackamore.options.stores import FlushMode, SessionStore, StoreKey, StoreListEntry, StoreSummary, implements

if TYPE_CHECKING:
    from hackamore.transcripts.stores.memory import MemoryStore
    from hackamore.transcripts.stores.postgres import PostgresStore
    from hackamore.transcripts.stores.redis import RedisStore
    from hackamore.transcripts.stores.s3 import S3Store
    from hackamore.transcripts.stores.sqlite import SQLiteStore

__all__ = [
    "FlushMode",
    "MemoryStore",
    "PostgresStore",
    "RedisStore",
    "S3Store",
    "SQLiteStore",
    "SessionStore",
    "StoreKey",
    "StoreListEntry",
    "StoreSummary",
    "implements",
]


def __getattr__(name: str) -> object:
    if not name.endswith("Store") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{name.removesuffix('Store').lower()}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
