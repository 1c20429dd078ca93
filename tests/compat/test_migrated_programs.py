"""Programs after `hackamore compat migrate --write` print the same with the real CLI and the scripted model. No line is changed by hand."""

from __future__ import annotations

import shutil
import subprocess
import sys
from difflib import ndiff
from typing import TYPE_CHECKING

import pytest

from tests.compat.test_beside_the_official import PROGRAM, SCENARIOS, differences, shown
from tests.compat.test_examples import EXAMPLES, NAMES, output
from tests.contract import shows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI

NATIVE = (
    "agents.py", "hooks.py", "max_budget_usd.py", "mcp_calculator.py", "plugin_example.py", "quick_start.py", "setting_sources.py",
    "streaming_mode_trio.py", "system_prompt.py", "tools_option.py",
)  # fmt: skip
"""Examples that need no layer afterwards; the others keep a use without an equal."""
pytestmark = [
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="needs the official package, which `./dev ci` installs"),
    pytest.mark.timeout(600),
]


def migrated(program: Path, folder: Path) -> tuple[Path, str]:
    """Return the migrated copy of a program, and its text."""
    copy = folder / program.name
    shutil.copy(program, copy)
    command = [sys.executable, "-m", "hackamore.cli", "compat", "migrate", str(copy), "--write"]
    called = subprocess.run(command, capture_output=True, text=True, check=False)
    assert called.returncode in (0, 1), called.stderr
    return copy, copy.read_text(encoding="utf-8")


@shows("compat.tools.migrate")
@pytest.mark.parametrize("example", NAMES)
def test_a_migrated_example_prints_the_same(real_cli: RealCLI, tmp_path: Path, example: str) -> None:
    program, text = migrated(EXAMPLES / example, tmp_path)
    assert ("hackamore.compat" not in text) == (example in NATIVE)
    assert "from claude_agent_sdk" not in text
    shutil.copytree(EXAMPLES / "plugins", tmp_path / "plugins")
    lines = ndiff(output(real_cli, example, layer=True), output(real_cli, example, layer=False, program=program))
    assert [line for line in lines if line[0] in "+-"] == []


@shows("compat.tools.migrate")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_migrated_program_shows_the_same(real_cli: RealCLI, tmp_path: Path, scenario: str) -> None:
    program, _ = migrated(PROGRAM, tmp_path)
    before = shown(real_cli, scenario, layer=True)
    for one, other in zip(shown(real_cli, scenario, layer=True, program=program), before, strict=True):
        assert differences(one, other) == []
