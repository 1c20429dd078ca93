"""The ways to run a program of the official package on the layer, unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hackamore
from hackamore.compat import MODULES, claude_agent_sdk
from tests.contract import shows

OFFICIAL = Path(__file__).resolve().parents[2] / ".dev" / "official"
PROGRAM = """
import sys
from claude_agent_sdk import ClaudeAgentOptions, query
from claude_agent_sdk.types import HookMatcher
print(ClaudeAgentOptions.__module__, *sys.argv[1:])
"""


def python(*arguments: str, path: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    environment = {"PYTHONPATH": path, "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, check=check, capture_output=True, text=True, env=environment)


def test_all_public_names_are_there() -> None:
    assert len(claude_agent_sdk.__all__) == 159
    assert [name for name in claude_agent_sdk.__all__ if not hasattr(claude_agent_sdk, name)] == []


@shows("compat.programs.unchanged")
def test_a_program_runs_unchanged(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    told = python("-m", "hackamore.compat", str(program), "one", "--two").stdout.split()
    assert told == ["hackamore.compat.claude_agent_sdk._shapes", "one", "--two"]


def test_a_module_runs_unchanged(tmp_path: Path) -> None:
    (tmp_path / "some_program.py").write_text(PROGRAM)
    told = python("-m", "hackamore.compat", "-m", "some_program", "one", path=str(tmp_path)).stdout.split()
    assert told == ["hackamore.compat.claude_agent_sdk._shapes", "one"]


def test_the_command_without_a_program_explains_itself() -> None:
    called = python("-m", "hackamore.compat", check=False)
    assert called.returncode == 2
    assert "usage: python -m hackamore.compat" in called.stderr


def test_a_program_on_hackamore_itself_finds_no_cli_beside_a_script(tmp_path: Path) -> None:
    """It would start a real one, with the account of the user."""
    (tmp_path / "script.json").write_text('{"steps": [{"step": "user"}, {"step": "says", "text": "4"}]}')
    program = tmp_path / "program.py"
    program.write_text("import asyncio, hackamore\nasyncio.run(hackamore.run('hi'))\n")
    called = python("-m", "hackamore.compat", "--simulate", str(tmp_path / "script.json"), str(program), check=False)
    assert called.returncode == 1
    assert "hackamore.CLINotFoundError" in called.stderr
    assert "`hackamore simulate SCRIPT -- python PROGRAM`" in called.stderr


def test_install_puts_each_module_in_the_place_of_the_official_one() -> None:
    lines = ["import hackamore.compat, sys", "hackamore.compat.install()", "hackamore.compat.install()"]
    lines += [
        f"import claude_agent_sdk.{name}" if name else "import claude_agent_sdk" for name in ("", *MODULES.split())
    ]
    lines += ["import claude_agent_sdk.client as c", "print(c.ClaudeSDKClient is claude_agent_sdk.ClaudeSDKClient)"]
    lines += ["print(claude_agent_sdk.query.__name__, 'mcp' in sys.modules)"]
    assert python("-c", "\n".join(lines)).stdout.split() == ["True", "query", "False"]


@shows("compat.programs.loaded")
@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="needs the official package: ./dev setup")
def test_install_refuses_a_process_that_has_the_real_package() -> None:
    program = "import claude_agent_sdk, hackamore.compat\nhackamore.compat.install()"
    called = python("-c", program, path=str(OFFICIAL), check=False)
    assert called.returncode == 1
    assert "`claude_agent_sdk` is loaded already, from" in called.stderr
    assert "before its first import" in called.stderr


@shows("compat.programs.unchanged")
def test_pytest_gives_tests_the_layer(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import claude_agent_sdk\ndef test_it():\n    assert claude_agent_sdk.__file__.endswith('compat/claude_agent_sdk/__init__.py')\n"
    )
    plugin = ["-p", "hackamore.compat.pytest_plugin", "--hackamore-compat", "-p", "no:cacheprovider"]
    called = python("-m", "pytest", "-q", *plugin, "--rootdir", str(tmp_path), str(tmp_path), check=False)
    assert called.returncode == 0, called.stdout


def test_every_error_is_one_of_both_packages() -> None:
    names = [
        "ClaudeSDKError",
        "CLIConnectionError",
        "CLINotFoundError",
        "ProcessError",
        "ResultError",
        "CLIJSONDecodeError",
    ]
    for name in names:
        assert issubclass(getattr(claude_agent_sdk, name), claude_agent_sdk.ClaudeSDKError)
        assert issubclass(getattr(claude_agent_sdk, name), hackamore.HackamoreError)


def test_a_private_name_says_that_it_is_absent() -> None:
    program = "import hackamore.compat\nhackamore.compat.install()\nfrom claude_agent_sdk._internal.query import Query\nQuery()"
    called = python("-c", program, check=False)
    assert (
        "NotImplementedError: `claude_agent_sdk._internal.query.Query` is private in claude-agent-sdk" in called.stderr
    )
