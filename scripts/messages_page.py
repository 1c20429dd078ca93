"""Bring the tables of `docs/reference/messages.md` up to date with the classes (`--write`), or fail if they are not."""

from __future__ import annotations

import sys
from typing import get_args

import generated_parts
import msgspec

from hackamore import messages


def first_line(kind: type) -> str:
    """Return what the class means: the first line of its docstring."""
    return (kind.__doc__ or "").partition("\n")[0]


def names(kind: type[msgspec.Struct], *inherited: str) -> str:
    """Return the names of the fields that users read, in the order of the class."""
    own = [field.name.removesuffix("_raw") for field in msgspec.structs.fields(kind)]
    return ", ".join(f"`{name}`" for name in own if name not in inherited)


def message_rows() -> list[str]:
    """Return one row for each type and subtype."""
    rows = ["| on the wire | class | meaning | fields |", "|---|---|---|---|"]
    ordered = sorted(messages.MESSAGE_TYPES.items(), key=lambda item: (item[0][0] == "system", item[0][1] or ""))
    for (kind, subtype), cls in ordered:
        wire = f"`{kind}` / `{subtype}`" if subtype else f"`{kind}`"
        fields = names(cls, "raw", "uuid", "session_id", "type")
        rows.append(f"| {wire} | `{cls.__name__}` | {first_line(cls)} | {fields} |")
    return rows


def block_rows() -> list[str]:
    """Return one row for each class of content block."""
    rows = ["| on the wire | class | meaning | fields |", "|---|---|---|---|"]
    blocks = get_args(messages.KnownBlock)
    rows += [f"| `{b.__struct_config__.tag}` | `{b.__name__}` | {first_line(b)} | {names(b)} |" for b in blocks]
    return rows


def record_rows() -> list[str]:
    """Return one row for each class that messages and blocks are made of."""
    rows = ["| class | meaning | fields |", "|---|---|---|"]
    for name in messages.__all__:
        cls = getattr(messages, name)
        if isinstance(cls, type) and issubclass(cls, messages.Record) and not issubclass(cls, messages.Block):
            if cls is messages.Record or cls is messages.UnknownBlock:
                continue
            rows.append(f"| `{name}` | {first_line(cls)} | {names(cls)} |")
    return rows


if __name__ == "__main__":
    parts = {"messages": message_rows(), "blocks": block_rows(), "records": record_rows()}
    sys.exit(generated_parts.main("reference/messages.md", parts))
