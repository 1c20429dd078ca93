"""The page about the simulated CLI says what the suite shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hackamore.testing import Script
from tests.fidelity.cases import CASES
from tests.fidelity.differences import DIFFERENT_VALUES, ONLY_REAL, SHAPE_ONLY
from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parents[2]


def test_the_page_is_current() -> None:
    subprocess.run([sys.executable, str(PROJECT / "scripts" / "simulator_page.py")], check=True, timeout=patience(60))


def test_every_step_is_in_the_page() -> None:
    pages = ("reference/script-steps.md", "guides/testing/simulated-cli.md")
    page = "".join((PROJECT / "docs" / name).read_text(encoding="utf-8") for name in pages)
    steps = {name for name, value in vars(Script).items() if callable(value) and not name.startswith("_")}
    others = {"add", "check", "describe", "from_json", "load", "model", "save", "to_json"}
    assert [name for name in sorted(steps - others) if f"`{name}(" not in page and f"`{name}`" not in page] == []


def test_there_are_enough_scripts_and_every_exception_has_a_reason() -> None:
    assert len(CASES) >= 60
    for table in (DIFFERENT_VALUES, ONLY_REAL, SHAPE_ONLY, *(case.but for case in CASES)):
        assert all(reason for reason in table.values())
