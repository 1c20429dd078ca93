"""The tasks of `hackamore fleet run` from a file: JSONL, CSV or Python. An error names the file, the line and the fix."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.checked.fields import suggestion
from hackamore.errors import OptionsError, escape_terminal
from hackamore.fleet.task import Task
from hackamore.options.options import NO_SESSION, Options
from hackamore.options.sources import refusal, variable_kind
from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from hackamore.fleet.task import Verify

KEYS = ("id", "prompt", "options", "verify", "tags")
TAG = "tag."
"""How the name of a CSV column with a tag begins."""
_COLUMNS = ("id", "prompt")
_LONGEST_CELL = 64 * 1024 * 1024
_END = object()
_TRUST = "Pass `--trust-tasks` if only you can write that file."


class _BadLineError(Exception):
    """A line is wrong; the text says why."""


def read_tasks(path: str, options: Options, verify: Verify | None, *, trusted: bool) -> list[Task]:
    """Return the tasks of a file, whose ending says what it is; `trusted` accepts options and checks that run programs from JSONL."""
    name = escape_terminal(path, 300)
    ending = os.path.splitext(path)[1].lower()
    if ending == ".py":
        found: Iterable[tuple[str, Task]] = _from_python(path, name)
    elif ending in (".jsonl", ".ndjson"):
        found = _checked(_from_jsonl(path, trusted=trusted), name, options)
    elif ending == ".csv":
        found = _checked(_from_csv(path), name, options)
    else:
        raise OptionsError(
            f"The tasks file {name} must end in .jsonl, .csv or .py: its ending says what it contains.", field="file"
        )
    places: dict[str, str] = {}
    tasks = []
    try:
        for place, task in found:
            if task.id in places:
                shown = escape_terminal(repr(task.id), 300)
                raise OptionsError(
                    f"{place}: the id {shown} stands at {places[task.id]} already. Give each task an id of its own.",
                    field="id",
                )
            places[task.id] = place
            if task.verify is None:
                task.verify = verify
            tasks.append(task)
    except OSError as error:
        raise OptionsError(f"The tasks file {name} cannot be read: {error.strerror or error}.", field="file") from None
    except UnicodeDecodeError as error:
        raise OptionsError(
            f"The tasks file {name} is not UTF-8: {error.reason}. Save it as UTF-8.", field="file"
        ) from None
    if not tasks:
        raise OptionsError(f"The tasks file {name} has no tasks.", field="file")
    return tasks


def _checked(rows: Iterator[tuple[int, Any]], name: str, options: Options) -> Iterator[tuple[str, Task]]:
    while True:
        number = 0
        try:
            try:
                number, values = next(rows)
            except StopIteration:
                return
            if isinstance(values, _BadLineError):
                raise values
            task = Task(**values)
            for option in NO_SESSION:
                if option in task.options:
                    raise _BadLineError(f"`{option}` is chosen by the fleet, for each attempt. Leave it out.")
            options.replace(**task.options)
        except (OptionsError, _BadLineError) as error:
            place = f"{name}, line {number}" if number else name
            raise OptionsError(f"{place}: {error}", field=getattr(error, "field", None) or "file") from None
        yield f"{name}, line {number}", task


# -- JSONL -------------------------------------------------------------------------------------------------------------


def _from_jsonl(path: str, *, trusted: bool) -> Iterator[tuple[int, Any]]:
    with open(path, "rb") as file:
        for number, text in enumerate(file, 1):
            line = text.removeprefix(b"\xef\xbb\xbf") if number == 1 else text
            if line.strip():
                try:
                    yield number, _object(line, trusted=trusted)
                except _BadLineError as error:
                    yield number, error


def _object(line: bytes, *, trusted: bool) -> dict[str, Any]:
    try:
        values = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _BadLineError(f"it is not valid JSON: {error}. Write one object on each line.") from None
    if not isinstance(values, dict):
        raise _BadLineError(
            f'it must be a JSON object such as {{"id": "a", "prompt": "..."}}, not {type(values).__name__}.'
        )
    for key in values:
        if key not in KEYS:
            hint = suggestion(key, KEYS) or f" The keys are {', '.join(KEYS)}."
            if key in Options.__fields__:
                hint = f' Write it as {{"options": {{"{key}": ...}}}}.'
            raise _BadLineError(f"unknown key `{escape_terminal(key, 100)}`.{hint}")
    for key in _COLUMNS:
        if key not in values:
            raise _BadLineError(f"`{key}` is missing.")
    _check_options(values.get("options"), trusted=trusted)
    if values.get("verify") is not None and not trusted:
        raise _BadLineError(
            f"`verify` is refused from a file, because it is a program to run. {_TRUST} `--verify` works without it."
        )
    return values


def _check_options(options: object, *, trusted: bool) -> None:
    """Do nothing if a file may set these options; `Task` checks their type."""
    if not isinstance(options, Mapping):
        return
    for name, value in options.items():
        field = Options.__fields__.get(name)
        if field is None:
            hint = suggestion(name, Options.__fields__)
            raise _BadLineError(f"there is no option `{escape_terminal(name, 100)}`.{hint}")
        if variable_kind(field) == "function":
            raise _BadLineError(f"`{name}` is a function and can only be set from Python: use a .py file.")
        if not trusted and (refused := refusal(field, name, value)) is not None:
            reason, where = refused
            raise _BadLineError(
                f"`{escape_terminal(where, 200)}` is refused from a file, because {escape_terminal(reason, 200)}. {_TRUST}"
            )


# -- CSV ---------------------------------------------------------------------------------------------------------------


def _from_csv(path: str) -> Iterator[tuple[int, Any]]:
    longest = csv.field_size_limit(_LONGEST_CELL)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            try:
                yield from _rows(rows)
            except csv.Error as error:
                yield rows.line_num, _BadLineError(f"it is not valid CSV: {error}.")
    finally:
        csv.field_size_limit(longest)


def _rows(rows: Any) -> Iterator[tuple[int, Any]]:
    heads: list[str] | None = None
    before = 0
    for row in rows:
        # A quoted cell may have several lines: the number is that of the first one.
        number, before = before + 1, rows.line_num
        if not any(cell.strip() for cell in row):
            continue
        if heads is None:
            heads = [cell.strip() for cell in row]
            if (problem := _problem_of_heads(heads)) is not None:
                yield number, _BadLineError(problem)
                return
            continue
        if len(row) != len(heads):
            yield (
                number,
                _BadLineError(
                    f"it has {len(row)} cells, and the first line has {len(heads)}. Quote cells that contain commas, quotes or newlines."
                ),
            )
            return
        values = dict(zip(heads, row, strict=True))
        yield (
            number,
            {
                "id": values["id"],
                "prompt": values["prompt"],
                "tags": {
                    head.removeprefix(TAG): cell for head, cell in values.items() if head.startswith(TAG) and cell
                },
            },
        )


def _problem_of_heads(heads: list[str]) -> str | None:
    if len(heads) == 1 and ";" in heads[0]:
        return "the cells are separated by `;`. Save the file with commas."
    for head in heads:
        shown = escape_terminal(head, 100)
        if heads.count(head) > 1:
            return f"the column `{shown}` stands twice."
        if head in _COLUMNS or (head.startswith(TAG) and len(head) > len(TAG)):
            continue
        if head in KEYS or head in Options.__fields__:
            return f"the column `{shown}` needs a JSONL file: CSV has `id`, `prompt` and tags."
        hint = suggestion(head, _COLUMNS) or f" Call it `{TAG}{shown}` if it is a tag, or delete it."
        return f"unknown column `{shown}`.{hint}"
    missing = [name for name in _COLUMNS if name not in heads]
    return f"the column `{missing[0]}` is missing." if missing else None


# -- Python ------------------------------------------------------------------------------------------------------------


def _from_python(path: str, name: str) -> Iterator[tuple[str, Task]]:
    if not os.path.isfile(path):
        raise OptionsError(f"The tasks file {name} cannot be read: there is no such file.", field="file")
    module = _called(lambda: _loaded(path), path, name)
    if not hasattr(module, "tasks"):
        raise OptionsError(
            f"{name} has no `tasks`. Define a list of `hackamore.fleet.Task` objects, or a function that returns one, under this name.",
            field="file",
        )
    tasks = _called(module.tasks, path, name) if callable(module.tasks) else module.tasks
    if isinstance(tasks, (str, Task)) or not isinstance(tasks, Iterable):
        raise OptionsError(
            f"`tasks` of {name} must be a list of `hackamore.fleet.Task` objects, got {escape_terminal(repr(tasks), 100)}.",
            field="file",
        )
    number, rest = 0, iter(tasks)
    while (task := _called(lambda: next(rest, _END), path, name)) is not _END:
        number += 1
        if not isinstance(task, Task):
            raise OptionsError(
                f"{name}, task {number}: it must be a `hackamore.fleet.Task`, got {escape_terminal(repr(task), 100)} "
                f"({type(task).__name__}).",
                field="file",
            )
        yield f"{name}, task {number}", task


def _called(function: Callable[[], Any], path: str, name: str) -> Any:
    try:
        return function()
    except (Exception, SystemExit) as error:
        logger.debug("The tasks file raised an exception", exc_info=error, extra={"code": "TASKS_FAILED"})
        text = escape_terminal(str(error), 1000)
        raise OptionsError(
            f"{name}{_line_of(error, path)} raised {type(error).__name__}: {text}", field="file"
        ) from None


def _loaded(path: str) -> ModuleType:
    """Execute a Python file as `python FILE` does, under a name that is the same in every run: the journal has names of functions."""
    from importlib.util import module_from_spec, spec_from_file_location

    full = os.path.abspath(path)
    name = f"tasks_of_{os.path.splitext(os.path.basename(full))[0]}"
    spec = spec_from_file_location(name, full)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - the name ends in .py
    module = module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(full))
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _line_of(error: BaseException, path: str) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}" if error.lineno else ""
    full, line, trace = os.path.abspath(path), None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == full:
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"
