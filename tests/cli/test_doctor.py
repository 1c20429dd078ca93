"""`hackamore doctor`: what it finds, what it says to do, what it never shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hackamore import __version__
from hackamore.cli.doctor import place_of
from hackamore.testing import ScriptedModel
from tests.cli.command import Command
from tests.contract import shows
from tests.support.machines import Sshd
from tests.support.patience import patience

SECRET = "sk-ant-very-secret"
PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@pytest.fixture
def hackamore(hackamore: Command) -> Command:
    """Return the command with an API key."""
    hackamore.environment["ANTHROPIC_API_KEY"] = SECRET
    return hackamore


def report(hackamore: Command, *arguments: str, code: int = 0, **more: Any) -> dict[str, Any]:
    ran = hackamore("doctor", "--json", *arguments, **more)
    assert ran.code == code, ran
    assert ran.errors == ""
    found: dict[str, Any] = json.loads(ran.text)
    assert found["ok"] == (code == 0)
    return found


def test_all_is_well(hackamore: Command) -> None:
    found = report(hackamore, env={"ANTHROPIC_API_KEY": SECRET})
    assert found["hackamore"] == __version__
    assert found["cli"] == {
        "path": hackamore.cli_path,
        "real_path": hackamore.cli_path,
        "source": "cli_path",
        "version": "2.1.328",
        "minimum": "1.0.0",
        "minimum_for_sessions": "2.0.0",
    }
    assert found["problems"] == []
    assert found["hints"] == []
    assert found["login"]["variables_present"] == ["ANTHROPIC_API_KEY"]
    assert found["extras"]["cli"]["typer"]
    declared = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {extra: list(packages) for extra, packages in found["extras"].items()} == {
        extra: [re.split(r"[\[>]", need)[0] for need in needs] for extra, needs in declared.items() if extra != "all"
    }


def test_page(hackamore: Command) -> None:
    ran = hackamore("doctor", "--model", "m", env={"ANTHROPIC_API_KEY": SECRET})
    assert ran.code == 0
    assert ran.text.endswith("✓ Ready.\n")
    for part in (__version__, hackamore.cli_path, "2.1.328", "--model=m", "from --cli-path", "ANTHROPIC_API_KEY"):
        assert part in ran.text


def test_secrets_are_never_shown(hackamore: Command, tmp_path: Path) -> None:
    credentials = Path(hackamore.environment["HOME"]) / ".claude" / ".credentials.json"
    credentials.parent.mkdir(parents=True)
    credentials.write_text(SECRET)
    servers = json.dumps(
        {"mcpServers": {"s": {"type": "http", "url": "http://x", "headers": {"Authorization": SECRET}}}}
    )
    arguments = ("--mcp-config", servers, "--option", json.dumps({"X_TOKEN": SECRET}).join(("env=", "")))
    for extra in (("--verbose",), ("--json",)):
        ran = hackamore("doctor", *extra, *arguments, env={"ANTHROPIC_AUTH_TOKEN": SECRET})
        assert ran.code == 0
        assert SECRET not in ran.text + ran.errors
        assert "X_TOKEN" in ran.text
        assert "credentials" in ran.text


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK"])
def test_without_a_login_it_says_how_to_log_in_and_fails(hackamore: Command, variable: str) -> None:
    del hackamore.environment["ANTHROPIC_API_KEY"]
    (problem,) = report(hackamore, code=1)["problems"]
    assert "No login" in problem["problem"]
    for way in ("ANTHROPIC_API_KEY", "/login", "setup-token"):
        assert way in problem["to_do"]
    assert report(hackamore, env={variable: "1"})["problems"] == []


def test_a_gateway_and_a_key_helper_may_be_a_login(hackamore: Command) -> None:
    del hackamore.environment["ANTHROPIC_API_KEY"]
    (hint,) = report(hackamore, env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})["hints"]
    assert "gateway" in hint["hint"]
    settings = Path(hackamore.environment["HOME"]) / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"apiKeyHelper": SECRET}))
    ran = hackamore("doctor")
    assert (ran.code, SECRET in ran.text) == (0, False)
    assert "apiKeyHelper in the settings" in ran.text


def test_variables_are_counted_and_listed_on_request(hackamore: Command) -> None:
    assert "ANTHROPIC_API_KEY" not in hackamore("doctor").text.partition("Command line")[2]
    assert "(--verbose lists them)" in hackamore("doctor").text
    shown = hackamore("doctor", "--verbose").text.partition("Command line")[2]
    assert "ANTHROPIC_API_KEY" in shown
    assert SECRET not in shown


@pytest.mark.parametrize("columns", ["46", "100"])
def test_lines_fit_the_terminal(hackamore: Command, columns: str) -> None:
    del hackamore.environment["ANTHROPIC_API_KEY"]
    ran = hackamore.on_terminal("doctor", env={"NO_COLOR": "1", "COLUMNS": columns})
    long = [line for line in ran.text.replace("\r\n", "\n").split("\n") if len(line) > int(columns)]
    assert [line for line in long if " " in line.replace("->", "").strip()] == []


def test_no_cli(hackamore: Command) -> None:
    hackamore.cli_path = ""
    nowhere = {"PATH": "/nonexistent", "HACKAMORE_CLI_PATH": "/nonexistent/claude"}
    (problem,) = report(hackamore, code=3, env=nowhere)["problems"]
    assert "is '/nonexistent/claude', which does not exist" in problem["problem"]
    assert problem["to_do"] == "Pass another path with the variable HACKAMORE_CLI_PATH."


def test_sources(hackamore: Command, tmp_path: Path) -> None:
    path, hackamore.cli_path = hackamore.cli_path, ""
    assert report(hackamore, env={"HACKAMORE_CLI_PATH": path})["cli"]["source"] == "HACKAMORE_CLI_PATH"
    in_path = {"PATH": f"{tmp_path}:{hackamore.environment['PATH']}"}
    assert report(hackamore, env=in_path)["cli"]["source"] == "PATH"


@pytest.mark.parametrize(
    ("version", "says"), [("0.9.0", "too old"), ("hello", "No version number"), ("exit 3", "exited with code 3")]
)
def test_versions(hackamore: Command, version: str, says: str) -> None:
    environment = {"STAND_IN_VERSION": version}
    (problem,) = report(hackamore, code=3, env=environment)["problems"]
    assert says in problem["problem"]
    skipped = report(hackamore, "--option", "version_check=skip", env={**environment, "ANTHROPIC_API_KEY": "1"})
    assert says in skipped["hints"][0]["hint"]


def test_version_that_does_not_come(hackamore: Command) -> None:
    found = report(
        hackamore,
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
def test_options_that_are_wrong(hackamore: Command, arguments: list[str], says: str) -> None:
    (problem,) = report(hackamore, *arguments, code=2)["problems"]
    assert says in problem["problem"]


def test_options_that_need_the_bidirectional_protocol(hackamore: Command) -> None:
    given = ("--option", "agent_progress_summaries=true")
    found = report(hackamore, *given, env={"ANTHROPIC_API_KEY": "1"})
    assert found["problems"] == []
    assert found["launch"]["bidirectional_because_of"] == ["agent_progress_summaries"]
    assert "--input-format stream-json" in found["launch"]["command"]
    shown = hackamore("doctor", *given, env={"ANTHROPIC_API_KEY": "1"}).text
    assert "the bidirectional protocol, because of agent_progress_summaries" in shown


def test_variables(hackamore: Command) -> None:
    given = ("--option", 'env={"MINE": "1"}')
    found = report(hackamore, *given, env={"CLAUDECODE": "1", "THEIRS": SECRET})["launch"]
    assert "MINE" in found["variables_set"]
    assert {"HOME", "THEIRS"} <= set(found["variables_inherited"])
    assert found["variables_left_out"] == ["CLAUDECODE"]
    narrowed = (*given, "--option", 'inherit_env=["THEIRS", "PATH"]')
    shown = hackamore("doctor", "--verbose", *narrowed, env={"THEIRS": SECRET}).text
    assert "inherited: PATH, THEIRS\n" in shown
    assert SECRET not in shown


def test_the_folder_was_deleted(hackamore: Command, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    # A process keeps its folder when that is removed, which `cwd=` of a start cannot show.
    line = shlex.join(hackamore.arguments("doctor"))
    ran = subprocess.run(
        ["/bin/sh", "-c", f"rmdir {shlex.quote(str(gone))} && exec {line}"],
        cwd=gone,
        env=hackamore.environment,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert ran.returncode == 3
    assert "The working directory cannot be found: No such file or directory." in ran.stdout
    assert "pass one with --cwd" in ran.stdout
    assert ran.stderr == ""


def test_conflicting_options_are_a_hint(hackamore: Command) -> None:
    found = report(hackamore, "--resume", "r", "--continue", env={"ANTHROPIC_API_KEY": "1"})
    assert "OPTION_CONFLICT" in found["hints"][0]["hint"]


@shows("remote.doctor")
@pytest.mark.real_cli
def test_another_machine(hackamore: Command, claude_path: str, tmp_path: Path) -> None:
    with ScriptedModel() as model, Sshd(claude=claude_path, shell="fish") as far:
        # A URL cannot name a configuration, and `ssh` takes the home from the system.
        ssh = tmp_path / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {shlex.join(far.ssh_arguments)} "$@"\n')
        ssh.chmod(0o755)
        hackamore.environment["PATH"] = f"{ssh.parent}:{hackamore.environment['PATH']}"
        hackamore.environment["HACKAMORE_CLI_PATH"], hackamore.cli_path = hackamore.cli_path, ""
        where = ("--over", f"ssh://{far.host}{far.work}")
        hackamore.environment |= model.env
        given = (*where, *(part for name in model.env for part in ("--env", name)))
        found = report(hackamore, *given)
        assert found["cli"] is None
        assert found["problems"] == []
        assert [hint["hint"].partition(":")[0] for hint in found["hints"]] == ["other-shell"]
        assert found["over"]["place"] == "ssh://far"
        assert found["over"]["folder"] == str(far.work)
        ran = hackamore("doctor", *given)
        assert ran.text.endswith("✓ Ready, with hints.\n")
        assert "Other machine\n  place          ssh://far\n" in ran.text
        assert "Command line" not in ran.text
        assert "Ready, with hints." in hackamore.on_terminal("doctor", *given).text
        assert model.requests == ()
        (problem,) = report(hackamore, *where, code=1)["problems"]
        assert problem["problem"] == "no-login: its CLI has no login."
        (problem,) = report(hackamore, *where, "--env", "KEY=canary", code=2)["problems"]
        assert problem["problem"] == "--env names a variable that is not set here. Give names, without values."
        (problem,) = report(hackamore, "--over", f"ssh://{far.host}/missing", code=3)["problems"]
        assert "the folder /missing does not exist over there" in problem["problem"]


@pytest.mark.parametrize(
    ("url", "argv", "folder"),
    [
        ("ssh://build1", ["ssh", "--", "build1"], None),
        ("ssh://me@Build1:2222/", ["ssh", "-p", "2222", "--", "me@Build1"], None),
        ("ssh://[::1]/srv/a b", ["ssh", "--", "::1"], "/srv/a b"),
        ("ssh://me@[::1]", ["ssh", "--", "me@::1"], None),
        ("ssh://build1/~/repo", ["ssh", "--", "build1"], "~/repo"),
        ("podman://localhost/img:1", ["podman", "run", "localhost/img:1"], None),
        ("docker+exec://box", ["docker", "exec", "box"], None),
    ],
)
def test_urls_of_machines(url: str, argv: list[str], folder: str | None) -> None:
    place = place_of(url)
    line = list(place.link_argv("-"))
    assert [part for part in line if part in argv] == argv
    assert place.folder(None) == folder


@pytest.mark.parametrize(
    "url", ["build1", "ssh://", "ssh://-oProxyCommand=x", "ssh://me:pw@h", "ssh://h:x", "lxc://box", "podman://-v"]
)
def test_urls_that_are_none(hackamore: Command, url: str) -> None:
    (problem,) = report(hackamore, "--over", url, code=2)["problems"]
    assert "is not ssh://[USER@]HOST" in problem["problem"]


def test_variables_are_for_another_machine(hackamore: Command) -> None:
    (problem,) = report(hackamore, "--env", "PATH", code=2)["problems"]
    assert problem["problem"].startswith("--over '' is not ssh://")
