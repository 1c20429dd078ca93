"""Fixtures for agents of editors: asyncio only, as `agent-client-protocol` is."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Return the one event loop that the package runs on."""
    return "asyncio"
