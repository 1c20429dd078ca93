"""Bring `docs/contributing/behaviours.md` up to date with the manifest and the tests (`--write`), or fail if it is not."""

from __future__ import annotations

import sys
from pathlib import Path

import generated_parts

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from tests.contract.manifest import Area, areas, declared  # noqa: E402


def rows(area: Area, tests: dict[str, list[str]]) -> list[str]:
    """Return the table of an area."""
    lines = ["", f"## {area.title}", "", "| id | promise | shown by |", "|---|---|---|"]
    for name, text in area.promises.items():
        lines.append(f"| `{name}` | {text} | {', '.join(link(test) for test in tests.get(name, []))} |")
    return lines


def link(test: str) -> str:
    """Return a link to the file of a test."""
    path, _, name = test.partition("::")
    return f"[{name.partition('::')[0].removeprefix('test_').replace('_', ' ')}](../../{path})"


if __name__ == "__main__":
    tests = declared(PROJECT / "tests")
    found = areas()
    count = sum(len(area.promises) for area in found)
    summary = [f"{count} promises, shown by {len({test for shown in tests.values() for test in shown})} tests."]
    tables = [line for area in found for line in rows(area, tests)]
    sys.exit(generated_parts.main("contributing/behaviours.md", {"promises": [*summary, *tables, ""]}))
