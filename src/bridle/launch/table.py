"""The rows of `Options` as functions: what a set of options becomes on the command line, in `initialize`, in variables.

The rows stand in `bridle.options.options`. Their order here is that of the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bridle.checked.fields import to_wire
from bridle.launch.encode import SPECIAL, json_text
from bridle.options.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridle.options.rows import Row

__all__ = ["ROWS", "ROWS_BY_NAME", "OptionRow", "is_given"]


class OptionRow(NamedTuple):
    """One option, and the functions that return its arguments, fields of `initialize` and variables, if it can have some."""

    name: str
    row: Row
    secret: bool
    argv: Callable[[Options], list[str]] | None = None
    initialize: Callable[[Options], Mapping[str, Any]] | None = None
    environment: Callable[[Options], Mapping[str, str]] | None = None

    def needs_session(self, options: Options) -> bool:
        """Return True if this value needs the bidirectional protocol."""
        if self.initialize is not None and self.initialize(options):
            return True
        value = getattr(options, self.name)
        return self.row.session and (callable(value) or bool(value))


def is_given(value: object) -> bool:
    """Return True if the value is neither None nor False; 0 and "" are given."""
    return value is not None and value is not False


def _value(flag: str, value: Any) -> list[str]:
    return [flag] if value is True else [f"{flag}={value}"] if is_given(value) else []


# CLI 2.1.328 takes `--betas=A,B` for one beta that it does not know, and drops both; and in a joined list of rules an open
# parenthesis swallows the rules after it. So only lists of plain names are joined.
_FLAGS: dict[str, Callable[[str, Any], list[str]]] = {
    "value": _value,
    "switch": lambda flag, value: [flag] if value else [],
    "off": lambda flag, value: [] if value else [flag],
    "each": lambda flag, value: [f"{flag}={part}" for part in value],
    "comma": lambda flag, value: [] if value is None else [f"{flag}={','.join(value)}"],
    "json": lambda flag, value: [] if value is None else [f"{flag}={json_text(value)}"],
}


def _encoded(name: str, row: Row, secret: bool) -> OptionRow:
    if row.form == "special":
        return OptionRow(name, row, secret, *SPECIAL[name])
    if row.form == "host":
        return OptionRow(name, row, secret)
    if row.form == "initialize":

        def initialize(options: Options) -> Mapping[str, Any]:
            value = getattr(options, name)
            return {row.name: to_wire(value)} if is_given(value) else {}

        return OptionRow(name, row, secret, initialize=initialize)
    if row.form == "variable":

        def environment(options: Options) -> Mapping[str, str]:
            value = getattr(options, name)
            return {row.name: row.constant or value} if is_given(value) else {}

        return OptionRow(name, row, secret, environment=environment)
    write = _FLAGS[row.form]

    def argv(options: Options) -> list[str]:
        overruled = row.yields_to and getattr(options, row.yields_to) is not None
        return [] if overruled else write(row.name, getattr(options, name))

    return OptionRow(name, row, secret, argv)


ROWS: tuple[OptionRow, ...] = tuple(
    sorted(
        (_encoded(name, field.row, field.secret) for name, field in Options.__fields__.items()),
        key=lambda option: option.row.place,
    )
)
ROWS_BY_NAME: dict[str, OptionRow] = {option.name: option for option in ROWS}
