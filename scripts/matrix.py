"""Run the tests on every supported Python: `./dev matrix`, or `./dev matrix --only 3.12 -- tests/runtime -x`.

Interpreters are looked for in this order: `python3.X` on PATH, pyenv's versions, `uv python` (which installs one where it can download),
and Debian suites in `.dev/matrix/debian-SUITE`. Each distinct version gets its own virtual environment in `.dev/matrix`. A version that
is not found is a row of the table, and fails the run unless --allow-missing is given.

`./dev matrix --debian SUITE` installs a Debian suite with its Pythons into `.dev/matrix/debian-SUITE`. It needs root and debootstrap. The
tests then run there in a chroot, in a mount namespace that ends with them: nothing stays mounted.

Arguments after `--` go to pytest.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
FOLDER = PROJECT / ".dev" / "matrix"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
FREE_THREADED = ("3.14t",)
"""Looked at, and not required: a failure or a missing interpreter does not fail the run."""
MIRROR = "http://deb.debian.org/debian"
SHARED = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl", "/etc/pip.conf", "/opt")
"""Bound into a chroot, for pip and its settings."""
QUICK = ["--quick", "-q", "-n", "3", "--dist", "load"]


@dataclass(frozen=True)
class Interpreter:
    """A Python to run the tests on.

    Attributes:
        wanted: the version it stands for: `3.14`, or `3.14t` without a global lock.
        version: its exact version.
        path: the executable; in a chroot, its path there.
        root: the folder of the chroot, None without one.
    """

    wanted: str
    version: str
    path: str
    root: Path | None = None

    @property
    def place(self) -> str:
        """Where it was found."""
        return self.path if self.root is None else f"{self.root.name}:{self.path}"

    @property
    def name(self) -> str:
        """A name for its folder and log."""
        return f"{self.version}{'t' if self.wanted.endswith('t') else ''}{f'-{self.root.name}' if self.root else ''}"

    def run(self, command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        """Run a command where the interpreter is."""
        if self.root is not None:
            command = ["unshare", "--mount", "sh", "-c", _entering(self.root, command)]
        return subprocess.run(command, check=False, text=True, cwd=PROJECT, **more)  # type: ignore[call-overload]


def _entering(root: Path, command: list[str]) -> str:
    """Return shell commands that mount the project and run a command in a chroot."""
    lines = ["set -e", f"cd {shlex.quote(str(root))}"]
    for source in ("/proc", "/dev", str(PROJECT), *SHARED):
        if os.path.exists(source):
            target = shlex.quote(f".{source}")
            make = f"mkdir -p {target}" if os.path.isdir(source) else f"touch {target}"
            lines += [make, f"mount --rbind {shlex.quote(source)} {target}"]
    inner = f"cd {shlex.quote(str(PROJECT))} && exec {shlex.join(command)}"
    return "\n".join([*lines, f"exec chroot . sh -c {shlex.quote(inner)}"])


def exact_version(command: list[str]) -> str | None:
    """Return the version of an interpreter, with a `t` without a global lock; None if it does not run."""
    code = "import sys, sysconfig; print(sys.version.split()[0] + ('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))"
    try:
        done = subprocess.run([*command, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def candidates(wanted: str) -> list[tuple[str, Path | None]]:
    """Return the paths where an interpreter may be, with the chroot of each."""
    found: list[tuple[str, Path | None]] = [
        (os.path.join(folder, f"python{wanted}"), None) for folder in os.get_exec_path()
    ]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found += [(str(path / "bin" / f"python{wanted}"), None) for path in sorted(pyenv.glob(f"{wanted}*"), reverse=True)]
    found += [(f"/usr/bin/python{wanted}", root) for root in sorted(FOLDER.glob("debian-*"))]
    return [(path, root) for path, root in found if os.access(f"{root or ''}{path}", os.X_OK)]


def from_uv(wanted: str) -> list[tuple[str, Path | None]]:
    """Return the interpreter that uv finds or installs; the reason goes to stderr if it cannot."""
    uv = shutil.which("uv")
    if uv is None:
        return []
    done = subprocess.run([uv, "python", "install", wanted], capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:]
        sys.stderr.write(f"matrix: uv cannot install Python {wanted}: {' '.join(reason)}\n")
    done = subprocess.run([uv, "python", "find", wanted], capture_output=True, text=True, check=False, timeout=60)
    return [(done.stdout.strip(), None)] if done.returncode == 0 else []


def find(wanted: str) -> list[Interpreter]:
    """Return the distinct interpreters of a version."""
    found: dict[str, Interpreter] = {}

    def look(places: list[tuple[str, Path | None]]) -> None:
        for path, root in places:
            version = exact_version([path] if root is None else ["chroot", str(root), path])
            if (
                version is None
                or version.endswith("t") != wanted.endswith("t")
                or not version.startswith(wanted.rstrip("t"))
            ):
                continue
            found.setdefault(version, Interpreter(wanted, version.rstrip("t"), path, root))

    look(candidates(wanted))
    if not found:
        look(from_uv(wanted))
    return list(found.values())


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    wanted: str
    version: str
    place: str
    result: str
    seconds: float
    good: bool


def environment(python: Interpreter, log: Path) -> Path | None:
    """Make the virtual environment of an interpreter; return its Python, None if that fails."""
    folder = FOLDER / f"venv-{python.name}"
    stamp, inputs = folder / ".hackamore-stamp", [PROJECT / "pyproject.toml", PROJECT / "constraints.txt"]
    wanted = "".join(path.read_text(encoding="utf-8") for path in inputs)
    executable = folder / "bin" / "python"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return executable
    group = tomllib.loads(inputs[0].read_text(encoding="utf-8"))["dependency-groups"]["dev"]
    folder.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as output:
        made = python.run([python.path, "-m", "venv", "--clear", str(folder)], stdout=output, stderr=output)
        if made.returncode:
            return None
        (folder / "requirements.txt").write_text("\n".join(group), encoding="utf-8")
        pip = [str(executable), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        packages = [
            "--editable",
            ".[cli,trio,pydantic,policy]",
            "-r",
            str(folder / "requirements.txt"),
            "-c",
            "constraints.txt",
        ]
        if python.run([*pip, *packages], stdout=output, stderr=output).returncode:
            return None
    stamp.write_text(wanted, encoding="utf-8")
    return executable


def run_tests(python: Interpreter, arguments: list[str]) -> Row:
    """Run the tests on an interpreter."""
    log = FOLDER / f"log-{python.name}.txt"
    sys.stderr.write(f"matrix: {python.name} ({python.place}), log in {log.relative_to(PROJECT)}\n")
    began = time.monotonic()
    executable = environment(python, log)
    if executable is None:
        reason = (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
        return Row(python.wanted, python.version, python.place, f"packages not installed: {reason:.60}", 0, good=False)
    with open(log, "a", encoding="utf-8") as output:
        command = [str(executable), "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        done = python.run(command, stdout=output, stderr=output)
    lines = [
        line
        for line in log.read_text(encoding="utf-8").splitlines()
        if re.search(r"^=*\s*\d+ (passed|failed|errors?|tests collected)\b", line)
    ]
    result = re.sub(r" in [\d.]+s.*|=+", "", lines[-1]).strip() if lines else f"exit status {done.returncode}"
    row = Row(python.wanted, python.version, python.place, result, time.monotonic() - began, good=done.returncode == 0)
    sys.stderr.write(f"matrix: {python.name}: {result}, {row.seconds:.0f} s\n")
    return row


def install_debian(suite: str) -> int:
    """Install a Debian suite with its Pythons; return the exit status."""
    root = FOLDER / f"debian-{suite}"
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        sys.stderr.write("A Debian suite needs root and debootstrap: apt-get install debootstrap.\n")
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (root / "usr" / "bin" / "apt-get").exists():
        include = "--include=ca-certificates,git,procps"
        done = subprocess.run(["debootstrap", "--variant=minbase", include, suite, str(root), MIRROR], check=False)
        if done.returncode:
            return done.returncode
    for version in SUPPORTED:
        packages = [f"python{version}", f"python{version}-venv", f"python{version}-dev"]
        known = subprocess.run(["chroot", str(root), "apt-cache", "show", *packages], capture_output=True, check=False)
        if known.returncode == 0:
            install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
            subprocess.run(["chroot", str(root), "env", "DEBIAN_FRONTEND=noninteractive", *install], check=False)
        else:
            sys.stderr.write(f"matrix: Debian {suite} has no Python {version}.\n")
    return 0


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| Python | Version | Interpreter | Result |", "|---|---|---|---|"]
    for row in rows:
        took = f", {row.seconds:.0f} s" if row.seconds else ""
        lines.append(f"| {row.wanted} | {row.version} | {row.place} | {row.result}{took} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="./dev matrix", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = (*SUPPORTED, *FREE_THREADED)
    parser.add_argument("--only", metavar="V", nargs="+", help="Run these versions alone (3.12, 3.14t, 3.13.0)")
    parser.add_argument("--thorough", action="store_true", help="Run all tests (default: the quick tier)")
    parser.add_argument("--list", action="store_true", help="List the interpreters, run no test")
    parser.add_argument("--allow-missing", action="store_true", help="Succeed although a version is missing")
    parser.add_argument("--debian", metavar="SUITE", help="Install a Debian suite with its Pythons, then stop")
    split = arguments.index("--") if "--" in arguments else len(arguments)
    given, more = parser.parse_args(arguments[:split]), arguments[split + 1 :]
    if given.debian:
        return install_debian(given.debian)
    tests = more or [argument for argument in QUICK if not (given.thorough and argument == "--quick")]
    rows: list[Row] = []
    for wanted in every:
        chosen = [only for only in given.only or [wanted] if only == wanted or only.startswith(f"{wanted}.")]
        if not chosen:
            continue
        found = [one for one in find(wanted) if wanted in chosen or one.version in chosen]
        if not found:
            rows.append(Row(wanted, "-", "-", "no interpreter found", 0, good=False))
        listed = (Row(wanted, one.version, one.place, "found", 0, good=True) for one in found)
        rows.extend(listed if given.list else (run_tests(one, tests) for one in found))
    sys.stdout.write(table(rows))
    missing = [row.wanted for row in rows if row.version == "-"]
    if missing:
        sys.stdout.write(f"Not tested, because no interpreter was found: {', '.join(missing)}\n")
    bad = [row for row in rows if not row.good and row.wanted not in FREE_THREADED]
    return 1 if any(row.version != "-" or not given.allow_missing for row in bad) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
