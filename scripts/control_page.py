"""Bring the tables of `docs/reference/control.md` up to date with the control table (`--write`), or fail if they are not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import generated_parts

from hackamore._engine.protocol.control_rows import OPERATIONS
from hackamore.messages.results import ControlResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore._engine.protocol.control_table import ControlRow


def table(rows: tuple[ControlRow, ...]) -> Iterator[str]:
    """Give the lines of the table of one section."""
    yield from ("| method | action | returns |", "|---|---|---|")
    for row in rows:
        parameters = [field for field in row.fields if field.declared]
        shown = [
            f"{field.name}{default and '='}{default}"
            for field in parameters
            for default in [default_of(field.declared)]
        ]
        answer = "-"
        if row.result is not ControlResult:
            answer = f"`{row.result.__name__}`: " + ", ".join(f"`{name}`" for name in row.shows.split())
        yield f"| `{row.method}({', '.join(shown)})` | {row.summary} {row.note}".rstrip() + f" | {answer} |"


def default_of(declared: str) -> str:
    """Return the default of a parameter; empty if it has none."""
    return declared.partition(" = ")[2]


if __name__ == "__main__":
    sys.exit(
        generated_parts.main(
            "reference/control.md", {f"{name} operations": [*table(rows)] for name, rows in OPERATIONS.items()}
        )
    )
