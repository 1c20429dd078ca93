"""The fit of `./dev bench --growth`, on curves whose exponents are known."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import pytest

SIZES = [100, 200, 400, 800]


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2] / "bench"), *sys.path])
    return importlib.import_module("growth")


@pytest.mark.parametrize(
    ("cost", "exponent"),
    [(lambda n: 3e-6 * n, 1.0), (lambda n: 1e-9 * n * n, 2.0), (lambda _: 0.5, 0.0)],
    ids=["linear", "square", "constant"],
)
def test_the_exponent_of_a_curve(growth: Any, cost: Any, exponent: float) -> None:
    curve = growth.fit(SIZES, [cost(size) for size in SIZES])
    assert curve.exponent == pytest.approx(exponent)
    assert curve.constant * 400**exponent == pytest.approx(cost(400))


def test_what_counts_as_flat(growth: Any) -> None:
    noise = (1.0, 1.15, 0.9, 1.1)
    flat = growth.fit(SIZES, [size * factor for size, factor in zip(SIZES, noise, strict=True)])
    sorts = growth.fit(SIZES, [size * math.log(size) for size in SIZES])
    bends = growth.fit(SIZES, [size**1.5 * factor for size, factor in zip(SIZES, noise, strict=True)])
    assert flat.exponent < sorts.exponent < growth.MOST < bends.exponent


def test_every_row_has_its_function(growth: Any) -> None:
    assert set(growth.ROWS) == set(growth.FUNCTIONS)


def test_a_cost_that_grows_fails(
    growth: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        growth, "ROWS", {"bent": growth.Row("pool", "unit", 10, 10), "flat": growth.Row("pool", "unit", 10, 10)}
    )
    monkeypatch.setattr(growth, "FUNCTIONS", {"bent": lambda n: 1e-6 * n, "flat": lambda _: 1e-6})
    monkeypatch.setattr(sys, "argv", ["growth.py", "--short"])
    assert growth.main() == 1
    shown = capsys.readouterr()
    assert "bent" in shown.err
    assert "flat" not in shown.err
    assert [line.split()[-1] for line in shown.out.splitlines() if line.startswith("bent")] == ["ABOVE"]
