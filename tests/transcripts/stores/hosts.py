"""Hosts that share a store: each has a home, a configuration and a working directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bridle import Options
from bridle.testing import ScriptedModel
from bridle.transcripts.stores import MemoryStore
from tests.conftest import RealCLI


def options(real_cli: RealCLI, model: ScriptedModel, host: str, store: Any, **more: Any) -> Options:
    """The options of a host: a home, a configuration and a working directory of its own."""
    here = real_cli.directory / host
    cwd = here / more.pop("cwd", "work")
    cwd.mkdir(parents=True, exist_ok=True)
    place = RealCLI(real_cli.cli_path, cwd, here)
    return Options(
        cli_path=real_cli.cli_path, cwd=cwd, env=place.env(model), inherit_env=False, session_store=store, **more
    )


def on_disk(folder: Path) -> dict[tuple[str, str, str], list[Any]]:
    """The transcripts below a folder, by key, without the entries that the CLI does not report."""
    found = {}
    for path in folder.rglob("projects/**/*.jsonl"):
        at = path.parts.index("projects")
        project, session, *rest = (*path.parts[at + 1 : -1], path.stem)
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        found[project, session, "/".join(rest)] = [
            each for each in entries if not each["type"].startswith("api-request")
        ]
    return found


def in_store(store: MemoryStore) -> dict[tuple[str, str, str], list[Any]]:
    return {
        place: [each for each in entries if each["type"] != "agent_metadata"]
        for place, entries in store.transcripts().items()
    }


def private_folders(pid: int | None) -> list[str]:
    """The configuration folder in the environment of a process."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return [each.decode().partition("=")[2] for each in variables if each.startswith(b"CLAUDE_CONFIG_DIR=")]


HOST = """
import os, sys, json
from bridle import Options, sync
from bridle.transcripts.stores import SQLiteStore
given = json.loads(sys.argv[1])
store = SQLiteStore(given.pop("store"))
session = sync.Session(Options(session_store=store, **given))
session.start()
print(session.pid, flush=True)
while True:
    result = session.send("go on").result()
    print(result.session_id, flush=True)
    if sys.stdin.readline() == "":
        break
"""


def host(given: Options, store: Path, **more: Any) -> subprocess.Popen[str]:
    arguments = {
        "cli_path": str(given.cli_path),
        "cwd": str(given.cwd),
        "env": dict(given.env),
        "inherit_env": False,
        "store": str(store),
        **more,
    }
    return subprocess.Popen(
        [sys.executable, "-c", HOST, json.dumps(arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(store.parent)},
    )
