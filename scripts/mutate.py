"""Measure the tests of files or packages: change the code in one place at a time, and run the tests that execute that place.

`./dev mutate PATH ... [--most N] [--seed N] [--each SECONDS]` prints the mutants that no test noticed, with their diffs, and the survival
rate of each path. Progress goes to stderr. The changes of function bodies come from mutmut, those of SQL, tables, constants and regular
expressions from `mutations.py`; `--kinds` chooses. No file is written: pytest collects once, and a forked copy of this process runs the
tests of one mutant, the fastest first, until the first failure. Which tests execute a function is recorded before; tests that fail then
are named and left out. A mutant that needs more than `--each` seconds of tests counts as not noticed, so the rate is an upper bound. A
failure or timeout counts only if the same tests pass without the change: for a quick test that is checked once, for others each time,
because on a busy machine they may fail. `scripts/equivalent_mutants.toml` lists mutants that do not count.
A change that takes effect at import runs in a new process instead, which imports the module from the changed source.
A function that runs only while its module is imported, as those that build tables, has "no tests": its mutants also count as not noticed.
`--all` tries every package, two at a time, and writes the table of rates for contributors.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import mmap
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType, ModuleType

PROJECT = Path(__file__).resolve().parent.parent
EQUIVALENT = PROJECT / "scripts" / "equivalent_mutants.toml"
# The tests of a package are those of the folder of the same name, and these.
MORE_TESTS = {
    "protocol": (
        "tests/queries/test_core.py",
        "tests/session/test_core.py",
        "tests/session/test_deadlines.py",
        "tests/session/test_long_sessions.py",
        "tests/session/test_steering.py",
    ),
    "queries": (
        "tests/answering/test_observers.py",
        "tests/protocol/test_fast_paths.py",
        "tests/protocol/test_golden.py",
        "tests/protocol/test_states.py",
        "tests/session/test_steering.py",
    ),
    "session": ("tests/answering", "tests/protocol", "tests/queries"),
    "answering": (
        "tests/contract/test_asked.py",
        "tests/contract/test_from_inside.py",
        "tests/session/test_core.py",
        "tests/session/test_observers.py",
        "tests/session/test_storing.py",
    ),
    "checked": ("tests/options", "tests/tools", "tests/hooks"),
    "launch": ("tests/options",),
    "options": ("tests/launch",),
    "errors.py": ("tests/test_errors.py",),
    "dialogs.py": ("tests/answering/test_dialogs.py",),
}
# These read sources, start programs of their own, or take a minute.
NOT_HERE = (
    "tests/contract/test_behaviours.py",
    "tests/contract/test_host_ends.py",
    "tests/session/test_many.py",
    "tests/session/test_random_stops.py",
)
ARGUMENTS = (
    "-q",
    "--capture=no",
    "-m",
    "not real_cli",
    "--shell",
    "asyncio",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
)
KILLED, SURVIVED, NO_TESTS, TIMEOUT, EQUAL, BROKEN = (
    "killed",
    "survived",
    "no tests",
    "timeout",
    "equivalent",
    "not valid",
)
EXIT = {0: SURVIVED, 1: KILLED, 3: BROKEN}
AT_ONCE = 2
MUTANTS, MORE_MUTANTS = 60, 120
# Money, data and secrets: these are measured by themselves.
PARTS = (
    "budgets/ledger.py",
    "fleet/journal",
    "pool/registry.py",
    "storage",
    "transcripts/stores",
    "transports/recording/redaction.py",
)
PAGE = PROJECT / "docs" / "contributing" / "mutation.md"
TABLE_BEGINS, TABLE_ENDS = "<!-- rates: made by ./dev mutate --all -->", "<!-- end of rates -->"
OVERLAID = "--overlaid"  # the first argument of the process that imports a changed file
KINDS = ("code", "sql", "table", "regex")
# A test that takes longer waits for processes or threads, and may fail without a change.
QUICK_SECONDS = 0.2
MOST_DOUBTS = 3


def tests_of(path: Path) -> list[str]:
    """Return the tests of a file or package below `src/bridle`."""
    parts = path.relative_to(PROJECT / "src" / "bridle").parts
    mirrored = PROJECT / "tests"
    for part in parts:
        if not (mirrored / part).is_dir():
            break
        mirrored /= part
    own = [] if mirrored == PROJECT / "tests" else [mirrored.relative_to(PROJECT).as_posix()]
    return [*own, *(name for name in MORE_TESTS.get(parts[0], ()) if (PROJECT / name).exists())]


def codes(code: CodeType, outer: str = "") -> Iterator[CodeType]:
    """Yield the code of each function of a module, and of each method of its classes, in the order of the source."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant.co_qualname == outer + constant.co_name:
            yield constant
            if constant.co_firstlineno and not constant.co_flags & 2:  # a class body: it has no fast locals
                yield from codes(constant, f"{outer}{constant.co_name}.")


@dataclass(frozen=True)
class Source:
    """A file to change: its text, its syntax tree, and the places where it can be changed."""

    path: Path
    text: str
    module: Any
    mutations: list[Any]

    @property
    def name(self) -> str:
        """Return the path in the project."""
        return self.path.relative_to(PROJECT).as_posix()

    @staticmethod
    @functools.cache
    def of(path: Path) -> Source:
        """Return the file with all its mutations inside of functions."""
        from libcst import FunctionDef
        from mutations import extra_changes  # type: ignore[import-not-found]
        from mutmut.mutation.file_mutation import create_mutations

        text = path.read_text(encoding="utf-8")
        module, mutations, *_ = create_mutations(str(path), text)
        inner = [one for one in mutations if isinstance(one.contained_by_top_level_function, FunctionDef)]
        return Source(path, text, module, [*inner, *extra_changes(module)])


@dataclass
class Mutant:
    """One change of one file, and how it ended."""

    source: Source
    number: int
    outcome: str = ""
    diff: str = field(default="", repr=False)

    @property
    def kind(self) -> str:
        """Return what is changed: `code` of a function, `sql`, `table` or `regex`."""
        return str(getattr(self.source.mutations[self.number], "kind", "code"))

    @property
    def at_import(self) -> bool:
        """Return whether the change takes effect while the module is imported."""
        return self.source.mutations[self.number].contained_by_top_level_function is None

    @functools.cached_property
    def text(self) -> str:
        """Return the changed source."""
        change = self.source.mutations[self.number]
        return str(self.source.module.deep_replace(change.original_node, change.mutated_node).code)

    @functools.cached_property
    def changed(self) -> tuple[CodeType, CodeType] | None:
        """Return the code of the changed function before and after, or None for a change that cannot be compiled."""
        name = str(self.source.path)
        try:
            pairs = zip(
                codes(compile(self.source.text, name, "exec", dont_inherit=True)),
                codes(compile(self.text, name, "exec", dont_inherit=True)),
                strict=True,
            )
            return next(((old, new) for old, new in pairs if old.co_flags & 2 and old != new), None)
        except (SyntaxError, ValueError):
            return None

    def unified(self) -> str:
        """Return the change as a diff."""
        before, after = self.source.text.splitlines(), self.text.splitlines()
        return "\n".join(
            difflib.unified_diff(before, after, self.source.name, f"{self.source.name} #{self.number}", "", "", 2, "")
        )


def functions(paths: set[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    """Return the functions of these files that exist, by file, name and line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename in paths:
            found.setdefault(place(thing.__code__), []).append(thing)
    return found


def place(code: CodeType) -> tuple[str, str, int]:
    """Return the file, name and line of a function."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


def in_a_fork(work: Callable[[], int], seconds: float) -> int | None:
    """Return the exit code of `work` in a copy of this process, or None if it took too long and was killed."""
    pid = os.fork()
    if not pid:
        code = 4
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            code = work()
        finally:
            os._exit(code)
    handle = os.pidfd_open(pid)
    try:
        if select.select([handle], [], [], seconds)[0]:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return None
    finally:
        os.close(handle)


class Overlay(importlib.abc.MetaPathFinder):
    """Imports one file from another text."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where the module comes from, if it is the one."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin != self._path:
            return None
        text = self._text

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return compile(text, self.path, "exec", dont_inherit=True)

        return importlib.util.spec_from_file_location(
            name,
            self._path,
            loader=Loader(name, self._path),
            submodule_search_locations=spec.submodule_search_locations,
        )


def run_overlaid(path: str, text: str, names: list[str], seconds: float) -> int | None:
    """Return the exit code of tests in a new process that imports a file from a text; None if they took too long."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = Path(folder) / "arguments.json"
        # pytest would import the file itself, to rewrite its assertions.
        words = [*ARGUMENTS, "--assert=plain", "-x", *names]
        arguments.write_text(json.dumps([path, text, words]), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, __file__, OVERLAID, str(arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def overlaid(arguments: Path) -> int:
    """Run the tests that `run_overlaid` has chosen."""
    path, text, words = json.loads(arguments.read_text(encoding="utf-8"))
    try:
        compile(text, path, "exec", dont_inherit=True)
    except SyntaxError:
        return 1
    sys.path.insert(0, str(PROJECT))
    sys.meta_path.insert(0, Overlay(path, text))
    return int(pytest.main(words))


@dataclass
class Ran:
    """A test that passed without a change."""

    item: pytest.Item
    seconds: float


class Trial:
    """A pytest plugin that runs the collected tests once for the record, and then for each mutant."""

    def __init__(self, mutants: list[Mutant], each: float, until: float | None) -> None:
        self.mutants = mutants
        self.each = each
        self.until = until
        self.failed = False
        self.by_function: dict[tuple[str, str, int], list[Ran]] = {}
        self.slow = 1.0
        self.passes: set[str] = set()  # tests that pass in a fork without a change
        self.sound: dict[str, bool] = {}  # files whose tests pass in a new process without a change
        self._at = mmap.mmap(-1, 4)  # the test that a fork runs, for this process

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self.failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Record, then try the mutants."""
        if session.testsfailed:
            raise session.Failed("the tests could not be collected")
        for source in {mutant.source.path for mutant in self.mutants}:
            parts = source.relative_to(PROJECT / "src").with_suffix("").parts
            importlib.import_module(".".join(part for part in parts if part != "__init__"))
        from tests.support.patience import slow_start

        self.slow = slow_start()  # measured once, and not in each fork
        with tempfile.TemporaryDirectory() as folder:
            self._record(session.items, Path(folder) / "record.json")
        for number, mutant in enumerate(self.mutants):
            if self.until is not None and time.monotonic() > self.until:
                sys.stderr.write("mutate: the time is over\n")
                break
            self._try(mutant)
            sys.stderr.write(
                f"{number + 1}/{len(self.mutants)} {mutant.outcome}: {mutant.source.name} #{mutant.number}\n"
            )
        return True

    def _record(self, items: list[pytest.Item], path: Path) -> None:
        begun = time.monotonic()
        in_a_fork(lambda: self._run_watched(items, path), 3600)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        bad = [items[number].nodeid for number, failed, *_ in lines if failed]
        bad += [item.nodeid for item in items[len(lines) :]]
        for number, failed, seconds, places in lines:
            for one in () if failed else places:
                self.by_function.setdefault(tuple(one), []).append(Ran(items[number], seconds))
        for ran in self.by_function.values():
            ran.sort(key=lambda one: one.seconds)
        sys.stderr.write(f"mutate: {len(items)} tests recorded in {time.monotonic() - begun:.0f} s\n")
        sys.stderr.writelines(f"mutate: left out, because it fails without a change: {name}\n" for name in bad)

    def _run_watched(self, items: list[pytest.Item], path: Path) -> int:
        known = functions({str(mutant.source.path) for mutant in self.mutants})
        names = {id(one.__code__): name for name, group in known.items() for one in group}
        hits: set[tuple[str, str, int]] = set()

        def watch(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and (name := names.get(id(frame.f_code))) is not None:
                hits.add(name)

        threading.setprofile(watch)
        sys.setprofile(watch)
        with path.open("w", encoding="utf-8") as file:
            for number, item in enumerate(items):
                hits.clear()
                self.failed = False
                begun = time.monotonic()
                following = items[number + 1] if number + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                file.write(json.dumps([number, self.failed, time.monotonic() - begun, sorted(hits)]) + "\n")
                file.flush()
        return 0

    def _try(self, mutant: Mutant) -> None:
        mutant.diff = mutant.unified()
        if mutant.at_import:
            mutant.outcome = self._judge_import(mutant)
            return
        if mutant.changed is None:
            mutant.outcome = BROKEN
            return
        old, new = mutant.changed
        tests: list[Ran] = []
        for ran in self.by_function.get(place(old), ()):
            if tests and sum(one.seconds for one in tests) + ran.seconds > self.each * self.slow:
                break
            tests.append(ran)
        mutant.outcome = self._judge(old, new, tests) if tests else NO_TESTS

    def _judge_import(self, mutant: Mutant) -> str:
        """Return the outcome of a change of a table or constant: new processes import the module from the changed source."""
        path = str(mutant.source.path)
        tests = {id(ran): ran for key, group in self.by_function.items() if key[0] == path for ran in group}
        if not tests:  # a module of tables alone: whatever runs may read them
            tests = {id(ran): ran for group in self.by_function.values() for ran in group}
        chosen: list[Ran] = []
        for ran in sorted({ran.item.nodeid: ran for ran in tests.values()}.values(), key=lambda one: one.seconds):
            if chosen and sum(one.seconds for one in chosen) + ran.seconds > self.each * self.slow:
                break
            chosen.append(ran)
        if not chosen:
            return NO_TESTS
        names = [ran.item.nodeid for ran in chosen]
        seconds = 60 + 4 * sum(ran.seconds for ran in chosen) * self.slow
        code = run_overlaid(path, mutant.text, names, seconds)
        if code == 0:
            return SURVIVED
        if path not in self.sound:
            self.sound[path] = run_overlaid(path, mutant.source.text, names, seconds) == 0
        if not self.sound[path]:
            sys.stderr.write(f"mutate: tests of {mutant.source.name} also fail in a new process without a change\n")
            return BROKEN
        return TIMEOUT if code is None else KILLED

    def _judge(self, old: CodeType, new: CodeType, tests: list[Ran]) -> str:
        """Return the outcome of a mutant. After `MOST_DOUBTS` tests that also fail without the change it has survived."""
        for _ in range(MOST_DOUBTS):
            seconds = sum(ran.seconds for ran in tests)
            code = in_a_fork(functools.partial(self._run_changed, tests, old, new), 30 + 4 * seconds)
            outcome = TIMEOUT if code is None else EXIT.get(code, KILLED)
            at = int.from_bytes(self._at[:4], "little")
            if outcome not in {KILLED, TIMEOUT}:
                return outcome
            quick = code is not None and tests[at].seconds < QUICK_SECONDS * self.slow
            if quick and tests[at].item.nodeid in self.passes:
                return outcome
            unchanged = functools.partial(self._run_changed, tests[: at + 1], old, old)
            if in_a_fork(unchanged, 60 + 4 * seconds) == 0:
                self.passes.add(tests[at].item.nodeid)
                return outcome
            sys.stderr.write(f"mutate: it also fails without a change: {tests[at].item.nodeid}\n")
            tests = [ran for ran in tests if ran is not tests[at]]
            if not tests:
                break
        return SURVIVED

    def _run_changed(self, tests: list[Ran], old: CodeType, new: CodeType) -> int:
        try:
            for function in functions({old.co_filename})[place(old)]:
                function.__code__ = new
        except (KeyError, ValueError):
            return 3
        for number, ran in enumerate(tests):
            self._at[:4] = number.to_bytes(4, "little")
            following = tests[number + 1].item if number + 1 < len(tests) else None
            ran.item.config.hook.pytest_runtest_protocol(item=ran.item, nextitem=following)
            if self.failed:
                return 1
        return 0


def equivalent() -> dict[tuple[str, str], str]:
    """Return the reasons why listed mutants do not count, by file and changed lines."""
    if not EQUIVALENT.exists():
        return {}
    rows = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    return {(row["file"], row["change"].strip()): row["reason"] for row in rows}


def change_of(diff: str) -> str:
    """Return the changed lines of a diff, as the list of equivalent mutants has them."""
    lines = [line for line in diff.splitlines()[2:] if line[:1] in "+-"]
    return "\n".join(line[0] + " " + line[1:].strip() for line in lines)


def sample(path: Path, most: int | None, seed: int, kinds: Sequence[str]) -> list[Mutant]:
    """Return mutants of a file or package, chosen at random with this seed."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    files = [file for file in files if not file.read_text(encoding="utf-8").startswith("# Generated ")]
    mutants = [Mutant(Source.of(file), number) for file in files for number in range(len(Source.of(file).mutations))]
    mutants = [mutant for mutant in mutants if mutant.kind in kinds]
    chosen = random.Random(seed).sample(mutants, min(len(mutants), most or len(mutants)))  # noqa: S311
    sys.stderr.write(f"mutate: {len(chosen)} of {len(mutants)} mutants of {path.relative_to(PROJECT)}\n")
    return chosen


def report(path: Path, mutants: list[Mutant], listed: dict[tuple[str, str], str]) -> None:
    """Print the mutants that no test noticed, and the rate."""
    for mutant in mutants:
        reason = listed.get((mutant.source.name, change_of(mutant.diff)))
        if mutant.outcome in {SURVIVED, NO_TESTS} and reason:
            mutant.outcome = EQUAL
            sys.stdout.write(f"{EQUAL}, {reason}: {mutant.source.name} #{mutant.number}\n")
        elif mutant.outcome in {SURVIVED, NO_TESTS}:
            sys.stdout.write(f"{mutant.outcome}: {mutant.source.name} #{mutant.number}\n{mutant.diff}\n")
    found = Counter(mutant.outcome for mutant in mutants if mutant.outcome)
    tried = found.total() - found[EQUAL] - found[BROKEN]
    rate = 100 * (found[SURVIVED] + found[NO_TESTS]) / max(1, tried)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in found.most_common())
    sys.stdout.write(f"{path.relative_to(PROJECT)}: {counts}; survival rate {rate:.1f} % of {tried}\n")


def every_package(most: int | None, seed: int, minutes: float | None) -> int:
    """Measure all packages, `AT_ONCE` at a time, and write the table of the page for contributors; return an exit code."""
    places = sorted({*(PROJECT / "src" / "bridle").iterdir(), *(PROJECT / "src" / "bridle" / name for name in PARTS)})
    places = [place for place in places if place.suffix == ".py" or (place / "__init__.py").is_file()]
    places = [place for place in places if tests_of(place)]
    share = None if minutes is None else minutes * AT_ONCE / len(places)
    rows: dict[str, dict[str, Counter[str]]] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as threads:

        def measure(place: Path) -> None:
            name = place.relative_to(PROJECT).as_posix()
            found = Path(folder) / name.replace("/", "-")
            size = most or (MORE_MUTANTS if name.partition("src/bridle/")[2] in PARTS else MUTANTS)
            words = [name, "--most", str(size), "--seed", str(seed), "--json", str(found)]
            words += [] if share is None else ["--minutes", f"{share:.2f}"]
            with (PROJECT / ".dev" / f"mutants-{found.name}.txt").open("w", encoding="utf-8") as file:
                subprocess.run([sys.executable, __file__, *words], stdout=file, check=False)
            if found.exists():
                rows.update(
                    (name, {kind: Counter(each) for kind, each in kinds.items()})
                    for name, kinds in json.loads(found.read_text(encoding="utf-8")).items()
                )
            sys.stderr.write(f"mutate: {name} is done; survivors are in {file.name}\n")

        list(threads.map(measure, places))
    command = f"./dev mutate --all --seed {seed}" + (f" --minutes {minutes:g}" if minutes else "")
    lines = [
        f"Measured on {datetime.now(UTC):%Y-%m-%d} with `{command}`:",
        "",
        "| package | tried | survived | of these in SQL |",
        "|---|---|---|---|",
    ]
    for name, kinds in sorted(rows.items()):
        tried, survived = (sum(counts(kinds[kind])[at] for kind in kinds) for at in (0, 1))
        of_sql = counts(kinds["sql"])
        lines.append(
            f"| `{name.removeprefix('src/bridle/')}` | {tried} | {survived} ({100 * survived / max(1, tried):.0f} %) | "
            f"{f'{of_sql[1]} of {of_sql[0]}' if of_sql[0] else ''} |"
        )
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(TABLE_BEGINS)
    PAGE.write_text(
        before + TABLE_BEGINS + "\n\n" + "\n".join(lines) + "\n\n" + TABLE_ENDS + rest.partition(TABLE_ENDS)[2],
        encoding="utf-8",
    )
    return 0


def counts(found: Counter[str]) -> tuple[int, int]:
    """Return how many mutants count, and how many of them no test noticed."""
    return found.total() - found[EQUAL] - found[BROKEN], found[SURVIVED] + found[NO_TESTS]


def main() -> int:
    """Mutate, test, report."""
    parser = argparse.ArgumentParser(prog="./dev mutate", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="files or folders below src/bridle")
    parser.add_argument("--most", type=int, metavar="N", help="try at most N mutants of each path (default: all)")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after M minutes (default: when all are tried)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="number that chooses the mutants (default: 0)")
    parser.add_argument(
        "--each",
        type=float,
        default=20,
        metavar="SECONDS",
        help="time of tests for a mutant, without other load (default: 20 s)",
    )
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, metavar="KIND", help=f"what to change: {', '.join(KINDS)} (default: all)"
    )
    parser.add_argument("--all", action="store_true", help=f"try every package, and write the table of {PAGE.name}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the counts of each path to FILE")
    chosen = parser.parse_args()
    if chosen.all:
        return every_package(chosen.most, chosen.seed, chosen.minutes)
    if not chosen.paths:
        parser.error("name files or folders below src/bridle, or `--all`")
    until = chosen.minutes and time.monotonic() + chosen.minutes * 60
    paths = [path.resolve() for path in chosen.paths]
    tests = list(dict.fromkeys(test for path in paths for test in tests_of(path)))
    if not tests:
        parser.error("no folder of tests mirrors this path")
    os.chdir(PROJECT)
    sys.path.insert(0, str(PROJECT))
    os.environ.setdefault("BRIDLE_TEST_EXAMPLES", "0.1")
    by_path = {path: sample(path, chosen.most, chosen.seed, chosen.kinds or KINDS) for path in paths}
    mutants = [mutant for group in by_path.values() for mutant in group]
    folders = [test for test in tests if not any(test != other and test.startswith(f"{other}/") for other in tests)]
    ignored = [word for name in NOT_HERE for word in ("--ignore", name)]
    trial = Trial(mutants, chosen.each, until)
    status = pytest.main([*ARGUMENTS, *ignored, *folders], [trial])
    listed = equivalent()
    for path, group in by_path.items():
        report(path, group, listed)
    if chosen.json:
        counts = {
            path.relative_to(PROJECT).as_posix(): {
                kind: Counter(one.outcome for one in group if one.outcome and one.kind == kind) for kind in KINDS
            }
            for path, group in by_path.items()
        }
        chosen.json.write_text(json.dumps(counts), encoding="utf-8")
    return int(status) if status != pytest.ExitCode.NO_TESTS_COLLECTED and any(one.outcome for one in mutants) else 1


if __name__ == "__main__":
    sys.exit(overlaid(Path(sys.argv[2])) if sys.argv[1:2] == [OVERLAID] else main())
