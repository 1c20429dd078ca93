"""`FleetDisplay` shows a run of a fleet from Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hackamore.cli import FleetDisplay
from hackamore.fleet import Fleet, Task
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows


@shows("fleet.display")
def test_a_run_in_a_pipe_is_shown_in_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedCLI(Script().user().says("Done."), per_session=True) as cli:
        fleet = Fleet(tmp_path / "j.db", transport=cli)
        with fleet.run([Task("a", "Do a."), Task("b", "Do b.")]) as run, FleetDisplay(run, budget=5) as display:
            for event in run:
                display.show(event)
        display.finish(fleet.results())
        fleet.close()
    shown = capsys.readouterr()
    assert sorted(line.split("\t")[:3] for line in shown.out.splitlines()) == [
        ["succeeded", "a", "1"],
        ["succeeded", "b", "1"],
    ]
    assert "2 tasks: 2 succeeded" in shown.err


def test_without_its_packages_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['rich'] = None; from hackamore.cli import FleetDisplay"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'hackamore[cli]'" in done.stderr.splitlines()[-1]
