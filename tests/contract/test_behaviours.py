"""Every promise of the manifest has a test that shows it, every test that says so names a promise; and CI insists that they ran."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.evidence import problems
from tests.contract.manifest import PROJECT, areas, declared, promises
from tests.support.patience import patience

DECLARED = declared(PROJECT / "tests")
CLAIMING = "tests/test_errors.py::test_an_exit_code_that_is_not_known_is_not_told"


@pytest.mark.parametrize("name", promises())
def test_a_promise_is_kept_by_a_test(name: str) -> None:
    assert DECLARED.get(name), f"no test says @shows({name!r})"
    assert problems(name, promises()[name], DECLARED[name]) == []


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        (
            "What the CLI says has no control characters.",
            f"{CLAIMING} says nothing about it",
        ),
        ("The exit status of `NoSuchName` is unknown.", "no test names NoSuchName"),
        ("An unknown exit status is told after SIGKILL.", "no test names SIGKILL"),
        ("An unknown exit status is told.", None),
    ],
)
def test_a_claim_without_evidence_is_found(promise: str, said: str | None) -> None:
    assert problems("errors.x", promise, [CLAIMING]) == ([] if said is None else [said])


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_what_a_test_shows_was_promised(name: str) -> None:
    assert name in promises(), f"{DECLARED[name]} show {name!r}, which behaviours.toml does not have"


def test_promises_are_one_sentence_each_and_said_once() -> None:
    texts = list(promises().values())
    assert len(set(texts)) == len(texts)
    for name, text in promises().items():
        assert re.fullmatch(r"[a-z]+(\.[a-z0-9]+(-[a-z0-9]+)*){1,3}", name), name
        assert re.fullmatch(r"[A-Z`].*\.", text, re.DOTALL), text
        assert len(text) < 260, name
    assert len({area.title for area in areas()}) == len(areas())


CONFTEST = """
import sys
from pathlib import Path
sys.path.insert(0, {project!r})
from tests.contract.outcomes import Outcomes

def pytest_configure(config):
    config.addinivalue_line("markers", "shows: what it shows")
    config.pluginmanager.register(Outcomes(Path({folder!r})))
"""
TESTS = """
import os
import pytest

def shows(*names):
    return pytest.mark.shows(*names)

@shows("a.b")
@pytest.mark.parametrize("number", range(3))
def test_one(number):
    pass

@shows("a.c", "a.d")
def test_two():
    if os.environ.get("SKIP"):
        pytest.skip("not today")
"""


# Each starts an interpreter, with xdist two of them; beside other tests on a small machine that has taken over half a minute.
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("arguments", "env", "code"),
    [
        ([], {"HACKAMORE_CI": "1"}, 0),
        ([], {"HACKAMORE_CI": "1", "SKIP": "1"}, 1),
        ([], {"SKIP": "1"}, 0),
        (["-k", "one"], {"HACKAMORE_CI": "1"}, 0),
        (["inner/test_inner.py"], {"HACKAMORE_CI": "1", "SKIP": "1"}, 0),
        (["-n", "2"], {"HACKAMORE_CI": "1"}, 0),
        (["-n", "1"], {"HACKAMORE_CI": "1", "SKIP": "1"}, 1),
    ],
)
def test_ci_insists_that_they_ran(arguments: list[str], env: dict[str, str], code: int, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = inner\n")
    (tmp_path / "inner").mkdir()
    inner = {"project": str(PROJECT), "folder": str(tmp_path / "inner")}
    (tmp_path / "inner" / "conftest.py").write_text(CONFTEST.format(**inner))
    (tmp_path / "inner" / "test_inner.py").write_text(TESTS)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "HACKAMORE_CI"))}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they take a second to load, and have nothing to do with it
    xdist = ["-p", "xdist"] if "-n" in arguments else []
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *xdist, *arguments],
        cwd=tmp_path,
        env={**environment, **env},
        capture_output=True,
        text=True,
        timeout=patience(170),
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    told = "a.c: inner/test_inner.py::test_two did not run" in ran.stdout
    assert told is (code == 1), ran.stdout
