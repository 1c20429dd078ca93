"""`write_results`: the rows of a fleet as JSONL, CSV, JSON or JUnit XML."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.checked.fields import path_text
from hackamore.errors import OptionsError, escape_terminal
from hackamore.runtime.junit import Case, junit
from hackamore.storage.files import write_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hackamore.fleet.task import FleetRow

__all__ = ["RESULT_FORMATS", "result_pieces", "write_file", "write_results"]

RESULT_FORMATS = ("jsonl", "csv", "json", "xml")
_COLUMNS = (
    "task", "state", "attempt", "failures", "cost", "tokens", "seconds", "session_id", "branch", "folder", "cause", "error",
    "not_before", "unknown_calls", "text", "output",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that spreadsheets execute: the full-width forms as well."""


def write_results(rows: Iterable[FleetRow], path: str | os.PathLike[str]) -> int:
    """Write rows of a fleet to a file, which is replaced when all of them are written.

    JSONL has an object for each row, and `.json` an array of them. CSV has a column for each attribute, `output` as JSON, and a column
    `tag.NAME` for each tag. A text that a spreadsheet would execute (it begins with `=`, `+`, `-` or `@`) gets an apostrophe before it.
    Control characters other than tabs and line ends become escapes such as `\\x1b`, because CSV is also printed in terminals. JSON has each
    text as it is.
    `.xml` is JUnit for CI: a test case for each task, which failed, or is skipped if it was cancelled or is not over.

    Args:
        rows: the rows, such as `fleet.results()`.
        path: the file. Its ending chooses the format: `.jsonl`, `.csv`, `.json` or `.xml`.

    Returns:
        How many rows there were.

    Raises:
        OptionsError: the ending is none of these.
        OSError: the file cannot be written. An earlier file stays as it was.

    Example:
        ::

            write_results(fleet.results({"failed"}), "failed.csv")
    """
    target = os.path.abspath(path_text(path, "path"))
    ending = os.path.splitext(target)[1].lower().removeprefix(".")
    if ending not in RESULT_FORMATS:
        shown = escape_terminal(os.fspath(path), 300)
        raise OptionsError(f"`path` must end in .jsonl, .csv, .json or .xml, got {shown!r}.", field="path")
    count = 0

    def counted() -> Iterator[FleetRow]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    write_file(target, result_pieces(counted(), ending))
    return count


def result_pieces(rows: Iterable[FleetRow], form: str) -> Iterator[bytes]:
    """Return the bytes of a file with these rows, in one of `RESULT_FORMATS`."""
    if form == "csv":
        yield from _csv(list(rows))
    elif form == "xml":
        yield junit([("hackamore fleet", [_case(row) for row in rows])])
    elif form == "jsonl":
        for row in rows:
            yield _json(row) + b"\n"
    else:
        before = b"[\n"
        for row in rows:
            yield before + _json(row)
            before = b",\n"
        yield b"[]\n" if before == b"[\n" else b"\n]\n"


def _case(row: FleetRow) -> Case:
    failed = row.state == "failed"
    problem = f"{row.cause}: {row.error or ''}".split("\n", 1)[0] if failed else None
    return Case(row.task, problem, row.error or "", not failed and row.state != "succeeded", row.seconds)


def _json(row: FleetRow) -> bytes:
    return msgspec.json.encode(row, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """Return an output of the user's own type as JSON has it."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


def _csv(rows: list[FleetRow]) -> Iterator[bytes]:
    tags = list(dict.fromkeys(name for row in rows for name in row.tags))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*_COLUMNS, *(_harmless(f"tag.{name}") for name in tags)])
    for row in rows:
        writer.writerow(
            [*(_cell(row, name) for name in _COLUMNS), *(_harmless(row.tags.get(name, "")) for name in tags)]
        )
        yield text.getvalue().encode(errors="backslashreplace")
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode(errors="backslashreplace")


def _cell(row: FleetRow, name: str) -> object:
    value = getattr(row, name)
    if value is None:
        return ""
    if name == "output":
        return _harmless(msgspec.json.encode(value, enc_hook=_plain).decode())
    if name == "not_before":
        return value.isoformat()
    return _harmless(value) if isinstance(value, str) else value


def _harmless(text: str) -> str:
    text = escape_terminal(text, len(text))
    return f"'{text}" if text.startswith(("\t", "\n")) or text.lstrip().startswith(_FORMULA) else text
