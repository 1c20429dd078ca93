"""The second reader of shell commands: `shfmt` (mvdan/sh), which shares no code with the grammar that policies use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHFMT = Path(sys.executable).parent / "shfmt"


def tree(command: str) -> Any:
    """Return the tree of a command; None if it is not valid for bash."""
    done = subprocess.run(
        [SHFMT, "--to-json", "-ln", "bash"],
        input=command.encode(errors="surrogatepass"),
        capture_output=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from _nodes(value)


def _literal(word: dict[str, Any]) -> str | None:
    text = ""
    for part in word.get("Parts", ()):
        if part["Type"] == "DblQuoted" and all(inner["Type"] == "Lit" for inner in part.get("Parts", ())):
            text += "".join(inner["Value"] for inner in part.get("Parts", ()))
        elif part["Type"] in ("Lit", "SglQuoted") and "Value" in part:
            text += part["Value"].replace("\\\n", "").replace("\\", "") if part["Type"] == "Lit" else part["Value"]
        elif part["Type"] in ("Lit", "SglQuoted"):
            continue
        else:
            return None
    return text


def command_names(command: str) -> set[str | None] | None:
    """Return the names of all commands in a text, None for a name that is not literal; None if the text is not valid."""
    found = tree(command)
    if found is None:
        return None
    names: set[str | None] = set()
    for node in _nodes(found):
        if node.get("Type") == "CallExpr" and node.get("Args"):
            names.add(_literal(node["Args"][0]))
        elif node.get("Type") == "FuncDecl":
            names.add(None)
    return names
