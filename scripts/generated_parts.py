"""What the programs that make parts of a page share: replace the parts between two comments, or say that they are old."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCS = Path(__file__).resolve().parent.parent / "docs"


def renewed(page: str, parts: Mapping[str, Sequence[str]]) -> str:
    """Return the text of a page with its generated parts, by name, as they should be."""
    for name, lines in parts.items():
        start, end = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
        before, rest = page.split(start)
        after = rest.split(end)[1]
        page = "\n".join([before + start, *lines, end + after])
    return page


def main(page: str, parts: Mapping[str, Sequence[str]]) -> int:
    """Compare a page of the documentation with its parts; with `--write` bring it up to date."""
    path = DOCS / page
    text = path.read_text(encoding="utf-8")
    wanted = renewed(text, parts)
    if text == wanted:
        return 0
    if "--write" not in sys.argv[1:]:
        sys.stderr.write(f"docs/{page} is not current: run `./dev docs`\n")
        return 1
    path.write_text(wanted, encoding="utf-8")
    return 0
