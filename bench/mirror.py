"""The cost of a session store: a stream with and without the copies of its transcript, beside the official package.

The stand-in prints assistant messages of 5 kB, and behind each the entry of the transcript. Each measurement is a
fresh process; clients alternate, and the best of all rounds counts. `python bench/mirror.py` prints this part of `./dev bench` alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MESSAGES = 4_000
ROWS = {
    ("hackamore", "none"): "Hackamore, no store",
    ("hackamore", "memory"): "Hackamore, MemoryStore",
    ("hackamore", "sqlite"): "Hackamore, SQLiteStore",
    ("official", "none"): "official, no store",
    ("official", "memory"): "official, InMemorySessionStore",
}

Figures = dict[str, float]
Found = dict[tuple[str, str], Figures]

WORKER = """
import asyncio, json, sys, time
client, kind, path, folder, expected = sys.argv[1:]
if client == "hackamore":
    from hackamore import Options, query
    from hackamore.transcripts.stores import MemoryStore, SQLiteStore
    store = {"none": lambda: None, "memory": MemoryStore, "sqlite": lambda: SQLiteStore(folder + "/store.db")}[kind]()
    options = Options(cli_path=path, version_check="skip", session_store=store)
    kept = (lambda: store.load(KEY)) if store is not None else None
else:
    from claude_agent_sdk import ClaudeAgentOptions, InMemorySessionStore, query
    store = InMemorySessionStore() if kind == "memory" else None
    options = ClaudeAgentOptions(cli_path=path, session_store=store)
    kept = (lambda: store.load(KEY)) if store is not None else None
KEY = {"project_key": "-work", "session_id": "SESSION"}
async def main():
    count, begin, used = 0, 0.0, 0.0
    async for _ in query(prompt="go", options=options):
        count += 1
        if count == 1:
            begin, used = time.perf_counter(), time.process_time()
    took, used = time.perf_counter() - begin, time.process_time() - used
    stored = len(await kept()) if kept else int(expected)
    if count != int(expected) + 2 or stored != int(expected):
        raise SystemExit(f"{client}, {kind}: {count} messages and {stored} entries instead of {expected}")
    print(json.dumps({"wall": took, "cpu": used}))
asyncio.run(main())
""".replace("SESSION", frames.SESSION)


def _output(home: Path) -> Iterator[bytes]:
    transcript = str(home / ".claude" / "projects" / "-work" / f"{frames.SESSION}.jsonl")
    for number in range(MESSAGES):
        line = frames.assistant_5000(number)
        yield line
        entry = {"parentUuid": None, "isSidechain": False, "cwd": "/home/me", **json.loads(line)}
        frame = {"type": "transcript_mirror", "filePath": transcript, "entries": [entry]}
        yield json.dumps(frame, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def measure(folder: Path, rounds: int, say: Callable[[str], None]) -> Found:
    """Return the figures of the best round of each row.

    Args:
        folder: for the output of the stand-in, the home of the clients, and the file of SQLite.
        rounds: the number of rounds.
        say: told what is going on.
    """
    path = frames.write_stand_in(folder, "mirrored", _output(folder))[0]
    environment = {**os.environ, "HOME": str(folder)}
    environment.pop("CLAUDE_CONFIG_DIR", None)
    found: Found = {}
    for number in range(rounds):
        for client, kind in ROWS:
            say(f"session store: round {number + 1} of {rounds}, {client}, {kind}")
            for file in folder.glob("store.db*"):
                file.unlink()
            command = [sys.executable, "-c", WORKER, client, kind, os.path.abspath(path), str(folder), str(MESSAGES)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=600, env=environment)
            figures: Figures = json.loads(done.stdout)
            if (client, kind) not in found or figures["wall"] < found[client, kind]["wall"]:
                found[client, kind] = figures
    return found


def show(row: Callable[..., None], title: Callable[..., None], found: Found) -> None:
    """Print a table; `row` and `title` are those of the run's table."""
    section = "session store"
    title(
        f"Session store: {MESSAGES:,} messages of 5 kB, each with its entry for the transcript",
        f"  {'':33}wall     CPU   store alone, us/entry",
    )
    for (client, kind), called in ROWS.items():
        took, plain = found[client, kind], found[client, "none"]
        shown = f"{took['wall'] * 1e3:8,.0f} {took['cpu'] * 1e3:7,.0f} ms"
        if kind == "none":
            row(section, called, shown)
            continue
        alone = (took["wall"] - plain["wall"]) / MESSAGES
        theirs = found["official", "memory"]["wall"]
        row(
            section,
            called,
            f"{shown} {alone * 1e6:8,.0f}",
            ratio=f"x{theirs / took['wall']:.1f}" if client == "hackamore" else "",
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hackamore-bench-") as name:
        found = measure(Path(name), arguments.rounds, lambda _: None)

    def row(_: str, name: str, shown: str, *, ratio: str = "") -> None:
        print(f"  {name:33}{shown:34}{ratio:>8}".rstrip())

    show(row, lambda *lines: print(*lines, sep="\n"), found)


if __name__ == "__main__":
    main()
