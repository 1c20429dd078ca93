"""Fixtures for what holds on every shell, against the light stand-in CLI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.light import Light, light
from tests.support.query_fixtures import leaves_nothing, shell

__all__ = ["leaves_nothing", "shell"]


@pytest.fixture
def options(tmp_path: Path) -> Light:
    """A function that gives options for the light stand-in."""
    return light(tmp_path)
