"""Run the test suites of projects that use the official package, unchanged, with that package and with the compatible layer; print a table.

    scripts/compat_downstream.py

`compat_downstream.toml` has the projects: sdists of pinned versions, checked by their hashes, and those whose sdists have no tests. Each
project is installed into an environment of its own below `.dev/downstream`.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

from compat_suite import VERSION

PROJECT = Path(__file__).resolve().parent.parent
FOLDER = PROJECT / ".dev" / "downstream"
PLAN = Path(__file__).with_suffix(".toml")
LAYER = ("-p", "hackamore.compat.pytest_plugin", "--hackamore-compat")
HELPERS = '''\
"""Helpers that the tests import from a file which the sdist lacks."""

import pytest
from ag_ui.core import RunAgentInput
from claude_agent_sdk.types import StreamEvent


def stream_event(event, **fields):
    return StreamEvent(**{"uuid": "u", "session_id": "s", "event": event, "parent_tool_use_id": None, **fields})


async def aiter(values):
    for value in values:
        yield value


@pytest.fixture
def make_input():
    def make(**fields):
        empty = {"messages": [], "state": {}, "tools": [], "context": [], "forwarded_props": {}}
        return RunAgentInput(**{"thread_id": "thread-1", "run_id": "run-1", **empty, **fields})

    return make
'''


def unpacked(project: dict[str, Any], python: Path) -> Path:
    """Return the folder of the sdist, downloading it if needed."""
    folder = FOLDER / project["name"]
    sources = [path for path in folder.glob("*-*") if path.is_dir()]
    if not sources:
        command = [str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", project["name"]]
        subprocess.run([*command, "--dest", str(folder), f"{project['name']}=={project['version']}"], check=True)
        (archive,) = folder.glob("*.tar.gz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != project["sha256"]:
            raise SystemExit(f"{archive.name} has the SHA-256 {found}, not {project['sha256']}")
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        sources = [path for path in folder.glob("*-*") if path.is_dir()]
    if "helpers" in project:
        Path(sources[0], project["helpers"]).write_text(HELPERS, encoding="utf-8")
        Path(sources[0], project["helpers"]).with_name("__init__.py").touch()
    return sources[0]


def environment(project: dict[str, Any]) -> Path:
    """Return the interpreter of an environment with the project, the official package, and what the layer needs."""
    folder = FOLDER / "environments" / f"{project['name']}-{project['version']}"
    python = folder / "bin" / "python"
    complete = folder / "complete"
    wanted = [
        f"{project['name']}=={project['version']}",
        f"claude-agent-sdk=={VERSION}",
        "pytest",
        "msgspec",
        "anyio",
        *project["needs"],
    ]
    if not complete.exists() or complete.read_text(encoding="utf-8") != repr(wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        complete.write_text(repr(wanted), encoding="utf-8")
    return python


def outcomes(python: Path, source: Path, tests: list[str], *, layer: bool) -> dict[str, str]:
    """Run the tests; return the outcome of each."""
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-rA",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        *(LAYER if layer else ()),
    ]
    path = str(PROJECT / "src") if layer else ""
    called = subprocess.run(
        [*command, *tests],
        cwd=source,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL) (\S+)", called.stdout, re.MULTILINE)
    if not found:
        raise SystemExit(called.stdout + called.stderr)
    return {name: outcome for outcome, name in found}


def main() -> int:
    """Print the table; return 1 if the layer fails a test that the real package passes."""
    plan = tomllib.loads(PLAN.read_text(encoding="utf-8"))
    print(f"| project | tests | claude-agent-sdk {VERSION} passes | the layer passes |\n|---|---|---|---|")
    worse = []
    for project in plan["project"]:
        python = environment(project)
        source = unpacked(project, python)
        real, layer = (outcomes(python, source, project["tests"], layer=layer) for layer in (False, True))
        passed = [sum(outcome == "PASSED" for outcome in found.values()) for found in (real, layer)]
        print(f"| {project['name']} {project['version']} | {len(real)} | {passed[0]} | {passed[1]} |", flush=True)
        worse += [name for name, outcome in real.items() if outcome == "PASSED" != layer.get(name)]
    for project in plan["without_tests"]:
        print(f"| {project['name']} {project['version']} | none in its sdist | - | - |")
    for name in worse:
        print(f"passes with the real package alone: {name}")
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
