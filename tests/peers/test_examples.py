"""The public examples of the official Python package, as they are: they print the same on the simulated CLI and on the real one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from hackamore.testing import Repeat, Script, ScriptedModel, SimulatedCLI
from hackamore.testing.model.environment import isolated_environment
from tests.peers.running import PYTHON_PACKAGES
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(240)]
EXAMPLES = PYTHON_PACKAGES / "examples"


def _answers() -> Script:
    return Script(forever=True).user().says("Four.")


def _calculates() -> Script:
    script = Script()
    for tool, numbers in (("add", {"a": 15, "b": 27}), ("divide", {"a": 100, "b": 7}), ("sqrt", {"n": 144})):
        script.user().calls(f"mcp__calc__{tool}", numbers).says("Calculated.")
    script.user().calls("mcp__calc__power", {"base": 2, "exponent": 8}).says("Calculated.")
    return script.user().calls("mcp__calc__divide", {"a": 1, "b": 0}).says("Not possible.").user().says("Done.")


def _asks() -> Script:
    return (
        Script()
        .user()
        .calls("Bash", {"command": "ls -d ."}, result=".")
        .calls("Bash", {"command": "rm -rf /tmp/nothing"})
        .calls("Write", {"file_path": "/etc/no", "content": "x"})
        .says("Done.")
    )


def _blocked() -> Script:
    return (
        Script()
        .user()
        .calls("Bash", {"command": "./foo.sh --help"})
        .says("Blocked.")
        .user()
        .calls("Bash", {"command": "echo hello"}, result="hello")
        .says("Ran.")
    )


class Example(NamedTuple):
    """An example.

    Attributes:
        file: its name.
        arguments: its arguments.
        write: returns the script.
        apart: a pattern of what differs; nothing from there to the end of the line is compared.
        why: the reason.
    """

    file: str
    arguments: tuple[str, ...] = ()
    write: Callable[[], Script] = _answers
    apart: str = ""
    why: str = ""


_STREAMING = "basic_streaming multi_turn_conversation manual_message_handling with_options bash_command error_handling"
EXAMPLES_RUN = (
    Example("agents.py"),
    Example("filesystem_agents.py"),
    Example("hooks.py", ("PreToolUse",), _blocked),
    Example(
        "include_partial_messages.py",
        apart=r"(?<=^SystemMessage\(subtype=')\w+'|total_cost_usd=",
        why="prices and tools of an older model, and details of the start",
    ),
    Example("max_budget_usd.py"),
    Example("mcp_calculator.py", (), _calculates),
    Example(
        "plugin_example.py",
        apart=r"System message data keys|Plugins loaded:|Note: Plugin|  - [\w-]+ \(path|Plugin path",
        why="plugins are not simulated",
    ),
    Example("quick_start.py"),
    Example("setting_sources.py", ("all",), apart="Available slash commands", why="built-in commands"),
    Example("stderr_callback_example.py"),
    *(Example("streaming_mode.py", (name,)) for name in _STREAMING.split()),
    Example("streaming_mode_trio.py"),
    Example("system_prompt.py"),
    Example("tool_permission_callback.py", (), _asks),
    Example("tools_option.py"),
)
"""All public examples that need no person, but for those that time alone decides, and `hooks.py UserPromptSubmit`, which names another
event in its answer: that ends the session of the real CLI."""


def play(example: Example, how: str, folder: Path, cli_path: str) -> list[str]:
    """Run an example; return the lines that it prints."""
    home, work, programs = folder / "home", folder / "work", folder / "programs"
    for each in (home, work, programs):
        each.mkdir(parents=True)
    script = example.write()
    environment = {name: value for name, value in isolated_environment("", home).items() if value is not None}
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    environment |= {
        "LANG": "C.UTF-8",
        "IS_SANDBOX": "1",
        "PATH": path,
        "PYTHONPATH": str(PYTHON_PACKAGES),
        "PYTHONHASHSEED": "0",
    }
    command = [sys.executable, str(EXAMPLES / example.file), *example.arguments]

    def run(more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=work,
            env={**environment, **more},
            input="n\n" * 20,
            capture_output=True,
            text=True,
            timeout=patience(100),
            check=False,
        )

    if how == "real":
        (programs / "claude").symlink_to(cli_path)
        forever = ScriptedModel(Repeat("Four."))
        with forever if example.write is _answers else script.model() as model:
            done = run(model.env)
    else:
        SimulatedCLI(script, per_session=example.write is _answers, time_scale=0).install(programs)
        done = run({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    return [
        f"exit code {done.returncode}",
        *filter(None, (plain(line, folder, example) for line in done.stdout.splitlines())),
    ]


def plain(line: str, folder: Path, example: Example) -> str:
    """Return a line without what differs in each run."""
    if example.apart and (found := re.search(example.apart, line)):
        line = line[: found.start()]
    line = line.replace(str(folder), "<folder>")
    line = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|toolu_\w+|msg_\w+", "<id>", line)
    return re.sub(r"(?i)(duration\w*|ttft\w*)([=:'\" ]+)[\d.]+", r"\1\2<ms>", line)


@pytest.mark.parametrize("example", EXAMPLES_RUN, ids=lambda example: "-".join([example.file, *example.arguments]))
def test_an_official_example_prints_the_same(example: Example, claude_path: str, tmp_path: Path) -> None:
    if not EXAMPLES.is_dir():
        pytest.skip("the official package is not installed; `./dev ci` installs it into .dev")
    simulated = play(example, "simulated", tmp_path / "simulated", claude_path)
    real = play(example, "real", tmp_path / "real", claude_path)
    assert "\n".join(simulated) == "\n".join(real)
