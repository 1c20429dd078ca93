"""Hosts that share a store: each has a home, a configuration and a working directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hackamore import Options
from hackamore.testing import ScriptedModel
from hackamore.transcripts.stores import MemoryStore
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


def kept_files(folder: Path, ending: str) -> list[Path]:
    """The files of conversations below a folder. Other folders may go at any time: those of the CLI's locks."""
    return [
        Path(root, name)
        for root, _, names in os.walk(folder)
        if "projects" in Path(root).parts
        for name in names
        if name.endswith(ending)
    ]


def on_disk(folder: Path) -> dict[tuple[str, str, str], list[Any]]:
    """The transcripts below a folder, by key, without the entries that the CLI does not report."""
    found = {}
    for path in kept_files(folder, ".jsonl"):
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
import sys, json, anyio
from hackamore import Options, sync
from hackamore.transcripts.stores import SQLiteStore

class Asking:
    # Says when it appends, and when it has appended, and waits for a line: what happens next is up to the parent.
    def __init__(self, path):
        self.inner = SQLiteStore(path)
        for name in ("load", "list_sessions", "list_subkeys", "find_session"):
            setattr(self, name, getattr(self.inner, name))

    def append(self, key, entries):
        say("append", len(entries))
        anyio.run(self.inner.append, key, entries)
        say("appended", key.get("subpath", ""), *(each["uuid"] for each in entries if "uuid" in each))

def say(*words):
    # One write: the store is called in another thread, whose words came between those of a print.
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()
    if words[0] in ("append", "appended"):
        sys.stdin.readline()

given = json.loads(sys.argv[1])
number, store = given.pop("number"), Asking(given.pop("store"))
session = sync.Session(Options(session_store=store, **given))
session.start()
say("pid", session.pid)
while True:
    turn = session.send(f"PROMPT-{number}-END")
    say("sent", number)
    turn.result()
    say("result", number)
    number += 1
"""


def words(process: subprocess.Popen[str], *, answer: bool = True) -> list[str]:
    """The next line of a host; `append` and `appended` are answered, so that it goes on."""
    assert process.stdin is not None
    assert process.stdout is not None
    found = process.stdout.readline().split(" ")
    if answer and found[0] in ("append", "appended"):
        print(file=process.stdin, flush=True)
    return [each.strip() for each in found]


def host(given: Options, store: Path, **more: Any) -> subprocess.Popen[str]:
    arguments = {
        "cli_path": str(given.cli_path),
        "cwd": str(given.cwd),
        "env": dict(given.env),
        "inherit_env": False,
        "store": str(store),
        "number": 0,
        **more,
    }
    return subprocess.Popen(
        [sys.executable, "-c", HOST, json.dumps(arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(store.parent)},
    )
