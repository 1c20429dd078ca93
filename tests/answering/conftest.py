"""Fixtures for sessions on every shell, against a stand-in CLI."""

from __future__ import annotations

from tests.support.session_fixtures import leaves_nothing, playing, shell

__all__ = ["leaves_nothing", "playing", "shell"]
