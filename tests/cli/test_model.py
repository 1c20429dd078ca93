"""`hackamore model`: a script as a Messages API on this machine, for any program that starts the real CLI."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import SECONDS, Command, read_until
from tests.cli.conftest import Started
from tests.conftest import RealCLI
from tests.contract import shows
from tests.support.patience import patience

SCRIPT = {"steps": [{"step": "user", "contains": "hello"}, {"step": "says", "text": "Hi."}]}
CLIENT = """
import json, os, sys, urllib.request
body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": sys.argv[1]}],
        "system": "You are Claude Code", "tools": [{"name": "Bash"}]}
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
                                 {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"})
try:
    answer = json.load(urllib.request.urlopen(request))
    print(answer["content"][0]["text"])
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "script.json"
    file.write_text(json.dumps(SCRIPT))
    return str(file)


def client(prompt: str = "hello") -> list[str]:
    return [sys.executable, "-c", CLIENT, prompt]


def test_a_command_that_plays_the_script_passes(hackamore: Command, script: str) -> None:
    ran = hackamore("model", script, "--", *client())
    assert (ran.code, ran.text) == (0, "Hi.\n")
    assert "passed: 1 of 1 steps played" in ran.errors


def test_a_request_that_does_not_fit_fails(hackamore: Command, script: str, tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    ran = hackamore("model", script, "--json", "--junit", str(junit), "--", *client("goodbye"))
    assert ran.code == 1
    status, _, report = ran.text.partition("\n")
    assert status == "418"
    [one] = json.loads(report)["played"]
    assert "the prompt was 'goodbye'" in one["unexpected"][0]
    assert [step["state"] for step in one["steps"]] == ["done"]
    [suite] = ElementTree.fromstring(junit.read_bytes())
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_a_command_without_a_request_gets_a_hint(hackamore: Command, script: str) -> None:
    ran = hackamore("model", script, "--", sys.executable, "-c", "")
    assert ran.code == 1
    assert "The model received no request" in ran.errors


def exported(text: str) -> dict[str, str]:
    return dict(re.findall(r"^export (\w+)='?(.*?)'?$", text, re.MULTILINE))


def test_it_prints_variables_and_serves_until_it_is_played(hackamore: Command, script: str, started: Started) -> None:
    process = started(hackamore.start("model", script, "--until-played"))
    variables = exported(read_until(process, b"CLAUDE_CONFIG_DIR=").decode())
    assert variables["ANTHROPIC_API_KEY"].startswith("sk-ant-")
    done = subprocess.run(client(), env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    assert done.stdout == "Hi.\n"
    assert process.wait(patience(SECONDS)) == 0
    assert process.stdout is not None
    assert b"passed: 1 of 1" in process.stdout.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_reports_at_a_signal(hackamore: Command, script: str, started: Started, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = started(hackamore.start("model", script, "--port", str(port)))
    assert f"ANTHROPIC_BASE_URL=http://127.0.0.1:{port}".encode() in read_until(process, b"CLAUDE_CONFIG_DIR=")
    os.kill(process.pid, number)
    assert process.wait(patience(SECONDS)) == 1
    assert process.stdout is not None
    assert b"FAILED: 0 of 1 steps played" in process.stdout.read()


def test_a_port_that_is_taken_is_a_usage_error(hackamore: Command, script: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = hackamore("model", script, "--port", str(port))
    assert ran.code == 2
    assert f"Port {port} cannot be used: Address already in use" in ran.errors


def test_a_step_of_the_simulated_cli_alone_is_a_usage_error(hackamore: Command, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("from hackamore.testing import Script\nscript = Script().user().crash()\n")
    ran = hackamore("model", str(file), "--", "true")
    assert ran.code == 2
    assert "no model can make the real CLI do this: crash" in ran.errors.replace("\n", " ")


def test_a_python_file_may_define_a_scripted_model(hackamore: Command, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("from hackamore.testing import Reply, ScriptedModel\nscript = ScriptedModel(Reply('Yes.'))\n")
    assert hackamore("model", str(file), "--", *client()).text == "Yes.\n"


@shows("testing.elsewhere.model")
def test_the_real_cli_answers_through_it(hackamore: Command, script: str, real_cli: RealCLI) -> None:
    ran = hackamore("model", script, "--", str(real_cli.cli_path), "-p", "hello", cwd=real_cli.cwd)
    assert (ran.code, ran.text) == (0, "Hi.\n"), ran.errors
