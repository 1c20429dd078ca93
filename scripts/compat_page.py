"""Compare the table of differences in docs/guides/compat.md with tests/compat/differences.toml; `--write` brings it up to date."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import generated_parts

DIFFERENCES = Path(__file__).resolve().parent.parent / "tests" / "compat" / "differences.toml"


def table() -> list[str]:
    """Return the differences as a table."""
    rows = tomllib.loads(DIFFERENCES.read_text(encoding="utf-8"))["difference"]
    lines = ["| subject | claude-agent-sdk | hackamore.compat | reason |", "|---|---|---|---|"]
    return [*lines, *(f"| {row['subject']} | {row['official']} | {row['here']} | {row['reason']} |" for row in rows)]


if __name__ == "__main__":
    sys.exit(generated_parts.main("guides/compat.md", {"differences": table()}))
