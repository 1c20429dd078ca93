"""Measure the tests of a file or package: mutmut changes it in one place at a time, and runs the tests that execute that place.

`./dev mutate PATH [--most N] [--minutes M]` works in a copy of the tree (`.dev/mutate`) and prints the mutants that no test noticed,
with their diffs, and the survival rate. Progress goes to stderr. mutmut changes the bodies of functions, not tables.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
COPY = PROJECT / ".dev" / "mutate"
# The tests of a package are those of the folder of the same name, and these.
MORE_TESTS = {
    "protocol": ("tests/session/test_deadlines.py", "tests/session/test_long_sessions.py"),
    "queries": ("tests/protocol/test_states.py", "tests/protocol/test_fast_paths.py", "tests/protocol/test_golden.py"),
    "session": ("tests/contract",),
    "answering": ("tests/contract/test_asked.py", "tests/contract/test_from_inside.py"),
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
KILLED, SURVIVED, NO_TESTS, TIMEOUT = "killed", "survived", "no tests", "timeout"
STATUS = {
    0: SURVIVED,
    1: KILLED,
    3: KILLED,
    5: NO_TESTS,
    33: NO_TESTS,
    36: TIMEOUT,
    -24: TIMEOUT,
    24: TIMEOUT,
    152: TIMEOUT,
    255: TIMEOUT,
}

NAMES = """
import sys
from pathlib import Path
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name
for name in sys.argv[1:]:
    path = Path(name)
    for mutant in mutate_file_contents(name, path.read_text(encoding="utf-8")).mutant_names:
        print(get_mutant_name(path, mutant))
"""


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


def copy_tree() -> None:
    """Copy the tree to `COPY`, without what was installed or built."""
    shutil.rmtree(COPY, ignore_errors=True)
    left_out = shutil.ignore_patterns(".git", ".venv", ".dev", "dist", "*_cache", ".hypothesis", "__pycache__")
    shutil.copytree(PROJECT, COPY, ignore=left_out)


def configure(files: list[str], tests: list[str]) -> None:
    """Write the settings of mutmut into the copy."""
    arguments = ["-m", "not real_cli", "--shell", "asyncio", "-p", "no:cacheprovider"]
    arguments += [word for name in NOT_HERE for word in ("--ignore", name)]
    settings = {
        "source_paths": ["src/"],
        "only_mutate": files,
        "also_copy": sorted(entry.name for entry in COPY.iterdir() if entry.name not in {"src", "mutants"}),
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": arguments,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    with (COPY / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n[tool.mutmut]\n" + "\n".join(lines) + "\n")


def run(arguments: list[str], seconds: float | None = None) -> None:
    """Run mutmut in the copy until it is done or the time is over."""
    environment = {**os.environ, "PYTHONPATH": "", "BRIDLE_TEST_EXAMPLES": "0.1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "mutmut", *arguments], cwd=COPY, stdout=sys.stderr, env=environment
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        sys.stderr.write("\nmutate: the time is over\n")
        process.send_signal(signal.SIGINT)
        process.wait()


def outcomes(names: set[str]) -> dict[str, str]:
    """Return how each of these mutants that was tried ended."""
    found: dict[str, str] = {}
    for path in COPY.glob("mutants/src/**/*.meta"):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        found |= {name: STATUS.get(code, "other") for name, code in codes.items() if name in names and code is not None}
    return found


def main() -> int:
    """Mutate, test, report."""
    parser = argparse.ArgumentParser(prog="./dev mutate", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("path", type=Path, help="a file or folder below src/bridle")
    parser.add_argument("--most", type=int, metavar="N", help="try at most N mutants, chosen at random (default: all)")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after M minutes (default: when all are tried)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="number that chooses the mutants (default: 0)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2, metavar="N", help="mutants tried at once")
    chosen = parser.parse_args()
    path = chosen.path.resolve()
    sources = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    files = [source.relative_to(PROJECT).as_posix() for source in sources if source.stat().st_size]
    tests = tests_of(path)
    if not tests:
        parser.error(f"no folder of tests mirrors {chosen.path}")
    copy_tree()
    configure(files, tests)
    named = subprocess.run([sys.executable, "-c", NAMES, *files], cwd=COPY, capture_output=True, text=True, check=True)
    names = named.stdout.split()
    if chosen.most is not None and chosen.most < len(names):
        names = random.Random(chosen.seed).sample(names, chosen.most)  # noqa: S311
    sys.stderr.write(
        f"mutate: {len(names)} of {len(named.stdout.split())} mutants of {len(files)} files; tests: {' '.join(tests)}\n"
    )
    run(["run", "--max-children", str(chosen.workers), *sorted(names)], chosen.minutes and chosen.minutes * 60)
    found = outcomes(set(names))
    unnoticed = sorted(name for name, status in found.items() if status in {SURVIVED, NO_TESTS})
    for name in unnoticed:
        sys.stdout.write(f"{found[name]}: {name}\n")
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "mutmut", "show", name], cwd=COPY, check=False)
    counts = ", ".join(f"{count} {status}" for status, count in Counter(found.values()).most_common())
    rate = 100 * len(unnoticed) / max(1, len(found))
    tried = f"{len(found)} of {len(names)} mutants tried ({counts})"
    sys.stdout.write(f"{chosen.path}: {tried}; survival rate {rate:.1f} %\n")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
