"""Write the blocking shell from the async one: `bridle.sync` has the text of `bridle.aio` without `async` and `await`.

Without arguments the files are written; with `--check` they are compared. Drivers and seams are not generated: they wait in
different ways. Whatever differs otherwise stands in the tables below.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import generated_modules
from generated_modules import PACKAGE

if TYPE_CHECKING:
    from pathlib import Path

MODULES = ("operations", "pool", "query", "session")

HEADER = """\
# Generated from src/bridle/aio/{name}.py by scripts/make_sync.py. Do not edit: edit the source and run `./dev format`.
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
    (r"(Queries.*) for asyncio and trio\b", r"\1 for threads"),
    (r"Cancelled in the middle", "Interrupted in the middle"),
    (r"after an error or a cancellation too", "after an error too"),
    (r"(or an|or) \(async\) iterable of such", "or an iterable of such"),
    (r"another task is reading", "another thread is reading"),
    (r"any task of the event loop", "any thread"),
    (r" None holds a cancel scope when it returns: [^.]*\.", ""),
    (r"any task, even of another event loop\. Cancellation does not shorten it\.", "any thread."),
    (r"Starting\[(\w+)\]", r"\1"),
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


if __name__ == "__main__":
    sys.exit(generated_modules.main(twins()))
