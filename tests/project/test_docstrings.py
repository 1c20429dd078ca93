"""Docstrings of public callables: every parameter, the return value and the raised errors are named; the most used have an example."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import bridle
from bridle import Options

SOURCES = Path(bridle.__file__).parent
MODULES = (
    "bridle",
    "bridle.sync",
    "bridle.messages",
    "bridle.hooks",
    "bridle.permissions",
    "bridle.dialogs",
    "bridle.tools",
    "bridle.errors",
    "bridle.options.kinds",
    "bridle.launch.versions",
    "bridle.transports.base",
    "bridle.testing",
)
NOT_CALLED_BY_USERS = {
    "Turn.__init__",  # a session makes turns
    "TurnBase.__init__",
    "Tool.__init__",  # `tool` makes tools
    "Checked.__init__",  # the fields of the subclass are the parameters
    "HookMatcher.__init__",  # `unknown` makes a misspelt name an OptionsError
}
WITH_EXAMPLE = (
    "bridle.query",
    "bridle.run",
    "bridle.start_session",
    "bridle.Session",
    "bridle.Session.send",
    "bridle.Session.interrupt",
    "bridle.Session.messages",
    "bridle.Session.events",
    "bridle.Session.request",
    "bridle.Session.set_mcp_servers",
    "bridle.Session.set_model",
    "bridle.Session.set_permission_mode",
    "bridle.Session.rewind_files",
    "bridle.Session.wait_idle",
    "bridle.Session.start",
    "bridle.Session.stop",
    "bridle.Turn.result",
    "bridle.Turn.text_stream",
    "bridle.QueryStream",
    "bridle.QueryStream.collect",
    "bridle.QueryStream.result",
    "bridle.QueryStream.text_stream",
    "bridle.QueryStream.items",
    "bridle.sync.query",
    "bridle.sync.run",
    "bridle.sync.start_session",
    "bridle.sync.Session",
    "bridle.Options",
    "bridle.Options.load",
    "bridle.Options.replace",
    "bridle.Timeouts",
    "bridle.Limits",
    "bridle.AgentDefinition",
    "bridle.CLIVersion.parse",
    "bridle.version_meets_minimum",
    "bridle.HookMatcher",
    "bridle.HookOutput.allow",
    "bridle.HookOutput.deny",
    "bridle.HookOutput.add_context",
    "bridle.Allow",
    "bridle.Allow.always",
    "bridle.Deny",
    "bridle.tool",
    "bridle.tool_server",
    "bridle.ToolContext",
    "bridle.ToolResult",
    "bridle.ToolError",
    "bridle.testing.SimulatedCLI",
    "bridle.testing.Script",
    "bridle.testing.Script.says",
    "bridle.testing.Script.calls",
    "bridle.testing.ScriptedModel",
    "bridle.testing.Cassette",
    "bridle.testing.check_transport",
)


class Documented(NamedTuple):
    """A function with the docstring that has to describe it."""

    name: str
    function: Any
    doc: str

    @property
    def constructs(self) -> bool:
        return self.name.endswith("__init__")


def public_names() -> Iterator[tuple[str, Any]]:
    for place in MODULES:
        module = importlib.import_module(place)
        for name in getattr(module, "__all__", [name for name in vars(module) if name[:1].isupper()]):
            yield f"{place}.{name}", getattr(module, name)


def described() -> dict[str, Documented]:
    found: dict[str, Documented] = {}

    def add(name: str, function: Any, doc: str | None) -> None:
        code = getattr(function, "__code__", None)
        if code is not None and str(SOURCES) in code.co_filename:
            found.setdefault(
                f"{code.co_filename}:{code.co_firstlineno}", Documented(name, function, inspect.cleandoc(doc or ""))
            )

    for name, value in public_names():
        if inspect.isfunction(value) and value.__module__.startswith("bridle"):
            add(name, value, value.__doc__)
        elif inspect.isclass(value):
            for kind in value.__mro__:
                if not kind.__module__.startswith("bridle"):
                    continue
                for attribute, raw in vars(kind).items():
                    function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
                    if attribute == "__init__":
                        # The arguments of a constructor may stand in the docstring of the class.
                        docs = [inspect.cleandoc(text) for text in (kind.__doc__, function.__doc__) if text]
                        add(f"{kind.__qualname__}.__init__", function, "\n".join(docs))
                    elif not attribute.startswith("_"):
                        add(f"{kind.__module__}.{kind.__qualname__}.{attribute}", function, raw.__doc__)
    return {one.name: one for one in found.values() if one.name not in NOT_CALLED_BY_USERS}


DESCRIBED = described()


def has_section(doc: str, *names: str) -> bool:
    return re.search(rf"^(?:{'|'.join(names)}):$", doc, re.MULTILINE) is not None


def raised_in(function: Callable[..., Any]) -> set[str]:
    """The names of the exceptions that a function raises by `raise Name(...)`."""
    body = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = (node.exc for node in ast.walk(body) if isinstance(node, ast.Raise) and node.exc is not None)
    names = {ast.unparse(exc.func if isinstance(exc, ast.Call) else exc) for exc in raised}
    protocol = {"NotImplementedError", "AttributeError", "StopIteration", "StopAsyncIteration"}
    return {name.split(".")[0] for name in names if name[:1].isupper()} - protocol


def test_there_is_something_to_check() -> None:
    assert len(DESCRIBED) > 250


@pytest.mark.parametrize("name", sorted(DESCRIBED))
def test_a_docstring_names_parameters_results_and_errors(name: str) -> None:
    one = DESCRIBED[name]
    signature = inspect.signature(one.function)
    missing = [
        f"the parameter {parameter}"
        for parameter in signature.parameters
        if parameter not in ("self", "cls")
        and not re.search(rf"^ +(?:\w+, )*\**{re.escape(parameter)}(?:, \w+)*:", one.doc, re.MULTILINE)
    ]
    if not one.constructs and signature.return_annotation not in ("None", "NoReturn", "Never", None):
        missing += [] if has_section(one.doc, "Returns", "Yields") else ["Returns"]
    missing += [f"the error {error}" for error in raised_in(one.function) if error not in one.doc]
    assert one.doc, f"{name} has no docstring"
    assert not missing, f"{name} does not describe {', '.join(missing)}"


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_the_most_used_callables_have_an_example(name: str) -> None:
    value: Any = bridle
    for part in name.split(".")[1:]:
        value = importlib.import_module("bridle.testing") if part == "testing" else getattr(value, part)
    doc = inspect.cleandoc(value.__doc__ or "")
    assert re.search(r"^(?:Example:|Example::)$|^ *::$|^    >>> ", doc, re.MULTILINE), f"{name} has no example"


def test_help_on_options_lists_each_field_with_type_and_default() -> None:
    text = pydoc.plain(pydoc.render_doc(Options))
    for field, parameter in inspect.signature(Options).parameters.items():
        assert parameter.annotation is not inspect.Parameter.empty, field
        assert parameter.default is not inspect.Parameter.empty, field
        assert re.search(rf"^ \|\s+{field} \(.+; default .+\): .+$", text, re.MULTILINE), field
