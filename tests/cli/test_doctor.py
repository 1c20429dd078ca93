"""`bridle doctor`: what it finds, what it says to do, what it never shows."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bridle import __version__
from tests.cli.command import Command
from tests.support.patience import patience

SECRET = "sk-ant-very-secret"


def report(bridle: Command, *arguments: str, code: int = 0, **more: Any) -> dict[str, Any]:
    ran = bridle("doctor", "--json", *arguments, **more)
    assert ran.code == code, ran
    assert ran.errors == ""
    found: dict[str, Any] = json.loads(ran.text)
    assert found["ok"] == (code == 0)
    return found


def test_all_is_well(bridle: Command) -> None:
    found = report(bridle, env={"ANTHROPIC_API_KEY": SECRET})
    assert found["bridle"] == __version__
    assert found["cli"] == {
        "path": bridle.cli_path,
        "real_path": bridle.cli_path,
        "source": "cli_path",
        "version": "2.1.328",
        "minimum": "1.0.0",
        "minimum_for_sessions": "2.0.0",
    }
    assert found["problems"] == []
    assert found["hints"] == []
    assert found["login"]["variables_present"] == ["ANTHROPIC_API_KEY"]
    assert found["extras"]["cli"]["typer"]


def test_page(bridle: Command) -> None:
    ran = bridle("doctor", "--model", "m", env={"ANTHROPIC_API_KEY": SECRET})
    assert ran.code == 0
    assert ran.text.endswith("✓ All is well.\n")
    for part in (__version__, bridle.cli_path, "2.1.328", "--model=m", "named by --cli-path", "ANTHROPIC_API_KEY"):
        assert part in ran.text


def test_secrets_are_never_shown(bridle: Command, tmp_path: Path) -> None:
    credentials = Path(bridle.environment["HOME"]) / ".claude" / ".credentials.json"
    credentials.parent.mkdir(parents=True)
    credentials.write_text(SECRET)
    servers = json.dumps(
        {"mcpServers": {"s": {"type": "http", "url": "http://x", "headers": {"Authorization": SECRET}}}}
    )
    arguments = ("--mcp-config", servers, "--option", json.dumps({"X_TOKEN": SECRET}).join(("env=", "")))
    for extra in ((), ("--json",)):
        ran = bridle("doctor", *extra, *arguments, env={"ANTHROPIC_AUTH_TOKEN": SECRET})
        assert ran.code == 0
        assert SECRET not in ran.text + ran.errors
        assert "X_TOKEN" in ran.text
        assert "credentials" in ran.text


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK"])
def test_login_hint(bridle: Command, variable: str) -> None:
    (hint,) = report(bridle)["hints"]
    assert "No login" in hint["hint"]
    assert "ANTHROPIC_API_KEY" in hint["to_do"]
    assert report(bridle, env={variable: "1"})["hints"] == []


def test_no_cli(bridle: Command) -> None:
    bridle.cli_path = ""
    nowhere = {"PATH": "/nonexistent", "BRIDLE_CLI_PATH": "/nonexistent/claude"}
    (problem,) = report(bridle, code=3, env=nowhere)["problems"]
    assert "does not exist" in problem["problem"]
    assert "npm install" in problem["to_do"]


def test_sources(bridle: Command, tmp_path: Path) -> None:
    path, bridle.cli_path = bridle.cli_path, ""
    assert report(bridle, env={"BRIDLE_CLI_PATH": path})["cli"]["source"] == "BRIDLE_CLI_PATH"
    in_path = {"PATH": f"{tmp_path}:{bridle.environment['PATH']}"}
    assert report(bridle, env=in_path)["cli"]["source"] == "PATH"


@pytest.mark.parametrize(
    ("version", "says"), [("0.9.0", "too old"), ("hello", "No version number"), ("exit 3", "exited with code 3")]
)
def test_versions(bridle: Command, version: str, says: str) -> None:
    environment = {"STAND_IN_VERSION": version}
    (problem,) = report(bridle, code=3, env=environment)["problems"]
    assert says in problem["problem"]
    skipped = report(bridle, "--option", "version_check=skip", env={**environment, "ANTHROPIC_API_KEY": "1"})
    assert says in skipped["hints"][0]["hint"]


def test_version_that_does_not_come(bridle: Command) -> None:
    found = report(
        bridle,
        "--option",
        'timeouts={"version_check": 0.2}',
        env={"STAND_IN_VERSION": "hang", "ANTHROPIC_API_KEY": "1"},
    )
    assert "no answer within 0.2 s" in found["hints"][0]["hint"]
    assert found["cli"]["version"] is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--max-turns", "-1"], "max_turns"),
        (["--cwd", "/nonexistent"], "does not exist"),
        (
            ["--option", "title=x", "--option", "prompt_channel=argv"],
            "excludes what needs the bidirectional protocol: title",
        ),
    ],
)
def test_options_that_are_wrong(bridle: Command, arguments: list[str], says: str) -> None:
    (problem,) = report(bridle, *arguments, code=2)["problems"]
    assert says in problem["problem"]


def test_options_that_need_the_bidirectional_protocol(bridle: Command) -> None:
    given = ("--option", "agent_progress_summaries=true")
    found = report(bridle, *given, env={"ANTHROPIC_API_KEY": "1"})
    assert found["problems"] == []
    assert found["launch"]["bidirectional_because_of"] == ["agent_progress_summaries"]
    assert "--input-format stream-json" in found["launch"]["command"]
    shown = bridle("doctor", *given, env={"ANTHROPIC_API_KEY": "1"}).text
    assert "the bidirectional protocol, because of agent_progress_summaries" in shown


def test_variables(bridle: Command) -> None:
    given = ("--option", 'env={"MINE": "1"}')
    found = report(bridle, *given, env={"CLAUDECODE": "1", "THEIRS": SECRET})["launch"]
    assert "MINE" in found["variables_set"]
    assert {"HOME", "THEIRS"} <= set(found["variables_inherited"])
    assert found["variables_left_out"] == ["CLAUDECODE"]
    narrowed = (*given, "--option", 'inherit_env=["THEIRS", "PATH"]')
    shown = bridle("doctor", *narrowed, env={"THEIRS": SECRET}).text
    assert "passed on: PATH, THEIRS\n" in shown
    assert SECRET not in shown


def test_the_folder_was_deleted(bridle: Command, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    # A process keeps its folder when that is removed, which `cwd=` of a start cannot show.
    line = shlex.join(bridle.arguments("doctor"))
    ran = subprocess.run(
        ["/bin/sh", "-c", f"rmdir {shlex.quote(str(gone))} && exec {line}"],
        cwd=gone,
        env=bridle.environment,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert ran.returncode == 3
    assert "The folder that this is run in cannot be found: No such file or directory." in ran.stdout
    assert "name one with --cwd" in ran.stdout
    assert ran.stderr == ""


def test_conflicting_options_are_a_hint(bridle: Command) -> None:
    found = report(bridle, "--resume", "r", "--continue", env={"ANTHROPIC_API_KEY": "1"})
    assert "OPTION_CONFLICT" in found["hints"][0]["hint"]
