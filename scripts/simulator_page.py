"""Bring the part of `docs/guides/testing/simulated-cli.md` about fidelity up to date with the suite (`--write`), or fail if it is not."""

from __future__ import annotations

import sys
from pathlib import Path

import generated_parts

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hackamore.testing.simulation.launch import VERSION
from tests.fidelity import differences
from tests.fidelity.cases import ASKED, CASES

KINDS = (
    ("Fields with other values", differences.DIFFERENT_VALUES),
    ("Fields that only the real CLI has", differences.ONLY_REAL),
    ("Responses of the same form with other or less content", differences.SHAPE_ONLY),
)


def grouped(fields: dict[str, str]) -> list[str]:
    """Return one item for each reason, with its fields."""
    reasons: dict[str, list[str]] = {}
    for field, reason in fields.items():
        reasons.setdefault(reason, []).append(field)
    return [f"- {reason[0].upper()}{reason[1:]}: {', '.join(names)}." for reason, names in reasons.items()]


def lines() -> list[str]:
    """Return the generated part."""
    count = len(CASES) + len(ASKED) - 1
    page = [
        f"`tests/fidelity` runs {len(CASES)} scripts and {len(ASKED)} control operations on the simulated CLI and on the real one",
        f"({VERSION}).",
        "It compares each frame of both: the presence of every field, its value, and the links between ids.",
        f"All {count} agree, except for the fields below. A new field of the real CLI fails the suite once.",
    ]
    for kind, table in KINDS:
        page += ["", f"{kind}:", "", *grouped({f"`{rule}`": reason for rule, reason in table.items()})]
    single = {
        f"`{rule}` ({case.name})": reason
        for case in CASES
        for fields in (case.but, case.lacks)
        for rule, reason in fields.items()
    }
    page += ["", "Fields that differ in single scripts:", "", *grouped(single)]
    return page


if __name__ == "__main__":
    sys.exit(generated_parts.main("guides/testing/simulated-cli.md", {"fidelity": lines()}))
