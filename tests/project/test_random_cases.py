"""Tests at random: their seeds, the share of cases that reaches something, and the storms that `./dev storm` runs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.patience import patience
from tests.support.reaching import reached, reaching

PROJECT = Path(__file__).resolve().parents[2]


def seed(**variables: str) -> int:
    """Return the seed of a run with these variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HACKAMORE_")} | variables
    command = [sys.executable, "-c", "from tests.support.seeds import SEED; print(SEED)"]
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True, timeout=patience(30)
    )
    return int(done.stdout)


def test_each_run_in_ci_has_another_seed_and_a_variable_repeats_it() -> None:
    assert seed() == seed() == 0
    first, second = seed(HACKAMORE_CI="1"), seed(HACKAMORE_CI="1")
    assert first
    assert first != second or first != seed(HACKAMORE_CI="1")
    assert seed(HACKAMORE_CI="1", HACKAMORE_TEST_SEED="7") == seed(HACKAMORE_TEST_SEED="7") == 7


def property_of(share: float) -> Callable[[], None]:
    @reaching
    @settings(max_examples=100, database=None, phases=[Phase.generate])
    @given(st.integers())
    def check(_: int) -> None:
        cases.append(None)
        if len(cases) % 10 < share * 10:
            reached()

    cases: list[None] = []
    return check


def test_a_property_test_that_reaches_too_little_fails() -> None:
    property_of(0.4)()
    for share in (0.0, 0.3):
        with pytest.raises(AssertionError, match="of 100 cases pass the first check"):
            property_of(share)()


def test_every_storm_of_dev_storm_has_its_tests() -> None:
    listed = subprocess.run(
        [sys.executable, "scripts/storm.py", "--list"],
        cwd=PROJECT, capture_output=True, text=True, check=True, timeout=patience(30),
    )  # fmt: skip
    tree = ast.parse((PROJECT / "scripts" / "storm.py").read_text())
    [storms] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STORMS"
    ]
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(storms)
    for _, paths in storms.values():
        for path in paths:
            file, _, name = path.partition("::")
            assert f"def {name or 'test_'}" in (PROJECT / "tests" / file).read_text(), path
