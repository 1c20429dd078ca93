"""The three shells, and a check that nothing is left."""

from __future__ import annotations

from tests.support.query_fixtures import leaves_nothing, shell

__all__ = ["leaves_nothing", "shell"]
