"""The connections that SQLite stores, ledgers, registries and journals make."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest


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
