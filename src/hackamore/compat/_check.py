"""Uses of `claude_agent_sdk` in a program that the layer does not have, or that do something else there."""

from __future__ import annotations

import ast
import pkgutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hackamore.compat import claude_agent_sdk, install
from hackamore.compat._absent import Absent
from hackamore.compat._programs import Program

_DISPLAYS = {ast.List: "list", ast.Tuple: "tuple", ast.Dict: "dict", ast.Set: "set", ast.JoinedStr: "str"}

_REASONS = {
    "absent": "hackamore.compat does not have it.",
    "private": "It is private in claude-agent-sdk. hackamore.compat has it, but each release may change it.",
}


@dataclass(frozen=True)
class Finding:
    """A use of the official package; `kind` is `private`, `absent`, `different` or `unreadable`."""

    file: str
    line: int
    kind: str
    name: str
    reason: str
    advice: str


def differences() -> list[dict[str, str]]:
    """Return the rows of the table of deliberate differences."""
    return list(tomllib.loads(Path(__file__).with_name("differences.toml").read_text(encoding="utf-8"))["difference"])


def check(path: Path) -> list[Finding]:
    """Return the uses in a file, in the order of its lines."""
    try:
        program = Program(path, path.read_bytes())
    except (SyntaxError, ValueError, OSError) as error:
        line = getattr(error, "lineno", 1) or 1
        return [Finding(str(path), line, "unreadable", path.name, str(error), "Correct the file, and check it again.")]
    if not program.names:
        return []
    install()
    found = [Finding(str(path), node.lineno, *row) for node, row in _findings(program)]  # type: ignore[attr-defined]
    return sorted(dict.fromkeys(found), key=lambda finding: finding.line)


def _findings(program: Program) -> Iterator[tuple[ast.AST, tuple[str, str, str, str]]]:
    rows = {use: row for row in differences() for use in row.get("uses", ())}
    arguments = {node.arg for node in program.nodes if isinstance(node, ast.keyword)}
    for node in program.nodes:
        for use, name in _uses(program, node):
            if use.startswith("name ") and (kind := _standing(name)):
                yield node, (kind, name, _REASONS[kind], "Use a public name, or one of `hackamore`.")
            for wanted in (use, use.rpartition(" ")[0], f"{use} unless enable_file_checkpointing"):
                if (row := rows.get(wanted)) and wanted.partition(" unless ")[2] not in arguments:
                    yield node, ("different", name, f"{row['subject']}: {row['here']}. {row['reason']}", row["advice"])


def _standing(name: str) -> str:
    """Return `absent` for a name that the layer does not have, `private` for a private one, and "" for others."""
    if name.rpartition(".")[2] in claude_agent_sdk.__all__:
        return ""
    try:
        value = pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return "absent"
    if isinstance(value, type) and issubclass(value, Absent):
        return "absent"
    return "private" if "._" in name else ""


def _uses(program: Program, node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what a node uses, as the table has it, and as the program calls it."""
    match node:
        case ast.Import() | ast.ImportFrom():
            for place in program.imports.get(node, {}).values():
                if not place.endswith(".*"):
                    yield f"name {place.rpartition('.')[2]}", place
        case ast.Attribute(attr=name):
            if not (place := program.official(node)):
                yield f"attribute {name}", name
            elif not isinstance(program.parents[node], ast.Attribute) or not program.is_module(place):
                yield f"name {name}", place
        case ast.Constant(value=str(text)):
            yield f"text {text}", text[:100]
        case ast.Call(func=function):
            called = program.official(function).rpartition(".")[2]
            if called == "ClaudeAgentOptions":
                for keyword in node.keywords:
                    yield f"option {keyword.arg} {_shape(keyword.value)}", keyword.arg or "**"
            prompts = [keyword.value for keyword in node.keywords if keyword.arg == "prompt"]
            if called == "query" or (isinstance(function, ast.Attribute) and function.attr == "query"):
                for prompt in [*node.args[:1], *prompts]:
                    yield f"prompt {_shape(prompt)}", "prompt"
            if called == "HookMatcher":
                yield from _other_events(program, node)


def _shape(node: ast.AST) -> str:
    return type(node.value).__name__ if isinstance(node, ast.Constant) else _DISPLAYS.get(type(node), "value")


def _other_events(program: Program, matcher: ast.Call) -> Iterator[tuple[str, str]]:
    """Yield a use for a hook of a matcher that answers with the name of another event than the one it is for."""
    called = {node.id for node in ast.walk(matcher) if isinstance(node, ast.Name)}
    events = [key for above in program.above(matcher) for key, value in _texts(above) if matcher in ast.walk(value)]
    for function in program.nodes:
        if events and isinstance(function, ast.AsyncFunctionDef) and function.name in called:
            for key, value in [pair for node in ast.walk(function) for pair in _texts(node)]:
                if key == "hookEventName" and getattr(value, "value", events[-1]) != events[-1]:
                    yield "hook other", function.name


def _texts(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the items of a dict whose keys are texts."""
    for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
        if isinstance(key, ast.Constant):
            yield str(key.value), value
