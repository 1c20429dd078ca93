"""Fixtures for scenarios of sessions that run on every shell, against a stand-in CLI."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hackamore import Options
from tests.support import stand_in_session
from tests.support.programs import program
from tests.support.query_fixtures import leaves_nothing, shell

__all__ = ["leaves_nothing", "shell"]

StandIn = Callable[..., Options]


@pytest.fixture
def playing(tmp_path: Path) -> StandIn:
    """Return a function that gives the options for a stand-in CLI which begins with these steps."""
    path = program(tmp_path / "claude", stand_in_session)

    def options(*steps: list[Any], **more: Any) -> Options:
        environment = {"STAND_IN_START": json.dumps(steps), **more.pop("env", {})}
        return Options(**{"cli_path": str(path), "env": environment, "version_check": "skip", **more})

    return options
