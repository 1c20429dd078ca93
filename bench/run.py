"""Hackamore beside the official package, beside a bare loop, in one run: `./dev bench`.

`--quick` takes under a minute, the full run under five. With `--check` rows that miss their limit are named, and make the exit status 1.
What is measured and how to read it: docs/contributing/bench.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import frames
import mirror
import pooled
import round_trips
import startup
import transcripts

CLIENT_NAMES = ("hackamore", "official", "hackamore-blocking", "bare", "hackamore-trio", "bare-typed")
TITLES = {
    "hackamore": "Hackamore, asyncio",
    "hackamore-trio": "Hackamore, trio",
    "hackamore-blocking": "Hackamore, blocking",
    "official": "official package",
    "bare": "bare loop, plain objects",
    "bare-typed": "bare loop, Hackamore's types",
}
STREAMS = ("assistant-300", "partial", "assistant-5000", "long-line")
FASTER_ASYNC, FASTER_BLOCKING, FASTER_IMPORT = 4.0, 5.0, 6.0
MEMORY, BARE = 0.5, 1.6

Figures = dict[str, float]


class Worker:
    """A process that serves one client and waits while the others run."""

    def __init__(self, client: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("clients.py")), client],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def round(self, scenario: frames.Scenario, *, touched: bool = False, version_check: bool = False) -> Figures:
        command = {
            "path": scenario.path,
            "expected": scenario.messages,
            "touched": touched,
            "version_check": version_check,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("a client broke; what it said is above")
        figures: Figures = json.loads(answer)
        return figures

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Table:
    """Prints rows as they come and remembers them, and which limits of `--check` they missed."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.missed: list[str] = []

    def print(self, *lines: str) -> None:
        self.text += lines
        print(*lines, sep="\n", flush=True)

    def title(self, *text: str) -> None:
        self.print("", *text)

    def row(
        self, section: str, name: str, shown: str, *, ratio: str = "", target: str = "", passed: bool | None = None
    ) -> None:
        verdict = "" if passed is None else "kept" if passed else "missed"
        self.print(f"  {name:30}{shown:46}{ratio:>9}".rstrip())
        self.rows.append(
            {"section": section, "name": name, "shown": shown, "ratio": ratio, "target": target, "verdict": verdict}
        )
        if passed is False:
            self.missed.append(f"{section}: {name} ({ratio.strip()}, wanted {target})")


def say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


# -- throughput --------------------------------------------------------------------------------------------------------


def measure_streams(
    workers: dict[str, Worker], scenarios: dict[str, frames.Scenario], repeats: int
) -> dict[tuple[str, bool, str], list[Figures]]:
    """Run all clients on all scenarios, one after the other and again, so that noise of the machine hits all of them."""
    found: dict[tuple[str, bool, str], list[Figures]] = {}
    for number in range(repeats + 1):
        for name in STREAMS:
            for touched in (False, True):
                say(f"throughput: round {number} of {repeats}, {name}")
                order = list(workers)
                turned = order[number % len(order) :] + order[: number % len(order)]
                for client in turned:
                    figures = workers[client].round(scenarios[name], touched=touched)
                    if number:  # round 0 warms up
                        found.setdefault((name, touched, client), []).append(figures)
                characters = {found[name, touched, client][-1]["characters"] for client in order} if number else set()
                if len(characters) > 1:
                    raise SystemExit(f"the clients did not read the same text of {name}: {characters}")
    return found


def measure_long_line_memory(
    environment: dict[str, str], scenario: frames.Scenario
) -> dict[tuple[str, bool], tuple[int, int]]:
    """Return the peak and the growth for one long line, each in a process that does nothing else."""
    found = {}
    for client in CLIENT_NAMES:
        for touched in (False, True):
            say(f"memory: {client}")
            worker = Worker(client, environment)
            figures = worker.round(scenario, touched=touched)
            worker.close()
            found[client, touched] = int(figures["rss_peak"]), int(figures["rss_peak"] - figures["rss_before"])
    return found


def seconds_of(name: str, rounds: list[Figures]) -> list[float]:
    # With one long line, which is nearly all there is, it depends on chance when the first message is delivered: so start to end.
    return [figures["begin_to_last" if name == "long-line" else "seconds"] for figures in rounds]


def show_streams(
    table: Table,
    scenarios: dict[str, frames.Scenario],
    found: dict[tuple[str, bool, str], list[Figures]],
    sizes: dict[tuple[str, bool], tuple[int, int]],
) -> None:
    for name in STREAMS:
        scenario = scenarios[name]
        single = name == "long-line"
        frames_between = scenario.messages - 1
        for touched in (False, True):
            section = f"{scenario.title}{', every text read' if touched else ''}"
            unit = "ms (median)  CPU ms" if single else "frames/s (median)    MB/s  CPU us/frame"
            table.title(f"{section}" + ("" if single else f": {scenario.count:,} frames"), f"  {'':30}{unit}")
            best = {client: min(seconds_of(name, found[name, touched, client])) for client in TITLES}
            for client, title in TITLES.items():
                rounds = found[name, touched, client]
                middle = statistics.median(seconds_of(name, rounds))
                cpu = min(figures["cpu"] for figures in rounds)
                if single:
                    shown = f"{best[client] * 1e3:7.1f} ({middle * 1e3:6.1f})  {cpu * 1e3:6.1f}"
                else:
                    rate, middle_rate = frames_between / best[client], frames_between / middle
                    megabytes = rate * scenario.frame_bytes / 1e6
                    shown = f"{rate:9,.0f} ({middle_rate:9,.0f})  {megabytes:6.0f}  {cpu / frames_between * 1e6:8.2f}"
                faster = best["official"] / best[client]
                if client in {"hackamore", "hackamore-blocking"}:
                    wanted = FASTER_BLOCKING if client == "hackamore-blocking" else FASTER_ASYNC
                    table.row(
                        section,
                        title,
                        shown,
                        ratio=f"x{faster:.1f}",
                        target=f">= x{wanted:.0f}",
                        passed=faster >= wanted,
                    )
                else:
                    table.row(section, title, shown, ratio="" if client == "official" else f"x{faster:.1f}")
            for client in ("hackamore", "hackamore-blocking"):
                for bare in ("bare", "bare-typed"):
                    share = best[client] / best[bare]
                    # What lazy payloads cost once they are read is shown, but the target is about delivering messages.
                    judged = bare == "bare" and not touched
                    table.row(
                        section,
                        f"time of {TITLES[client]}",
                        f"/ time of {TITLES[bare]}",
                        ratio=f"{share:.2f}",
                        target=f"<= {BARE}" if judged else "",
                        passed=share <= BARE if judged else None,
                    )
            if single:
                for client, title in TITLES.items():
                    peak, growth = sizes[client, touched]
                    table.row(
                        section,
                        f"peak memory: {title}",
                        f"{peak / 1e6:6.1f} MB, {growth / 1e6:6.1f} MB of it for the line",
                    )


# -- start-up ----------------------------------------------------------------------------------------------------------


def show_startup(table: Table, found: dict[str, Any]) -> None:
    wall, peak, modules = found["wall"], found["peak"], found["modules"]
    ours, theirs = found["importtime"]["hackamore"], found["importtime"]["claude_agent_sdk"]
    section = "import time"
    table.title("Import: fresh interpreters, best of all rounds", f"  {'':30}Hackamore     official")

    def faster(name: str, ours: float, theirs: float, *, judged: bool = True) -> None:
        ratio = theirs / max(ours, 1e-9)
        table.row(
            section,
            name,
            f"{ours * 1e3:6.1f} ms {theirs * 1e3:8.1f} ms",
            ratio=f"x{ratio:.1f}",
            target=f">= x{FASTER_IMPORT:.0f}" if judged else "",
            passed=ratio >= FASTER_IMPORT if judged else None,
        )

    faster("-X importtime", ours, theirs)
    bare = wall["bare"]
    faster("wall, less bare interpreter", wall["hackamore"] - bare, wall["official"] - bare)
    official_ready = wall["official ready"] - bare
    faster("ready to query, asyncio", wall["hackamore ready"] - bare, official_ready)
    faster("ready to query, blocking", wall["hackamore ready, blocking"] - bare, official_ready)
    official_script = wall["official script"] - bare
    faster("whole script, asyncio", wall["hackamore script"] - bare, official_script, judged=False)
    faster("whole script, blocking", wall["hackamore script, blocking"] - bare, official_script, judged=False)
    table.row(section, "bare interpreter", f"{bare * 1e3:6.1f} ms")

    section = "memory"
    table.title("Peak memory of the whole process", f"  {'':30}Hackamore     official")

    def smaller(name: str, ours: str, theirs: str, *, judged: bool = True) -> None:
        ratio = peak[ours] / peak[theirs]
        table.row(
            section,
            name,
            f"{peak[ours] / 1e6:6.1f} MB {peak[theirs] / 1e6:8.1f} MB   modules: {modules[ours]}, {modules[theirs]}",
            ratio=f"{ratio:.2f}",
            target=f"< {MEMORY}" if judged else "",
            passed=ratio < MEMORY if judged else None,
        )

    smaller("after import", "hackamore", "official")
    smaller("ready to query, asyncio", "hackamore ready", "official ready")
    smaller("ready to query, blocking", "hackamore ready, blocking", "official ready")
    smaller("whole script, asyncio", "hackamore script", "official script", judged=False)
    smaller("whole script, blocking", "hackamore script, blocking", "official script", judged=False)
    table.row(section, "bare interpreter", f"{peak['bare'] / 1e6:6.1f} MB                 modules: {modules['bare']}")


# -- one answer, start to finish ---------------------------------------------------------------------------------------


def measure_overhead(
    workers: dict[str, Worker], scenario: frames.Scenario, repeats: int
) -> dict[tuple[str, bool], list[float]]:
    found: dict[tuple[str, bool], list[float]] = {}
    for number in range(repeats + 2):
        say(f"start to finish: {number} of {repeats}")
        for checked in (False, True):
            for client, worker in workers.items():
                figures = worker.round(scenario, version_check=checked)
                if number >= 2:
                    field = "wall" if client in {"hackamore-blocking", "bare"} else "total"
                    found.setdefault((client, checked), []).append(figures[field])
                    if client == "official":
                        found.setdefault(("official-blocking", checked), []).append(figures["wall"])
    return found


def show_overhead(table: Table, found: dict[tuple[str, bool], list[float]]) -> None:
    section = "start to finish"
    titles = {**TITLES, "official": "official, in a running loop", "official-blocking": "official, in asyncio.run"}
    table.title(
        "One answer of an instant CLI, start to finish, warm process: best (median)",
        f"  {'':30}version check off      default settings",
    )
    for client in ("hackamore", "hackamore-trio", "hackamore-blocking", "official", "official-blocking", "bare"):
        plain, checked = found[client, False], found[client, True]
        shown = f"{min(plain) * 1e3:6.1f} ({statistics.median(plain) * 1e3:5.1f}) ms"
        if client != "bare":
            shown += f"    {min(checked) * 1e3:6.1f} ({statistics.median(checked) * 1e3:5.1f}) ms"
        table.row(section, titles[client] if client != "bare" else "bare subprocess", shown)


# -- all of it ---------------------------------------------------------------------------------------------------------


def write_page(page: Path, lines: list[str], command: str, name: str = "measured") -> None:
    """Put lines into a page, between the two marks of that name."""
    start, end = f"<!-- {name}: start -->", f"<!-- {name}: end -->"
    before, rest = page.read_text().split(start)
    after = rest.split(end)[1]
    text = "\n".join(["```text", f"$ {command}", *"\n".join(lines).splitlines(), "```"])
    page.write_text(f"{before}{start}\n{text}\n{end}{after}")


def about() -> dict[str, str]:
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        cpu = next(
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        )
    packages = {name: version(name) for name in ("claude-agent-sdk", "msgspec", "anyio", "trio")}
    import hackamore

    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": f"{os.cpu_count()} x {cpu}",
        "hackamore": hackamore.__version__,
        **packages,
    }


def isolated(folder: Path) -> dict[str, str]:
    """Return an environment in which no library finds configuration or caches of the user."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CLAUDE", "ANTHROPIC", "HACKAMORE", "PYTHON"))
    }
    return {**kept, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer frames and rounds: under a minute")
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE too")
    parser.add_argument(
        "--page", metavar="FILE", help="put the table into FILE (docs/contributing/bench.md), between its marks"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="name the rows that miss their limit, and exit with status 1 if there are any",
    )
    parser.add_argument("--repeats", type=int, help="rounds of each throughput measurement (5; 3 with --quick)")
    arguments = parser.parse_args()
    repeats = arguments.repeats or (3 if arguments.quick else 5)
    begin = time.monotonic()
    table = Table()
    cli = pooled.pinned_cli()
    facts = about()
    table.print(*(f"{name}: {value}" for name, value in facts.items()))
    with tempfile.TemporaryDirectory(prefix="hackamore-bench-") as name:
        folder = Path(name)
        environment = isolated(folder)
        os.environ.clear()
        os.environ.update(environment)
        scenarios = frames.build(folder, scale=0.25 if arguments.quick else 1.0, long_line_bytes=50_000_000)
        begun = startup.measure(scenarios["instant"].path, 3 if arguments.quick else 10, say)
        workers = {client: Worker(client, environment) for client in CLIENT_NAMES}
        overhead = measure_overhead(workers, scenarios["instant"], 5 if arguments.quick else 20)
        streams = measure_streams(workers, scenarios, repeats)
        for worker in workers.values():
            worker.close()
        trips = round_trips.measure(
            folder, environment, 3 if arguments.quick else 8, 300 if arguments.quick else 500, say
        )
        sizes = measure_long_line_memory(environment, scenarios["long-line"])
        (folder / "pool").mkdir()
        (folder / "mirror").mkdir()
        mirrored = mirror.measure(folder / "mirror", 2 if arguments.quick else 5, say)
        (folder / "transcripts").mkdir()
        share = 10 if arguments.quick else 1
        stored = transcripts.measure(
            folder / "transcripts",
            2 if arguments.quick else 3,
            say,
            sessions=transcripts.SESSIONS // share,
            large=transcripts.LARGE_BYTES // share,
        )
        pool = pooled.measure(cli, folder / "pool", 5 if arguments.quick else 15, say) if cli else None
    say("")
    show_startup(table, begun)
    show_streams(table, scenarios, streams, sizes)
    show_overhead(table, overhead)
    before_trips = len(table.text)
    round_trips.show(table.row, table.title, trips)
    after_trips = len(table.text)
    if pool is None:
        table.print("", "Session pool: not measured, the pinned CLI is missing (./dev setup)")
    else:
        pooled.show(table.row, table.title, pool)
    after_pool = len(table.text)
    transcripts.show(table.row, table.title, stored)
    mirror.show(table.row, table.title, mirrored)
    after_transcripts = len(table.text)
    took = time.monotonic() - begin
    table.print(f"\n{took:.0f} s")
    if arguments.check:
        print(*(f"missed: {missed}" for missed in table.missed), sep="\n")
    if arguments.page:
        # Where the files of this run went is of no interest to a reader.
        command, page = "./dev bench" + " --quick" * arguments.quick, Path(arguments.page)
        write_page(page, table.text[:before_trips] + table.text[after_transcripts:], command)
        write_page(page, table.text[before_trips:after_trips], command, "round trips")
        write_page(page, table.text[after_trips:after_pool], command, "pool")
        write_page(page, table.text[after_pool:after_transcripts], command, "transcripts")
    if arguments.json:
        figures = {
            "about": facts,
            "seconds": took,
            "rows": table.rows,
            "missed": table.missed,
            "startup": begun,
            "overhead": [{"client": c, "version_check": v, "seconds": s} for (c, v), s in overhead.items()],
            "streams": [
                {"scenario": s, "touched": t, "client": c, "messages": scenarios[s].messages, "rounds": rounds}
                for (s, t, c), rounds in streams.items()
            ],
            "round_trips": [{"client": c, "kind": k, "sessions": sessions} for (c, k), sessions in trips.items()],
            "pool": pool,
            "transcripts": stored,
            "mirror": [{"client": c, "store": kind, **figures} for (c, kind), figures in mirrored.items()],
            "long_line_memory": [
                {"client": c, "touched": t, "peak": peak, "growth": growth} for (c, t), (peak, growth) in sizes.items()
            ],
        }
        Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if arguments.check and table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
