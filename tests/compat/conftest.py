"""The layer's modules, and scripts that the simulated CLI plays for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hackamore.compat import use
from tests.cli.command import Command

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def hackamore(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Return the command `hackamore`, without a CLI."""
    return Command(tmp_path_factory.mktemp("command"), "")


@pytest.fixture(autouse=True)
def nothing_is_used() -> Generator[None, None, None]:
    """Forget what `use` set in a test."""
    yield
    use()
