"""Programs that use `claude_agent_sdk`: their files, the names that they take from it, and the place of each node."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from hackamore.errors import OptionsError

OFFICIAL = "claude_agent_sdk"
_MODULES = re.compile(rf"{OFFICIAL}(\.(types|client|_errors|testing|_internal(\.\w+)*))?$")
_SKIPPED = ("__pycache__", "node_modules", "site-packages")


def program_files(paths: Iterable[str]) -> list[Path]:
    """Return the files, and the Python files of the folders; raise OptionsError if a path does not exist."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise OptionsError(f"There is no file or folder {path}.", field="paths")
        for each in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            inner = each.relative_to(path).parts
            if not any(part.startswith(".") or part in _SKIPPED for part in inner):
                found[each] = None
    return list(found)


class Program:
    """A Python program (else SyntaxError or ValueError); `names` are those from the official package, with their places there."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        self.text = data.decode(self.encoding)
        self.tree = ast.parse(self.text)
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.bytes = self.text.encode()  # offsets of nodes count bytes of UTF-8
        self._lines = [0, *(end.end() for end in re.finditer(rb"\r\n|\r|\n", self.bytes))]
        self.names: dict[str, str] = {}
        self.imports = {node: names for node in self.nodes if (names := dict(_imported(node)))}
        for names in self.imports.values():
            self.names.update(names)

    def official(self, node: ast.AST) -> str:
        """Return the place of a name or attribute in the official package; "" if it is another."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, "")
        if isinstance(node, ast.Attribute) and _MODULES.match(module := self.official(node.value)):
            return f"{module}.{node.attr}"
        return ""

    def is_module(self, place: str) -> bool:
        return bool(_MODULES.match(place))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the offsets at which a node begins and ends."""
        where: ast.expr = node  # type: ignore[assignment]
        start, end = self._lines[where.lineno - 1], self._lines[(where.end_lineno or 0) - 1]
        return start + where.col_offset, end + (where.end_col_offset or 0)

    def source(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.bytes[start:end].decode()

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node is in, from the inside."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.ImportFrom) and not node.level:
        module = (node.module or "").removeprefix("hackamore.compat.")
        for alias in node.names:
            if module == "hackamore.compat" and alias.name == OFFICIAL:
                yield alias.asname or OFFICIAL, OFFICIAL
            elif module.split(".")[0] == OFFICIAL:
                yield alias.asname or alias.name, f"{module}.{alias.name}"
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == OFFICIAL:
                yield (alias.asname, alias.name) if alias.asname else (OFFICIAL, OFFICIAL)
