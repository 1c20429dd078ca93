"""`hackamore simulate`: a script as a program for clients in any language, and the report on it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import SECONDS, Command, read_until
from tests.cli.conftest import Started
from tests.contract import shows
from tests.support.patience import patience

SCRIPT = """
[[steps]]
step = "user"
text = "hello"

[[steps]]
step = "says"
text = "Hi."
"""
CLIENT = """
import json, os, subprocess, sys
program = os.environ["HACKAMORE_SIMULATED_CLI"]
arguments = ["-p", sys.argv[1], "--output-format", "stream-json", "--verbose"]
done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
print(json.loads(done.stdout.splitlines()[-1]).get("result"))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "script.toml"
    file.write_text(SCRIPT)
    return str(file)


def client(prompt: str = "hello", more: str = "") -> list[str]:
    return ["--", sys.executable, "-c", CLIENT + more, prompt]


@shows("testing.elsewhere.command")
def test_a_command_that_plays_the_script_passes(hackamore: Command, script: str) -> None:
    ran = hackamore("simulate", script, *client())
    assert (ran.code, ran.text) == (0, "Hi.\n")
    assert "passed: 2 of 2 steps played" in ran.errors


@shows("testing.elsewhere.command")
def test_a_script_that_is_not_played_fails(hackamore: Command, script: str) -> None:
    ran = hackamore("simulate", script, *client("goodbye"))
    assert ran.code == 1
    assert "'goodbye'" in ran.errors
    assert "FAILED" in ran.errors


@shows("testing.elsewhere.command")
def test_the_exit_code_of_the_command_comes_first(hackamore: Command, script: str) -> None:
    assert hackamore("simulate", script, *client(more="sys.exit(7)")).code == 7
    assert hackamore("simulate", script, *client(more="os.kill(os.getpid(), 15)")).code == 143


def test_a_client_that_starts_another_cli_gets_a_hint(hackamore: Command, script: str) -> None:
    ran = hackamore("simulate", script, "--", sys.executable, "-c", "")
    assert ran.code == 1
    assert "The simulated CLI was not started" in ran.errors
    assert "pathToClaudeCodeExecutable" in ran.errors


@shows("testing.elsewhere.no-login")
def test_the_command_finds_the_simulated_cli_and_no_model(hackamore: Command, script: str) -> None:
    code = "import os, json, shutil; print(json.dumps([shutil.which('claude'), dict(os.environ)]))"
    secret = {
        "ANTHROPIC_API_KEY": "sk-ant-real",
        "ANTHROPIC_AUTH_TOKEN": "x",
        "NO_PROXY": "corp",
        "NODE_OPTIONS": "--a",
    }
    ran = hackamore("simulate", script, "--", sys.executable, "-c", code, env={**secret, "ANTHROPIC_MODEL": "opus"})
    found, environment = json.loads(ran.text)
    assert found == environment["HACKAMORE_SIMULATED_CLI"]
    assert environment["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1:")
    assert environment["ANTHROPIC_API_KEY"] != "sk-ant-real"
    assert (environment["ANTHROPIC_AUTH_TOKEN"], environment["NO_PROXY"]) == ("", "127.0.0.1,localhost,corp")
    assert environment["NODE_OPTIONS"] == "--a"
    assert "ANTHROPIC_MODEL" not in environment
    assert environment["HOME"] == hackamore.environment["HOME"]
    assert not Path(found).exists()
    assert not Path(environment["CLAUDE_CONFIG_DIR"]).exists()


@shows("testing.elsewhere.install")
def test_install_and_check_are_separate_steps(hackamore: Command, script: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "cli")
    ran = hackamore("simulate", script, "--install", folder)
    assert (ran.code, ran.text) == (0, f"{folder}/claude\n")
    before = hackamore("simulate", "--check", folder)
    assert before.code == 1
    assert "was not started" in before.errors
    hackamore("simulate", script, *client(), env={})
    program = [sys.executable, "-c", CLIENT, "hello"]
    assert hackamore("simulate", script, "--install", folder, "--", *program).code == 0
    after = hackamore("simulate", "--check", folder)
    assert (after.code, after.text) == (0, "passed: 2 of 2 steps played\n")
    assert hackamore("simulate", script, "--install", folder).code == 0
    assert hackamore("simulate", "--check", folder).code == 1


@pytest.mark.parametrize("prompt", ["hello", "goodbye"])
@shows("testing.elsewhere.reports")
def test_reports_for_programs(hackamore: Command, script: str, tmp_path: Path, prompt: str) -> None:
    junit, report = tmp_path / "report.xml", tmp_path / "report.json"
    ran = hackamore("simulate", script, "--json", "-o", str(report), "--junit", str(junit), *client(prompt))
    found = json.loads(report.read_bytes())
    [suite] = ElementTree.fromstring(junit.read_bytes())
    assert found["ok"] is (ran.code == 0) is (prompt == "hello")
    assert (suite.get("name"), suite.get("failures") == "0") == ("script.toml", prompt == "hello")
    assert found["processes"] == 1


def test_each_session_plays_the_script_from_its_start(hackamore: Command, script: str) -> None:
    twice = client(more="subprocess.run([program, *arguments], stdin=subprocess.DEVNULL)")
    assert hackamore("simulate", script, "--per-session", *twice).code == 0
    assert hackamore("simulate", script, *twice).code == 1


def test_a_script_in_python(hackamore: Command, tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("ANSWER = 'Hi.'")
    file = tmp_path / "script.py"
    file.write_text(
        "from hackamore.testing import Script\nimport words\nscript = Script().user('hello').says(words.ANSWER)\n"
    )
    assert hackamore("simulate", str(file), *client()).text == "Hi.\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", '[[steps]]\nstep = "usr"', "a.toml: steps[0]: there is no step `usr`. Did you mean `user`?"),
        ("a.json", "{", "a.json: this is not valid JSON: "),
        ("a.py", "x = 1\nraise KeyError('y')", "a.py:2: KeyError: 'y'"),
        ("a.py", "x = (", "a.py:1: SyntaxError: "),
        ("a.py", "scripts = 1", "a.py: the module must define `script`. Did you mean `scripts`?"),
        ("a.py", "script = 1", "a.py: `script` must be a Script, not int"),
        ("a.yaml", "", "its name must end in one of .json, .toml, .py."),
    ],
)
def test_a_wrong_script_is_a_usage_error(
    hackamore: Command, tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    ran = hackamore("simulate", str(tmp_path / name), *client())
    assert (ran.code, ran.text) == (2, "")
    assert message in ran.errors.replace("\n", " ")
    assert "Traceback" not in ran.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "There is no script."),
        (["SCRIPT"], "There is nothing to do with"),
        (["missing.toml", "--", "true"], "missing.toml cannot be read: No such file"),
        (["SCRIPT", "--check", "x"], "takes neither"),
        (["--check", "missing"], "missing has no simulated CLI"),
        (["SCRIPT", "--time-scale", "-1", "--", "true"], "must be at least 0, got -1.0"),
        (["SCRIPT", "--", "no-such-program"], "no-such-program cannot be started: No such file"),
        (["SCRIPT", "--install", "FOLDER"], "has other files"),
        (["SCRIPT", "--junit", "/dev/null/x.xml", "--", "true"], "/dev/null/x.xml cannot be written"),
    ],
)
def test_usage_errors(hackamore: Command, script: str, arguments: list[str], message: str) -> None:
    places = {"SCRIPT": script, "FOLDER": str(Path(script).parent)}
    ran = hackamore("simulate", *(places.get(one, one) for one in arguments))
    assert ran.code == 2
    assert message in ran.errors.replace("\n", " ")


def test_a_signal_reaches_the_command_and_the_report_follows(hackamore: Command, script: str, started: Started) -> None:
    code = "import signal; print('ready', flush=True); signal.pause()"
    process = started(hackamore.start("simulate", script, "--", sys.executable, "-c", code))
    read_until(process, b"ready")
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(patience(SECONDS)) == 143
    assert process.stderr is not None
    assert b"FAILED: 0 of 2" in process.stderr.read()


ODD_STARTS = """
import os, subprocess, sys
program = os.environ["HACKAMORE_SIMULATED_CLI"]
arguments = [program, "-p", b"hello \\xff", "--name", b"\\xff"]
empty = subprocess.DEVNULL
done = subprocess.run(["/bin/sh", "-c", '"$@" <&-', "sh", *arguments], stdout=subprocess.PIPE)
print(done.returncode, done.stdout)
with open("/dev/full", "wb") as full:
    done = subprocess.run(arguments, stdin=empty, stdout=full, stderr=subprocess.PIPE)
print(done.returncode, done.stderr)
reader, writer = os.pipe()
os.set_blocking(writer, False)
child = subprocess.Popen(arguments, stdin=empty, stdout=writer)
os.close(writer)
with open(reader, "rb") as file:
    size = len(file.read())
print(child.wait(), size)
child = subprocess.run(arguments, stdin=empty, stdout=subprocess.PIPE, env={**os.environ, "ANTHROPIC_BASE_URL": "http://[::1"})
print(child.returncode, len(child.stdout))
"""


def test_the_simulated_cli_lives_with_odd_streams_and_bytes(hackamore: Command, tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    turn = [{"step": "user"}, {"step": "says", "text": "x" * 300_000}]
    file.write_text(json.dumps({"steps": [{"step": "user"}, {"step": "says", "text": "Hi."}, *turn * 3]}))
    ran = hackamore("simulate", str(file), "--", sys.executable, "-c", ODD_STARTS)
    full = b"error: the output cannot be written: No space left on device\n"
    assert ran.text.splitlines() == ["0 b'Hi.\\n'", f"1 {full!r}", "0 300001", "0 300001"], ran.errors
    assert ran.code == 0, ran.errors


def test_a_script_in_python_may_change_where_modules_are_found(hackamore: Command, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    steps = "from hackamore.testing import Script\nscript = Script().user().says('Hi.')\n"
    file.write_text(f"import os, sys\nsys.path.clear()\nos.chdir('/')\n{steps}")
    ran = hackamore("simulate", str(file), *client())
    assert (ran.code, ran.text) == (0, "Hi.\n")


def test_half_a_character_in_a_script_is_a_usage_error(hackamore: Command, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("from hackamore.testing import Script\nscript = Script().user().says('\\ud800')\n")
    ran = hackamore("simulate", str(file), *client())
    assert ran.code == 2
    assert "half a surrogate pair" in ran.errors
