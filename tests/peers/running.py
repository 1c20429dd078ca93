"""Runs the programs on the official clients, on the simulated CLI and on the real one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hackamore.hooks.matchers import Hooks
from hackamore.testing import SimulatedCLI
from hackamore.testing.model.environment import isolated_environment
from tests.conftest import PROJECT
from tests.fidelity.frames import Recording
from tests.peers.features import SCHEMA
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

    from tests.peers.features import Feature

PROGRAMS = PROJECT / "tests" / "peers" / "programs"
PYTHON_PACKAGES = PROJECT / ".dev" / "official"
NODE_PACKAGES = PROJECT / ".dev" / "node" / "node_modules"
EVENTS = tuple(sorted(Hooks.__annotations__))
_IDS = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|toolu_\w+|\ba[0-9a-f]{16}\b|(?<=duration_ms: )\d+"
)


class Run(NamedTuple):
    """One run of a program.

    Attributes:
        seen: what the program printed, a JSON array each.
        processes: what passed between the client and each CLI process.
        errors: its stderr.
    """

    seen: list[Any]
    processes: list[Recording]
    errors: str


def run(client: str, feature: Feature, how: Literal["real", "simulated"], folder: Path, cli_path: str) -> Run:
    """Run a program on a CLI.

    Args:
        client: `python` or `typescript`.
        feature: what it does.
        how: on the real CLI, or on the simulated one.
        folder: an empty folder.
        cli_path: the real CLI.
    """
    home, work, logs = folder / "home", folder / "work", folder / "logs"
    for each in (home, work, logs):
        each.mkdir(parents=True)
    script = feature.write()
    kept = {name: value for name, value in isolated_environment("", home).items() if value is not None}
    environment = {"LANG": "C.UTF-8", "IS_SANDBOX": "1", "PATH": os.environ["PATH"], **kept}
    environment |= {"PEER_LOGS": str(logs), "PEER_SCHEMA": SCHEMA, "PEER_EVENTS": json.dumps(EVENTS)}
    environment["PEER_PROGRAM"] = str(_tee(folder))
    if how == "real":
        with script.model() as model:
            done = _play(client, feature.name, work, {**environment, **model.env, "PEER_CLI": cli_path})
    else:
        cli = SimulatedCLI(script, per_session=feature.name != "resume" and feature.name != "errors", time_scale=0)
        environment |= {"PEER_CLI": str(cli.install(folder / "cli")), "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
        done = _play(client, feature.name, work, environment)
        assert done.returncode == 0, done.stderr
        cli.check()
    assert done.returncode == 0, done.stderr
    places = [(str(folder), "<folder>"), (str(folder).replace("/", "-"), "<folder>"), (str(home), "<home>")]
    text = done.stdout
    for path, name in places:
        text = text.replace(path, name)
    seen = [json.loads(_IDS.sub("<id>", line)) for line in text.splitlines()]
    return Run(seen, [_recording(path, places) for path in sorted(logs.iterdir())], done.stderr)


def _tee(folder: Path) -> Path:
    program = folder / "claude"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {PROGRAMS / "tee.py"} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def _play(client: str, feature: str, work: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    if client == "python":
        command = [sys.executable, str(PROGRAMS / "peer.py"), feature]
        environment = {**environment, "PYTHONPATH": str(PYTHON_PACKAGES)}
    else:
        # Node looks for packages beside the program.
        program = work.with_name("program")
        program.mkdir()
        (program / "node_modules").symlink_to(NODE_PACKAGES)
        command = ["node", str(shutil.copy(PROGRAMS / "peer.mjs", program)), feature]
    return subprocess.run(
        command, cwd=work, env=environment, capture_output=True, text=True, timeout=patience(60), check=False
    )


def _recording(path: Path, places: list[tuple[str, str]]) -> Recording:
    recording = Recording()
    recording.places = places
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, value = json.loads(line)
        if kind == "sent":
            recording.sent.append(json.loads(value))
        elif kind == "received":
            recording.received.append(json.loads(value))
        elif kind == "exit":
            recording.exit_code = value
    return recording
