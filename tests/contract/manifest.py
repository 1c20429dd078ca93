"""Reads the manifest, and finds the tests that say what they show. Nothing is imported or run for it: it is read from their sources."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).resolve().parents[2]
MANIFEST = Path(__file__).resolve().parent / "behaviours.toml"


@dataclass(frozen=True)
class Area:
    """Promises that belong together.

    Attributes:
        name: what their ids begin with.
        title: its heading.
        promises: sentences, by id.
    """

    name: str
    title: str
    promises: dict[str, str]


def areas(path: Path = MANIFEST) -> list[Area]:
    """Return the manifest, in its order."""
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    found = []
    for name, area in read.items():
        own = {key: value for key, value in area.items() if key != "title"}
        found.append(Area(name, area["title"], {f"{name}.{key}": text for key, text in own.items()}))
    return found


def promises(path: Path = MANIFEST) -> dict[str, str]:
    """Return every promise by its id."""
    return {name: text for area in areas(path) for name, text in area.promises.items()}


def declared(folder: Path) -> dict[str, list[str]]:
    """Return which tests show each id, as pytest names them: `tests/a/test_b.py::test_c`, without parameters."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("**/test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "shows(" not in source:
            continue
        for test, shown in _tests(ast.parse(source)):
            for name in shown:
                found.setdefault(name, []).append(f"{path.relative_to(folder.parent).as_posix()}::{test}")
    return found


def _tests(module: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
            yield node.name, [name for decorator in node.decorator_list for name in _shown(decorator)]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            # Hypothesis makes its state machines test cases: `TestHost = shows("...")(HostMachine.TestCase)`.
            yield f"{node.targets[0].id}::runTest", list(_shown(node.value))


def _shown(expression: ast.expr) -> Iterator[str]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "shows":
            for argument in node.args:
                if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                    raise ValueError(
                        f"line {node.lineno}: `shows` takes ids as plain strings, so that they can be read"
                    )
                yield argument.value
