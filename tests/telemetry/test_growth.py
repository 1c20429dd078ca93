"""A program that makes a `Telemetry` for each query keeps nothing of it: with and without an SDK."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from hackamore import Options, Telemetry
from hackamore._engine.queries.plain import PlainQuery
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable

RESULT = b'{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"x","num_turns":1}\n'


def play(telemetry: Telemetry) -> None:
    query = PlainQuery(Options(telemetry=telemetry))
    query.observed("hi", Options())
    query.begin(0.0)
    query.receive_data(RESULT, 0.0)
    query.receive_eof(0.0)
    query.process_exited(0, b"")


def growth(make: Callable[[], Telemetry], queries: int) -> Counter[str]:
    """Return how many objects of each type the queries leave behind."""

    def objects() -> Counter[str]:
        gc.collect()
        return Counter(type(value).__name__ for value in gc.get_objects())

    for _ in range(10):
        play(make())
    before = objects()
    for _ in range(queries):
        play(make())
    return objects() - before


def without_sdk() -> None:
    left = growth(Telemetry, 100)
    assert max(left.values(), default=0) < 50, left


def test_queries_with_a_telemetry_each_keep_nothing_without_an_sdk() -> None:
    """In a process of its own: other tests may have configured a global provider."""
    code = "from tests.telemetry.test_growth import without_sdk; without_sdk()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=patience(60), check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shared", [True, False])
def test_queries_with_a_telemetry_each_keep_nothing_with_an_sdk(*, shared: bool) -> None:
    tracers, meters = TracerProvider(), MeterProvider()
    one = Telemetry(tracers, meters)
    left = growth(lambda: one if shared else Telemetry(tracers, meters), 100)
    assert max(left.values(), default=0) < 50, left
    meters.shutdown()
    tracers.shutdown()
