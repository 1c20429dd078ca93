"""Fixtures for queries on every shell, against a stand-in CLI."""

from __future__ import annotations

from tests.support.query_fixtures import leaves_nothing, playing, shell, stand_in_path

__all__ = ["leaves_nothing", "playing", "shell", "stand_in_path"]
