"""Fixtures for scenarios that run on every shell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hackamore import Options
from tests.support import stand_in
from tests.support.leaks import nothing_left
from tests.support.programs import program
from tests.support.shell import Backend, Shell

StandIn = Callable[..., Options]


@pytest.fixture(params=["asyncio", "trio", "threads"])
def shell(request: pytest.FixtureRequest) -> Shell:
    backend: Backend = request.param
    return Shell(backend)


@pytest.fixture
def stand_in_path(tmp_path: Path) -> str:
    """The stand-in CLI as an executable."""
    return str(program(tmp_path / "claude", stand_in))


@pytest.fixture
def playing(stand_in_path: str) -> StandIn:
    """Return a function that gives the options for a stand-in CLI which plays these steps."""

    def options(*steps: list[Any], **more: Any) -> Options:
        environment = {"STAND_IN_STEPS": json.dumps(steps), **more.pop("env", {})}
        return Options(**{"cli_path": stand_in_path, "env": environment, "version_check": "skip", **more})

    return options


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    with nothing_left():
        yield
