"""Fixtures for faults: the three shells, the stand-in, and a check that nothing is left."""

from __future__ import annotations

from tests.support.query_fixtures import leaves_nothing, playing, shell, stand_in_path

__all__ = ["leaves_nothing", "playing", "shell", "stand_in_path"]
