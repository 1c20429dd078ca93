"""Fixtures for budgets on every shell."""

from __future__ import annotations

from tests.support.query_fixtures import leaves_nothing, shell

__all__ = ["leaves_nothing", "shell"]
