"""The page on control operations has every method once, with its arguments, its answer and fields that there are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from hackamore import Session
from hackamore.messages import results as control_results
from hackamore.sync import Session as BlockingSession
from tests.support.operations import operations

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "control.md"
PARTS = {"McpStatus": ("McpServerStatus",), "PermissionRules": ("PermissionRulesState",)}
ROW = re.compile(r"^\| `(?P<name>\w+)\((?P<arguments>[^`]*)\)` \| [^|]+ \| (?P<returns>[^|]+) \|$", re.MULTILINE)


class Row(NamedTuple):
    """A row of the page."""

    arguments: str
    returns: str


def rows() -> dict[str, Row]:
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len({name for name, _, _ in found}) == len(found)
    return {name: Row(arguments, returns) for name, arguments, returns in found}


def as_written(parameter: inspect.Parameter) -> str:
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if parameter.default is inspect.Parameter.empty:
        return parameter.name
    default = f'"{parameter.default}"' if isinstance(parameter.default, str) else parameter.default
    return f"{parameter.name}={default}"


@pytest.mark.parametrize("session", [Session, BlockingSession])
def test_every_method_has_a_row_and_every_row_a_method(session: type) -> None:
    assert set(rows()) == set(operations(session))


@pytest.mark.parametrize("name", sorted(operations(Session)))
def test_a_row_has_the_arguments_and_the_answer_of_its_method(name: str) -> None:
    signature = inspect.signature(getattr(Session, name))
    shown = [parameter for parameter in signature.parameters.values() if parameter.name not in {"self", "timeout"}]
    assert rows()[name].arguments == ", ".join(as_written(parameter) for parameter in shown)
    assert signature.parameters["timeout"].default is None
    returned = str(signature.return_annotation)
    returns = rows()[name].returns
    assert (returns == "-") == (returned == "None")
    assert returns == "-" or returns.startswith(f"`{returned}`: ")


@pytest.mark.parametrize("name", sorted(name for name, row in rows().items() if row.returns != "-"))
def test_the_fields_of_an_answer_exist(name: str) -> None:
    kind, *names = re.findall(r"`([A-Za-z_]+)`", rows()[name].returns)
    known = {"None"}.union(*(dir(getattr(control_results, part)) for part in (kind, *PARTS.get(kind, ()))))
    assert [name for name in names if name not in known] == []
