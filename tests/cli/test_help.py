"""Help pages, `hackamore version` and shell completion."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import pytest

from hackamore import __version__
from hackamore.cli.app import COMMANDS, GROUPS
from tests.cli.command import Command

FLAG = re.compile(r"--[a-z][a-z-]*")
PAGES = [[], *(command.name.split() for command in COMMANDS), *([group] for group in GROUPS)]


def complete(hackamore: Command, *words: str) -> list[str]:
    """Return what a shell gets for the last word."""
    environment = {
        "_HACKAMORE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("hackamore", *words)),
        "COMP_CWORD": str(len(words)),
    }
    ran = hackamore(env=environment)
    assert (ran.code, ran.errors) == (0, "")
    return ran.text.split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: " ".join(page) or "hackamore")
def test_no_page_cuts_a_flag_or_is_too_wide(hackamore: Command, page: list[str]) -> None:
    pages = {columns: hackamore(*page, "--help", env={"COLUMNS": str(columns)}) for columns in (46, 100)}
    assert {ran.code for ran in pages.values()} == {0}
    wide, narrow = pages[100].text, pages[46].text
    assert set(FLAG.findall(wide)) == set(FLAG.findall(narrow))
    assert "…" not in narrow + wide
    assert not re.search(r"<\w+>|\bBOOL", wide)
    for columns, ran in pages.items():
        long = [line for line in ran.text.splitlines() if len(line) > columns]
        assert [line for line in long if len(line.split()) > 1] == []


def test_every_text_of_a_flag_is_a_short_sentence() -> None:
    for command in COMMANDS:
        assert len(command.help) <= 80
        for name, (annotation, _) in command.flags.items():
            text = annotation.__metadata__[0].help
            assert text.endswith("."), name
            assert not text.split()[0].endswith("s") or text.split()[0] in ("Pass",), (name, text)


def test_metavars_name_values(hackamore: Command) -> None:
    shown = hackamore("run", "--help", env={"COLUMNS": "100"}).text
    for flag in ("--resume UUID", "--cwd PATH", "--timeout SECONDS", "--permission-mode MODE", "--max-budget-usd USD"):
        assert flag in shown
    assert "--continue " in shown


def test_version(hackamore: Command) -> None:
    hackamore.environment["HACKAMORE_CLI_PATH"] = hackamore.cli_path
    ran = hackamore("version")
    assert ran.code == 0
    first, cli, python = ran.text.splitlines()
    assert first == f"hackamore {__version__}"
    assert cli == f"Claude Code 2.1.328 ({hackamore.cli_path})"
    assert python.startswith(f"Python {platform.python_version()} (")


def test_version_without_a_cli(hackamore: Command) -> None:
    hackamore.environment["HACKAMORE_CLI_PATH"] = "/nonexistent/claude"
    ran = hackamore("version")
    assert ran.code == 0
    assert "hackamore install-cli" in ran.text


def test_completion(hackamore: Command) -> None:
    assert complete(hackamore, "do") == ["doctor"]
    assert complete(hackamore, "run", "--permission-m") == ["--permission-mode"]
    assert complete(hackamore, "run", "--permission-mode", "acc") == ["acceptEdits"]
    assert complete(hackamore, "chat", "--setting-sources", "lo") == ["local"]
    assert "effort=" in complete(hackamore, "run", "--option", "eff")
    assert complete(hackamore, "trace", "show", "x", "--kind", "hoo") == ["hook"]


def test_completion_script(hackamore: Command) -> None:
    ran = hackamore("--show-completion", env={"SHELL": "/bin/bash", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": ""})
    assert "install-completion" in hackamore("--help").text
    assert ran.code in (0, 1)  # 1: the shell of the parent process is unknown
    assert "Traceback" not in ran.errors
    ran = hackamore(env={"_HACKAMORE_COMPLETE": "source_zsh"})
    assert ran.code == 0
    assert "_HACKAMORE_COMPLETE=complete_zsh" in ran.text


def test_help_whose_reader_goes_away(hackamore: Command) -> None:
    read, write = os.pipe()
    os.close(read)
    process = hackamore.start("run", "--help", stdout=write)
    os.close(write)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.parametrize(
    "line", ["run hello -h", "run hello --model -h", "run --nosuch --help", "fleet results -j -h", "sessions tag x -h"]
)
def test_help_at_the_end_is_the_page_of_the_command(hackamore: Command, line: str) -> None:
    ran = hackamore(*line.split())
    words = [word for word in line.split() if not word.startswith("-")]
    assert ran.code == 0
    assert ran.text.startswith(f"Usage: hackamore {words[0]}")


def test_pages_use_the_whole_width(hackamore: Command) -> None:
    wide = hackamore("run", "--help", env={"COLUMNS": "180"}).text
    assert "  Set the mode: default, acceptEdits, plan, bypassPermissions, dontAsk, auto.\n" in wide
    assert max(map(len, hackamore("run", "--help", env={"COLUMNS": "80"}).text.splitlines())) <= 80


def test_sessions_without_a_command_are_listed(hackamore: Command) -> None:
    assert hackamore("sessions").errors == hackamore("sessions", "list").errors != ""
    assert hackamore("sessions", "--json", "-a").code == 0
    assert hackamore("sessions", "--help").text.startswith("Usage: hackamore sessions [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("sesions", "There is no command `sesions`. Did you mean `sessions`?"),
        ("fleet rsults", "There is no command `rsults`. Did you mean `results`?"),
        ("run --modle x", "There is no option `--modle`. Did you mean `--model`?"),
        ("run --zzz", "There is no option `--zzz`."),
    ],
)
def test_one_name_is_suggested(hackamore: Command, line: str, text: str) -> None:
    ran = hackamore(*line.split())
    assert (ran.code, ran.errors.splitlines()[-1]) == (2, f"error: {text}")


@pytest.mark.parametrize("line", ["version --log-level debug", "doctor --partial", "doctor --timeout 3"])
def test_flags_without_a_use_are_refused(hackamore: Command, line: str) -> None:
    assert "There is no option" in hackamore(*line.split()).errors


@pytest.mark.parametrize("command", ["simulate", "model"])
def test_a_script_without_steps_fails(hackamore: Command, tmp_path: Path, command: str) -> None:
    (tmp_path / "empty.json").write_text('{"steps": []}')
    (tmp_path / "empty.py").write_text("from hackamore.testing import Script\nscript = Script()\n")
    for name in ("empty.json", "empty.py"):
        ran = hackamore(command, name, "--", "true", cwd=tmp_path)
        assert (ran.code, ran.errors) == (2, f"error: The script {name} has no steps: begin with a step `user`.\n")
