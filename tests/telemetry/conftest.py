"""Fixtures for telemetry: an SDK in memory, and every shell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.session_fixtures import leaves_nothing, playing, shell
from tests.telemetry.collecting import Collected

__all__ = ["leaves_nothing", "playing", "shell"]


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture(autouse=True)
def raises_nothing(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    records = caplog.get_records("call")  # `caplog.records` are those of this phase
    assert not [record for record in records if "`telemetry` (" in record.getMessage()]
