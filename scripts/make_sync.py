"""Write the blocking shell from the async one: `hackamore.sync` has the text of `hackamore.aio` without `async` and `await`.

`hackamore.transcripts.aio` is written as well: its functions call those of `hackamore.transcripts` in threads.

Without arguments the files are written; with `--check` they are compared. Drivers and seams are not generated: they wait in
different ways. Whatever differs otherwise stands in the tables below.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import generated_modules
from generated_modules import PACKAGE

MODULES = ("attempts", "mapping", "operations", "pool", "query", "session")

HEADER = """\
# Generated from src/hackamore/aio/{name}.py by scripts/make_sync.py. Do not edit: edit the source and run `./dev format`.
"""

DROPPED_LINES = (
    r"\A# Generated .*\n",
    r" +RuntimeError: .*\bevent loop\.\n",  # of the section `Raises` of a docstring
)
"""Lines that only hold for an event loop."""

WORDS = {
    "aio": "sync",
    "open_async": "open_sync",
    "AsyncTransport": "SyncTransport",
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "PERF401": "PERF402",
}
"""Whole words, in code, comments and docstrings."""

PHRASES = (
    (r"(Sessions|Session pools) for asyncio and trio\.", r"\1 for threads."),
    (r"in tasks outside all task groups\. Its keeper is the task", "in threads. Its keeper is the thread"),
    (r"^(\"\"\"`map`) for asyncio and trio:", r"\1 for threads:"),
    (r"in tasks outside all task groups; it does", "in threads; it does"),
    (r"in a task of its own, because", "in a thread of its own, because"),
    (r"Iterable\[Prompt\] \| AsyncIterable\[Prompt\]", "Iterable[Prompt]"),
    (r"\(Iterable, AsyncIterable\)", "Iterable"),
    (r"prompts: an \(async\) iterable of prompts", "prompts: an iterable of prompts"),
    (r"import AsyncIterable, Iterable, Mapping", "import Iterable, Mapping"),
    (r"(Queries.*) for asyncio and trio\b", r"\1 for threads"),
    (r"Cancelled in the middle", "Interrupted in the middle"),
    (r"after an error or a cancellation too", "after an error too"),
    (r"(or an|or) \(async\) iterable of such", "or an iterable of such"),
    (r"another task is reading", "another thread is reading"),
    (r"any task of the event loop", "any thread"),
    (r" None holds a cancel scope when it returns: [^.]*\.", ""),
    (r"any task, even of another event loop\. Cancellation does not shorten it\.", "any thread."),
    (r"Starting\[(\w+)\]", r"\1"),
    (r'(__module__ = "hackamore)"', r'\1.sync"'),
    (r".*import Starting\n", ""),
)
"""Regular expressions, applied before the words."""


def blocking(text: str) -> str:
    """Return the blocking twin of an async text, not formatted yet."""
    for line in DROPPED_LINES:
        text = re.sub(line, "", text)
    for phrase, replacement in PHRASES:
        text = re.sub(phrase, replacement, text)
    text = re.sub(r"\basync (?=def|for|with)", "", text)
    text = re.sub(r"\bawait (?=\S)", "", text)
    return re.sub(r"\b\w+\b", lambda word: WORDS.get(word[0], word[0]), text)


def twins() -> dict[Path, str]:
    """Return the text of each generated module."""
    texts = {name: (PACKAGE / "aio" / f"{name}.py").read_text(encoding="utf-8") for name in MODULES}
    return {PACKAGE / "sync" / f"{name}.py": HEADER.format(name=name) + blocking(text) for name, text in texts.items()}


# -- functions of transcripts to await --------------------------------------------------------------------------------

TRANSCRIPTS = PACKAGE / "transcripts"
NOT_AWAITED = {"clean_tag", "fold_summary", "project_key"}
"""Functions that never wait."""
DIRECT = {"list"}
"""Functions that need no thread for a store: they end with a call of `wait`."""
AWAITED_HEADER = '''\
# Generated from the functions of hackamore.transcripts by scripts/make_sync.py. Do not edit: edit those and run `./dev format`.
"""The functions of `hackamore.transcripts`, to await on asyncio and trio: each call runs in a worker thread.

::

    from hackamore.transcripts import aio

    for each in await aio.list(limit=10):
        print(each.modified, each.title)

A cancelled call leaves its thread to finish alone. A `Transcript` reads its file when its attributes are used: `stream` yields its messages
without blocking the event loop, and `call` runs any other function in a thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hackamore import transcripts
from hackamore.transcripts.awaiting import call, direct, stream

if TYPE_CHECKING:
    import builtins
'''


def awaited() -> dict[Path, str]:
    """Return the text of the module that awaits the functions of `hackamore.transcripts`."""
    offered = ast.parse((TRANSCRIPTS / "__init__.py").read_text(encoding="utf-8"))
    imports, functions, names = set(), [], ["call", "stream"]
    for statement in offered.body:
        if not isinstance(statement, ast.ImportFrom) or not (statement.module or "").startswith(
            "hackamore.transcripts."
        ):
            continue
        text = (
            (PACKAGE.parent / Path(*(statement.module or "").split("."))).with_suffix(".py").read_text(encoding="utf-8")
        )
        tree = ast.parse(text)
        defined = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        asked = {alias.name: alias.asname or alias.name for alias in statement.names}
        found = {name: each for name, each in defined.items() if name in asked and isinstance(each, ast.FunctionDef)}
        for name, function in found.items():
            if asked[name] not in NOT_AWAITED:
                names.append(asked[name])
                functions.append(_awaited(function, asked[name], text))
                imports |= {f"    from {statement.module} import {other}" for other in _assigned(tree) - found.keys()}
                imports |= {
                    f"    from {each.module} import {alias.name}"
                    for each in ast.walk(tree)
                    if isinstance(each, ast.ImportFrom) and each.module != "__future__"
                    for alias in each.names
                    if alias.name not in ("TYPE_CHECKING", "partial")
                }
    listed = f"__all__ = {sorted(names)!r}"
    text = AWAITED_HEADER + "\n".join(sorted(imports)) + f"\n\n{listed}\n" + "".join(functions)
    return {TRANSCRIPTS / "aio.py": text}


def _assigned(tree: ast.Module) -> set[str]:
    """Return the public classes and aliases of a module."""
    found = {each.name for each in tree.body if isinstance(each, ast.ClassDef)}
    for each in tree.body:
        targets = (
            each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AnnAssign) else []
        )
        found |= {
            target.id
            for target in targets
            if isinstance(target, ast.Name) and target.id[0].isupper() and not target.id.isupper()
        }
    return {name for name in found if not name.startswith("_")}


def _awaited(function: ast.FunctionDef, name: str, text: str) -> str:
    lines = text.splitlines()
    documentation = function.body[0]
    signature = "\n".join(lines[function.lineno - 1 : documentation.lineno - 1])
    signature = re.sub(rf"def {function.name}\(", f"async def {name}(", signature)
    signature = re.sub(r"(?<![\w.])list\[", "builtins.list[", signature)
    docstring = "\n".join(lines[documentation.lineno - 1 : documentation.end_lineno])
    docstring = re.sub(r"\bhackamore\.transcripts\.(?=\w+\()", "await hackamore.transcripts.aio.", docstring)
    arguments = function.args
    given = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    given += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    caller = "(call if store is None else direct)" if name in DIRECT else "call"
    body = f"return await {caller}(partial({', '.join([f'transcripts.{name}', *given])}))"
    return f"\n\n{signature}\n{docstring}\n    {body}\n"


if __name__ == "__main__":
    sys.exit(generated_modules.main(twins() | awaited()))
