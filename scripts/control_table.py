"""The rows of control_table.toml as objects."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hackamore._engine.protocol.control_table import ControlRow, Direction, FailPolicy, Field
from hackamore.messages import results


def fields(text: str) -> tuple[Field, ...]:
    """Read fields, separated by blanks."""
    found = []
    for part in text.split():
        label, kind = part.split(":")
        required = label.endswith("*")
        name, _, wire = label.removesuffix("*").partition("=")
        found.append(Field(name, wire or name, kind, required))
    return tuple(found)


def row_of(given: dict[str, Any], *, ours: bool) -> ControlRow:
    """Read a row: of a request that Hackamore sends, or of one that the CLI sends."""
    read = dict(given)
    direction = read.pop("direction", Direction.HOST_TO_CLI.name if ours else Direction.CLI_TO_HOST.name)
    parameters = [fields(each.pop("field"))[0]._replace(**each) for each in map(dict, read.pop("parameters", ()))]
    read["fields"] = (*parameters, *fields(read.pop("more", "")))
    read["result"] = getattr(results, read.get("result", "ControlResult"))
    read["fail"] = FailPolicy[read.get("fail", "ERROR")]
    read["method"] = read.get("method", read["subtype"] if ours else "")
    return ControlRow(direction=Direction[direction], **read)


TABLE = tomllib.loads(Path(__file__).with_name("control_table.toml").read_text(encoding="utf-8"))
OPERATIONS = {name: tuple(row_of(row, ours=True) for row in rows) for name, rows in TABLE["operations"].items()}
QUESTIONS = tuple(row_of(row, ours=False) for row in TABLE["questions"])
