"""`hackamore compat check`, `hackamore compat run`, and the variables of the layer."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

import hackamore as library
from hackamore.compat import claude_agent_sdk, use
from hackamore.compat._check import differences
from hackamore.compat._use import USED
from hackamore.testing import Script
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Command

USES = """\
import claude_agent_sdk as sdk
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, query
from claude_agent_sdk._internal.query import Query
from claude_agent_sdk._internal.message_parser import parse_message


async def hook(data, tool_use_id, context):
    return {"hookSpecificOutput": {"hookEventName": "SessionStart"}}


options = ClaudeAgentOptions(
    disallowed_tools="Bash",
    hooks={"UserPromptSubmit": [HookMatcher(hooks=[hook])]},
)


async def main(client):
    await client.rewind_files("id")
    async for _ in query(prompt=["go"]):
        sdk.nonsense()
"""
FOUND = [
    (3, "absent", "claude_agent_sdk._internal.query.Query"),
    (4, "private", "claude_agent_sdk._internal.message_parser.parse_message"),
    (11, "different", "disallowed_tools"),
    (13, "different", "hook"),
    (18, "different", "rewind_files"),
    (19, "different", "prompt"),
    (20, "absent", "claude_agent_sdk.nonsense"),
]
PROGRAM = """\
import sys
import anyio
from claude_agent_sdk import AssistantMessage, query

async def main():
    async for message in query(prompt=sys.argv[1]):
        if isinstance(message, AssistantMessage):
            print(message.content[0].text, *sys.argv[2:])

anyio.run(main)
"""


@shows("compat.tools.check")
def test_check_lists_private_absent_and_different_uses(hackamore: Command, tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text(USES)
    (tmp_path / "plain.py").write_text("from claude_agent_sdk import query\nfrom other import _private\n")
    (tmp_path / "other.py").write_text(
        "from elsewhere import ClaudeAgentOptions\nClaudeAgentOptions(disallowed_tools='Bash')\n"
    )
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "uses.py").write_text(USES)
    ran = hackamore("compat", "check", str(tmp_path), "--json")
    report = json.loads(ran.out)
    assert ran.code == 1
    assert report["files"] == 3
    assert [(each["line"], each["kind"], each["name"]) for each in report["findings"]] == FOUND
    assert {each["file"] for each in report["findings"]} == {str(tmp_path / "uses.py")}
    assert all(each["reason"] and each["advice"] for each in report["findings"])
    shown = hackamore("compat", "check", str(tmp_path / "uses.py")).text
    assert (
        f"{tmp_path}/uses.py:11: different: disallowed_tools: Values that the CLI would misread: `OptionsError`"
        in shown
    )
    assert "Write a list." in shown


@shows("compat.tools.check")
def test_check_has_an_exit_code_for_each_outcome(hackamore: Command, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("from claude_agent_sdk import query\n")
    assert hackamore("compat", "check", str(tmp_path)).code == 0
    (tmp_path / "broken.py").write_text("def f(:\n")
    broken = hackamore("compat", "check", str(tmp_path))
    assert broken.code == 1
    assert "broken.py:1: unreadable" in broken.text
    missing = hackamore("compat", "check", str(tmp_path / "none"))
    assert missing.code == 2
    assert "There is no file or folder" in missing.errors
    assert hackamore("compat", "check").code == 2


def test_check_knows_all_public_names(hackamore: Command, tmp_path: Path) -> None:
    names = ", ".join(claude_agent_sdk.__all__)
    (tmp_path / "all.py").write_text(f"from claude_agent_sdk import {names}\n")
    report = json.loads(hackamore("compat", "check", str(tmp_path), "--json").out)
    assert {each["name"].rpartition(".")[2] for each in report["findings"]} == {
        "CLIJSONDecodeError",
        "rename_session",
        "fork_session",
    }
    used = [use for row in differences() for use in row.get("uses", ())]
    assert len(used) == len(set(used)) >= 20
    assert all(row.get("advice") for row in differences() if row.get("uses"))


def script(folder: Path, *texts: str) -> Path:
    script = Script()
    for text in texts:
        script.user(text)
        script.says(text.upper())
    script.save(folder / "script.json")
    return folder / "script.json"


def program(folder: Path) -> Path:
    path = folder / "program.py"
    path.write_text(PROGRAM)
    return path


@shows("compat.tools.run")
def test_run_gives_a_program_a_script_a_trace_and_its_own_arguments(hackamore: Command, tmp_path: Path) -> None:
    flags = ["--simulate", str(script(tmp_path, "one")), "--trace", str(tmp_path / "run.jsonl"), "--budget", "1"]
    ran = hackamore("compat", "run", *flags, str(program(tmp_path)), "one", "--json", "-h")
    assert (ran.code, ran.text) == (0, "ONE --json -h\n"), ran.errors
    assert '"ONE"' in hackamore("trace", "show", str(tmp_path / "run.jsonl"), "--json").text


@shows("compat.tools.run")
def test_run_fails_if_the_script_was_not_played(hackamore: Command, tmp_path: Path) -> None:
    ran = hackamore("compat", "run", "--simulate", str(script(tmp_path, "one", "two")), str(program(tmp_path)), "one")
    assert (ran.code, ran.text) == (1, "ONE\n")
    assert "two" in ran.errors


@shows("compat.tools.run")
def test_run_and_the_module_are_the_same(hackamore: Command, tmp_path: Path) -> None:
    program(tmp_path)
    flags = ["--simulate", str(script(tmp_path, "one"))]
    ran = hackamore("compat", "run", *flags, "-m", "program", "one", env={"PYTHONPATH": str(tmp_path)})
    assert (ran.code, ran.text) == (0, "ONE\n"), ran.errors
    command = [sys.executable, "-m", "hackamore.compat", *flags, str(tmp_path / "program.py"), "one"]
    called = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience(30))
    assert (called.returncode, called.stdout) == (0, "ONE\n")
    assert hackamore("compat", "run").code == 2
    assert hackamore("compat", "run", str(tmp_path / "none.py")).code == 2
    (tmp_path / "exits.py").write_text("import sys, claude_agent_sdk\nsys.exit(7)\n")
    assert hackamore("compat", "run", str(tmp_path / "exits.py")).code == 7


@shows("compat.tools.variables")
def test_variables_give_an_unchanged_program_what_use_gives(hackamore: Command, tmp_path: Path) -> None:
    given = {
        "HACKAMORE_COMPAT_SIMULATE": str(script(tmp_path, "one")),
        "HACKAMORE_COMPAT_TRACE": str(tmp_path / "run.jsonl"),
        "HACKAMORE_COMPAT_BUDGET_USD": "2.5",
        "HACKAMORE_COMPAT_OPTIONS": '{"model": "haiku", "timeouts": {"turn": 60}}',
    }
    ran = hackamore("compat", "run", str(program(tmp_path)), "one", env=given)
    assert (ran.code, ran.text) == (0, "ONE\n"), ran.errors
    assert '"haiku"' in (tmp_path / "run.jsonl").read_text() or "haiku" in (tmp_path / "run.jsonl").read_text()


@shows("compat.tools.variables")
def test_variables_lose_to_use_and_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HACKAMORE_COMPAT_BUDGET_USD", "2.5")
    monkeypatch.setenv("HACKAMORE_COMPAT_OPTIONS", '{"model": "haiku", "max_turns": 3, "trace": "a.jsonl"}')
    monkeypatch.setenv("HACKAMORE_COMPAT_TRACE", "b.jsonl")
    use(options={"model": "sonnet"})
    assert {name: USED.options[name] for name in ("model", "max_turns", "trace")} == {
        "model": "sonnet",
        "max_turns": 3,
        "trace": "b.jsonl",
    }
    assert USED.options["budget"] is USED.options["budget"]


WRONG: dict[str, tuple[str, str]] = {
    "BUDGET_USD": ("five", "HACKAMORE_COMPAT_BUDGET_USD='five' is not valid: could not convert"),
    "OPTIONS": ('{"modle": "haiku"}', "HACKAMORE_COMPAT_OPTIONS is not valid: .*modle"),
    "OPTIONS ": ("model=haiku", "HACKAMORE_COMPAT_OPTIONS is not valid: .*"),
    "SIMULATE": (
        "/nowhere/script.json",
        "HACKAMORE_COMPAT_SIMULATE='/nowhere/script.json' is not valid: .*No such file",
    ),
    "BUDGET": (
        "5",
        "HACKAMORE_COMPAT_BUDGET='5' is not valid: there is no such variable. Use one of HACKAMORE_COMPAT_TRACE",
    ),
}


@shows("compat.tools.variables")
@pytest.mark.anyio
@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_variable_fails_at_the_first_use(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    value, text = WRONG[name]
    monkeypatch.setenv(f"HACKAMORE_COMPAT_{name.strip()}", value)
    for _ in range(2):
        with pytest.raises(library.OptionsError, match=text):
            async for _ in claude_agent_sdk.query(prompt="go"):
                pass


def test_a_wrong_flag_of_run_is_a_usage_error(hackamore: Command, tmp_path: Path) -> None:
    ran = hackamore("compat", "run", "--simulate", str(tmp_path / "none.json"), str(program(tmp_path)), "one")
    assert ran.code == 2
    assert "HACKAMORE_COMPAT_SIMULATE" in ran.errors
    assert "Traceback" not in ran.errors


def test_the_page_names_every_variable() -> None:
    from tests.conftest import PROJECT

    page: Any = (PROJECT / "docs" / "guides" / "compat.md").read_text(encoding="utf-8")
    for name in ("TRACE", "BUDGET_USD", "OPTIONS", "CLI", "SIMULATE"):
        assert f"`HACKAMORE_COMPAT_{name}`" in page
    assert textwrap.dedent(page) == page
