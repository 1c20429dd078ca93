"""Hackamore beside the official package on conversations on the disk: `python bench/transcripts.py`, and a part of `./dev bench`.

2,000 sessions (1 GB) for lists, usage and search, and one session of 100 MB for reading. `--quick` takes a tenth of the sessions. Each
measurement is a fresh process, and the best of all rounds counts. "Cold" drops the files from the page cache first, by `posix_fadvise`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import string
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SESSIONS, SESSION_BYTES, LARGE_BYTES, PROJECTS = 2000, 500_000, 100_000_000, 20

Figures = dict[str, float]

# What one process measures: the client and the operation are arguments.
WORKER = """
import json, os, resource, sys, time
client, what, config, cache, argument = sys.argv[1:]
os.environ["CLAUDE_CONFIG_DIR"], os.environ["XDG_CACHE_HOME"] = config, cache
if client == "official":
    from claude_agent_sdk import get_session_messages, list_sessions
else:
    from hackamore import transcripts
    from hackamore.messages import decode
OPERATIONS = {
    ("hackamore", "list"): lambda: len(transcripts.list(all_projects=True)),
    ("official", "list"): lambda: len(list_sessions()),
    ("hackamore", "page"): lambda: len(transcripts.list(all_projects=True, limit=20)),
    ("official", "page"): lambda: len(list_sessions(limit=20)),
    ("hackamore", "read"): lambda: sum(1 for _ in transcripts.read(argument).messages),
    ("official", "read"): lambda: len(get_session_messages(argument)),
    ("hackamore", "usage"): lambda: transcripts.usage().total.tokens.replies,
    ("hackamore", "search"): lambda: len(transcripts.search(argument)),
}
def decoder():
    import glob
    (path,) = glob.glob(f"{config}/projects/*/{argument}.jsonl")
    count = 0
    with open(path, "rb") as file:
        for line in file:
            if b'"type":"user"' in line or b'"type":"assistant"' in line:
                decode(line.rstrip(), print)
                count += 1
    return count
OPERATIONS["hackamore", "decoder"] = decoder
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin, used = time.perf_counter(), time.process_time()
count = OPERATIONS[client, what]()
figures = {"wall": time.perf_counter() - begin, "cpu": time.process_time() - used, "count": count}
figures["memory"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
print(json.dumps(figures))
"""


def conversation(words: list[str], rng: random.Random, size: int) -> list[dict[str, Any]]:
    """Return the entries of a session of about `size` bytes, without the fields that differ between sessions."""
    entries: list[dict[str, Any]] = []
    done, number = 0, 0

    def text(count: int) -> str:
        return " ".join(rng.choices(words, k=count))

    def add(kind: str, **fields: Any) -> None:
        nonlocal done
        stamp = f"2026-11-{1 + number // 1440 % 28:02}T{number // 60 % 24:02}:{number % 60:02}:00.000Z"
        entries.append(
            {
                "isSidechain": False,
                "type": kind,
                **fields,
                "timestamp": stamp,
                "cwd": "/srv/project",
                "gitBranch": "main",
            }
        )
        done += len(json.dumps(fields)) + 350

    def reply(*content: dict[str, Any]) -> None:
        usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 9000}
        message = {"id": f"msg_{len(entries)}_", "type": "message", "role": "assistant", "model": "claude-opus-5-5"}
        add("assistant", message={**message, "content": [*content], "usage": usage})

    while done < size:
        number += 1
        add("user", message={"role": "user", "content": text(30)})
        add("attachment", attachment={"type": "file", "content": text(400)})
        reply(
            {"type": "text", "text": text(60)},
            {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": text(20)}},
        )
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text(300)}
        add("user", message={"role": "user", "content": [result]}, toolUseResult={"stdout": text(300), "stderr": ""})
        reply({"type": "text", "text": text(80)})
    return entries


def write(path: Path, entries: list[dict[str, Any]], session_id: str, number: int) -> None:
    parent = None
    with path.open("w", encoding="utf-8") as file:
        for entry in entries:
            own = str(uuid.uuid4())
            line = {"parentUuid": parent, **entry, "uuid": own, "sessionId": session_id}
            text = json.dumps(line, separators=(",", ":"))
            file.write(text.replace('_","type":"message"', f'_{number}","type":"message"') + "\n")
            parent = own
        file.write(
            json.dumps(
                {"type": "last-prompt", "lastPrompt": f"prompt {number}", "sessionId": session_id},
                separators=(",", ":"),
            )
            + "\n"
        )


def build(folder: Path, sessions: int, large: int) -> tuple[str, str]:
    """Write the sessions; return the id of the large one, and a word that is rare."""
    rng = random.Random(7)  # the same files in each run
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 10))) for _ in range(20_000)]
    variants = [conversation(words, rng, SESSION_BYTES) for _ in range(min(50, sessions))]
    for number in range(sessions):
        project = folder / "many" / "projects" / f"-srv-project-{number % PROJECTS}"
        project.mkdir(parents=True, exist_ok=True)
        session_id = str(uuid.uuid4())
        write(project / f"{session_id}.jsonl", variants[number % len(variants)], session_id, number)
    project = folder / "one" / "projects" / "-srv-project"
    project.mkdir(parents=True)
    session_id = str(uuid.uuid4())
    write(project / f"{session_id}.jsonl", conversation(words, rng, large), session_id, 0)
    return session_id, words[123]


def forget(folder: Path) -> None:
    """Drop files from the page cache."""
    for path in folder.rglob("*.jsonl"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(
    folder: Path, rounds: int, say: Callable[[str], None], *, sessions: int = SESSIONS, large: int = LARGE_BYTES
) -> dict[str, Figures]:
    """Return the figures of the best round of each measurement, by `client operation`."""
    say("transcripts: writing sessions")
    session_id, word = build(folder, sessions, large)
    many, one = folder / "many", folder / "one"
    found: dict[str, Figures] = {}

    def run(name: str, client: str, what: str, config: Path, argument: str = "", *, cold: bool = False) -> None:
        say(f"transcripts: {name}")
        if cold:
            forget(config)
        command = [sys.executable, "-c", WORKER, client, what, str(config), str(folder / "cache"), argument]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=600)
        figures: Figures = json.loads(done.stdout)
        if name not in found or figures["wall"] < found[name]["wall"]:
            found[name] = figures

    run("hackamore index", "hackamore", "search", many, word)
    for _ in range(rounds):
        for client in ("hackamore", "official"):
            run(f"{client} list, cold", client, "list", many, cold=True)
            run(f"{client} list", client, "list", many)
            run(f"{client} page", client, "page", many)
            run(f"{client} read", client, "read", one, session_id)
        run("hackamore decoder", "hackamore", "decoder", one, session_id)
        run("hackamore usage", "hackamore", "usage", many)
        run("hackamore search, rare word", "hackamore", "search", many, word)
        run("hackamore search, two words", "hackamore", "search", many, f"{word} main")
    bytes_of = {config.name: sum(path.stat().st_size for path in config.rglob("*.jsonl")) for config in (many, one)}
    found["sizes"] = {"sessions": sessions, "many": bytes_of["many"], "one": bytes_of["one"]}
    return found


def show(row: Callable[..., None], title: Callable[..., None], found: dict[str, Figures]) -> None:
    """Print the figures."""
    sizes = found["sizes"]
    section = f"Transcripts: {sizes['sessions']:,.0f} sessions ({sizes['many'] / 1e6:,.0f} MB), one of {sizes['one'] / 1e6:,.0f} MB"
    title(section, f"  {'':30}Hackamore     official")
    full = sizes["sessions"] == SESSIONS
    for name, text in (
        ("list, cold", "list all, cold"),
        ("list", "list all"),
        ("page", "list the newest 20"),
        ("read", "read the large one"),
    ):
        ours, theirs = found[f"hackamore {name}"], found[f"official {name}"]
        shown = f"{ours['wall'] * 1e3:8,.0f} ms {theirs['wall'] * 1e3:8,.0f} ms"
        limit = {"target": "< 1 s", "passed": ours["wall"] < 1} if name == "list, cold" and full else {}
        row(section, text, shown, ratio=f"x{theirs['wall'] / ours['wall']:.1f}", **limit)
    ours, theirs, decoder = found["hackamore read"], found["official read"], found["hackamore decoder"]
    row(
        section,
        "memory of reading",
        f"{ours['memory'] / 1e6:8,.0f} MB {theirs['memory'] / 1e6:8,.0f} MB",
        ratio=f"{ours['memory'] / theirs['memory']:.2f}" if theirs["memory"] else "",
    )
    row(
        section,
        "reading / decoding alone",
        f"{sizes['one'] / ours['wall'] / 1e6:6,.0f} MB/s, {sizes['one'] / decoder['wall'] / 1e6:,.0f} MB/s",
        ratio=f"{ours['wall'] / decoder['wall']:.2f}",
    )
    row(section, "usage by day", f"{found['hackamore usage']['wall'] * 1e3:8,.0f} ms")
    row(section, "make the index", f"{found['hackamore index']['wall'] * 1e3:8,.0f} ms")
    for name in ("search, rare word", "search, two words"):
        took = found[f"hackamore {name}"]["wall"]
        limit = {"target": "< 100 ms", "passed": took < 0.1} if full else {}
        row(section, name, f"{took * 1e3:8,.0f} ms", **limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sessions")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    share = 10 if arguments.quick else 1
    with tempfile.TemporaryDirectory(prefix="hackamore-bench-") as name:
        found = measure(
            Path(name), arguments.rounds, lambda _: None, sessions=SESSIONS // share, large=LARGE_BYTES // share
        )

    def row(
        section: str, name: str, shown: str, *, ratio: str = "", target: str = "", passed: bool | None = None
    ) -> None:
        print(
            f"  {name:30}{shown:46}{ratio:>9}{'' if passed is None else f'  {target} ' + ('kept' if passed else 'missed')}".rstrip()
        )

    show(row, lambda *lines: print(*lines, sep="\n"), found)


if __name__ == "__main__":
    main()
