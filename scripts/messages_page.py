"""Bring the tables of `docs/messages.md` up to date with the classes (`--write`), or fail if they are not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import msgspec

from bridle import messages

PAGE = Path(__file__).resolve().parent.parent / "docs" / "messages.md"


def first_line(kind: type) -> str:
    """Return what the class means: the first line of its docstring."""
    return (kind.__doc__ or "").partition("\n")[0]


def names(kind: type[msgspec.Struct], *inherited: str) -> str:
    """Return the names of the fields that users read, in the order of the class."""
    own = [field.name.removesuffix("_raw") for field in msgspec.structs.fields(kind)]
    return ", ".join(f"`{name}`" for name in own if name not in inherited)


def message_rows() -> list[str]:
    """Return one row for each type and subtype."""
    rows = ["| on the wire | class | what it says | fields |", "|---|---|---|---|"]
    ordered = sorted(messages.MESSAGE_TYPES.items(), key=lambda item: (item[0][0] == "system", item[0][1] or ""))
    for (kind, subtype), cls in ordered:
        wire = f"`{kind}` / `{subtype}`" if subtype else f"`{kind}`"
        fields = names(cls, "raw", "uuid", "session_id", "type")
        rows.append(f"| {wire} | `{cls.__name__}` | {first_line(cls)} | {fields} |")
    return rows


def block_rows() -> list[str]:
    """Return one row for each class of content block."""
    rows = ["| on the wire | class | what it is | fields |", "|---|---|---|---|"]
    blocks = get_args(messages.KnownBlock)
    rows += [f"| `{b.__struct_config__.tag}` | `{b.__name__}` | {first_line(b)} | {names(b)} |" for b in blocks]
    return rows


def record_rows() -> list[str]:
    """Return one row for each class that messages and blocks are made of."""
    rows = ["| class | what it is | fields |", "|---|---|---|"]
    for name in messages.__all__:
        cls = getattr(messages, name)
        if isinstance(cls, type) and issubclass(cls, messages.Record) and not issubclass(cls, messages.Block):
            if cls is messages.Record or cls is messages.UnknownBlock:
                continue
            rows.append(f"| `{name}` | {first_line(cls)} | {names(cls)} |")
    return rows


def renewed(page: str) -> str:
    """Return the page with its generated parts as they should be."""
    for name, rows in (("messages", message_rows()), ("blocks", block_rows()), ("records", record_rows())):
        start, end = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
        before, rest = page.split(start)
        after = rest.split(end)[1]
        page = "\n".join([before + start, *rows, end + after])
    return page


def main() -> int:
    """Rewrite the page, or compare it."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = renewed(page)
    if page == wanted:
        return 0
    if "--write" not in sys.argv[1:]:
        sys.stderr.write(f"{PAGE.name} is not current: run `python {Path(__file__).name} --write`\n")
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
