"""The examples of the official package on the layer and on the real package, with the real CLI and the scripted model: equal output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from difflib import ndiff
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hackamore.testing import Repeat, ScriptedModel
from tests.support.patience import patience

if TYPE_CHECKING:
    from tests.conftest import RealCLI

pytestmark = pytest.mark.timeout(600)  # `streaming_mode.py` itself waits for 45 s, in both packages
OFFICIAL = Path(__file__).resolve().parents[2] / ".dev" / "official"
EXAMPLES = OFFICIAL / "examples"
NEEDS_ARGUMENT = {"streaming_mode.py": "all", "hooks.py": "all", "tools_option.py": "", "setting_sources.py": "all"}
DIFFERENT = {"hooks.py": ["+ Claude: Done."]}
"""Lines that differ. One hook of `hooks.py` answers with the name of another event, for which the CLI refuses the prompt."""
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in ("streaming_mode_ipython.py",))

STRETCHED = """
import asyncio
sleep = asyncio.sleep
asyncio.sleep = lambda seconds, *result: sleep(seconds * {} if seconds == 2 else seconds, *result)
"""


def output(real_cli: RealCLI, example: str, *, layer: bool, program: Path | None = None) -> list[str]:
    """Return the lines that an example prints, without what differs from run to run; or those of a program made of it."""
    home = real_cli.directory / ("migrated" if program else "layer" if layer else "official")
    home.mkdir()
    with ScriptedModel(Repeat("Done.")) as model:
        environment = {**real_cli.env(model), "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)}
        environment["PATH"] = f"{Path(real_cli.cli_path).parent}{os.pathsep}{os.defpath}"
        environment["PYTHONHASHSEED"] = "0"  # one of them prints a set
        # `streaming_mode.py` interrupts after 2 s, in which a CLI on a busy machine has not answered yet.
        (home / "sitecustomize.py").write_text(STRETCHED.format(patience(1)))
        environment["PYTHONPATH"] = f"{home}{'' if layer else os.pathsep + str(OFFICIAL)}"
        arguments = [NEEDS_ARGUMENT[example]] if NEEDS_ARGUMENT.get(example) else []
        way = ["-m", "hackamore.compat"] if layer and program is None else []
        command = [sys.executable, *way, str(program or EXAMPLES / example), *arguments]
        called = subprocess.run(
            command,
            cwd=real_cli.cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(120),
            stdin=subprocess.DEVNULL,
        )
    text = re.sub(
        rf"msg_[\w.]+|[0-9a-f]{{8}}-[0-9a-f-]{{27}}|\$?\d+\.\d+|\d{{2,}}|(?:/tmp|{re.escape(str(EXAMPLES))})/\S+",
        "...",
        called.stdout,
    )
    return [f"exit code {called.returncode}", *text.splitlines()]


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="needs the official package, which `./dev ci` installs")
@pytest.mark.parametrize("example", NAMES)
def test_an_example_prints_the_same(real_cli: RealCLI, example: str) -> None:
    lines = ndiff(output(real_cli, example, layer=False), output(real_cli, example, layer=True))
    assert [line for line in lines if line[0] in "+-"] == DIFFERENT.get(example, [])
