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

import hackamore
from hackamore import Options

SOURCES = Path(hackamore.__file__).parent
MODULES = (
    "hackamore",
    "hackamore.sync",
    "hackamore.messages",
    "hackamore.hooks",
    "hackamore.permissions",
    "hackamore.dialogs",
    "hackamore.tools",
    "hackamore.errors",
    "hackamore.options.kinds",
    "hackamore._engine.launch.versions",
    "hackamore.transports.base",
    "hackamore.testing",
)
NOT_CALLED_BY_USERS = {
    "Turn.__init__",  # a session makes turns
    "TurnBase.__init__",
    "Tool.__init__",  # `tool` makes tools
    "Checked.__init__",  # the fields of the subclass are the parameters
    "HookMatcher.__init__",  # `unknown` makes a misspelt name an OptionsError
}
WITH_EXAMPLE = (
    "hackamore.query",
    "hackamore.run",
    "hackamore.start_session",
    "hackamore.Session",
    "hackamore.Session.send",
    "hackamore.Session.interrupt",
    "hackamore.Session.messages",
    "hackamore.Session.events",
    "hackamore.Session.request",
    "hackamore.Session.set_mcp_servers",
    "hackamore.Session.set_model",
    "hackamore.Session.set_permission_mode",
    "hackamore.Session.rewind_files",
    "hackamore.Session.wait_idle",
    "hackamore.Session.start",
    "hackamore.Session.stop",
    "hackamore.Turn.result",
    "hackamore.Turn.text_stream",
    "hackamore.QueryStream",
    "hackamore.QueryStream.collect",
    "hackamore.QueryStream.result",
    "hackamore.QueryStream.text_stream",
    "hackamore.QueryStream.items",
    "hackamore.sync.query",
    "hackamore.sync.run",
    "hackamore.sync.start_session",
    "hackamore.sync.Session",
    "hackamore.Options",
    "hackamore.Options.load",
    "hackamore.Options.replace",
    "hackamore.Timeouts",
    "hackamore.Limits",
    "hackamore.AgentDefinition",
    "hackamore.CLIVersion.parse",
    "hackamore.version_meets_minimum",
    "hackamore.HookMatcher",
    "hackamore.HookOutput.allow",
    "hackamore.HookOutput.deny",
    "hackamore.HookOutput.add_context",
    "hackamore.Allow",
    "hackamore.Allow.always",
    "hackamore.Deny",
    "hackamore.tool",
    "hackamore.tool_server",
    "hackamore.ToolContext",
    "hackamore.ToolResult",
    "hackamore.ToolError",
    "hackamore.testing.SimulatedCLI",
    "hackamore.testing.Script",
    "hackamore.testing.Script.says",
    "hackamore.testing.Script.calls",
    "hackamore.testing.ScriptedModel",
    "hackamore.testing.Cassette",
    "hackamore.testing.check_transport",
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
        if inspect.isfunction(value) and value.__module__.startswith("hackamore"):
            add(name, value, value.__doc__)
        elif inspect.isclass(value):
            for kind in value.__mro__:
                if not kind.__module__.startswith("hackamore"):
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
    value: Any = hackamore
    for part in name.split(".")[1:]:
        value = importlib.import_module("hackamore.testing") if part == "testing" else getattr(value, part)
    doc = inspect.cleandoc(value.__doc__ or "")
    assert re.search(r"^(?:Example:|Example::)$|^ *::$|^    >>> ", doc, re.MULTILINE), f"{name} has no example"


def test_help_on_options_lists_each_field_with_type_and_default() -> None:
    text = pydoc.plain(pydoc.render_doc(Options))
    for field, parameter in inspect.signature(Options).parameters.items():
        assert parameter.annotation is not inspect.Parameter.empty, field
        assert parameter.default is not inspect.Parameter.empty, field
        assert re.search(rf"^ \|\s+{field} \(.+; default .+\): .+$", text, re.MULTILINE), field
