"""The tiers of the suite, the limits that grow with the load, and the tests that mutation runs."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from tests.support import tiers
from tests.support.patience import factor, patience
from tests.support.tiers import Described, left_out, of_other_seeds, on_another_shell, reason

PROJECT = Path(__file__).resolve().parents[2]
TESTS = PROJECT / "tests"
NAMED = (
    *tiers.CORE,
    *tiers.LONG,
    *tiers.ON_EVERY_SHELL,
    *tiers.MAIN_PATHS,
    *tiers.REAL_ON_EVERY_SHELL,
    *tiers.AT_RANDOM,
    *tiers.NODE,
    *tiers.SLOW,
)


@pytest.mark.parametrize("name", NAMED)
def test_a_rule_names_tests_that_there_are(name: str) -> None:
    place, _, test = name.partition("::")
    named = [path for path in TESTS.rglob("test_*.py") if path.relative_to(TESTS).as_posix().startswith(place)]
    assert any(f"def {test}" in path.read_text(encoding="utf-8") for path in named)


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
        (Described("cli/test_real_cli.py", None, real_cli=True, name="test_demo_interrupted[here]"), False),
        (Described("cli/test_real_cli.py", None, real_cli=True, name="test_demo[True]"), True),
    ],
)
def test_the_quick_tier(test: Described, runs: bool) -> None:
    assert (left_out(test) is None) is runs


def test_tests_run_on_one_shell_or_two_and_those_about_shells_on_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HACKAMORE_TEST_THOROUGH", raising=False)

    def shells(path: str, name: str, *, real_cli: bool = True) -> list[str]:
        variants = [Described(path, shell, real_cli, name) for shell in ("asyncio", "trio", "threads")]
        return [test.shell or "" for test in variants if reason(test, quick=False) is None]

    names = [f"test_{number}[]" for number in range(50)]
    chosen = [shells("real_cli/test_one_shot.py", name) for name in names]
    assert {len(some) for some in chosen} == {1}
    assert {some[0] for some in chosen} == {"asyncio", "trio", "threads"}
    assert len(shells("real_cli/test_sessions.py", "test_a[]")) == 3
    chosen = [shells("session/test_life.py", name, real_cli=False) for name in names]
    assert {tuple(some) for some in chosen} == {("asyncio", "trio"), ("asyncio", "threads")}
    assert len(shells("queries/test_one_shot.py", "test_a[]", real_cli=False)) == 3
    assert not on_another_shell(Described("cli/test_real_cli.py", None, True, "test_a"))
    monkeypatch.setenv("HACKAMORE_TEST_THOROUGH", "1")
    assert len(shells("real_cli/test_one_shot.py", "test_a[]")) == 3


def test_another_seed_runs_the_other_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HACKAMORE_TEST_THOROUGH", raising=False)
    tests = [
        Described("fidelity/test_fidelity.py", None, True, f"test_both_send_the_same[{number}]")
        for number in range(100)
    ]

    def run(seed: int) -> set[str]:
        monkeypatch.setattr(tiers, "SEED", seed)
        return {test.name for test in [*tests, alone, quick]} - {
            test.name for test in of_other_seeds([*tests, alone, quick])
        }

    alone = Described("fleet/test_story.py", None, True, "test_one")
    quick = Described("session/test_life.py", "asyncio", False, "test_quick[1]")
    runs = [run(seed) for seed in range(1, 25)]
    assert {len(names) for names in runs} == {52}
    assert all({"test_one", "test_quick[1]"} <= names for names in runs)
    assert len(set().union(*runs)) == 102
    monkeypatch.setenv("HACKAMORE_TEST_THOROUGH", "1")
    assert len(run(1)) == 102


def test_limits_grow_with_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patience(2) >= 2
    monkeypatch.setattr(os, "getloadavg", lambda: (20.0 * 256, 0.0, 0.0))
    assert factor() >= 20


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("_engine/protocol/framing.py", "tests/protocol"),
        ("transports/process/child.py", "tests/transports/process"),
        ("testing/simulation", "tests/testing/simulation"),
        ("errors.py", "tests/test_errors.py"),
    ],
)
def test_mutation_runs_the_tests_of_the_same_folder(path: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("mutate_under_test", PROJECT / "scripts" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, script)  # dataclasses look for their module
    spec.loader.exec_module(script)
    assert script.tests_of(PROJECT / "src" / "hackamore" / path)[0] == expected
    assert all((PROJECT / test).exists() for tests in script.MORE_TESTS.values() for test in tests)
    assert all((PROJECT / test).exists() for test in script.NOT_HERE)
