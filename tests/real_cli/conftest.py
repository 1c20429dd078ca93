"""Fixtures for scenarios on the real CLI: the shells of `tests/support`, the isolation of `tests/conftest.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Options
from tests.support.query_fixtures import leaves_nothing, shell

if TYPE_CHECKING:
    from hackamore.testing import ScriptedModel
    from tests.conftest import RealCLI

__all__ = ["leaves_nothing", "shell"]

Driving = Callable[..., Options]


@pytest.fixture
def driving(real_cli: RealCLI) -> Driving:
    """Return a function that gives the options for the real CLI, isolated, against a scripted model."""

    def options(model: ScriptedModel, **more: Any) -> Options:
        environment = {**real_cli.env(model), **more.pop("env", {})}
        return Options(
            **{"cli_path": real_cli.cli_path, "cwd": real_cli.cwd, "env": environment, "inherit_env": False, **more}
        )

    return options
