"""The report on a script: as an object, as text, as JSON and as JUnit XML."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

import hackamore.sync
from hackamore import Options
from hackamore.testing import Script, SimulatedCLI
from hackamore.testing.script.report import PlayReport
from tests.support.patience import patience

PLAYED = Script().user("hi").calls("Bash", {"command": "ls"}, result="a").expect_result("a").says("One \x1b file.")


def report_of(script: Script, *prompts: str) -> PlayReport:
    cli = SimulatedCLI(script)
    for prompt in prompts:
        hackamore.sync.run(prompt, transport=cli, check=False)
    return cli.report()


def test_all_is_well() -> None:
    report = report_of(PLAYED, "hi")
    assert report.ok
    assert report.to_text() == "passed: 4 of 4 steps played"
    assert [step.state for one in report.played for step in one.steps] == ["done"] * 4
    assert json.loads(report.to_json())["ok"] is True


def test_steps_that_fail_have_a_reason() -> None:
    script = Script().user("hi").calls("Bash", result="a").expect_permission("Bash").says("x").user("two").crash()
    report = report_of(script, "hi")
    assert not report.ok
    [one] = report.played
    assert [step.state for step in one.steps] == ["done", "done", "unmet", "done", "open", "optional"]
    assert str(one.steps[2].problem).startswith('there was the result "Claude requested')
    assert one.unexpected == ()
    assert "\n  1 step was never reached\nThe script" in report.to_text()
    assert "[   unmet] expect_permission 'Bash'" in report.to_text()


def test_a_step_before_which_the_turn_ended_is_missed() -> None:
    report = report_of(Script().user("hi").api_error(500).says("x"), "hi")
    assert [step.state for step in report.played[0].steps] == ["done", "done", "missed"]
    assert "[  missed] says 'x'" in report.to_text()


def test_what_is_not_in_the_script_is_unexpected() -> None:
    report = report_of(PLAYED, "ho")
    assert any("'ho'" in line for line in report.played[0].unexpected)


@pytest.mark.parametrize("prompt", ["hi", "ho"])
def test_junit_counts_what_it_lists(prompt: str) -> None:
    root = ElementTree.fromstring(report_of(PLAYED, prompt).to_junit("agent.toml"))
    [suite] = root
    assert suite.get("name") == "agent.toml"
    assert int(suite.get("tests", "")) == len(suite) == 5
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure")) == (0 if prompt == "hi" else 5)
    assert suite[0].get("name") == "1 user 'hi'"


def test_another_process_reports_on_an_installed_program(tmp_path: Path) -> None:
    program = SimulatedCLI(PLAYED).install(tmp_path / "cli")
    assert not SimulatedCLI.installed(tmp_path / "cli").report().ok
    hackamore.sync.run("hi", Options(cli_path=program))
    report = SimulatedCLI.installed(tmp_path / "cli").report()
    assert report.ok
    assert report.processes == 1


def test_each_session_is_a_suite(tmp_path: Path) -> None:
    program = SimulatedCLI(PLAYED, per_session=True).install(tmp_path / "cli")
    for _ in range(2):
        hackamore.sync.run("hi", Options(cli_path=program))
    subprocess.run([program, "--version"], check=True, timeout=patience(30), stdout=subprocess.DEVNULL)
    report = SimulatedCLI.installed(tmp_path / "cli").report()
    assert report.ok
    assert report.processes == 2
    names = [suite.get("name") for suite in ElementTree.fromstring(report.to_junit("a"))]
    assert sorted(name or "" for name in names) == [f"a [{one.name}]" for one in sorted(report.played, key=str)]


def test_a_model_reports_in_the_same_form() -> None:
    model = PLAYED.model()
    with pytest.raises(AssertionError), model:
        pass
    report = model.report()
    assert not report.ok
    assert not model.finished
    assert [step.state for step in report.played[0].steps] == ["open", "open"]
