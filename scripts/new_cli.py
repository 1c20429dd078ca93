"""Move the pinned Claude Code CLI to another version: `./dev new-cli VERSION`, or `./dev new-cli --check VERSION` for the report alone.

The checksums come from the npm registry that npm is configured for. The new version is installed into `.dev`, the conformance checks run
on the pinned version and on the new one, and a report names the differences that users can notice. Without `--check` these files
are written:
`pinned_cli.toml`, the drift baseline, and the places of `BOUND`. A copy of the pinned version of before stays in the pin, for the tests of
earlier versions. The report has names only: texts of the CLI are neither printed nor written.

Exit codes: 0 done, 1 a required behaviour does not hold or a download failed (nothing is written), 2 wrong arguments.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import argparse
import json
import mmap
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import drift_baseline
import install_cli
import install_older
from install_cli import PROJECT, npm, read_pin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hackamore.testing.conformance import Report

PIN = "pinned_cli.toml"
BASELINE = "scripts/drift_baseline.py"


class Bound(NamedTuple):
    """A place that names the pinned version.

    Attributes:
        path: the file.
        text: the text around the version, which is `{}` in it; `{tested}` is the list of the tested versions with sessions.
    """

    path: str
    text: str


BOUND = (
    Bound("src/hackamore/testing/simulation/launch.py", '\nVERSION = "{}"\n'),
    Bound("bench/frames.py", '\nVERSION = "{}"\n'),
    Bound("bench/peer.py", '\nVERSION = "{}"\n'),
    Bound(BASELINE, '"""Parts of the output of CLI {} that'),
    Bound(BASELINE, '\nVERSION = "{}"\n'),
    Bound("docs/concepts/compatibility.md", "| 1.0.33, {tested} |"),
    Bound("docs/concepts/compatibility.md", "and newer | {tested} |"),
)
"""Every place that changes with the pin, apart from the pin itself, generated pages, and pages that name the pinned version alone."""
SINCE = re.compile(r"and newer|\bolder|^\| Claude Code, ")
"""Lines of pages that name a version from which on something works, or that was tried: they stay as they are."""
GENERATORS = ("simulator_page.py",)
"""The generators of pages that name the pinned version."""


@dataclass
class Seen:
    """The names that were seen in one version of the CLI.

    Attributes:
        names: sets of names by the heading of the report.
        unmodelled: names that no class of Hackamore has, by the set of the drift baseline.
        report: the conformance report.
    """

    names: dict[str, set[str]] = field(default_factory=dict)
    unmodelled: dict[str, set[str]] = field(default_factory=dict)
    report: Report | None = None


# -- look at a version -------------------------------------------------------------------------------------------------

HEADINGS = (
    "Flags in `--help`",
    "Messages seen",
    "Fields of messages seen",
    "Fields of the answer to `initialize`",
    "Hook events",
    "Settings (schemas of the program)",
    "Fields of schemas (internal ones among them)",
    "Message types and control requests (schemas of the program, internal ones among them)",
)
_TYPE = re.compile(rb'\b(?:sub)?type:[\w$]{1,4}\("([a-z][a-z0-9_]{1,60})"\)')
_FIELD = re.compile(
    rb"([a-z][A-Za-z0-9_]{2,60}):(\(\)=>)?[\w$]{1,4}\((?:[^()]|\([^()]*\)){0,120}\)(?:\.\w+\((?:[^()]|\([^()]*\)){0,80}\)){0,6}$"
)
_MARK = b".describe("
"""Every documented field of a schema has it; a setting is a function (`name: () => ...`)."""


def schemas(program: Path) -> dict[str, set[str]]:
    """Return the names in the schemas that the program contains as source text."""
    found: dict[str, set[str]] = {heading: set() for heading in HEADINGS[5:]}
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place = data.find(_MARK)
        while place >= 0:
            if match := _FIELD.search(data[max(0, place - 200) : place]):
                found[HEADINGS[5 if match[2] else 6]].add(match[1].decode())
            place = data.find(_MARK, place + 1)
        place = data.find(b"type:")
        while place >= 0:
            if match := _TYPE.search(data[max(0, place - 4) : place + 80]):
                found[HEADINGS[7]].add(match[1].decode())
            place = data.find(b"type:", place + 1)
    return found


def look(program: Path) -> Seen:
    """Return the names in a CLI, and what it does of what Hackamore depends on."""
    from drift import Drift, without_row

    import hackamore.testing.conformance.behaviours  # noqa: F401 - adds the checks
    from hackamore.messages.results import ServerInfo
    from hackamore.testing.conformance.bench import CLI_CHECKS, Bench
    from hackamore.testing.conformance.cli import run_checks
    from hackamore.testing.conformance.report import Report

    seen = Seen(report=Report(f"Claude Code CLI {program}"))
    drift = Drift()
    fields: set[str] = set()
    hooks: set[str] = set()

    def listed(line: bytes) -> None:
        drift.see(line)
        _fields(line, fields, hooks)

    with tempfile.TemporaryDirectory(prefix="hackamore-new-cli-", ignore_cleanup_errors=True) as folder:
        bench = Bench(str(program), Path(folder), see=listed)
        assert seen.report is not None  # noqa: S101 - set above
        for finding in run_checks(bench, CLI_CHECKS):
            seen.report.findings.append(finding)
    initialize, flags = set(bench.facts.get("initialize", ())), set(bench.facts.get("listed", ()))
    seen.names = {
        HEADINGS[0]: flags,
        HEADINGS[1]: set(drift.frames),
        HEADINGS[2]: fields,
        HEADINGS[3]: initialize,
        HEADINGS[4]: hooks | bench.hooks,
        **schemas(program),
    }
    seen.unmodelled = {
        "FIELDS": set(drift.unknown_fields) | set(bench.facts.get("hook_fields", ())),
        "FLAGS": set(without_row(flags, baseline=())),
        "INITIALIZE": initialize - set(ServerInfo.__struct_encode_fields__),
        "TYPES": set(drift.unknown_types),
    }
    return seen


def _fields(line: bytes, fields: set[str], hooks: set[str]) -> None:
    """Add the names of the fields of a frame, and the hook events of the CLI's catalog."""
    try:
        frame = json.loads(line)
    except ValueError:
        return
    if not isinstance(frame, dict):
        return
    if frame.get("type") == "control_response":
        answer = (frame.get("response") or {}).get("response") or {}
        hooks.update(event["name"] for event in answer.get("eventCatalog") or () if "name" in event)
        return
    kind = "/".join(str(frame[key]) for key in ("type", "subtype") if key in frame)
    if kind == "control_request":
        kind = f"control_request/{frame.get('request', {}).get('subtype')}"
        frame = frame.get("request", {})
    fields.update(f"{kind}.{name}" for name in frame if name not in ("type", "subtype"))


# -- the report --------------------------------------------------------------------------------------------------------


def changes(old: Seen, new: Seen) -> dict[str, tuple[list[str], list[str]]]:
    """Return the names that were added and removed, by heading."""
    both = {heading: (old.names.get(heading, set()), new.names.get(heading, set())) for heading in HEADINGS}
    return {heading: (sorted(after - before), sorted(before - after)) for heading, (before, after) in both.items()}


def described(old_version: str, new_version: str, old: Seen, new: Seen) -> str:
    """Return the report for people."""
    lines = [f"Claude Code {old_version} -> {new_version}", ""]
    for heading, (added, removed) in changes(old, new).items():
        if not (before := old.names.get(heading)) and not new.names.get(heading):
            continue
        lines.append(f"{heading}: {len(before or ())} -> {len(new.names.get(heading, ()))}")
        lines += [wrapped(f"  {sign} ", names) for sign, names in (("+", added), ("-", removed)) if names]
    for kind, names in new.unmodelled.items():
        if fresh := sorted(names - baseline(kind)):
            lines.append(wrapped(f"Without a place in Hackamore ({kind} of the drift baseline): ", fresh))
    for seen, version in ((old, old_version), (new, new_version)):
        if seen.report is not None:
            lines += ["", f"Conformance of {version}: {seen.report.summary()}"]
            lines += [f"  {finding}" for finding in seen.report.findings if finding.status == "fails"]
    return "\n".join(lines) + "\n"


def wrapped(label: str, names: Iterable[str]) -> str:
    """Return names in lines of a fixed width."""
    return textwrap.fill(", ".join(names), 118, initial_indent=label, subsequent_indent="    ", break_on_hyphens=False)


def baseline(kind: str) -> set[str]:
    """Return a set of the drift baseline."""
    return set(getattr(drift_baseline, kind))


# -- the files ---------------------------------------------------------------------------------------------------------


def checksums(pin: dict[str, Any], wanted: str) -> tuple[str, dict[str, str]]:
    """Return the version, and the checksum of each platform's package.

    Raises:
        InstallError: the registry cannot be read, or lacks the version for a platform.
    """
    found = {name: npm.find_package(platform["package"], wanted) for name, platform in pin["platforms"].items()}
    versions = {package.version for package in found.values()}
    if len(versions) != 1:
        raise npm.InstallError(f"{wanted!r} is not the same version for all platforms: {', '.join(sorted(versions))}.")
    return versions.pop(), {name: package.integrity for name, package in found.items()}


_OLDER = re.compile(r'\[older\."[0-9.]+"\.platforms\.[^\n]*\npackage = [^\n]*\nintegrity = [^\n]*\n\n')


def moved_pin(text: str, pin: dict[str, Any], version: str, integrity: dict[str, str]) -> str:
    """Return the text of `pinned_cli.toml` with another version; the pinned version of before becomes an earlier one."""
    head, first, rest = text.partition("\n[older.")
    head = head.replace(f'\nversion = "{pin["version"]}"\n', f'\nversion = "{version}"\n')
    for name, platform in pin["platforms"].items():
        head = head.replace(platform["integrity"], integrity[name])
    before = "".join(
        f'[older."{pin["version"]}".platforms.{name}]\npackage = "{platform["package"]}"\nintegrity = "{platform["integrity"]}"\n\n'
        for name, platform in pin["platforms"].items()
    )
    return f"{head}\n{before}{_OLDER.sub('', (first + rest)[1:])}"


def tested(pin: dict[str, Any]) -> str:
    """Return the tested versions that have sessions, oldest first."""
    versions = {*pin["older"], pin["version"]} - {"1.0.33"}
    return ", ".join(sorted(versions, key=lambda text: [*map(int, text.split("."))]))


def rebound(text: str, bound: Bound, old: dict[str, Any], new: dict[str, Any]) -> str:
    """Return the text of a file with a place that names the new version.

    Raises:
        LookupError: the place is not there.
    """
    before, after = (bound.text.replace("{tested}", tested(pin)).replace("{}", pin["version"]) for pin in (old, new))
    if before not in text:
        raise LookupError(f"{bound.path} does not contain {before.strip()!r}; correct BOUND in scripts/new_cli.py")
    return text.replace(before, after)


def pages(project: Path = PROJECT) -> list[str]:
    """Return what names pinned versions for users: README, the documentation, and the texts of two commands, one of which is a page."""
    commands = ("src/hackamore/cli/app.py", "src/hackamore/cli/demo.py")
    return [
        "README.md",
        *commands,
        *sorted(path.relative_to(project).as_posix() for path in (project / "docs").rglob("*.md")),
    ]


def renamed(page: str, old: str, new: str) -> str:
    """Return a page that names the new version where it named the pinned one."""
    lines = page.splitlines(keepends=True)
    return "".join(line if SINCE.search(line) else line.replace(old, new) for line in lines)


def new_baseline(text: str, old: Seen, new: Seen) -> str:
    """Return the text of the drift baseline: new names are added, and names that only the old version has are taken out."""
    for kind, names in new.unmodelled.items():
        listed = sorted((baseline(kind) - (old.unmodelled[kind] - names)) | names)
        if kind == "TYPES":
            text = re.sub(
                r"TYPES = frozenset\(.*?\)", f"TYPES = frozenset({json.dumps(listed)})", text, flags=re.DOTALL
            )
            continue
        lines = textwrap.wrap(" ".join(listed), 122, break_on_hyphens=False, break_long_words=False)
        body = "".join(
            f'    "{line}{"" if last else " "}"\n' for line, last in zip(lines, _last(len(lines)), strict=True)
        )
        text = re.sub(rf"\n_{kind} = \(\n.*?\n\)\n", f"\n_{kind} = (\n{body})\n", text, flags=re.DOTALL)
    return text


def _last(count: int) -> list[bool]:
    return [number == count for number in range(1, count + 1)]


def write(version: str, integrity: dict[str, str], old: Seen, new: Seen, project: Path = PROJECT) -> list[str]:
    """Write the pin and everything that is bound to it; return the files that changed."""
    texts: dict[str, str] = {}

    def text_of(path: str) -> str:
        return texts.get(path) or (project / path).read_text(encoding="utf-8")

    pin = read_pin(project)
    texts[PIN] = moved_pin(text_of(PIN), pin, version, integrity)
    after = {**pin, "version": version, "older": {**pin["older"], pin["version"]: {}}}
    for earlier, entry in pin["older"].items():
        if "platforms" in entry:
            del after["older"][earlier]
    texts[BASELINE] = new_baseline(text_of(BASELINE), old, new)
    for bound in BOUND:
        texts[bound.path] = rebound(text_of(bound.path), bound, pin, after)
    for path in pages(project):
        texts[path] = renamed(text_of(path), pin["version"], version)
    changed = [path for path, text in texts.items() if (project / path).read_text(encoding="utf-8") != text]
    for path in changed:
        (project / path).write_text(texts[path], encoding="utf-8")
    return changed


def installed(version: str, pin: dict[str, Any], integrity: dict[str, str]) -> Path:
    """Return the path of a version in `.dev`, installed if it was not there."""
    target = PROJECT / ".dev" / "claude" / version / "claude"
    if not os.access(target, os.X_OK):
        name = npm.platform_name()
        target.parent.mkdir(parents=True, exist_ok=True)
        chosen = {"package": pin["platforms"][name]["package"], "integrity": integrity[name]}
        with install_older.downloaded(chosen, version, target.parent) as archive:
            npm.extract(archive, target)
    return target


def main() -> int:
    """Report, and write unless `--check` is given."""
    parser = argparse.ArgumentParser(prog="./dev new-cli", description="Move the pinned Claude Code CLI.")
    parser.add_argument("version", metavar="VERSION", help="a version, or a tag such as `latest`")
    parser.add_argument("--check", action="store_true", help="print the report and write no file")
    given = parser.parse_args()
    pin = read_pin()
    try:
        version, integrity = checksums(pin, given.version)
        print(f"The registry has Claude Code {version} for {', '.join(integrity)}.", file=sys.stderr)
        if version == pin["version"]:
            print(f"Claude Code {version} is the pinned version.")
            return 0
        programs = [install_cli.install(), installed(version, pin, integrity)]
    except (npm.InstallError, LookupError, OSError) as error:
        print(f"new-cli: {error}", file=sys.stderr)
        return 1
    print("Running the conformance checks on both versions (one to two minutes) ...", file=sys.stderr)
    old, new = map(look, programs)
    print(described(pin["version"], version, old, new))
    if new.report is None or not new.report.ok:
        print("A required behaviour does not hold, so no file was written. Adapt Hackamore first.", file=sys.stderr)
        return 1
    if given.check:
        print("No file was written.", file=sys.stderr)
        return 0
    changed = write(version, integrity, old, new)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", BASELINE], cwd=PROJECT, check=True)
    for generator in GENERATORS:
        subprocess.run([sys.executable, f"scripts/{generator}", "--write"], cwd=PROJECT, check=True)
    print(
        f"Written: {', '.join(changed)}.\nNext: read the differences above, run `./dev ci`, and add a line to CHANGELOG.md."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
