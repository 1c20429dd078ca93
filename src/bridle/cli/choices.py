"""From what was typed to `Options` and a prompt."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from bridle.checked.fields import suggestion
from bridle.cli.flags import NAMED_OPTIONS
from bridle.errors import OptionsError, printable
from bridle.options.options import Options
from bridle.options.sources import variable_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["build_options", "read_prompt"]


def read_prompt(prompt: str | None) -> str:
    """Return the prompt: the argument, or standard input for `-` or for nothing."""
    if prompt is not None and prompt != "-":
        return prompt
    if prompt is None and (sys.stdin is None or sys.stdin.isatty()):
        raise OptionsError("There is no prompt: give one, or pipe it in.", field="prompt")
    if sys.stdin is None:
        raise OptionsError("There is no prompt: standard input is closed.", field="prompt")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionsError(
            f"The prompt on standard input is no UTF-8 text (byte {error.start}); convert it first, with `iconv`.",
            field="prompt",
        ) from None
    except OSError as error:
        raise OptionsError(f"Standard input cannot be read: {error.strerror}.", field="prompt") from None


def build_options(given: Mapping[str, Any], *, partial: bool) -> Options:
    """Return the options that the flags ask for, over `BRIDLE_...` variables, over the file of `--config`.

    Args:
        given: the flags by the names of their parameters; None or empty for those that were not used.
        partial: whether text is shown while it is written, if no flag says so.
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
            raise OptionsError(f"`--option` needs NAME=JSON, not {printable(text, 100)!r}.", field="option")
        if name not in Options.__fields__:
            hint = suggestion(name, Options.__fields__)
            raise OptionsError(f"There is no option `{printable(name, 100)}`.{hint}", field=name)
        if variable_kind(Options.__fields__[name]) == "function":
            raise OptionsError(f"`{name}` is a function: it can only be set from Python.", field=name)
        yield name, _value(name, value)


def _value(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if text.lstrip()[:1] in ("{", "[", '"'):
            raise OptionsError(f"`--option {name}=...` is no JSON.", field=name) from None
        # A bare word is what people mean by text: `--option effort=high`.
        return text


def _read_schema(path: str | os.PathLike[str]) -> Any:
    shown = f"The schema file {printable(os.fspath(path), 300)}"
    try:
        with open(path, "rb") as source:
            schema = json.loads(source.read())
    except OSError as error:
        raise OptionsError(f"{shown} cannot be read: {error.strerror}.", field="output_schema") from None
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{shown} is no JSON: {error}", field="output_schema") from None
    if not isinstance(schema, dict):
        raise OptionsError(f"{shown} must hold a JSON object.", field="output_schema")
    return schema
