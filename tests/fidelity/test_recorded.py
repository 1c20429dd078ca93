"""The simulated CLI sends what it sent when it was last compared with the real one; this needs no real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fidelity.recorded import EVERY_CASE, lines, read

if TYPE_CHECKING:
    from pathlib import Path

KINDS, RECORDED = read()
WRITE = "if the change is meant, and both CLIs still agree (tests/fidelity): `python -m tests.fidelity.recorded`"


@pytest.mark.parametrize("name", EVERY_CASE, ids=lambda name: name[:60].replace(" ", "-"))
def test_nothing_changes_unnoticed(name: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    assert lines(name, work, dict(KINDS)) == RECORDED[name], WRITE


def test_no_case_is_left_over() -> None:
    assert list(RECORDED) == list(EVERY_CASE), WRITE
