"""Notices when a test claims to show a promise that it says nothing about.

A test speaks by its source and by that of everything of its file that it uses, comments included. Three rules:

1. it asserts something, or expects an error;
2. it shares at least one significant word with each promise that it shows;
3. all the tests of a promise together name each identifier that the promise has in backticks, and each signal and code.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tests.contract.manifest import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Words that say nothing about what a promise is about.
COMMON = set(
    re.findall(
        r"\w+",
        """
    the and that with from for not are was has have its his her all any one two what who when which where how this these
    those into than then them they their there but does did done also each every such same other others only without within
    before after again while until between give gives goes made make makes take takes say says said tell told ask asked asks
    come comes get gets got put can may must never ever nothing something nobody somebody everybody else still cli session
    assert async await def none true false self return shell options import scenario play object
    """,
    )
)
ENDINGS = ("ings", "ing", "ies", "ied", "ers", "ed", "es", "er", "ly", "s")
ASSERTING = re.compile(r"\bassert\b|\braises?\(|\braised\(|\bassert_|\bcheck\w*\(|\.runTest|TestCase")


class Module(NamedTuple):
    """A file of tests: its lines, and what stands at its top level, by name."""

    lines: list[str]
    top: dict[str, ast.stmt]


@cache
def module(path: Path) -> Module:
    """Return a file of tests."""
    text = path.read_text(encoding="utf-8")
    top: dict[str, ast.stmt] = {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            top[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            top |= {name.id: node for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return Module(text.splitlines(), top)


def used(found: Module, name: str, seen: set[str]) -> Iterator[str]:
    """Give the source of a function, class or constant, and of what it uses of the same file."""
    if name in seen or name not in found.top:
        return
    seen.add(name)
    node = found.top[name]
    decorators = getattr(node, "decorator_list", [])
    yield from found.lines[node.lineno - 1 : node.end_lineno]
    for decorator in decorators:
        if getattr(getattr(decorator, "func", None), "id", "") != "shows":
            yield from found.lines[decorator.lineno - 1 : decorator.end_lineno]
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield from used(found, part.id, seen)
        elif isinstance(part, ast.arg):  # a fixture
            yield from used(found, part.arg, seen)


@cache
def source(test: str) -> str:
    """Return what a test says: `tests/a/test_b.py::test_c`."""
    path, _, name = test.partition("::")
    return "\n".join(used(module(PROJECT / path), name.partition("::")[0], set()))


def stem(word: str) -> str:
    """Return a word without its ending."""
    return next((word[: -len(end)] for end in ENDINGS if word.endswith(end) and len(word) - len(end) >= 4), word)


def words(text: str) -> set[str]:
    """Return the significant words of a text."""
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).replace("_", " ").lower()
    return {stem(word) for word in re.findall(r"[a-z]{3,}", apart) if word not in COMMON}


def identifiers(promise: str) -> set[str]:
    """Return the names of code that a promise has."""
    quoted = {name for code in re.findall(r"`([^`]+)`", promise) for name in re.findall(r"[A-Za-z_]{3,}", code)}
    return quoted | set(re.findall(r"\b(?:SIG[A-Z]+|[A-Z]+_[A-Z_]+)\b", promise))


def problems(name: str, promise: str, tests: list[str]) -> list[str]:
    """Return what is wrong with the tests that claim to show a promise."""
    about = words(promise) | words(name.rpartition(".")[2].replace("-", " "))
    found = [f"{test} asserts nothing" for test in tests if not ASSERTING.search(source(test))]
    found += [f"{test} says nothing about it" for test in tests if not about & words(source(test))]
    together = "\n".join(map(source, tests))
    found += [f"no test names {missing}" for missing in sorted(identifiers(promise)) if missing not in together]
    return found
