"""Compare the tables of docs/guides/compat.md and docs/guides/migrate.md with those of the package; `--write` brings them up to date."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import generated_parts

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "hackamore"
HEADS = {
    "client": "| `ClaudeSDKClient` | `Session` |",
    "options": "| `ClaudeAgentOptions` | `Options` |",
    "permissions": "| official | Hackamore |",
    "errors": "| official | Hackamore |",
}


def differences() -> list[str]:
    """Return the differences of the layer as a table."""
    rows = tomllib.loads((PACKAGE / "compat" / "differences.toml").read_text(encoding="utf-8"))["difference"]
    lines = ["| subject | claude-agent-sdk | hackamore.compat | reason |", "|---|---|---|---|"]
    return [*lines, *(f"| {row['subject']} | {row['official']} | {row['here']} | {row['reason']} |" for row in rows)]


def counterparts() -> dict[str, list[str]]:
    """Return the tables of names and fields that `hackamore compat migrate` knows."""
    table = tomllib.loads((PACKAGE / "official.toml").read_text(encoding="utf-8"))
    return {
        name: [head, "|---|---|", *(f"| {row['official']} | {row['native']} |" for row in table[name])]
        for name, head in HEADS.items()
    }


if __name__ == "__main__":
    pages = {"guides/compat.md": {"differences": differences()}, "guides/migrate.md": counterparts()}
    sys.exit(max(generated_parts.main(page, parts) for page, parts in pages.items()))
