"""Where `Options.load` takes values from, and how they are laid over each other.

Priority: explicit arguments, `HACKAMORE_<FIELD>` variables, a TOML file that was named, defaults. The row of an option says
how two sources are merged, how its variable is read, and whether an untrusted file may set it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hackamore.checked.fields import brief, suggestion
from hackamore.errors import OptionsError, escape_terminal

if TYPE_CHECKING:
    from hackamore.checked.fields import Field

PREFIX = "HACKAMORE_"

_TEXTS = frozenset({"str", "os.PathLike", "Literal"})
_OTHERS = frozenset({"bool", "Mapping", "Sequence"})


def layered(
    fields: Mapping[str, Field],
    file: str | os.PathLike[str] | None,
    trust_file: bool,
    environment: Mapping[str, str] | None,
    explicit: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arguments for `Options`, layered from all sources."""
    merged = {} if file is None else _from_file(fields, os.fspath(file), trust_file)
    for source in (_from_environment(fields, os.environ if environment is None else environment), explicit):
        for name, value in source.items():
            merged[name] = _laid_over(fields[name], merged[name], value) if name in merged else value
    return merged


def said_where(
    field: str | None,
    file: str | os.PathLike[str] | None,
    environment: Mapping[str, str] | None,
    explicit: Mapping[str, Any],
) -> str:
    """Return a sentence about where a wrong field comes from, if its owner did not give it."""
    name = (field or "").replace("[", ".").replace(" ", ".").partition(".")[0]
    if not name or name in explicit:
        return ""
    variable = f"{PREFIX}{name.upper()}"
    if variable in (os.environ if environment is None else environment):
        return f" It was set by the variable {variable}."
    return "" if file is None else f" It was set in the file {escape_terminal(os.fspath(file), 300)}."


def _laid_over(field: Field, lower: Any, higher: Any) -> Any:
    rule = field.row.merge
    if rule == "deep":
        if variable_kind(field) == "mixed":
            lower, higher = _as_object(lower), _as_object(higher)
        if isinstance(lower, Mapping) and isinstance(higher, Mapping):
            return _deep(lower, higher)
    elif rule == "together":
        if isinstance(lower, Mapping) and isinstance(higher, Mapping):
            return {**lower, **higher}
        if isinstance(lower, (list, tuple)) and isinstance(higher, (list, tuple)):
            return [*lower, *higher]
    return higher


def _deep(lower: Mapping[str, Any], higher: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for name, value in higher.items():
        below = merged.get(name)
        merged[name] = _deep(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _as_object(value: Any) -> Any:
    """Return JSON text as the object it is; a path stays a path."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        import json

        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _from_environment(fields: Mapping[str, Field], environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if variable != variable.upper() or name not in fields:
            _refuse_typing_error(variable, name, fields)
            continue
        kind = variable_kind(fields[name])
        if kind == "function":
            raise OptionsError(f"The variable {variable} cannot set `{name}`: it is a function.", field=name)
        found[name] = (
            value
            if kind == "text" or (kind == "mixed" and not _looks_like_json(value))
            else _parsed(variable, name, value)
        )
    return found


def _refuse_typing_error(variable: str, name: str, fields: Mapping[str, Field]) -> None:
    import difflib

    # Others may use the prefix (the child's id does); only what is nearly a field is taken for one.
    if difflib.get_close_matches(name, list(fields), n=1, cutoff=0.85):
        hint = suggestion(name, fields)
        raise OptionsError(f"The variable {escape_terminal(variable, 100)} sets no option.{hint}", field=name)


def variable_kind(field: Field) -> str:
    """Return how the text of a field's variable is read: as `text`, as `json`, as JSON if it looks like it (`mixed`); or `function`."""
    import re

    if field.row.variable:
        return str(field.row.variable)
    kinds, inner = field.annotation, ""
    while kinds != inner:  # brackets hold the types of a value's parts
        kinds, inner = re.sub(r"\[[^\[\]]*\]", "", kinds), kinds
    parts = {part.strip(" ()") for part in kinds.split("|")}
    if parts & _TEXTS:
        return "mixed" if parts & _OTHERS else "text"
    return "function" if "Callable" in parts else "json"


def _parsed(variable: str, name: str, value: str) -> Any:
    import json

    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        # The value itself stays out of the message: it may be secret.
        raise OptionsError(
            f'The variable {variable} must be JSON, such as 5, true, ["a"] or {{"a": 1}}.', field=name
        ) from None


def _looks_like_json(value: str) -> bool:
    return value.strip() in ("true", "false", "null") or value.lstrip()[:1] in ("{", "[", '"')


def _from_file(fields: Mapping[str, Field], file: str, trusted: bool) -> dict[str, Any]:
    import tomllib

    shown = f"The options file {escape_terminal(file, 300)}"
    try:
        with open(file, "rb") as source:
            content = tomllib.load(source)
    except OSError as error:
        raise OptionsError(f"{shown} cannot be read: {error.strerror}.", field="file") from None
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{shown} is not valid TOML: {brief(str(error))}", field="file") from None
    for name, value in content.items():
        if name not in fields:
            hint = suggestion(name, fields)
            raise OptionsError(f"The options file has an unknown key `{escape_terminal(name, 100)}`.{hint}", field=name)
        if variable_kind(fields[name]) == "function":
            raise OptionsError(f"The options file cannot set `{name}`: it is a function.", field=name)
        if not trusted and (refused := refusal(fields[name], name, value)) is not None:
            reason, where = refused
            raise OptionsError(
                f"`{escape_terminal(where, 200)}` is refused from a file, because {escape_terminal(reason, 200)}; pass `trust_file=True` "
                "if only you can write that file.",
                field=where,
            )
    return content


def refusal(field: Field, name: str, value: Any) -> tuple[str, str] | None:
    """Return why a file that others can write must not set this value, and the part that is refused; None if it may.

    Args:
        field: the field of the option.
        name: the name of the option.
        value: the value in the file.
    """
    rule: Any = field.row.refused
    found: tuple[str, str] | None = rule(value) if callable(rule) else (rule, name) if rule else None
    return found
