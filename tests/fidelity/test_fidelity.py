"""The same scripts on the simulated CLI and on the real one: the same frames, but for what is listed in `differences.py`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.fidelity.case import Case
from tests.fidelity.cases import CASES
from tests.fidelity.driving import ISOLATED, play, real_options
from tests.fidelity.frames import Rules, compare

if TYPE_CHECKING:
    from pathlib import Path

    from hackamore import Options


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all runs of this process: making it anew each time would cost as much as the run."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def real(home: Path, claude_path: str) -> Options:
    return real_options(claude_path, home)


class Reports:
    """The new fields that a test of this run has reported: each field fails one test, and not all of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_new(self, name: str) -> bool:
        try:
            (self._folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """One folder for all worker processes of a run."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "new-fields"
    folder.mkdir(exist_ok=True)
    return Reports(folder)


RUNS = 3
"""Chance orders some frames of the real CLI: one of its runs has to agree."""


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_both_send_the_same(case: Case, real: Options, home: Path, tmp_path: Path, reports: Reports) -> None:
    simulated = play(case, made(tmp_path / "simulated"), ISOLATED, how="memory", home=home)
    for attempt in range(RUNS):
        real_one = play(case, made(tmp_path / f"real{attempt}"), real, how="real", home=home)
        found = compare(real_one, simulated, Rules(case.but, case.lacks))
        if not found.differences:
            break
    new = [name for name in sorted(found.new_fields) if reports.is_new(name)]
    assert not new, f"a new version sends fields that no message class has: {', '.join(new)}"
    assert not found.differences, "\n".join(found.differences)


PROGRAMS = [
    "one turn",
    "one-shot with a tool",
    "one-shot with an unknown flag",
    "every hook of a tool of this process",
    "denied by the host",
    "interrupted at a question",
    "resumed",
    "every other control operation",
]


@pytest.mark.parametrize("name", PROGRAMS, ids=lambda name: name.replace(" ", "-"))
def test_the_program_sends_what_is_sent_in_memory(name: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == name)
    memory = play(case, made(tmp_path / "memory"), ISOLATED, how="memory", home=tmp_path / "home")
    program = play(case, made(tmp_path / "work"), ISOLATED, how="program", home=tmp_path / "home")
    rules = Rules({"answers/initialize.response.response.pid": "is the one of the process"}, {}, exact=True)
    assert compare(memory, program, rules).differences == []
