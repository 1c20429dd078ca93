"""Bring the table of script files in `docs/reference/script-steps.md` up to date with the steps (`--write`), or fail if it is not."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

import generated_parts
import msgspec
from msgspec import inspect

from hackamore.testing.script.files import STEPS

_PLAIN: tuple[tuple[type[inspect.Type], str], ...] = (
    (inspect.StrType, "text"),
    (inspect.BoolType, "boolean"),
    (inspect.IntType, "whole number"),
    (inspect.FloatType, "number"),
    (inspect.DateTimeType, "date with time zone"),
    (inspect.BytesType, "base64"),
    (inspect.DictType, "object"),
    (inspect.ListType, "list"),
    (inspect.VarTupleType, "steps"),
    (inspect.AnyType, "any"),
)


def kind_of(kind: inspect.Type) -> str:
    """Return a type in words."""
    if isinstance(kind, inspect.UnionType):
        return " or ".join(kind_of(each) for each in kind.types if not isinstance(each, inspect.NoneType))
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, inspect.IntType | inspect.FloatType) and (kind.ge is not None or kind.le is not None):
        limits = [text for value, text in ((kind.ge, f"{kind.ge:g} or more"),) if value is not None]
        return ", ".join(["whole number" if isinstance(kind, inspect.IntType) else "number", *limits])
    return next(words for each, words in _PLAIN if isinstance(kind, each))


def default_of(field: Any) -> str:
    """Return the default of a field as it is written in JSON."""
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if value is None or value == () or isinstance(value, bytes | datetime):
        return "none"
    return f"`{json.dumps(value)}`"


def parts() -> list[str]:
    """Return the table: a row for each field."""
    lines = ["", "| step | field | value | default |", "|---|---|---|---|"]
    for name, step in STEPS.items():
        fields = getattr(inspect.type_info(step), "fields", ())
        if not fields:
            lines.append(f"| `{name}` | | | |")
        lines += [f"| `{name}` | `{each.encode_name}` | {kind_of(each.type)} | {default_of(each)} |" for each in fields]
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(generated_parts.main("reference/script-steps.md", {"script files": parts()}))
