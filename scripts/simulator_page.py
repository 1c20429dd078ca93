"""Bring the part of `docs/simulated-cli.md` about fidelity up to date with the suite (`--write`), or fail if it is not."""

from __future__ import annotations

import sys
from pathlib import Path

import generated_parts

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bridle.testing.simulation.launch import VERSION
from tests.fidelity import differences
from tests.fidelity.cases import ASKED, CASES

WHAT = (
    ("has another value", differences.DIFFERENT_VALUES),
    ("is missing", differences.ONLY_REAL),
    ("has the same form, but other or less content", differences.SHAPE_ONLY),
)


def sentence(words: str) -> str:
    """Return words as they stand in a table."""
    return words.replace("|", "\\|")


def lines() -> list[str]:
    """Return the generated part."""
    count = len(CASES) + len(ASKED) - 1
    page = [
        f"`tests/fidelity` runs {len(CASES)} scripts, and {len(ASKED)} control operations in one of them, on this simulated CLI and on "
        f"the real one ({VERSION}) with the same host, and compares each frame that they send: the presence of every field, its value, "
        "and the links that ids make. "
        f"All {count} agree, except for these fields. A field that a new version of the real CLI sends fails the suite once.",
        "",
        "| in the simulated CLI | | because it |",
        "|---|---|---|",
    ]
    for what, table in WHAT:
        page += [f"| `{rule}` | {what} | {sentence(reason)} |" for rule, reason in table.items()]
    for case in CASES:
        for what, table in (("has another value", case.but), ("is missing", case.lacks)):
            page += [f"| `{rule}`, {case.name} | {what} | {sentence(reason)} |" for rule, reason in table.items()]
    page += ["", "<details><summary>The scripts</summary>", ""]
    page += [f"- {case.name}" for case in CASES]
    return [*page, "", "</details>"]


if __name__ == "__main__":
    sys.exit(generated_parts.main("simulated-cli.md", {"fidelity": lines()}))
