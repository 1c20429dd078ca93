"""Two states of Hackamore beside each other, and beside the official package: `./dev bench --against REV`.

Each measurement runs in a process of its own, and the states take turns, so that the noise of the machine hits all of them. The works are
those of `./dev bench`; only the folder that `PYTHONPATH` names differs. The source of REV is unpacked into `.dev/against`.
`--short` takes few frames and rounds and compares with `PINNED`. It ends with 1 if a state has lost much: see `LEAST` and `MOST_MEMORY`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import clients
import frames
import round_trips
import startup
import steered

if TYPE_CHECKING:
    from collections.abc import Iterator

PINNED = "a8177cdd829bc43b0f2dc98b42a2c52fcfc72371"
"""The state that `--short` compares with: the fastest one before many parts were added."""
LEAST = 0.6
"""The smallest rate beside REV: it has to be that of the wall clock and of the processor, because a busy machine changes both."""
MOST_MEMORY = 1.5
"""The largest memory beside REV."""
TRIES = 3
"""How often a work is measured that misses a limit: all its rounds count."""
ROOT = Path(__file__).resolve().parent.parent
OFFICIAL = ROOT / ".dev" / "official"
ROUND_TRIPS = 400


class State(NamedTuple):
    """Code that is measured: a folder for `PYTHONPATH`, and the name under which the package is imported."""

    title: str
    folder: Path
    package: str


class Work(NamedTuple):
    """What is measured.

    Attributes:
        kind: `flood` (messages of a query), `hook` (round trips), `ready` (a program up to its query).
        client: the client in `clients.py` or `steered.py`, or the program in `startup.py`.
        yardstick: the same of the official package; empty if there is none to compare with.
        stand_in: the output of the CLI, for a flood.
        frames: its messages; for a hook its round trips.
        short: the same, for the short form; 0 leaves the work out.
    """

    title: str
    kind: str
    client: str
    yardstick: str = ""
    stand_in: str = ""
    frames: int = 1
    short: int = 0


WORKS = (
    Work("300 bytes, asyncio", "flood", "hackamore", "official", "assistant_300", 200_000, 60_000),
    Work("300 bytes, blocking", "flood", "hackamore-blocking", "", "assistant_300", 200_000),
    Work("300 bytes, trio", "flood", "hackamore-trio", "", "assistant_300", 200_000),
    Work("partial events, asyncio", "flood", "hackamore", "official", "partial_event", 200_000, 60_000),
    Work("partial events with blanks", "flood", "hackamore", "", "partial_event_with_blanks", 200_000, 60_000),
    Work("5 kB, asyncio", "flood", "hackamore", "official", "assistant_5000", 20_000, 12_000),
    Work("5 kB, blocking", "flood", "hackamore-blocking", "", "assistant_5000", 20_000),
    Work("hook, asyncio", "hook", "hackamore", "official", frames=ROUND_TRIPS, short=ROUND_TRIPS // 2),
    Work("hook, trio", "hook", "hackamore-trio", "official-trio", frames=ROUND_TRIPS),
    Work("hook, blocking", "hook", "hackamore-blocking", "", frames=ROUND_TRIPS),
    Work("ready to query, blocking", "ready", "hackamore ready, blocking", "official ready", short=1),
    Work("ready to query, asyncio", "ready", "hackamore ready", "official ready"),
)

Figures = dict[str, float]


# -- one measurement, in a process of its own --------------------------------------------------------------------------


def flood(client: str, path: str, count: int) -> Figures:
    """Return the seconds of a message, by the clock and by the processor, and the peak of this process."""
    command = {"path": path, "expected": count + 2, "touched": False}
    figures = clients.CLIENTS[client]().run(command).report(0)
    return {
        "seconds": figures["seconds"] / count,
        "cpu": figures["cpu"] / count,
        "peak": figures["rss_peak"],
    }


def hook(client: str, path: str, count: int) -> Figures:
    """Return the median of the round trips, and the seconds of the processor for one."""
    one = steered.CLIENTS[client]()
    one.run(path, {"hook": round_trips.WARM_UP})
    begin = time.process_time()
    found = one.run(path, {"hook": count})["hook"]
    return {
        "seconds": statistics.median(found),
        "cpu": (time.process_time() - begin) / count,
        "peak": clients.memory("VmHWM"),
    }


MEASURES = {"flood": flood, "hook": hook}


def measure_one(kind: str, client: str, path: str, count: int, package: str) -> None:
    """Measure in this process, and print the figures. An older state has another name: `hackamore` stands for it."""
    if package != "hackamore":
        names = ["", ".sync"] if "blocking" in client else [""]
        for name in names:
            sys.modules[f"hackamore{name}"] = importlib.import_module(f"{package}{name}")
    print(json.dumps(MEASURES[kind](client, path, count)))


def measure(work: Work, state: State, path: str, count: int, environment: dict[str, str]) -> Figures:
    """Measure in a fresh process; return its figures."""
    client = work.yardstick if state.title == "official" else work.client
    folders = {**environment, "PYTHONPATH": str(state.folder)}
    if work.kind == "ready":
        # Fresh programs, without the modules of this one: they import nothing but the package.
        program = startup.PROGRAMS[client].format(path=path).replace("hackamore", state.package)
        if state.package != "claude_agent_sdk":
            assert state.package in program
        begin = time.perf_counter()
        printed = subprocess.run(
            [sys.executable, "-c", f"{program}\n{startup.PEAK}\nimport time; print(time.process_time())"],
            env=folders,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.split()
        return {"seconds": time.perf_counter() - begin, "cpu": float(printed[2]), "peak": float(printed[0])}
    command = [sys.executable, __file__, "--one", work.kind, client, path, str(count), state.package]
    printed_line = subprocess.run(command, env=folders, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: Figures = json.loads(printed_line)
    return found


# -- the states --------------------------------------------------------------------------------------------------------


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=False, capture_output=True)


def unpacked(revision: str) -> State:
    """Unpack the source of a revision, if that was not done before; return it."""
    found = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found.returncode:
        if git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true":
            print(f"skipped: this clone is shallow and has no commit {revision} (git fetch --unshallow)")
            raise SystemExit(0)
        raise SystemExit(f"no commit {revision} in this clone")
    commit = found.stdout.decode().strip()
    against = ROOT / ".dev" / "against"
    folder = against / commit
    if not folder.exists():
        shutil.rmtree(against, ignore_errors=True)
        archive = git("archive", "--format=tar", commit, "src")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
    packages = [init.parent.name for init in sorted((folder / "src").glob("*/__init__.py"))]
    return State(commit[:7], folder / "src", packages[0])


def states(revision: str) -> list[State]:
    found = [State("this state", ROOT / "src", "hackamore"), unpacked(revision)]
    if OFFICIAL.exists() or importlib.util.find_spec("claude_agent_sdk"):
        found.append(State("official", OFFICIAL, "claude_agent_sdk"))
    else:
        print("the official package is not installed, and is left out")
    return found


# -- all of it ---------------------------------------------------------------------------------------------------------


def stand_ins(folder: Path, works: list[tuple[Work, int]]) -> dict[str, str]:
    """Write the programs that stand for the CLI; return their paths by the work."""
    found: dict[str, str] = {}
    for work, count in works:
        if work.kind == "hook":
            found[work.title] = str(round_trips.peer(folder))
            continue
        name = f"{work.stand_in or 'assistant_300'}-{count}"
        frame = getattr(frames, work.stand_in or "assistant_300")
        if name not in found:
            found[name], _ = frames.write_stand_in(folder, name, (frame(number) for number in range(count)))
        found[work.title] = found[name]
    return found


def shown(work: Work, seconds: float) -> str:
    if work.kind == "flood":
        return f"{1 / seconds:9,.0f}/s"
    return f"{seconds * 1e6:8,.0f} us" if work.kind == "hook" else f"{seconds * 1e3:8.1f} ms"


def rows(work: Work, found: dict[str, list[Figures]]) -> Iterator[str]:
    """Yield a line for each state: best and median by the clock and by the processor, and the peak."""
    yield work.title
    ours = found["this state"]
    for state, figures in found.items():
        cells = []
        for name in ("seconds", "cpu"):
            values = [each[name] for each in figures]
            best, own = min(values), min(each[name] for each in ours)
            ratio = "" if state == "this state" else f"x{best / own:.2f}"
            cells.append(f"{shown(work, best)} ({shown(work, statistics.median(values)).strip():>11}) {ratio:>6}")
        peak = statistics.median(each["peak"] for each in figures) / 1e6
        yield f"  {state:12}{cells[0]}   {cells[1]}   {peak:6.1f} MB"


def lost(work: Work, found: dict[str, list[Figures]], revision: str) -> Iterator[str]:
    """Yield the limits of the short form that this state misses."""

    def best(state: str, name: str) -> float:
        return min(each[name] for each in found[state])

    rates = [best(revision, name) / best("this state", name) for name in ("seconds", "cpu")]
    if max(rates) < LEAST:
        yield f"{work.title}: x{max(rates):.2f} of the rate of {revision}, wanted >= x{LEAST}"
    memory = best("this state", "peak") / best(revision, "peak")
    if memory > MOST_MEMORY:
        yield f"{work.title}: x{memory:.2f} of the memory of {revision}, wanted <= x{MOST_MEMORY}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench --against", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revision", nargs="?", default=PINNED, help="the commit to compare with")
    parser.add_argument("--short", action="store_true", help="half a minute, and limits")
    parser.add_argument("--rounds", type=int, help="rounds (7; 3 with --short)")
    parser.add_argument("--only", default="", metavar="TEXT", help="works with TEXT in their title")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the messages")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        kind, client, path, count, package = given.one
        measure_one(kind, client, path, int(count), package)
        return 0
    begin = time.monotonic()
    compared = states(given.revision)
    if given.short:
        compared = compared[:2]
    works = [(work, work.short if given.short else int(work.frames * given.scale) or 1) for work in WORKS]
    works = [(work, count) for work, count in works if given.only in work.title and count]
    with tempfile.TemporaryDirectory(prefix="hackamore-bench-") as name:
        folder = Path(name)
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("CLAUDE", "ANTHROPIC", "PYTHON"))
        }
        environment = {**kept, "HOME": name, "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1"}
        paths = stand_ins(folder, works)
        print(
            f"{'':14}by the clock: best (median)      by the processor: best (median)   peak, load {os.getloadavg()[0]:.1f}"
        )
        found: dict[str, dict[str, list[Figures]]] = {work.title: {} for work, _ in works}
        again = works
        for _ in range(TRIES if given.short else 1):
            for number in range((given.rounds or (3 if given.short else 7)) + 1):
                for work, count in again:
                    for state in compared[number % len(compared) :] + compared[: number % len(compared)]:
                        if state.title == "official" and not work.yardstick:
                            continue
                        figures = measure(work, state, paths[work.title], count, environment)
                        if number:  # round 0 writes byte code and fills caches
                            found[work.title].setdefault(state.title, []).append(figures)
            again = [it for it in again if given.short and [*lost(it[0], found[it[0].title], compared[1].title)]]
        for work, _ in works:
            in_order = {it.title: found[work.title][it.title] for it in compared if it.title in found[work.title]}
            print(*rows(work, in_order), sep="\n", flush=True)
        missed = [text for work, _ in again for text in lost(work, found[work.title], compared[1].title)]
    print(f"{time.monotonic() - begin:.0f} s, load {os.getloadavg()[0]:.1f}")
    print(*(f"missed: {each}" for each in missed), sep="\n", end="\n" if missed else "")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
