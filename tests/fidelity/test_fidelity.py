"""The same scripts on the simulated CLI and on the real one: the same frames, but for what is listed in `differences.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bridle import Options
from bridle.testing.model_environment import isolated_environment
from tests.fidelity.cases import CASES, Case
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


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_both_send_the_same(case: Case, real_options: Options, home: Path, tmp_path: Path) -> None:
    recordings = []
    for real in (False, True):
        folder = tmp_path / ("real" if real else "simulated")
        folder.mkdir()
        options = real_options if real else Options(env={}, inherit_env=False)
        recordings.append(play(case, folder, options, real=real, home=home))
    simulated, real_one = recordings
    found = differences(real_one.frames(), simulated.frames(), case.but)
    if real_one.exit_code != simulated.exit_code:
        found.append(f"exit codes: {real_one.exit_code} and {simulated.exit_code}")
    assert not found, "\n".join(found)
