"""The tiers of the suite, the limits that grow with the load, and the tests that mutation runs."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.support import tiers
from tests.support.patience import factor, patience
from tests.support.tiers import Described, left_out

PROJECT = Path(__file__).resolve().parents[2]
TESTS = PROJECT / "tests"
NAMED = (*tiers.CORE, *tiers.ON_EVERY_SHELL, *tiers.MAIN_PATHS, *tiers.AT_RANDOM, *tiers.SLOW)


@pytest.mark.parametrize("name", NAMED)
def test_a_rule_names_tests_that_there_are(name: str) -> None:
    assert [path for path in TESTS.rglob("test_*.py") if path.relative_to(TESTS).as_posix().startswith(name)]


@pytest.mark.parametrize(
    ("test", "runs"),
    [
        (Described("session/test_life.py", "asyncio", real_cli=False), True),
        (Described("session/test_life.py", "trio", real_cli=False), False),
        (Described("contract/test_asked.py", "threads", real_cli=False), True),
        (Described("real_cli/test_sessions.py", "asyncio", real_cli=True), True),
        (Described("real_cli/test_sessions.py", "trio", real_cli=True), False),
        (Described("real_cli/test_endings.py", "asyncio", real_cli=True), False),
        (Described("fidelity/test_page.py", None, real_cli=False), False),
    ],
)
def test_the_quick_tier(test: Described, runs: bool) -> None:
    assert (left_out(test) is None) is runs


def test_limits_grow_with_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patience(2) >= 2
    monkeypatch.setattr(os, "getloadavg", lambda: (20.0 * 256, 0.0, 0.0))
    assert factor() >= 20


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("protocol/framing.py", "tests/protocol"),
        ("transports/process/child.py", "tests/transports/process"),
        ("testing/simulation", "tests/testing/simulation"),
        ("errors.py", "tests/test_errors.py"),
    ],
)
def test_mutation_runs_the_tests_of_the_same_folder(path: str, expected: str) -> None:
    spec = importlib.util.spec_from_file_location("mutate_under_test", PROJECT / "scripts" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.tests_of(PROJECT / "src" / "bridle" / path)[0] == expected
    assert all((PROJECT / test).exists() for tests in script.MORE_TESTS.values() for test in tests)
    assert all((PROJECT / test).exists() for test in script.NOT_HERE)
