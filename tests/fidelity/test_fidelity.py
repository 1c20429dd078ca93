"""The same scripts on the simulated CLI and on the real one: the same frames, but for what is listed in `differences.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bridle import Options
from bridle.testing.model.environment import isolated_environment
from tests.fidelity.case import Case
from tests.fidelity.cases import CASES
from tests.fidelity.driving import play
from tests.fidelity.frames import differences

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all runs of this process: making it anew each time would cost as much as the run."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def real_options(home: Path, claude_path: str) -> Options:
    environment = {name: value for name, value in isolated_environment("", home).items() if value is not None}
    environment |= {"LANG": "C.UTF-8", "IS_SANDBOX": "1", "PATH": "/usr/bin:/bin"}
    return Options(cli_path=claude_path, env=environment, inherit_env=False, version_check="skip")


ISOLATED = Options(env={"PATH": "/usr/bin:/bin"}, inherit_env=False)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_both_send_the_same(case: Case, real_options: Options, home: Path, tmp_path: Path) -> None:
    simulated = play(case, made(tmp_path / "simulated"), ISOLATED, how="memory", home=home)
    real_one = play(case, made(tmp_path / "real"), real_options, how="real", home=home)
    found = differences(real_one.frames(), simulated.frames(), case.but)
    if real_one.exit_code != simulated.exit_code:
        found.append(f"exit codes: {real_one.exit_code} and {simulated.exit_code}")
    assert not found, "\n".join(found)


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
    for one, other in zip(memory.frames(), program.frames(), strict=True):
        assert {**one, "response": None} == {**other, "response": None} or "pid" in str(one)
    assert memory.exit_code == program.exit_code
