"""Measure the tests of files or packages: change the code in one place at a time, and run the tests that execute that place.

`./dev mutate PATH ... [--most N] [--seed N ...] [--each SECONDS]` prints the mutants that no test noticed, with their diffs, and the rate
of each path. Progress goes to stderr. The changes of function bodies come from mutmut, those of SQL, tables, constants and regular
expressions from `mutations.py`; `--kinds` chooses. No file is written: pytest collects once, and a forked copy of this process runs the
tests of one mutant, the fastest first, until the first failure. Which tests execute a function is recorded before; tests that fail then
are named and left out. A mutant that needs more than `--each` seconds of tests counts as not noticed, so the rate is an upper bound. A
failure or timeout counts only if the same tests pass without the change: for a quick test that is checked once, for others each time,
because on a busy machine they may fail. `scripts/equivalent_mutants.toml` lists mutants that do not count.
A change that takes effect at import, as that of a default does, runs in a process that imports the module from the changed source: a copy
of one that has already imported all other packages. Its tests are those that execute functions of the module or import it, and then those
of modules that import it.
So is tried what no test executes: it may run only while the module is imported, as functions that build tables.
`--all` tries every package, two at a time, and writes the table of rates for contributors; `--table` makes it of files of `--json`.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import functools
import gc
import importlib
import json
import mmap
import operator
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

PROJECT = Path(__file__).resolve().parent.parent
EQUIVALENT = PROJECT / "scripts" / "equivalent_mutants.toml"
# The tests of a package or file are those of the folder of the same name, and these of it and of the folders around it.
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
    "session": ("tests/answering", "tests/protocol", "tests/queries", "tests/storing"),
    "answering": (
        "tests/contract/test_asked.py",
        "tests/contract/test_from_inside.py",
        "tests/session/test_core.py",
        "tests/session/test_observers.py",
        "tests/storing",
    ),
    "checked": ("tests/options", "tests/tools", "tests/hooks", "tests/project/test_official_names.py"),
    "launch": ("tests/options",),
    "options": ("tests/launch",),
    "transports": (
        "tests/options/test_canaries.py",
        "tests/session/test_limits.py",
        "tests/testing/cassettes/test_cassettes.py",
        "tests/testing/conformance/test_transport.py",
        "tests/traces/test_reading.py",
    ),
    "runtime": (
        "tests/answering/test_reaching.py",
        "tests/answering/test_servers.py",
        "tests/testing/script/test_report.py",
    ),
    "activity": (
        "tests/fleet/test_recovery.py",
        "tests/telemetry/test_reports.py",
        "tests/traces/test_items.py",
        "tests/transcripts/test_accounting.py",
    ),
    "budgets": ("tests/fleet/test_lost_workers.py", "tests/transcripts/test_accounting.py"),
    "pool": ("tests/telemetry/test_pools.py",),
    "storage": (
        "tests/budgets/test_ledger.py",
        "tests/fleet/test_journal.py",
        "tests/pool/test_registry.py",
        "tests/transports/process/test_orphans.py",
    ),
    "testing": (
        "tests/fidelity",
        "tests/queries/test_map.py",
        "tests/queries/test_retry.py",
        "tests/session/test_ask.py",
        "tests/session/test_life.py",
        "tests/telemetry/test_tree.py",
        "tests/transports/recording/test_linear.py",
        "tests/transports/recording/test_trace.py",
    ),
    "traces": ("tests/transports/recording/test_linear.py",),
    "telemetry": ("tests/fleet/test_telemetry.py",),
    "fleet": ("tests/cli/test_fleet_display.py",),
    "transcripts": (
        "tests/cli/test_sessions_command.py",
        "tests/pool/test_keys.py",
        "tests/storing",
        "tests/transcripts/test_migration.py",
    ),
    "errors.py": ("tests/test_errors.py",),
    "dialogs.py": ("tests/answering/test_dialogs.py",),
}
# These read sources, start programs of their own, or take a minute.
NOT_HERE = (
    "tests/contract/test_behaviours.py",
    "tests/contract/test_host_ends.py",
    "tests/fleet/test_lost_cluster.py",
    "tests/fleet/test_lost_workers.py",
    "tests/fleet/test_storm.py",
    "tests/fleet/test_workspace_kills.py",
    "tests/session/test_many.py",
    "tests/session/test_random_stops.py",
    "tests/storage/test_storms.py",
    "tests/transcripts/stores/test_kills.py",
    "tests/transcripts/test_real_cli.py",
)
# The tests of other packages run on asyncio only: what shells have of their own is here, and is generated elsewhere.
ON_EVERY_SHELL = ("transports", "runtime")
# What simulates the CLI is judged beside the real one.
BESIDE_THE_REAL_CLI = ("testing",)
ARGUMENTS = ("-q", "--capture=no", "-pno:cacheprovider", "-pno:xdist")
OUTCOMES = ("killed", "survived", "no tests", "timeout", "equivalent", "not valid")
KILLED, SURVIVED, NO_TESTS, TIMEOUT, EQUAL, BROKEN = OUTCOMES
EXIT = {0: SURVIVED, 1: KILLED, 3: BROKEN}
AT_ONCE = 2
SECONDS = operator.attrgetter("seconds")
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
OVERLAID = "--overlaid"  # the first argument of the process that imports changed files
KINDS = ("code", "sql", "table", "regex")
# A test that takes longer waits for processes or threads, and may fail without a change.
QUICK_SECONDS = 0.2
MOST_DOUBTS = 3


def below(path: Path) -> tuple[str, ...]:
    """Return the way from `src/hackamore` to a file or package, without `_engine`, as `tests` mirrors it."""
    parts = path.relative_to(PROJECT / "src" / "hackamore").parts
    return parts[1:] if parts[0] == "_engine" else parts


def tests_of(path: Path) -> list[str]:
    """Return the tests of a file or package below `src/hackamore`."""
    parts = below(path)
    mirrored = PROJECT / "tests"
    for part in parts:
        if not (mirrored / part).is_dir():
            break
        mirrored /= part
    own = [] if mirrored == PROJECT / "tests" else [mirrored.relative_to(PROJECT).as_posix()]
    places = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    own += [name for place in places for name in MORE_TESTS.get(place, ()) if (PROJECT / name).exists()]
    if path.suffix == ".py" and not re.search(r"^\s*(async )?def ", path.read_text(encoding="utf-8"), re.MULTILINE):
        users = (file.relative_to(PROJECT).as_posix() for file in importers(path))  # tables, which no test executes
        own += sorted(name for name in users if Path(name).name.startswith("test_"))
    return own


def shells(paths: Sequence[Path]) -> list[str]:
    """Return the arguments of pytest that choose the tests of files and packages: on which shells, and whether with the real CLI."""
    packages = {below(path)[0] for path in paths}
    chosen = [] if packages.intersection(ON_EVERY_SHELL) else ["--shell=asyncio"]
    return chosen if packages.intersection(BESIDE_THE_REAL_CLI) else [*chosen, "-m", "not real_cli"]


@functools.cache
def importers(path: Path) -> frozenset[Path]:
    """Return the files below `src/hackamore` and `tests` that import a module by its name."""
    package, _, name = module_of(path).rpartition(".")
    package, name = re.escape(package), re.escape(name)
    wanted = re.compile(
        rf"^\s*(from {package}\.{name} import|import {package}\.{name}\b|from {package} import (\([^)]*|[^\n]*)\b{name}\b)",
        re.MULTILINE,
    )
    files = (file for folder in ("src/hackamore", "tests") for file in (PROJECT / folder).rglob("*.py"))
    return frozenset(file for file in files if wanted.search(file.read_text(encoding="utf-8")))


def module_of(path: Path) -> str:
    """Return the name of the module of a file."""
    parts = path.relative_to(PROJECT / "src").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


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
        from mutations import changes_only_case_of_sql, extra_changes  # type: ignore[import-not-found]
        from mutmut.mutation.file_mutation import create_mutations

        text = path.read_text(encoding="utf-8")
        module, mutations, *_ = create_mutations(str(path), text)
        inner = [
            one
            for one in mutations
            if isinstance(one.contained_by_top_level_function, FunctionDef) and not changes_only_case_of_sql(one)
        ]
        dialect = "postgres" if "postgres" in path.name else "sqlite"
        return Source(path, text, module, [*inner, *extra_changes(module, dialect)])


@dataclass
class Mutant:
    """One change of one file, and how it ended."""

    source: Source
    number: int
    outcome: str = ""

    @property
    def kind(self) -> str:
        """Return what is changed: `code` of a function, `sql`, `table` or `regex`."""
        return str(getattr(self.source.mutations[self.number], "kind", "code"))

    @property
    def at_import(self) -> bool:
        """Return whether the change takes effect while the module is imported, as that of a default or a decorator does."""
        return self.source.mutations[self.number].contained_by_top_level_function is None or self.changed is None

    @functools.cached_property
    def text(self) -> str:
        """Return the changed source."""
        change = self.source.mutations[self.number]
        return str(self.source.module.deep_replace(change.original_node, change.mutated_node).code)

    @functools.cached_property
    def changed(self) -> tuple[CodeType, CodeType] | None:
        """Return the code of the changed function before and after; None if none is changed, or for a change that cannot be compiled."""
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

    @functools.cached_property
    def diff(self) -> str:
        """Return the change as a diff."""
        before, after = self.source.text.splitlines(), self.text.splitlines()
        return "\n".join(
            difflib.unified_diff(before, after, self.source.name, f"{self.source.name} #{self.number}", "", "", 2, "")
        )

    def found(self) -> tuple[str, str, str]:
        """Return the kind and the outcome; the change, if no test noticed it."""
        return self.kind, self.outcome, change_of(self.diff) if self.outcome in {SURVIVED, NO_TESTS, EQUAL} else ""


def functions(paths: set[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    """Return the functions of these files that exist, by file, name and line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    gc.unfreeze()  # `tests/conftest.py` freezes what it collects, and frozen objects are not named
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
            for number in range(3):
                os.dup2(null, number)
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


class Importer:
    """A process that has imported all packages but this one. A copy of it runs the tests of a change that takes effect at import."""

    def __init__(self) -> None:
        own = {"hackamore", "tests", "conftest", "mutations", "mutate", "__main__"}
        command = [sys.executable, __file__, OVERLAID]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._send([name for name in list(sys.modules) if name.partition(".")[0] not in own])

    def _send(self, value: object) -> None:
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps(value).encode() + b"\n")
            self.process.stdin.flush()

    def run(self, path: str, text: str, names: list[str], seconds: float) -> tuple[int | None, int]:
        """Return the exit code of tests with one file imported from a text, None if they took too long; and the place of the last test."""
        # pytest would import the file itself, to rewrite its assertions.
        self._send([path, text, [*ARGUMENTS, "--assert=plain", "-x", *names], seconds])
        code, last = json.loads(self.process.stdout.readline() if self.process.stdout is not None else b'[null, ""]')
        return code, names.index(last) if last in names else 0


def overlaid() -> int:
    """Run the tests that an `Importer` chooses, until its end."""
    sys.path.insert(0, str(PROJECT))
    for name in json.loads(sys.stdin.readline()):
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        path, text, words, seconds = json.loads(line)
        begun = mmap.mmap(-1, 4_096)
        code = in_a_fork(functools.partial(run_overlaid, path, text, words, begun), seconds)
        sys.stdout.write(json.dumps([code, begun[:].rstrip(b"\0").decode("utf-8", "replace")]) + "\n")
        sys.stdout.flush()
    return 0


class Begun:
    """A pytest plugin that writes the name of each test into memory that another process reads."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note the test that begins."""
        self.memory[:] = nodeid.encode()[: len(self.memory)].ljust(len(self.memory), b"\0")


def run_overlaid(path: str, text: str, words: list[str], begun: mmap.mmap) -> int:
    """Run tests that import a file from a text."""
    usual = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        return compile(text, path, "exec", dont_inherit=True) if loader.path == path else usual(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment,method-assign]
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - the other one has a copy of lines of the `Importer`
    return int(pytest.main(words, [Begun(begun)]))


@dataclass(frozen=True, eq=False)
class Ran:
    """A test that passed without a change."""

    item: pytest.Item
    seconds: float


class Trial:
    """A pytest plugin that runs the collected tests once for the record, and then for each mutant."""

    def __init__(self, mutants: list[Mutant], chosen: argparse.Namespace, told: Callable[[], None]) -> None:
        self.mutants = mutants
        self.each: float = chosen.each
        self.until = None if chosen.minutes is None else time.monotonic() + chosen.minutes * 60
        self.workers: int = chosen.workers
        self.told = told  # called after each mutant
        self.failed = False
        self.ran: list[Ran] = []
        self.by_function: dict[tuple[str, str, int], list[Ran]] = {}
        self.known: dict[tuple[str, str, int], list[FunctionType]] = {}
        self.slow = 1.0
        self.passes: set[str] = set()  # tests that pass in a fork without a change
        self.sound: set[tuple[str, str]] = set()  # files and tests that pass in a new process without a change
        self._at = mmap.mmap(-1, 4)  # the test that a fork runs, for this process

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self.failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Record, then try the mutants."""
        if session.testsfailed:
            raise session.Failed("the tests could not be collected")
        for source in {mutant.source.path for mutant in self.mutants}:
            importlib.import_module(module_of(source))
        from tests.support.patience import slow_start

        self.slow = slow_start()  # measured once, and not in each fork
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HACKAMORE_TEST_POSTGRES"] = f"{folder}/postgres"
            self._record(session.items, Path(folder) / "record.json")
            self.known = functions({str(mutant.source.path) for mutant in self.mutants})
            gc.collect()
            gc.freeze()
            self._share(Path(folder) / "runtime")
        return True

    def _share(self, waiting: Path) -> None:
        """Try the mutants in copies of this process, each of which takes the next one."""
        waiting.write_bytes(b"".join(number.to_bytes(4, "little") for number in range(len(self.mutants))))
        queue = os.open(waiting, os.O_RDONLY)
        reading, writing = os.pipe()
        workers = []
        for _ in range(self.workers):
            pid = os.fork()
            if not pid:
                try:
                    self._work(queue, writing)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(0)
            workers.append(os.pidfd_open(pid))
        done = 0
        while ready := select.select([reading, *workers], [], [], None if workers else 0)[0]:
            if reading in ready:
                number, outcome = (int.from_bytes(os.read(reading, 4), "little") for _ in range(2))
                mutant = self.mutants[number]
                mutant.outcome = OUTCOMES[outcome]
                done += 1
                sys.stderr.write(
                    f"{done}/{len(self.mutants)} {mutant.outcome}: {mutant.source.name} #{mutant.number} ({mutant.kind})\n"
                )
                self.told()
            else:
                for handle in ready:
                    os.waitid(os.P_PIDFD, handle, os.WEXITED)
                    workers.remove(handle)
        if done < len(self.mutants):
            sys.stderr.write(f"mutate: {len(self.mutants) - done} were not tried\n")

    def _work(self, queue: int, writing: int) -> None:
        self._at = mmap.mmap(-1, 4)
        while (self.until is None or time.monotonic() < self.until) and (taken := os.read(queue, 4)):
            mutant = self.mutants[int.from_bytes(taken, "little")]
            self._try(mutant)
            os.write(writing, taken + OUTCOMES.index(mutant.outcome).to_bytes(4, "little"))
        if "importer" in self.__dict__:
            self.importer.process.kill()

    @functools.cached_property
    def importer(self) -> Importer:
        """Return the process for changes that take effect at import."""
        return Importer()

    def _record(self, items: list[pytest.Item], path: Path) -> None:
        begun = time.monotonic()
        in_a_fork(lambda: self._run_watched(items, path), 3600)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        bad = [items[number].nodeid for number, failed, *_ in lines if failed]
        bad += [item.nodeid for item in items[len(lines) :]]
        for number, failed, seconds, places in lines:
            if not failed:
                ran = Ran(items[number], seconds)
                self.ran.append(ran)
                for one in places:
                    self.by_function.setdefault(tuple(one), []).append(ran)
        for group in self.by_function.values():
            group.sort(key=SECONDS)
        sys.stderr.write(f"mutate: {len(items)} tests recorded in {time.monotonic() - begun:.0f} s\n")
        sys.stderr.writelines(f"mutate: left out, because it fails without a change: {name}\n" for name in bad)

    def _run_watched(self, items: list[pytest.Item], path: Path) -> int:
        readers = {file for mutant in self.mutants if mutant.at_import for file in importers(mutant.source.path)}
        known = functions({str(file) for file in (*readers, *(mutant.source.path for mutant in self.mutants))})
        names = {id(one.__code__): name for name, group in known.items() for one in group}
        hits: set[tuple[str, str, int]] = set()

        def watch(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and (name := names.get(id(frame.f_code))) is not None:
                hits.add(name)

        threading.setprofile(watch)
        with path.open("w", encoding="utf-8") as file:
            for number, item in enumerate(items):
                hits.clear()
                self.failed = False
                sys.setprofile(watch)  # again: after a test with its own, all others would seem to run nothing
                begun = time.monotonic()
                following = items[number + 1] if number + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                file.write(json.dumps([number, self.failed, time.monotonic() - begun, sorted(hits)]) + "\n")
                file.flush()
        return 0

    def _try(self, mutant: Mutant) -> None:
        if mutant.at_import or mutant.changed is None:
            mutant.outcome = self._judge_import(mutant)
            return
        old, new = mutant.changed
        tests: list[Ran] = []
        for ran in self.by_function.get(place(old), ()):
            if tests and sum(one.seconds for one in tests) + ran.seconds > self.each * self.slow:
                break
            tests.append(ran)
        # A function that runs while its module is imported has no tests of its own, and one with other closures cannot be changed in place.
        outcome = self._judge(old, new, tests) if tests else BROKEN
        mutant.outcome = self._judge_import(mutant) if outcome == BROKEN else outcome

    def _judge_import(self, mutant: Mutant) -> str:
        """Return the outcome of a change of a table, constant or default: new processes import the module from the changed source."""
        path = str(mutant.source.path)
        try:
            compile(mutant.text, path, "exec", dont_inherit=True)
        except SyntaxError:
            return BROKEN
        name = getattr(
            getattr(mutant.source.mutations[mutant.number].contained_by_top_level_function, "name", None), "value", ""
        )
        readers = importers(mutant.source.path)
        reading = {str(file) for file in readers}
        called = [
            ran
            for key, group in self.by_function.items()
            if key[0] == path and name in key[1].split(".")
            for ran in group
        ]
        own = [ran for key, group in self.by_function.items() if key[0] == path for ran in group]
        own += [ran for ran in self.ran if ran.item.path in readers]  # tests of a table may execute no function of it
        more = [ran for key, group in self.by_function.items() if key[0] in reading for ran in group]
        chosen: list[Ran] = []
        for ran in dict.fromkeys(ran for group in (called, own, more) for ran in sorted(group, key=SECONDS)):
            if chosen and sum(one.seconds for one in chosen) + ran.seconds > self.each * self.slow:
                break
            chosen.append(ran)
        if not chosen:
            return NO_TESTS
        for _ in range(MOST_DOUBTS):
            names = [ran.item.nodeid for ran in chosen]
            seconds = 60 + 4 * sum(ran.seconds for ran in chosen) * self.slow
            code, at = self.importer.run(path, mutant.text, names, seconds)
            if code == 0:
                return SURVIVED
            outcome = TIMEOUT if code is None else KILLED
            if code is not None and (path, names[at]) in self.sound and chosen[at].seconds < QUICK_SECONDS * self.slow:
                return outcome
            if self.importer.run(path, mutant.source.text, names[: at + 1], seconds)[0] == 0:
                self.sound.add((path, names[at]))
                return outcome
            sys.stderr.write(f"mutate: in a new process it also fails without a change: {names[at]}\n")
            if not (chosen := [ran for ran in chosen if ran is not chosen[at]]):
                break
        return BROKEN

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
            for function in self.known[place(old)]:
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


def sample(path: Path, most: int | None, seeds: Sequence[int], kinds: Sequence[str]) -> tuple[list[Mutant], int]:
    """Return mutants of a file or package, chosen at random with each of the seeds in turn; and how many there are."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    files = [file for file in files if not file.read_text(encoding="utf-8").startswith("# Generated ")]
    mutants = [Mutant(Source.of(file), number) for file in files for number in range(len(Source.of(file).mutations))]
    mutants = [mutant for mutant in mutants if mutant.kind in kinds]
    size = min(len(mutants), most or len(mutants))
    samples = [random.Random(seed).sample(range(len(mutants)), size) for seed in seeds]  # noqa: S311
    chosen = [mutants[at] for at in dict.fromkeys(at for each in zip(*samples, strict=True) for at in each)]
    sys.stderr.write(f"mutate: {len(chosen)} of {len(mutants)} mutants of {path.relative_to(PROJECT)}\n")
    return chosen, len(mutants)


def report(path: Path, mutants: list[Mutant], listed: dict[tuple[str, str], str]) -> None:
    """Print the mutants that no test noticed, and the rate."""
    for mutant in (one for one in mutants if one.outcome in {SURVIVED, NO_TESTS}):
        if reason := listed.get((mutant.source.name, change_of(mutant.diff))):
            mutant.outcome = EQUAL
            sys.stdout.write(f"{EQUAL}, {reason}: {mutant.source.name} #{mutant.number}\n")
        else:
            sys.stdout.write(f"{mutant.outcome}: {mutant.source.name} #{mutant.number}\n{mutant.diff}\n")
    found = Counter(mutant.outcome for mutant in mutants if mutant.outcome)
    tried, survived = counts(found)
    words = ", ".join(f"{count} {outcome}" for outcome, count in found.most_common())
    rate = 100 * survived / max(1, tried)
    sys.stdout.write(f"{path.relative_to(PROJECT)}: {words}; survival rate {rate:.1f} % of {tried}\n")


def write_json(file: Path, words: str, by_path: dict[Path, tuple[list[Mutant], int]]) -> None:
    """Write what was found so far, for `table`."""
    found = {
        path.relative_to(PROJECT).as_posix(): {
            "of": of,
            "tried": {f"{one.source.name} #{one.number}": one.found() for one in mutants if one.outcome},
        }
        for path, (mutants, of) in by_path.items()
    }
    text = json.dumps({"date": f"{datetime.now(UTC):%Y-%m-%d}", "command": words, "paths": found}, indent=1)
    file.write_text(text, encoding="utf-8")


def table(files: Sequence[Path], command: str = "") -> None:
    """Write the table of the page for contributors from files of `--json`; a mutant that several of them have counts once."""
    listed = equivalent()
    reports = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    rows: dict[str, dict[str, Any]] = {}
    for each in reports:
        for name, found in each["paths"].items():
            row = rows.setdefault(name, {"of": found["of"], "tried": {}})
            row["tried"].update(found["tried"])
    days = [each["date"] for each in reports]
    dates = " to ".join(dict.fromkeys((min(days), max(days))))
    commands = [command] if command else sorted({each["command"] for each in reports})
    lines = [
        f"Measured on {dates} with {', '.join(f'`{one}`' for one in commands)}:",
        "",
        "| package | tried | survived | survived, by kind |",
        "|---|---|---|---|",
    ]
    for name, row in sorted(rows.items()):
        kinds = {kind: Counter[str]() for kind in KINDS}
        for one, (kind, outcome, change) in row["tried"].items():
            kinds[kind][EQUAL if change and (one.partition(" #")[0], change) in listed else outcome] += 1
        found = sum(kinds.values(), Counter[str]())
        tried = f"{counts(found)[0]} of {row['of']}" + (f", {found[EQUAL]} equivalent" if found[EQUAL] else "")
        by_kind = "; ".join(f"`{kind}` {text}" for kind, each in kinds.items() if (text := cell(each)))
        cells = [tried, cell(found), by_kind]
        if row["of"]:
            lines.append(f"| `{name.removeprefix('src/hackamore/')}` | {' | '.join(cells)} |")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(TABLE_BEGINS)
    after = rest.partition(TABLE_ENDS)[2]
    PAGE.write_text(f"{before}{TABLE_BEGINS}\n\n{chr(10).join(lines)}\n\n{TABLE_ENDS}{after}", encoding="utf-8")


def counts(found: Counter[str]) -> tuple[int, int]:
    """Return how many mutants count, and how many of them no test noticed."""
    return found.total() - found[EQUAL] - found[BROKEN], found[SURVIVED] + found[NO_TESTS]


def cell(found: Counter[str]) -> str:
    """Return how many mutants no test noticed, for a table."""
    tried, survived = counts(found)
    return f"{survived} of {tried} ({100 * survived / tried:.0f} %)" if tried else ""


def every_package(chosen: argparse.Namespace) -> int:
    """Measure all packages, some at a time, and write the table of the page for contributors; return an exit code."""
    places = sorted(
        {
            *(PROJECT / "src" / "hackamore").iterdir(),
            *(PROJECT / "src" / "hackamore" / "_engine").iterdir(),
            *(PROJECT / "src" / "hackamore" / name for name in PARTS),
        }
        - {PROJECT / "src" / "hackamore" / "_engine"}
    )
    places = [place for place in places if place.suffix == ".py" or (place / "__init__.py").is_file()]
    places = [place for place in [path.resolve() for path in chosen.paths] or places if tests_of(place)]
    until = None if chosen.minutes is None else time.monotonic() + chosen.minutes * 60
    folder = PROJECT / ".dev" / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    waiting = len(places)
    files: list[Path] = []
    seeds = " ".join(map(str, chosen.seed))

    def measure(place: Path) -> None:
        nonlocal waiting
        name = place.relative_to(PROJECT).as_posix()
        found = folder / f"{name.removeprefix('src/hackamore/').replace('/', '-')}.json"
        found.unlink(missing_ok=True)
        size = chosen.most or (MORE_MUTANTS if name.partition("src/hackamore/")[2] in PARTS else MUTANTS)
        words = [name, "--most", str(size), "--seed", *seeds.split(), "--each", f"{chosen.each:g}", "--workers", "1"]
        words += ["--json", str(found), "--kinds", *chosen.kinds]
        if until is not None:  # what quick ones leave goes to the others
            left = until - time.monotonic()
            words += ["--minutes", f"{left / 60 * min(1, chosen.workers / waiting):.2f}"]
            if left <= 0:
                sys.stderr.write(f"mutate: no time is left for {name}\n")
                return
        waiting -= 1
        with found.with_suffix(".txt").open("w", encoding="utf-8") as file, found.with_suffix(".log").open("w") as log:
            subprocess.run([sys.executable, __file__, *words], stdout=file, stderr=log, check=False)
        if found.exists():
            files.append(found)
            (last,) = Path(file.name).read_text(encoding="utf-8").splitlines()[-1:] or [name]
            sys.stderr.write(f"mutate: {last}\n")
        else:
            sys.stderr.write(f"mutate: {name} has no result; {log.name} says why\n")

    with ThreadPoolExecutor(chosen.workers) as threads:
        list(threads.map(measure, places))
    words = f"./dev mutate --all --seed {seeds}" + (f" --minutes {chosen.minutes:g}" if chosen.minutes else "")
    table(files, words)
    sys.stderr.write(f"mutate: survivors and counts are in {folder}\n")
    return int(len(files) < len(places))


def main() -> int:
    """Mutate, test, report."""
    parser = argparse.ArgumentParser(prog="./dev mutate", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="files or folders below src/hackamore")
    for name, kind, count, default, meta, text in (
        ("--most", int, None, None, "N", "try at most N mutants of each path and seed (default: all)"),
        ("--minutes", float, None, None, "M", "stop after M minutes (default: when all are tried)"),
        ("--seed", int, "+", [0], "N", "numbers that choose the mutants (default: 0)"),
        ("--each", float, None, 20, "SECONDS", "time of tests for a mutant, without other load (default: 20 s)"),
        ("--workers", int, None, AT_ONCE, "N", f"mutants, or packages, at a time (default: {AT_ONCE})"),
        ("--json", Path, None, None, "FILE", "also write what is found to FILE, after each mutant"),
        ("--table", Path, "+", None, "FILE", f"make the table of {PAGE.name} from such files"),
    ):
        parser.add_argument(name, type=kind, nargs=count, default=default, metavar=meta, help=text)
    kinds = f"what to change: {', '.join(KINDS)} (default: all)"
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, metavar="KIND", help=kinds)
    parser.add_argument(
        "--all", action="store_true", help=f"try every package or PATH, and write the table of {PAGE.name}"
    )
    chosen = parser.parse_args()
    if chosen.table:
        table(chosen.table)
        return 0
    if chosen.all:
        return every_package(chosen)
    if not chosen.paths:
        parser.error("name files or folders below src/hackamore, or `--all`")
    paths = [path.resolve() for path in chosen.paths]
    tests = list(dict.fromkeys(test for path in paths for test in tests_of(path)))
    if not tests:
        parser.error("no folder of tests mirrors this path")
    out = chosen.json and chosen.json.resolve()
    os.chdir(PROJECT)
    sys.path.insert(0, str(PROJECT))
    os.environ.setdefault("HACKAMORE_TEST_EXAMPLES", "0.1")
    by_path = {path: sample(path, chosen.most, chosen.seed, chosen.kinds) for path in paths}
    mutants = [mutant for group, _ in by_path.values() for mutant in group]
    folders = [test for test in tests if not any(test != other and test.startswith(f"{other}/") for other in tests)]
    ignored = [word for name in NOT_HERE for word in ("--ignore", name)]
    words = (
        f"./dev mutate PATH{f' --most {chosen.most}' if chosen.most else ''} --seed {' '.join(map(str, chosen.seed))}"
    )

    def told() -> None:
        if out:
            write_json(out, words, by_path)

    told()
    trial = Trial(mutants, chosen, told)
    status = pytest.main([*ARGUMENTS, *shells(paths), *ignored, *folders], [trial]) if mutants else pytest.ExitCode.OK
    listed = equivalent()
    for path, (group, _) in by_path.items():
        report(path, group, listed)
    if not mutants:
        return 0
    return int(status) if status != pytest.ExitCode.NO_TESTS_COLLECTED and any(one.outcome for one in mutants) else 1


if __name__ == "__main__":
    sys.exit(overlaid() if sys.argv[1:2] == [OVERLAID] else main())
