"""Write the shapes of the compatible layer from the public annotations of the official package, or compare them (`--check`).

The names, fields, types and defaults of its dataclasses, typed dicts and aliases are facts; docstrings, comments and bodies are left out.
`--news VERSION` compares another release (default: the newest) and prints the names, fields and signatures that differ. The folder of an
unpacked package can stand in the place of a version.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import generated_modules
from generated_modules import PACKAGE, PROJECT

VERSION = "0.2.187"
OFFICIAL = PROJECT / ".dev" / "official" / "claude_agent_sdk"
TARGET = PACKAGE / "compat" / "claude_agent_sdk"
HEAD = f"""\
# Generated from the public annotations of claude-agent-sdk {VERSION} by scripts/make_compat.py. Do not edit: run `./dev format`.
"""
METHODS = {"PermissionUpdate": "PermissionUpdateMethods"}
"""Dataclasses with methods, and the hand-written bases that have them."""
BY_HAND = {"CanUseToolShadowedWarning", "PermissionRuleValue"}
"""Public names of `types` that are written by hand: a warning with checks, and a class that methods make."""
PLACES = {
    "_errors": "ClaudeSDKError CLIConnectionError CLINotFoundError ProcessError ResultError CLIJSONDecodeError",
    "types": "CanUseToolShadowedWarning",
    "client": "ClaudeSDKClient",
    "query": "query",
    "_tools": "SdkMcpTool create_sdk_mcp_server tool",
    "_internal.transport": "Transport",
    "_internal.sessions": (
        "ForkSessionResult InMemorySessionStore delete_session delete_session_via_store fork_session fork_session_via_store "
        "get_session_info get_session_info_from_store get_session_messages get_session_messages_from_store get_subagent_messages "
        "get_subagent_messages_from_store import_session_to_store list_sessions list_sessions_from_store list_subagents "
        "list_subagents_from_store project_key_for_directory rename_session rename_session_via_store tag_session tag_session_via_store"
    ),
    "_internal._summaries": "fold_session_summary",
    "_version": "__version__",
}
"""Public names that are no shapes, by the module that has them."""
CONTROLS = (
    ("interrupt", "", "interrupt", "", "None"),
    ("set_permission_mode", "mode: shapes.PermissionMode", "set_permission_mode", "mode=mode", "None"),
    ("set_model", "model: str | None = None", "set_model", "model=model", "None"),
    ("rewind_files", "user_message_id: str", "rewind_files", "user_message_id=user_message_id", "None"),
    ("reconnect_mcp_server", "server_name: str", "mcp_reconnect", "serverName=server_name", "None"),
    (
        "toggle_mcp_server",
        "server_name: str, enabled: bool",
        "mcp_toggle",
        "serverName=server_name, enabled=enabled",
        "None",
    ),
    ("stop_task", "task_id: str", "stop_task", "task_id=task_id", "None"),
    ("get_mcp_status", "", "mcp_status", "", "shapes.McpStatusResponse"),
    ("get_context_usage", "", "get_context_usage", "", "shapes.ContextUsageResponse"),
)
"""The control requests of the client: method, parameters, subtype and fields on the wire, result."""
LATE = "ToolAnnotations"
"""The one class that needs the package `mcp`: loaded when it is used."""


def is_public_shape(node: ast.stmt) -> bool:
    """Return whether a statement of `types` declares an alias, a typed dict, a dataclass or a protocol."""
    match node:
        case ast.ClassDef():
            return node.name not in BY_HAND
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name != "McpServer" and not name.startswith("_")
    return False


def shape(node: ast.stmt) -> ast.stmt:
    """Return a declaration without its docstrings and bodies."""
    if not isinstance(node, ast.ClassDef):
        return node
    body: list[ast.stmt] = []
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            body.append(part)
        elif isinstance(part, ast.AsyncFunctionDef) and not part.name.startswith("_"):
            part.body = [ast.Raise(ast.Name("NotImplementedError"))]
            body.append(part)
    node.body = body or [ast.Pass()]
    if node.name in METHODS:
        node.bases = [ast.Name(METHODS[node.name])]
    return node


def names_of(nodes: list[ast.stmt]) -> list[str]:
    """Return the names that declarations bind."""
    found = []
    for node in nodes:
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name))
            ):
                found.append(name)
    return found


def shapes(official: Path) -> list[ast.stmt]:
    """Return the declarations of the official `types`."""
    tree = ast.parse((official / "types.py").read_text(encoding="utf-8"))
    return [shape(node) for node in tree.body if is_public_shape(node)]


def public_names(official: Path) -> list[str]:
    """Return the `__all__` of the official package."""
    tree = ast.parse((official / "__init__.py").read_text(encoding="utf-8"))
    values = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return list(ast.literal_eval(values[0]))


def shapes_module(official: Path) -> str:
    """Return the text of `_shapes.py`."""
    nodes = shapes(official)
    text = "\n\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in nodes).replace("'McpServer'", "Any")
    return f'''{HEAD}"""Dataclasses, typed dicts and aliases of the official package: names, fields, types and defaults."""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NotRequired, Protocol, Required, TypeAlias, TypedDict

from hackamore.compat.claude_agent_sdk._methods import PermissionRuleValue, {", ".join(METHODS.values())}

__all__ = {["PermissionRuleValue", *names_of(nodes)]!r}

{text}
'''


def controls_module() -> str:
    """Return the text of `_controls.py`."""
    methods = []
    for name, parameters, subtype, fields, result in CONTROLS:
        call = f"await self._control({', '.join(filter(None, [repr(subtype), fields]))})"
        body = call if result == "None" else f"return cast({result!r}, {call})"
        methods.append(
            f"    async def {name}({', '.join(filter(None, ['self', parameters]))}) -> {result}:\n        {body}\n"
        )
    newline = "\n"
    return f'''{HEAD}"""The control requests of the client."""

from __future__ import annotations

from typing import Any, cast

from hackamore.compat.claude_agent_sdk import _shapes as shapes


class Controls:
    """A method for each request."""

    async def _control(self, subtype: str, **fields: Any) -> dict[str, Any]:
        raise NotImplementedError

{newline.join(methods)}'''


def transport_module(official: Path) -> str:
    """Return the text of `_internal/transport/__init__.py`: the abstract class that programs implement."""
    tree = ast.parse((official / "_internal" / "transport" / "__init__.py").read_text(encoding="utf-8"))
    (kind,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    for method in kind.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            method.body = [ast.Expr(ast.Constant(...))]
    kind.body = [part for part in kind.body if not isinstance(part, ast.Expr)]
    return f'''{HEAD}"""The transport of the official package: an abstract class that programs may implement."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

__all__ = ["Transport"]

{ast.unparse(ast.fix_missing_locations(kind))}
'''


def init_module(official: Path) -> str:
    """Return the text of `__init__.py`."""
    names = public_names(official)
    here = {name: place for place, placed in PLACES.items() for name in placed.split()}
    of_shapes = sorted(set(names) - set(here) - {LATE})
    places = {"_shapes": of_shapes, **{place: sorted(placed.split()) for place, placed in PLACES.items()}}
    lines = [
        f"from hackamore.compat.claude_agent_sdk.{place} import {', '.join(placed)}"
        for place, placed in places.items()
        if placed
    ]
    newline = "\n"
    return f'''{HEAD}"""The names of the official package, on Hackamore."""

from typing import TYPE_CHECKING, Any

{newline.join(lines)}

if TYPE_CHECKING:
    from hackamore.compat.claude_agent_sdk._annotations import {LATE}

__all__ = {names!r}


def __getattr__(name: str) -> Any:
    if name == "{LATE}":
        from hackamore.compat.claude_agent_sdk._annotations import {LATE}

        return {LATE}
    if name.startswith("_") and not name.startswith("__"):
        from hackamore.compat.claude_agent_sdk import _tools

        return getattr(_tools, name)
    raise AttributeError(f"module 'claude_agent_sdk' has no attribute {{name!r}}")
'''


def declarations(official: Path) -> dict[str, str]:
    """Return the public names of a release with their annotations: classes, their fields and methods, functions, aliases."""
    public = {*public_names(official), *names_of(shapes(official))}
    found: dict[str, str] = {}
    for path in sorted(official.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, _FUNCTIONS) and node.name in public:
                found[node.name] = signature(node)
            elif isinstance(node, ast.ClassDef) and node.name in public:
                found[node.name] = f"class({', '.join(map(ast.unparse, node.bases))})"
                for part in node.body:
                    if isinstance(part, ast.AnnAssign):
                        found[f"{node.name}.{ast.unparse(part.target)}"] = ast.unparse(part).partition(": ")[2]
                    elif isinstance(part, _FUNCTIONS) and (part.name == "__init__" or not part.name.startswith("_")):
                        found[f"{node.name}.{part.name}"] = signature(part)
            elif path.name == "types.py":
                found.update({name: ast.unparse(node) for name in names_of([node]) if name in public})
    return {**dict.fromkeys(public_names(official), "exported"), **found}


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the parameters and the result of a function."""
    return f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else 'Any'}"


def downloaded(version: str, folder: str) -> Path:
    """Download the sdist of a release, unpack it in a folder, and return the package in it. `latest` is the newest."""
    wanted = "claude-agent-sdk" + ("" if version == "latest" else f"=={version}")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "claude-agent-sdk"]
    subprocess.run([*command, "--dest", folder, wanted], check=True)
    (archive,) = Path(folder).glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    sys.stdout.write(f"{archive.name.removesuffix('.tar.gz')} beside {VERSION}:\n")
    return Path(folder, archive.name.removesuffix(".tar.gz"), "src", "claude_agent_sdk")


def news(official: Path) -> int:
    """Print the public names, fields and signatures of a release that differ; return 1 if some do."""
    before, after = declarations(OFFICIAL), declarations(official)
    lines = [
        *(f"new: {name}: {after[name]}" for name in after if name not in before),
        *(f"removed: {name}" for name in before if name not in after),
        *(
            f"changed: {name}: {before[name]} -> {after[name]}"
            for name in after
            if before.get(name, after[name]) != after[name]
        ),
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "no public name, field or signature differs\n")
    return int(bool(lines))


if __name__ == "__main__":
    if "--news" in sys.argv:
        release = (sys.argv[sys.argv.index("--news") + 1 :] or ["latest"])[0]
        with tempfile.TemporaryDirectory() as temporary:
            sys.exit(news(Path(release) if Path(release).is_dir() else downloaded(release, temporary)))
    if not OFFICIAL.is_dir():  # `./dev lint` runs without it; `./dev ci` and `./dev bench` install it
        sys.exit(0)
    sys.exit(
        generated_modules.main(
            {
                TARGET / "_shapes.py": shapes_module(OFFICIAL),
                TARGET / "_controls.py": controls_module(),
                TARGET
                / "_version.py": f'{HEAD}"""The version whose names these are."""\n\n__version__ = "{VERSION}"\n',
                TARGET / "_internal" / "transport" / "__init__.py": transport_module(OFFICIAL),
                TARGET / "__init__.py": init_module(OFFICIAL),
            }
        )
    )
