"""Fixtures of tests of AG-UI: the event loops, and pools of simulated CLIs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from hackamore import Options, SessionPool
from hackamore.serving import agui
from hackamore.testing import Script, SimulatedCLI
from tests.real_cli.conftest import driving
from tests.serving.agui.calling import Client
from tests.support.leaks import nothing_left
from tests.support.patience import patience

__all__ = ["driving"]

Serve = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    """Fail tests that leave a process, a thread or a descriptor."""
    with nothing_left():
        yield


@pytest.fixture
def serve() -> Serve:
    """Return a function that serves a script, which each conversation plays from its beginning."""

    @asynccontextmanager
    async def serving(script: Script, *, pool: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[Client]:
        options = Options(**{"include_partial_messages": True, **(pool or {}).get("options", {})})
        cli = SimulatedCLI(script, per_session=True)  # streams are looked at, not whether a script came to its end
        given = {"warm": 0, "timeout": patience(20), **(pool or {}), "options": options}
        async with SessionPool(transport=cli, **given) as sessions:
            yield Client(agui.app(sessions, **more))

    return serving
