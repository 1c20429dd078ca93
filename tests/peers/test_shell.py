"""The CLI in a shell script: output, errors and exit codes are those of the real one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from hackamore.testing import Script, SimulatedCLI
from hackamore.testing.model.environment import isolated_environment
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(120)]
UNKNOWN = "00000000-0000-4000-8000-000000000000"
SCHEMA = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
PROMPT = '{"type":"user","message":{"role":"user","content":"2+2?"}}\n'
COUNTS = {"usage", "modelUsage", "model_usage_since_last_result"}
ONLY_REAL = {"begun_message_ids", "fast_mode_disabled_reason", "safety_stops", "subagent_stats"}
"""Fields of a result that are not simulated; `tests/fidelity/differences.py` says why."""


class Command(NamedTuple):
    """A command line.

    Attributes:
        name: unique.
        arguments: the arguments.
        given: stdin.
        steps: which script.
    """

    name: str
    arguments: str
    given: str = ""
    steps: str = "answers"


SCRIPTS: dict[str, Callable[[], Script]] = {
    "answers": lambda: Script().user().says("Four."),
    "parts": lambda: Script().user().says("Four.", chunk=2),
    "lines": lambda: Script().user().says("one\ntwo\n"),
    "tool": lambda: Script().user().says("I look.").calls("Bash", {"command": "true"}).says("Done."),
    "typed": lambda: Script().user().calls("StructuredOutput", {"n": 4}),
    "fails": lambda: Script().user().api_error(402, "no money"),
    "nothing": Script,
}
JSON, STREAM = "--output-format json", "--output-format stream-json --verbose"
COMMANDS = (
    Command("text", "-p 2+2?"),
    Command("text without print", "2+2?"),
    Command("prompt from stdin", "-p", "2+2?"),
    Command("two lines", "-p 2+2?", steps="lines"),
    Command("the last text", "-p 2+2?", steps="tool"),
    Command("json", f"-p 2+2? {JSON}"),
    Command("verbose json", f"-p 2+2? {JSON} --verbose"),
    Command("stream", f"-p 2+2? {STREAM}"),
    Command("stream of prompts", f"--input-format stream-json {STREAM}", PROMPT),
    Command("stream with partial messages", f"-p 2+2? {STREAM} --include-partial-messages", steps="parts"),
    Command("typed text", f"-p 2+2? --json-schema {SCHEMA}", steps="typed"),
    Command("typed json", f"-p 2+2? --json-schema {SCHEMA} {JSON}", steps="typed"),
    Command("api error", "-p 2+2?", steps="fails"),
    Command("api error as json", f"-p 2+2? {JSON}", steps="fails"),
    Command("too many turns", "-p 2+2? --max-turns 1", steps="tool"),
    Command("too expensive", "-p 2+2? --max-budget-usd 0.00001", steps="tool"),
    Command("too expensive as json", f"-p 2+2? --max-budget-usd 0.00001 {JSON}", steps="tool"),
    Command("no prompt", "-p", steps="nothing"),
    Command("unknown flag", "-p 2+2? --frobnicate", steps="nothing"),
    Command("unknown session", f"-p 2+2? --resume {UNKNOWN}", steps="nothing"),
    Command("unknown title", "-p 2+2? --resume nonsense", steps="nothing"),
    Command("unknown session as json", f"-p 2+2? --resume {UNKNOWN} {JSON}", steps="nothing"),
    Command("session id", "-p 2+2? --session-id nonsense", steps="nothing"),
    Command("session id and resume", f"-p 2+2? --session-id {UNKNOWN} --resume {UNKNOWN}", steps="nothing"),
    Command("stream without verbose", "-p 2+2? --output-format stream-json", steps="nothing"),
    Command("stream of prompts as text", "-p --input-format stream-json", PROMPT, steps="nothing"),
    Command("output format", "-p 2+2? --output-format xml", steps="nothing"),
    Command("input format", "-p 2+2? --input-format xml", steps="nothing"),
    Command("turns", "-p 2+2? --max-turns zero", steps="nothing"),
    Command("budget", "-p 2+2? --max-budget-usd zero", steps="nothing"),
    Command("effort", "-p 2+2? --effort giant"),
    Command("replay", "-p 2+2? --replay-user-messages", steps="nothing"),
    Command("partial messages", "-p 2+2? --include-partial-messages", steps="nothing"),
    Command("no MCP file", "-p 2+2? --mcp-config /nowhere.json", steps="nothing"),
    Command("version", "--version", steps="nothing"),
)


def run(command: Command, how: str, folder: Path, cli_path: str) -> tuple[int, list[Any], str]:
    """Run a command; return its exit code, its output, and stderr."""
    (folder / "work").mkdir(parents=True)
    script = SCRIPTS[command.steps]()
    environment = {name: value for name, value in isolated_environment("", folder).items() if value is not None}
    environment |= {"LANG": "C.UTF-8", "IS_SANDBOX": "1", "PATH": os.defpath}

    def play(program: str, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *command.arguments.split()],
            cwd=folder / "work",
            env={**environment, **more},
            input=command.given,
            capture_output=True,
            text=True,
            timeout=patience(60),
            check=False,
        )

    if how == "real":
        if command.steps == "nothing":
            done = play(cli_path, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
        else:
            model = script.model()
            model.__enter__()  # what a CLI that stops early has not asked for is not the question here
            try:
                done = play(cli_path, model.env)
            finally:
                model.close()
    else:
        done = play(str(SimulatedCLI(script, time_scale=0).install(folder / "cli")), {})
    lines = [plain(line, folder) for line in done.stdout.splitlines()]
    return done.returncode, [*lines, done.stdout.endswith("\n")], done.stderr


def plain(line: str, folder: Path) -> Any:
    """Return a line of the output without what differs in each run."""
    line = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>", line)
    try:
        value = json.loads(line.replace(str(folder), "<folder>"))
    except ValueError:
        return line
    if isinstance(value, dict) and value.get("type") == "result":
        fields = {name: name if name in COUNTS else part for name, part in value.items() if name not in ONLY_REAL}
        fields["total_cost_usd"] = round(value["total_cost_usd"], 9)
        return {name: part for name, part in fields.items() if not name.endswith("_ms")}
    frames = value if isinstance(value, list) else [value]
    return [f"{frame['type']}/{frame.get('subtype')}" if "type" in frame else frame for frame in frames]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name.replace(" ", "-"))
def test_a_shell_gets_the_same(command: Command, claude_path: str, tmp_path: Path) -> None:
    simulated = run(command, "simulated", tmp_path / "simulated", claude_path)
    assert simulated == run(command, "real", tmp_path / "real", claude_path)


def test_a_shell_resumes_and_forks(claude_path: str, tmp_path: Path) -> None:
    session_id = "11111111-2222-4333-8444-555555555555"
    lines = (
        ["-p", "one", "--session-id", session_id],
        ["-p", "two", "--resume", session_id, "--output-format", "json"],
        ["-p", "three", "--resume", session_id, "--fork-session", "--output-format", "json"],
        ["-p", "four", "--continue"],
    )

    def talk(program: str, folder: Path, more: dict[str, str]) -> list[str]:
        (folder / "work").mkdir(parents=True)
        environment = {name: value for name, value in isolated_environment("", folder).items() if value is not None}
        found = []
        for line in lines:
            done = subprocess.run(
                [program, *line],
                cwd=folder / "work",
                env={**environment, "PATH": os.defpath, **more},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=patience(60),
                check=True,
            )
            if "json" in line:
                result = json.loads(done.stdout)
                found.append(f"{result['result']} {result['session_id'] == session_id}")
            else:
                found.append(done.stdout)
        return found

    script = Script()
    for number in "1234":
        script.user().says(number)
    with script.model() as model:
        real = talk(claude_path, tmp_path / "real", model.env)
    with SimulatedCLI(script, time_scale=0) as cli:
        assert talk(str(cli.install(tmp_path / "cli")), tmp_path / "simulated", {}) == real
    assert real == ["1\n", "2 True", "3 False", "4\n"]


def test_ctrl_c_ends_a_simulated_process_that_hangs(tmp_path: Path) -> None:
    program = SimulatedCLI(Script().user().says("Begun.").hang()).install(tmp_path / "cli")
    arguments = ["-p", "go", "--output-format", "stream-json", "--verbose"]
    with subprocess.Popen(
        [program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            while "Begun." not in process.stdout.readline():
                pass
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=patience(30))
        finally:
            process.kill()
    assert process.returncode == 0


@pytest.mark.parametrize("how", ["simulated", "real"])
def test_ctrl_c_ends_the_process(how: str, claude_path: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    script = Script().user().calls("Bash", {"command": f"echo > {begun}; exec sleep 60"}).says("Never.")
    environment = {name: value for name, value in isolated_environment("", tmp_path).items() if value is not None}
    environment |= {"PATH": os.defpath, "IS_SANDBOX": "1"}
    model = script.model()
    with contextlib.closing(model.start()):
        program = claude_path
        if how == "simulated":
            program = str(SimulatedCLI(script).install(tmp_path / "cli", real_tools=True))
        with subprocess.Popen(
            [program, "-p", "go", "--permission-mode", "bypassPermissions"],
            env={**environment, **model.env},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        ) as process:
            try:
                begun.read_text()
                os.killpg(process.pid, signal.SIGINT)
                said = process.communicate(timeout=patience(30))[0]
                # On a busy machine the real CLI exits before it has written.
                assert said == "Execution error" or (how == "real" and not said)
            finally:
                process.kill()
    assert process.returncode == 0
