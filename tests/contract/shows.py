"""`@shows("session.handshake.implicit")`: this test keeps that promise of `behaviours.toml`."""

from __future__ import annotations

import pytest


def shows(*behaviours: str) -> pytest.MarkDecorator:
    """Say which behaviours a test shows; a parametrised one shows them with all of its cases together."""
    return pytest.mark.shows(*behaviours)
