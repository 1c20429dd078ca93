"""Fixtures for tests of other machines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.machines import Podman, Sshd
from tests.support.query_fixtures import leaves_nothing, shell

__all__ = ["leaves_nothing", "shell"]


@pytest.fixture
def far(claude_path: str) -> Iterator[Sshd]:
    """Return a machine with the pinned CLI."""
    with Sshd(claude=claude_path) as machine:
        yield machine


@pytest.fixture(scope="session")
def podman(claude_path: str) -> Iterator[Podman]:
    """Return containers with the pinned CLI."""
    with Podman(claude_path) as store:
        yield store
