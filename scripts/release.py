"""Check that the package can be published: `./dev release VERSION`, or `./dev release --check` for the version in the source.

It builds sdist and wheel twice from what is committed and compares the bytes, runs `twine check --strict` and `check-wheel-contents`,
installs the wheel without the checkout on each Python that is found, with the newest and with the lowest declared versions of the
dependencies, and plays the demo there. It installs each extra by itself, and runs the tests of the core from the sdist. It lists
licences and sizes. It tags and uploads nothing: it prints the commands that would.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT = Path(__file__).resolve().parent.parent
TOOLS = PROJECT / ".dev" / "release"
WHEEL_LIMIT = 1_500_000
"""Bytes. The wheel has 1.1 MB; much more means that something slipped in."""
INSTALLED_LIMIT = 60_000_000
"""Bytes of the package with the extra `cli` and all that it needs, beside the CLI."""
MODULES = {
    "acp": "acp, hackamore.serving.acp.host",
    "agui": "ag_ui.core",
    "cli": "hackamore.cli.app",
    "dask": "distributed",
    "mcp": "mcp",
    "otel": "opentelemetry.trace",
    "policy": "tree_sitter, tree_sitter_bash",
    "pool": "psutil",
    "postgres": "psycopg",
    "pydantic": "pydantic",
    "redis": "redis",
    "s3": "boto3",
    "trio": "trio",
}
"""What an extra is for: its module must import, and so must the package beside it."""
CORE_TESTS = ("tests/protocol", "tests/messages", "tests/launch")
NOT_FREE = re.compile(r"\bA?GPL", re.IGNORECASE)
LICENCES = """
import importlib.metadata as m, json
found = {}
for d in m.distributions():
    text = d.metadata.get("License-Expression") or ""
    kinds = [c.rpartition(" :: ")[2] for c in d.metadata.get_all("Classifier") or () if c.startswith("License ::")]
    text = text or ", ".join(kinds) or (d.metadata.get("License") or "unknown").splitlines()[0]
    found[d.metadata["Name"] + " " + d.version] = text
print(json.dumps(found))
"""


class CheckFailedError(Exception):
    """A check did not hold; the text says which, and what to do."""


def say(text: str) -> None:
    """Print a line of the report."""
    print(text, flush=True)  # noqa: T201 - a script talks by printing


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Return what a command printed; raise CheckFailedError with the end of it."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CheckFailedError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def declared() -> dict[str, list[str]]:
    """Return the requirements of the package, and of each extra but `all`."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return {"": project["dependencies"], **{name: needs for name, needs in extras.items() if name != "all"}}


def lowest(requirements: Sequence[str]) -> list[str]:
    """Return each requirement with its lower bound as the version."""
    return [requirement.replace(">=", "==") for requirement in requirements]


def check_version(version: str | None) -> str:
    """Return the version of the source; it must be the one that is wanted, with a part of the CHANGELOG."""
    source = (PROJECT / "src" / "hackamore" / "_version.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'__version__ = "(.+)"', source)
    if version is not None and version != found:
        raise CheckFailedError(
            f"src/hackamore/_version.py says {found}, not {version}: change it, commit, and try again."
        )
    heads = re.findall(r"^## (\S+)", (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if version is not None and version not in heads:
        raise CheckFailedError(
            f"CHANGELOG.md has no part `## {version}`: rename `## Unreleased`, commit, and try again."
        )
    return found


def tools() -> Path:
    """Return the Python that has the tools of the group `release`."""
    group = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["release"]
    python, stamp = TOOLS / "bin" / "python", TOOLS / ".stamp"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != "\n".join(group):
        run(sys.executable, "-m", "venv", "--clear", TOOLS)
        run(python, "-m", "pip", "install", "--quiet", *group)
        stamp.write_text("\n".join(group), encoding="utf-8")
    return python


def build(python: Path, folder: Path) -> tuple[Path, Path]:
    """Build twice what is committed; return sdist and wheel."""
    stamp = run("git", "log", "-1", "--format=%ct", cwd=PROJECT).strip()
    sums: list[dict[str, str]] = []
    for number in ("first", "second"):
        source, out = folder / number / "source", folder / number / "dist"
        source.mkdir(parents=True)
        archive = folder / number / "source.tar"
        run("git", "archive", "--output", archive, "HEAD", cwd=PROJECT)
        with tarfile.open(archive) as file:
            file.extractall(source, filter="data")
        run(python, "-m", "build", "--outdir", out, source, SOURCE_DATE_EPOCH=stamp)
        sums.append({each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in sorted(out.iterdir())})
    if sums[0] != sums[1]:
        raise CheckFailedError(f"two builds differ: {sums}")
    for name, checksum in sums[0].items():
        say(f"  {checksum}  {name}  ({(out / name).stat().st_size / 1e6:.2f} MB), twice")
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    if wheel.stat().st_size > WHEEL_LIMIT:
        raise CheckFailedError(f"the wheel has {wheel.stat().st_size:,} bytes, more than {WHEEL_LIMIT:,}")
    return sdist, wheel


def environment(base: str, folder: Path, *wanted: str) -> Path:
    """Make a virtual environment without the checkout, with these packages; return its Python."""
    run(base, "-m", "venv", "--clear", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", *wanted, cwd=folder)
    return python


def versions(python: Path, names: Sequence[str]) -> str:
    """Return the versions of packages in an environment."""
    listed = json.loads(run(python, "-m", "pip", "list", "--format", "json"))
    found = {each["name"].lower(): each["version"] for each in listed}
    return ", ".join(f"{name} {found.get(name, '?')}" for name in names)


def names_of(requirements: Sequence[str]) -> list[str]:
    """Return the names of packages, without extras and versions."""
    return [re.split(r"[\[<>=!~ ]", requirement)[0] for requirement in requirements]


def play(python: Path, folder: Path) -> None:
    """Use an installed package as a user does: import, doctor, demo with the pinned CLI."""
    pin = tomllib.loads((PROJECT / "pinned_cli.toml").read_text(encoding="utf-8"))["version"]
    cli = PROJECT / ".dev" / "claude" / str(pin) / "claude"
    home = folder / "home"
    home.mkdir(exist_ok=True)
    variables = {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / "config"),
        "HACKAMORE_CLI_PATH": str(cli),
        "PYTHONPATH": "",
    }
    where = run(python, "-c", "import hackamore; print(hackamore.__file__)", cwd=home, **variables)
    if str(PROJECT / "src") in where:
        raise CheckFailedError(f"the checkout was imported, not the wheel: {where}")
    run(python, "-m", "hackamore.cli", "doctor", "--json", cwd=home, ANTHROPIC_API_KEY="test-key", **variables)
    run(python, "-m", "hackamore.cli", "demo", "--fast", cwd=home, **variables)


def check_installs(wheel: Path, folder: Path, pythons: Sequence[matrix.Interpreter]) -> None:
    """Install the wheel on each Python, with the newest and the lowest dependencies, and use it."""
    needs = declared()
    both = [*needs[""], *needs["cli"]]
    for one in pythons:
        for kind, pins in (("newest", []), ("lowest", lowest(both))):
            place = folder / f"{one.name}-{kind}"
            python = environment(one.path, place, f"{wheel}[cli]", *pins)
            play(python, place)
            say(f"  Python {one.name}, {kind}: {versions(python, names_of(both))}: import, doctor and demo work")
            if kind == "newest":
                check_size(python)


def check_size(python: Path) -> None:
    """Sum the files of all packages of an environment but pip."""
    code = (
        "import importlib.metadata as m, os\n"
        "print(sum(os.path.getsize(p) for d in m.distributions() if d.metadata['Name'] not in ('pip', 'setuptools')"
        " for f in d.files or () if os.path.isfile(p := d.locate_file(f))))"
    )
    size = int(run(python, "-c", code))
    say(f"    installed with `cli` and all it needs: {size / 1e6:.1f} MB")
    if size > INSTALLED_LIMIT:
        raise CheckFailedError(f"that is more than {INSTALLED_LIMIT / 1e6:.0f} MB")


def check_extras(wheel: Path, folder: Path, base: str) -> None:
    """Install each extra by itself, newest and lowest; import what it is for."""
    for extra, needs in declared().items():
        if not extra:
            continue
        for kind, pins in (("newest", []), ("lowest", lowest([*declared()[""], *needs]))):
            place = folder / f"extra-{extra}-{kind}"
            python = environment(base, place, f"{wheel}[{extra}]", *pins)
            run(python, "-W", "ignore", "-c", f"import hackamore, hackamore.sync, {MODULES[extra]}", cwd=place)
            say(f"  {extra}, {kind}: {versions(python, names_of(needs))}")
            shutil.rmtree(place)


def check_licences(wheel: Path, folder: Path, base: str) -> None:
    """List the licences of all packages that an install with all extras brings."""
    python = environment(base, folder / "licences", f"{wheel}[all]")
    found: dict[str, str] = json.loads(run(python, "-c", LICENCES))
    for name, licence in sorted(found.items(), key=lambda item: item[0].lower()):
        say(f"  {name}: {licence}")
    if refused := [name for name, licence in found.items() if NOT_FREE.search(licence)]:
        raise CheckFailedError(f"a licence that users cannot take: {', '.join(refused)}")


def check_sdist(sdist: Path, folder: Path) -> None:
    """Run the tests of the core from the sdist, with the packages of the checkout."""
    with tarfile.open(sdist) as file:
        file.extractall(folder, filter="data")
    place = folder / sdist.name.removesuffix(".tar.gz")
    python = PROJECT / ".venv" / "bin" / "python"
    words = ["-m", "pytest", "-q", "--quick", "-p", "no:cacheprovider", "-m", "not real_cli", "-n", "2", *CORE_TESTS]
    printed = run(python, *words, cwd=place, PYTHONPATH=str(place / "src"))
    say(f"  {printed.strip().splitlines()[-1]}")


def release(version: str | None, short: bool, out: Path | None) -> str:
    """Make all checks; return the version. The files go to `out`."""
    found = check_version(version)
    if version is not None and run("git", "status", "--porcelain", cwd=PROJECT).strip():
        raise CheckFailedError("there are changes that are not committed")
    pythons = [python for wanted in matrix.SUPPORTED for python in matrix.find(wanted)[:1] if python.root is None]
    missing = sorted(set(matrix.SUPPORTED) - {python.wanted for python in pythons})
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if short:
        pythons = [python for python in pythons if python.wanted == here]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say(f"Hackamore {found}: sdist and wheel")
        python = tools()
        sdist, wheel = build(python, folder)
        run(python, "-m", "twine", "check", "--strict", sdist, wheel)
        run(TOOLS / "bin" / "check-wheel-contents", wheel)
        say("  twine check --strict and check-wheel-contents find nothing")
        say("The wheel without the checkout")
        check_installs(wheel, folder, pythons)
        if not short:
            if missing:
                say(f"  not found: Python {', '.join(missing)}")
            say("Each extra by itself")
            check_extras(wheel, folder, sys.executable)
            say("Licences with all extras")
            check_licences(wheel, folder, sys.executable)
        say("Tests of the core from the sdist")
        check_sdist(sdist, folder)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            for file in (sdist, wheel):
                shutil.copy(file, out)
    return found


def main() -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="./dev release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", nargs="?", help="the version to publish; source and CHANGELOG must have it")
    parser.add_argument(
        "--check", action="store_true", help="check the version in the source; CHANGELOG may say Unreleased"
    )
    parser.add_argument("--short", action="store_true", help="one Python, no extras, no licences")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="put sdist and wheel there if all checks pass")
    given = parser.parse_args()
    if (given.version is None) is not given.check:
        parser.error("name a version, or --check")
    try:
        found = release(given.version, given.short, given.out)
    except CheckFailedError as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    if given.version is not None:
        say(f"All checks passed. This publishes it: git tag -s v{found} && git push origin v{found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
