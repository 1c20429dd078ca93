"""The connections that SQLite stores, ledgers, registries and journals make, and what calls cost there."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """Return the connections that are made from now on."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def kept(*arguments: Any, **more: Any) -> sqlite3.Connection:
        made.append(connect(*arguments, **more))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", kept)
    return made


def steps(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    """Return what a call costs: steps of SQLite's machine, in tens."""
    count = 0

    def one() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(one, 10)
    work()
    connection.set_progress_handler(None, 0)
    return count
