"""Pages that name a version name the pinned one: that of the CLI in pinned_cli.toml, of the official package in pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PIN = tomllib.loads((PROJECT / "pinned_cli.toml").read_text(encoding="utf-8"))["version"]
GROUPS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
OFFICIAL = GROUPS["bench"][0].partition("==")[2]
# A version from which on something works stays as it is, and so do the CLIs that were tried.
SINCE = re.compile(r"and newer|older|^\| Claude Code, ")


def differing(page: Path) -> list[str]:
    found = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        for version in re.findall(r"\b(?:2\.1\.\d{3}|0\.2\.1\d\d)\b", line):
            if version not in {PIN, OFFICIAL} and not SINCE.search(line):
                found.append(f"{page.relative_to(PROJECT)}:{number}: {version}")
    return found


def test_pages_name_the_pinned_versions() -> None:
    pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
    assert [each for page in sorted(pages) for each in differing(page)] == []
