"""An extension of griffe for the site: literal blocks of docstrings (`::` and an indented block) become Python fences."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_BLOCK = re.compile(r"^(?P<indent> *)(?P<before>\S.*)?::\n\n(?P<code>(?:(?P=indent) {4}.*\n|\n)+)", re.MULTILINE)


def fenced(text: str) -> str:
    """Return a docstring with its literal blocks as fences."""

    def fence(found: re.Match[str]) -> str:
        indent, before = found["indent"], found["before"]
        code = textwrap.dedent(found["code"]).strip("\n").splitlines()
        lines = ["```python", *code, "```"]
        start = [f"{indent}{before}:", ""] if before else []
        return "\n".join([*start, *(f"{indent}{line}".rstrip() for line in lines), ""]) + "\n"

    return _BLOCK.sub(fence, f"{text}\n").rstrip("\n")


class LiteralBlocks(griffe.Extension):
    """Applies `fenced` to every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that griffe has read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
