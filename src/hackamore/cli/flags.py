"""The flags of each command, from flags.toml; and from what was typed to `Options` and a prompt.

A group maps the names under which a command gets its flags to the annotation that typer reads, and to the value of an unused flag.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

import typer

from hackamore.checked.fields import suggestion
from hackamore.errors import OptionsError, escape_terminal
from hackamore.options.kinds import PermissionMode
from hackamore.options.options import NO_SESSION, Options
from hackamore.options.sources import variable_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Flags: TypeAlias = "dict[str, tuple[Any, Any]]"

_COMPLETED = 200
"""The newest sessions, which completion offers."""
_TITLE = 60
_SPECIAL = re.compile(r"[^\w.,/@%+:-]")
"""Characters that a shell splits at or acts on."""


def _complete(*choices: str) -> Callable[[str], list[str]]:

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def complete_sessions(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids, with the titles as help, and the titles that users set which begin with `incomplete`.

    The sessions of this folder count; without any, those of all folders.
    """
    from hackamore import transcripts

    try:
        found = transcripts.list(limit=_COMPLETED) or transcripts.list(all_projects=True, limit=_COMPLETED)
    except OSError:
        return []
    complete = []
    for each in found:
        shown = escape_terminal(" ".join(each.title.split()), _TITLE)
        if each.session_id.startswith(incomplete):
            complete.append((each.session_id, shown))
        if incomplete and each.title_source == "custom" and each.title.startswith(incomplete):
            complete.append((_typed(each.title), each.session_id))
    return complete


def _typed(title: str) -> str:
    """Return a title as it is typed. Bash inserts it as it is; other shells quote it."""
    return _SPECIAL.sub(r"\\\g<0>", title) if "bash" in os.environ.get("_HACKAMORE_COMPLETE", "") else title


def _kind(option: str) -> Any:
    field = Options.__fields__[option]
    if field.annotation.startswith("Sequence") and field.row.form != "comma":
        return list[Path] if "PathLike" in field.annotation else list[str]
    return {"bool": bool, "int | None": int, "float | None": float}.get(field.annotation, str)


def _name(option: str) -> str:
    """Return the flag of an option: its flag for the CLI in lower case, or else its name."""
    row = Options.__fields__[option].row
    own: str = row.name if row.name.startswith("--") else f"--{option.replace('_', '-')}"
    return re.sub("(?=[A-Z])", "-", own).lower()


def _read_flag(name: str, row: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return a flag or argument for typer, and its unused value: False for a switch without an opposite (`--x/--no-x`), else None."""
    choices = row.get("choices", ())
    choices = _CHOICES[choices] if isinstance(choices, str) else choices
    shown: dict[str, Any] = {"show_default": False, "help": row["help"]}
    if callable(choices):
        shown["autocompletion"] = choices
    elif choices:
        shown |= {"autocompletion": _complete(*choices), "help": row["help"].replace("{choices}", ", ".join(choices))}
    if "argument" in row:
        kind: Any = list[str] if row.get("many") else str
        described = typer.Argument(metavar=row["argument"], **shown)
        return (Annotated[kind | None, described], None) if row.get("optional") else (Annotated[kind, described], ...)
    kind = _kind(name) if "option" in row else _KINDS[row["kind"]]
    names = (row.get("flag") or _name(name)).split()
    metavar = row.get("option") or row.get("metavar") or _METAVARS.get(kind)
    unused: Any = False if kind is bool and "/" not in names[0] else None
    option = typer.Option(*names, metavar=metavar, rich_help_panel=row.get("panel"), **shown)
    return Annotated[kind if unused is False else kind | None, option], unused


_KINDS: dict[str, Any] = {
    "float": float,
    "number": int,
    "numbers": list[int],
    "path": Path,
    "switch": bool,
    "text": str,
    "texts": list[str],
}
_METAVARS: dict[Any, str] = {float: "N", int: "N", list[int]: "N", Path: "PATH", str: "TEXT", list[str]: "TEXT"}
ROWS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("flags.toml").read_text(encoding="utf-8"))
"""The groups of flags of flags.toml."""
NAMED_OPTIONS = tuple(name for name, row in ROWS["OPTIONS"].items() if "option" in row)
"""The options that have a flag of their own."""
_CHOICES: dict[str, Any] = {
    "modes": [mode for mode in get_args(PermissionMode) if mode != "manual"],
    "sessions": complete_sessions,
    "settable": [
        f"{name}="
        for name, field in Options.__fields__.items()
        if name not in NAMED_OPTIONS and variable_kind(field) != "function"
    ],
}
FLAGS: dict[str, Flags] = {
    group: {name: _read_flag(name, row) for name, row in rows.items()} for group, rows in ROWS.items()
}
"""The groups with annotations for typer."""
FLAGS["TASK_OPTIONS"] = {name: row for name, row in FLAGS["OPTIONS"].items() if name not in NO_SESSION}
LOG_LEVELS: list[str] = ROWS["LOG"]["log_level"]["choices"]


def port_of(given: Mapping[str, Any]) -> int:
    """Return the port of `--port`; 0 for a free one."""
    port: int = given.get("port") or 0
    if not 0 <= port < 65_536:
        raise OptionsError(f"`--port` must be 0 to 65535, got {port}.", field="port")
    return port


def port_error(port: int, error: Exception) -> OptionsError:
    """Return the error for a port that the system refuses."""
    reason = getattr(error, "strerror", None) or error
    return OptionsError(f"Port {port} cannot be used: {reason}. Leave `--port` out for a free one.", field="port")


def read_prompt(prompt: str | None) -> str:
    """Return the prompt: the argument, or standard input for `-` or for nothing."""
    if prompt is not None and prompt != "-":
        return prompt
    if prompt is None and (sys.stdin is None or sys.stdin.isatty()):
        raise OptionsError("There is no prompt. Pass one as the argument, or pipe it in.", field="prompt")
    if sys.stdin is None:
        raise OptionsError(
            "There is no prompt, and standard input is closed. Pass the prompt as the argument.", field="prompt"
        )
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionsError(
            f"The prompt on standard input is not valid UTF-8 (byte {error.start}). Convert it with `iconv`.",
            field="prompt",
        ) from None
    except OSError as error:
        raise OptionsError(f"Standard input cannot be read: {error.strerror}.", field="prompt") from None


def build_options(given: Mapping[str, Any], *, partial: bool, base: Options | None = None) -> Options:
    """Return the options that the flags ask for, over `HACKAMORE_...` variables, over the file of `--config`.

    Args:
        given: the flags by the names of their parameters; None or empty for those that were not used.
        partial: whether text is shown while it is written, without a flag for it.
        base: options that the flags change, in place of variables and a file; None for those.
    """
    explicit: dict[str, Any] = dict(_named_options(given.get("option") or ()))
    for name in NAMED_OPTIONS:
        value = given.get(name)
        if value is not None and value is not False and value != []:
            explicit[name] = _READ.get(name, lambda value: value)(value)
    if given.get("output_schema") is not None:
        schema = _read_schema(given["output_schema"])
        explicit["output_format"] = {"type": "json_schema", "schema": schema}
    if given["partial"] if given.get("partial") is not None else partial:
        explicit["include_partial_messages"] = True
    if given.get("policy") is not None:
        from hackamore.policy import Policy

        folder = explicit.get("cwd") or "."
        explicit["policy"] = Policy.load(given["policy"], roots={"root": folder, "repo": folder})
    if base is not None:
        options = base.replace(**explicit)
    else:
        options = Options.load(given.get("config"), trust_file=bool(given.get("trust_config")), **explicit)
    if given.get("timeout") is not None:
        try:
            options = options.replace(timeouts=options.timeouts.replace(turn=given["timeout"]))
        except OptionsError as error:
            raise OptionsError(str(error).replace("`turn`", "`--timeout`"), field="timeouts.turn") from None
    return options


def _split(values: Iterable[str]) -> list[str]:
    """Split at commas and spaces outside of parentheses, as the CLI does."""
    parts = []
    for value in values:
        depth, part = 0, ""
        for character in value:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if character in ", " and depth <= 0:
                parts.append(part)
                part = ""
            else:
                part += character
        parts.append(part)
    return [part for part in parts if part]


def _tools(values: Iterable[str]) -> Any:
    names = _split(values)
    return {"type": "preset", "preset": "claude_code"} if names == ["default"] else names


_READ: Mapping[str, Callable[[Any], Any]] = {
    "allowed_tools": _split,
    "disallowed_tools": _split,
    "tools": _tools,
    "setting_sources": lambda text: [part.strip() for part in text.split(",") if part.strip()],
}


def _named_options(texts: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise OptionsError(f"`--option` needs NAME=JSON, not {escape_terminal(text, 100)!r}.", field="option")
        if name not in Options.__fields__:
            hint = suggestion(name, Options.__fields__)
            raise OptionsError(f"There is no option `{escape_terminal(name, 100)}`.{hint}", field=name)
        if variable_kind(Options.__fields__[name]) == "function":
            raise OptionsError(f"`{name}` is a function and can only be set from Python.", field=name)
        yield name, _value(name, value)


def _value(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if text.lstrip()[:1] in ("{", "[", '"'):
            raise OptionsError(f"`--option {name}=...` is not valid JSON.", field=name) from None
        # A bare word is a text: `--option effort=high`.
        return text


def _read_schema(path: str | os.PathLike[str]) -> Any:
    shown = f"The schema file {escape_terminal(os.fspath(path), 300)}"
    try:
        with open(path, "rb") as source:
            schema = json.loads(source.read())
    except OSError as error:
        raise OptionsError(f"{shown} cannot be read: {error.strerror}.", field="output_schema") from None
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{shown} is not valid JSON: {error}", field="output_schema") from None
    if not isinstance(schema, dict):
        raise OptionsError(f"{shown} must hold a JSON object.", field="output_schema")
    return schema
