"""Write `aio/operations.py` and `_engine/protocol/control_rows.py` from control_table.toml, or compare them (`--check`).

`make_sync.py` writes the blocking twin of the operations.
"""

from __future__ import annotations

import sys
import textwrap
from enum import Enum
from typing import Any

import generated_modules
from control_table import OPERATIONS, QUESTIONS
from generated_modules import PACKAGE

from hackamore._engine.protocol.control_table import ControlRow, Field
from hackamore.messages.results import ControlResult

ROWS = [row for rows in OPERATIONS.values() for row in rows if not row.by_hand]

ROWS_HEAD = '''\
# Generated from scripts/control_table.toml by scripts/make_operations.py. Do not edit: run `./dev format`.
# ruff: noqa: E501 - each text of a row is one line
"""The rows of the control protocol."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from hackamore._engine.protocol.control_table import ControlRow, Direction, FailPolicy, Field
from hackamore.messages import results

if TYPE_CHECKING:
    from collections.abc import Mapping

'''
HEAD = '''\
# Generated from scripts/control_table.toml by scripts/make_operations.py. Do not edit: run `./dev format`.
"""The control operations of a session: one method for each request of the control protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hackamore.checked.fields import to_wire
from hackamore.messages.results import {results}

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hackamore.options.kinds import PermissionMode, SdkPluginConfig

__all__ = ["Operations"]

R = TypeVar("R", bound=ControlResult)


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {{name: value for name, value in fields.items() if value is not None}}


class Operations:
    """The methods; `Session` adds the waiting.

    The errors are `ControlRejectedError`, `ControlTimeoutError`, `TooManyPendingRequestsError` and `InitQueueOverflowError`, which are
    all a `ControlError`, and `SessionClosedError`.
    """

    async def _ask(
        self,
        result: type[R],
        subtype: str,
        fields: Mapping[str, Any],
        timeout: float | None,
        operation: str | None = None,
    ) -> R:
        raise NotImplementedError
'''


def literal(value: Any) -> str:
    """Return a value of a row as Python, without fields that have their default."""
    if isinstance(value, Field | ControlRow):
        kind = type(value)
        given = {name: each for name, each in value._asdict().items() if kind._field_defaults.get(name, ...) != each}
        return f"{kind.__name__}({', '.join(f'{name}={literal(each)}' for name, each in given.items())})"
    if isinstance(value, tuple):
        return f"({''.join(f'{literal(each)}, ' for each in value)})"
    if isinstance(value, type):
        return f"results.{value.__name__}"
    return str(value) if isinstance(value, Enum) else repr(value)


def rows_module() -> str:
    """Return the text of the module with the rows, not formatted yet."""
    sections = "".join(f"{name!r}: {literal(rows)}, " for name, rows in OPERATIONS.items())
    return (
        f"{ROWS_HEAD}OPERATIONS: Mapping[str, tuple[ControlRow, ...]] = {{{sections}}}\n"
        '"""The methods of `Session` by the sections of docs/reference/control.md."""\n\n'
        f"ROWS: tuple[ControlRow, ...] = (*chain.from_iterable(OPERATIONS.values()), *{literal(QUESTIONS)})\n"
        '"""Every request of the documented control protocol."""\n'
    )


def parameters(row: ControlRow) -> list[Field]:
    """Return the fields that the method has as parameters."""
    return [field for field in row.fields if field.declared]


def signature(row: ControlRow) -> str:
    """Return the parameters of a method as they stand in its definition."""
    given = ["self"]
    for field in parameters(row):
        if "=" in field.declared and not field.positional and "*" not in given:
            given.append("*")
        given.append(f"{field.name}: {field.declared}")
    if "*" not in given:
        given.append("*")
    return ", ".join([*given, "timeout: float | None = None"])


def value(field: Field) -> str:
    """Return the expression for the value of a field."""
    if field.declared.startswith("Sequence"):
        return f"to_wire(tuple({field.name})) or None"
    if not field.declared.startswith("Mapping"):
        return field.name
    return f"dict({field.name} or {{}})" if "None" in field.declared else f"dict({field.name})"


def fields_of(row: ControlRow) -> str:
    """Return the expression for the fields of a request: a default is left out, where it does not mean null."""
    always, given = [], []
    for field in parameters(row):
        if "=" not in field.declared or field.always or (field.kind.endswith("?") and field.positional):
            always.append(f'"{field.name}": {value(field)}')
        else:
            given.append(f"{field.name}={value(field)}" + (" or None" if field.declared.endswith("False") else ""))
    if given and not always:
        return f"_given({', '.join(given)})"
    return "{" + ", ".join([*always, *([f"**_given({', '.join(given)})"] if given else [])]) + "}"


def wrapped(text: str, indent: str, first: str | None = None) -> str:
    """Return a paragraph of a docstring."""
    lines = textwrap.fill(
        text, 118, initial_indent=indent if first is None else first, subsequent_indent=indent, break_on_hyphens=False
    )
    return lines + "\n"


def docstring(row: ControlRow) -> str:
    """Return the docstring of a method."""
    indent = " " * 8
    text = f'{indent}"""{row.summary}\n'
    if row.note:
        text += "\n" + wrapped(row.note, indent)
    text += f"\n{indent}Args:\n"
    for field in parameters(row):
        text += wrapped(f"{field.name}: {field.doc}", indent + " " * 8, indent + " " * 4)
    text += f"{indent}    timeout: seconds to wait for the answer; None for `Timeouts.{row.deadline}`, infinity for no limit.\n"
    if row.shows:
        names = ", ".join(f"`{name}`" for name in row.shows.split())
        text += f"\n{indent}Returns:\n" + wrapped(f"The answer, with {names}.", indent + " " * 4)
    elif row.result is not ControlResult:
        text += f"\n{indent}Returns:\n{indent}    The answer.\n"
    text += f"\n{indent}Raises:\n"
    if row.needs:
        text += f"{indent}    CheckpointingNotEnabledError: the session has no `Options({row.needs}=True)`.\n"
    text += (
        f"{indent}    ControlError: the CLI refused the request, did not answer in time, or too many requests wait.\n"
    )
    text += f"{indent}    SessionClosedError: the session is over.\n"
    if parameters(row):
        text += f"{indent}    TypeError, ValueError: an argument has an unsupported type or value.\n"
    if row.example:
        text += f"\n{indent}Example:\n{indent}    ::\n\n{indent}        {row.example}\n"
    return text + f'{indent}"""\n'


def method(row: ControlRow) -> str:
    """Return the text of a method."""
    silent = row.result is ControlResult
    result = row.result.__name__
    named = f', "{row.method}"' if row.method != row.subtype else ""
    call = f'await self._ask({result}, "{row.subtype}", {fields_of(row)}, timeout{named})'
    return (
        f"\n    async def {row.method}({signature(row)}) -> {'None' if silent else result}:\n"
        f"{docstring(row)}        {'' if silent else 'return '}{call}\n"
    )


def module() -> str:
    """Return the text of the module, not formatted yet."""
    names = sorted({row.result.__name__ for row in ROWS} | {"ControlResult"})
    return HEAD.format(results="(" + ", ".join(names) + ")") + "".join(map(method, ROWS))


if __name__ == "__main__":
    rows = PACKAGE / "_engine" / "protocol" / "control_rows.py"
    sys.exit(generated_modules.main({PACKAGE / "aio" / "operations.py": module(), rows: rows_module()}))
