"""Bring the table of clients in `docs/guides/testing/other-sdks.md` up to date with the suite (`--write`), or fail if it is not."""

from __future__ import annotations

import sys
from pathlib import Path

import generated_parts

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.peers.features import FEATURES
from tests.peers.test_examples import EXAMPLES_RUN
from tests.peers.test_shell import COMMANDS

SAME = "same"


def table() -> list[str]:
    """Return the features, with what the users of each client see."""
    rows = ["| Feature | Python package | TypeScript package | shell |", "|---|---|---|---|"]
    for feature in FEATURES:
        seen = "; ".join({**feature.wire, **feature.lacks}.values()) or SAME
        rows.append(f"| {feature.title} | {seen} | {seen} | {feature.shell} |")
    examples = len({example.file for example in EXAMPLES_RUN})
    return [
        *rows,
        "",
        f"The shell runs {len(COMMANDS) + 1} command lines with `claude`: output, stderr and exit codes are compared. {examples} public",
        "examples of the Python package run as they are and print the same, except for built-in commands, plugins and prices.",
    ]


if __name__ == "__main__":
    sys.exit(generated_parts.main("guides/testing/other-sdks.md", {"clients": table()}))
