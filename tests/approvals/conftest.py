"""Fixtures of tests of approvals: the shells, the real CLI, a browser, databases of both kinds, and callbacks that wait."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Approvals
from tests.approvals.pages import Asking
from tests.real_cli.conftest import driving, shell
from tests.support.leaks import nothing_left
from tests.traces.conftest import browser, open_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["browser", "driving", "open_page", "shell"]


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail tests that leave a process, a thread or a descriptor. The server of all tests may start before, and stays."""
    if "postgres" in repr(request.node.name) or "postgres_address" in request.fixturenames:
        request.getfixturevalue("postgres_server")
    with nothing_left():
        yield


@pytest.fixture
def opened_at(address: str) -> Iterator[Callable[..., Approvals]]:
    """Return a function that opens the database of the test once more, as another program does."""
    with ExitStack() as stack:
        yield lambda **more: stack.enter_context(closing(Approvals(address, **more)))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Approvals]]:
    """Return a function that opens the file of the test once more, as another program does."""
    with ExitStack() as stack:

        def opens(**more: Any) -> Approvals:
            return stack.enter_context(closing(Approvals(tmp_path / "approvals.db", **more)))

        yield opens


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """Return the name of an event loop."""
    name: str = request.param
    return name


@pytest.fixture
def approvals(tmp_path: Path) -> Iterator[Approvals]:
    with closing(Approvals(tmp_path / "approvals.db")) as approvals:
        yield approvals


@pytest.fixture
def asking(approvals: Approvals) -> Iterator[Asking]:
    """Callbacks of requests that wait, in a database that other programs open too."""
    with closing(Asking(approvals)) as asking:
        yield asking
