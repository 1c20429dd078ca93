"""Checks: functions of a value and its path; they return the value to keep, or raise `OptionsError` with that path.

They accept what they have returned before, so that `replace` can run them again. No check puts a value into its
message, because values may be secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridle.checked.fields import Checked, suggestion
from bridle.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.checked.fields import Check

_MAX_DEPTH = 200
_MOST_BITS = 4096  # Python refuses to write numbers of more than 4300 digits.


def fail(path: str, expected: str, value: Any, hint: str = "") -> OptionsError:
    """Return the error for a value of the wrong kind; it names the value's type and never the value."""
    found = "None" if value is None else type(value).__name__
    if found in expected.replace(",", "").split():  # another package has a class of this name
        found = f"the {found} of `{type(value).__module__.partition('.')[0]}`"
    return wrong(path, f"must be {expected}, not {found}.{' ' + hint if hint else ''}")


def wrong(path: str, problem: str) -> OptionsError:
    """Return the error for a value of the right kind that is not allowed."""
    return OptionsError(f"`{path}` {problem}", field=path)


def boolean(value: Any, path: str) -> bool:
    """Accept True and False."""
    if not isinstance(value, bool):
        raise fail(path, "True or False", value)
    return value


def text(value: Any, path: str) -> str:
    """Accept a string that can be handed to another process."""
    if not isinstance(value, str):
        raise fail(path, "a str", value)
    _no_nul(value, path)
    try:
        value.encode()
    except UnicodeEncodeError:
        problem = "must not contain lone surrogates (text that is no Unicode); decode it with errors='replace'."
        raise wrong(path, problem) from None
    # Not `str(value)`: for `class Model(str, Enum)` that is "Model.SONNET".
    return str.__str__(value)


def path_text(value: Any, path: str) -> str:
    """Accept a str or path object, and return it as str (names that are no Unicode included)."""
    if not isinstance(value, (str, os.PathLike)):
        raise fail(path, "a str or a path", value)
    plain = os.fspath(value)
    if not isinstance(plain, str):
        raise fail(path, "a str or a path of str", plain)
    _no_nul(plain, path)
    try:
        os.fsencode(plain)
    except UnicodeEncodeError:
        raise wrong(path, "must not contain lone surrogates.") from None
    return str.__str__(plain)


def _no_nul(value: str, path: str) -> None:
    if "\0" in value:
        raise wrong(path, "must not contain a NUL character.")


def _not_empty(check: Callable[[Any, str], str]) -> Callable[[Any, str], str]:
    def checked(value: Any, path: str) -> str:
        found = check(value, path)
        if not found.strip():
            raise wrong(path, "must not be empty.")
        return found

    return checked


name_text = _not_empty(text)
named_path = _not_empty(path_text)  # an empty path means no path to the CLI, without a warning


_LARGEST = 2**63 - 1


def whole(value: int, path: str) -> int:
    """Return an int as nothing but an int, if it is one that other programs can read."""
    if not -_LARGEST <= value <= _LARGEST:
        raise wrong(path, "is beyond 64 bits.")
    return int.__index__(value)


def integer(minimum: int | None = None) -> Check:
    """Return the check for whole numbers from `minimum` on."""

    def check(value: Any, path: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise fail(path, "an int", value)
        if minimum is not None and value < minimum:
            raise wrong(path, f"must be {minimum} or more.")
        return whole(value, path)

    return check


def number(minimum: float | None = None, *, exclusive: bool = False, maximum: float | None = None) -> Check:
    """Return the check for finite numbers from `minimum` on (above it, with `exclusive`), up to `maximum`."""

    def check(value: Any, path: str) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise fail(path, "a number", value)
        if not float("-inf") < value < float("inf"):
            raise wrong(path, "must be finite.")
        if minimum is not None and (value < minimum or (exclusive and value == minimum)):
            raise wrong(path, f"must be {'more than' if exclusive else 'at least'} {minimum:g}.")
        if maximum is not None and value > maximum:
            raise wrong(path, f"must be at most {maximum:,}.")
        return whole(value, path) if isinstance(value, int) else float.__float__(value)

    return check


def choice(*values: str) -> Check:
    """Return the check for a closed set of strings."""

    expected = f"one of {', '.join(map(repr, values))}"

    def check(value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise fail(path, expected, value)
        if value not in values:
            raise wrong(path, f"must be {expected}.{suggestion(value, values)}")
        return values[values.index(value)]

    return check


def optional(check: Check) -> Check:
    """Return `check` for values that may also be None."""

    def either(value: Any, path: str) -> Any:
        return None if value is None else check(value, path)

    return either


def list_of(check: Check, *, example: str = '["..."]') -> Check:
    """Return the check for lists and tuples; the result is a tuple. A bare string is no list of its letters."""

    def every(value: Any, path: str) -> tuple[Any, ...]:
        if isinstance(value, str):
            raise fail(path, "a list of strings", value, f"Write `{path}={example}`.")
        if not isinstance(value, (list, tuple)):
            raise fail(path, "a list", value)
        return tuple(check(part, f"{path}[{index}]") for index, part in enumerate(value))

    return every


strings = list_of(name_text)


def mapping_of(check: Check, *, key: Check = name_text) -> Check:
    """Return the check for mappings with string keys; the result is a new dict."""

    def every(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise fail(path, "a dict", value)
        return {key(name, f"{path} (its keys)"): check(part, f"{path}.{name}") for name, part in value.items()}

    return every


def json_value(value: Any, path: str, depth: int = 0) -> Any:
    """Accept what JSON can carry, and return a copy of it; configuration classes inside become wire dicts."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise wrong(path, "is too large a number.")
        return int.__index__(value)
    if isinstance(value, str):
        return text(value, path)
    if isinstance(value, float):
        return number()(value, path)
    if depth > _MAX_DEPTH:
        raise wrong(path, "is nested too deeply.")
    if isinstance(value, Checked):
        return value.to_wire()
    if isinstance(value, Mapping):
        copy = {}
        for name, part in value.items():
            if not isinstance(name, str):
                raise fail(f"{path} (its keys)", "strings", name)
            copy[text(name, f"{path} (its keys)")] = json_value(part, f"{path}.{name}", depth + 1)
        return copy
    if isinstance(value, (list, tuple)):
        return [json_value(part, f"{path}[{index}]", depth + 1) for index, part in enumerate(value)]
    raise fail(path, "JSON (None, bool, int, float, str, list, dict)", value)


def json_object(value: Any, path: str) -> dict[str, Any]:
    """Accept a dict that JSON can carry, and return a copy of it."""
    if not isinstance(value, Mapping):
        raise fail(path, "a dict", value)
    return dict(json_value(value, path))


def function(value: Any, path: str) -> Any:
    """Accept anything that can be called."""
    if not callable(value):
        raise fail(path, "a function", value)
    return value


def instance(kind: type[Checked]) -> Check:
    """Return the check for objects of `kind`, or dicts with its field names."""
    return _object_or(kind, lambda value, path: build(kind, value, path))


def class_or_wire_dict(kind: type[Checked]) -> Check:
    """Return the check for `kind` objects, or dicts with its wire names."""
    return _object_or(kind, wire_dict(kind))


def _object_or(kind: type[Checked], of_dict: Check) -> Check:
    def check(value: Any, path: str) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise fail(path, f"a {kind.__name__} or a dict", value)
        return of_dict(value, path)

    return check


def build(kind: type[Checked], given: Mapping[Any, Any], path: str) -> Any:
    """Build `kind` from a dict with its field names or wire names; errors carry the path."""
    names = {field.wire: name for name, field in kind.__fields__.items()}
    arguments: dict[str, Any] = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise fail(f"{path} (its keys)", "strings", name)
        arguments[names.get(name, name)] = value
    try:
        return kind(**arguments)
    except OptionsError as error:
        inner = f"{path}.{error.field}" if error.field else path
        raise OptionsError(f"In `{path}`: {error}", field=inner) from None


def wire_dict(kind: type[Checked]) -> Check:
    """Return the check for dicts with the wire names of `kind`; unknown keys are kept, required ones are required."""

    def check(value: Any, path: str) -> dict[str, Any]:
        copied = json_object(value, path)
        by_name = kind.__fields__
        by_wire = {field.wire: field for field in by_name.values()}
        for key in copied:
            if key not in by_wire and key in by_name:
                raise OptionsError(
                    f"`{path}` is a dict and takes the CLI's own names: write `{by_name[key].wire}` for `{key}`, or "
                    f"use `{kind.__name__}({key}=...)`.",
                    field=f"{path}.{key}",
                )
        # Building the class checks types and required keys; the dict is kept, with the keys that only the CLI knows.
        build(kind, {key: part for key, part in copied.items() if key in by_wire and part is not None}, path)
        return copied

    return check


def tagged(kinds: Mapping[str, type[Checked]]) -> Check:
    """Return the check for objects of these classes, or dicts whose `type` names one."""

    def check(value: Any, path: str) -> Any:
        if isinstance(value, tuple(kinds.values())):
            return value
        if not isinstance(value, Mapping):
            raise fail(path, f"one of {', '.join(kind.__name__ for kind in kinds.values())} or a dict", value)
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in kinds:
            raise wrong(f"{path}.type", f"must be one of {', '.join(map(repr, kinds))}.")
        return build(kinds[kind], value, path)

    return check
