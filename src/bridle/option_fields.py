"""The frame for everything that is configured: frozen, keyword-only values that are checked when they are built.

`Checked` is the base class of `Options`, `Timeouts`, `Limits` and the nested configuration classes. A field is declared with
`option(default=..., check=...)`; a check takes the value and its path (`agents.reviewer.model`), and returns the value to keep or
raises `OptionsError` with that path. Checks accept what they have returned before, so that `replace` can run them again. No check
puts a value into its message: values may be secret.

This is not `dataclasses`, because importing that (with `inspect`) costs more than all of Bridle's own options, and because a
wrong keyword should name the right one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, TypeAlias, dataclass_transform

from bridle.errors import OptionsError

__all__ = [
    "Check",
    "Checked",
    "Field",
    "boolean",
    "choice",
    "constant",
    "fail",
    "function",
    "instance",
    "integer",
    "json_object",
    "json_value",
    "list_of",
    "mapping_of",
    "number",
    "opaque",
    "option",
    "optional",
    "path_text",
    "strings",
    "suggestion",
    "text",
    "wire_name",
]

Check: TypeAlias = Callable[[Any, str], Any]

_MAX_DEPTH = 200


class _Required:
    def __repr__(self) -> str:
        return "(required)"


REQUIRED = _Required()


class Field(NamedTuple):
    """What is known about one field of a `Checked` class."""

    name: str
    default: Any
    check: Check
    wire: str
    secret: bool
    annotation: str


class _Declared(NamedTuple):
    default: Any
    check: Check
    wire: str | None
    secret: bool


def option(*, default: Any = REQUIRED, check: Check, wire: str | None = None, secret: bool = False) -> Any:
    """Declare a field: its default, its check, its name on the wire (camelCase by default), and whether `repr` must hide it."""
    return _Declared(default, check, wire, secret)


def wire_name(name: str) -> str:
    """Return the camelCase form of a snake_case name."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
class Checked:
    """A frozen, keyword-only value whose fields were checked when it was built."""

    __fields__: ClassVar[dict[str, Field]] = {}
    __replaced__: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        fields = dict(cls.__fields__)
        for name, annotation in cls.__dict__.get("__annotations__", {}).items():
            declared = cls.__dict__.get(name)
            if isinstance(declared, _Declared):
                delattr(cls, name)
                wire = declared.wire or wire_name(name)
                fields[name] = Field(name, declared.default, declared.check, wire, declared.secret, str(annotation))
        cls.__fields__ = fields

    def __init__(self, **given: Any) -> None:
        fields = type(self).__fields__
        values = self.__dict__
        for name, field in fields.items():
            if name in given:
                value = given.pop(name)
                if value is field.default or (value is None and field.default is None):
                    values[name] = field.default
                else:
                    values[name] = field.check(value, name)
            elif field.default is REQUIRED:
                raise OptionsError(f"`{type(self).__name__}` needs `{name}`.", field=name)
            else:
                values[name] = field.default
        for name in given:
            raise _unknown(type(self), name)
        self._check_together()

    def _check_together(self) -> None:
        """Check what concerns several fields at once."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with `changes` applied and checked.

        Raises:
            OptionsError: a name or a value is wrong.
        """
        return type(self)(**{**self.given(), **changes})

    def given(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, by name."""
        values = self.__dict__
        return {
            name: values[name]
            for name, field in type(self).__fields__.items()
            if not (values[name] is field.default or _same(values[name], field.default))
        }

    def to_wire(self) -> dict[str, Any]:
        """Return the fields that are set as the CLI spells them."""
        return {
            field.wire: _to_wire(self.__dict__[name])
            for name, field in type(self).__fields__.items()
            if self.__dict__[name] is not None
        }

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: use `.replace({name}=...)`")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: use `.replace({name}=...)`")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.__dict__.values())))

    def __reduce__(self) -> tuple[Any, ...]:
        # Only what was set travels, so that a default may change between two versions of the library.
        return _restore, (type(self), self.given())

    def __repr__(self) -> str:
        fields = type(self).__fields__
        shown = ", ".join(
            f"{name}={redacted(value) if fields[name].secret else brief(value)}" for name, value in self.given().items()
        )
        return f"{type(self).__name__}({shown})"


def _restore(kind: type[Checked], given: dict[str, Any]) -> Checked:
    value = kind.__new__(kind)
    for name, field in kind.__fields__.items():
        value.__dict__[name] = given.get(name, field.default)
    return value


def _same(left: Any, right: Any) -> bool:
    """Compare without mistaking `True` for `1` or `0` for `False`."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _to_wire(value: Any) -> Any:
    if isinstance(value, Checked):
        return value.to_wire()
    if isinstance(value, Mapping):
        return {name: _to_wire(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_wire(part) for part in value]
    return value


def redacted(value: Any) -> str:
    """Return a `repr` that keeps the names in a mapping and hides everything else."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: '...'" for name in value) + "}"
    if isinstance(value, (list, tuple)):
        return f"<{len(value)} hidden>" if value else "()"
    return "'...'"


def brief(value: Any, limit: int = 200) -> str:
    """Return a `repr` of bounded length."""
    shown = repr(value)
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def suggestion(name: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """Return ` Did you mean ...?` for the closest known name, or nothing."""
    import difflib
    import re

    plain = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")
    candidates = {candidate.lower(): candidate for candidate in known}
    for guess in (name.lower(), plain):
        close = difflib.get_close_matches(guess, list(candidates), n=1, cutoff=0.7)
        if close:
            return f" Did you mean `{candidates[close[0]]}`?"
    return ""


def _unknown(kind: type[Checked], name: str) -> OptionsError:
    replaced = kind.__replaced__.get(name)
    if replaced:
        return OptionsError(f"`{kind.__name__}` takes no `{name}`: {replaced}", field=name)
    return OptionsError(f"`{kind.__name__}` has no field `{name}`.{suggestion(name, kind.__fields__)}", field=name)


def fail(path: str, expected: str, value: Any, hint: str = "") -> OptionsError:
    """Return the error for a value of the wrong kind; it names the value's type and never the value."""
    found = "None" if value is None else f"{type(value).__name__}"
    return OptionsError(f"`{path}` must be {expected}, not {found}.{' ' + hint if hint else ''}", field=path)


# -- checks ------------------------------------------------------------------------------------------------------------


def boolean(value: Any, path: str) -> bool:
    """Accept True and False."""
    if not isinstance(value, bool):
        raise fail(path, "True or False", value)
    return value


def text(value: Any, path: str) -> str:
    """Accept a string that can be handed to another process."""
    if not isinstance(value, str):
        raise fail(path, "a str", value)
    if "\0" in value:
        raise OptionsError(f"`{path}` must not contain a NUL character.", field=path)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise OptionsError(
            f"`{path}` must not contain lone surrogates (text that is no Unicode); decode it with errors='replace'.",
            field=path,
        ) from None
    return str(value)


def name_text(value: Any, path: str) -> str:
    """Accept a string with something in it."""
    checked = text(value, path)
    if not checked.strip():
        raise OptionsError(f"`{path}` must not be empty.", field=path)
    return checked


def path_text(value: Any, path: str) -> str:
    """Accept a str or path object, and return it as str (names that are no Unicode included)."""
    if not isinstance(value, (str, os.PathLike)):
        raise fail(path, "a str or a path", value)
    plain = os.fspath(value)
    if not isinstance(plain, str):
        raise fail(path, "a str or a path of str", plain)
    if "\0" in plain:
        raise OptionsError(f"`{path}` must not contain a NUL character.", field=path)
    return plain


def integer(minimum: int | None = None) -> Check:
    """Return the check for whole numbers from `minimum` on."""

    def check(value: Any, path: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise fail(path, "an int", value)
        if minimum is not None and value < minimum:
            raise OptionsError(f"`{path}` must be {minimum} or more.", field=path)
        return value

    return check


def number(minimum: float | None = None, *, exclusive: bool = False) -> Check:
    """Return the check for finite numbers from `minimum` on (above it, with `exclusive`)."""

    def check(value: Any, path: str) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise fail(path, "a number", value)
        if not float("-inf") < value < float("inf"):
            raise OptionsError(f"`{path}` must be finite.", field=path)
        if minimum is not None and (value < minimum or (exclusive and value == minimum)):
            raise OptionsError(f"`{path}` must be {'more than' if exclusive else 'at least'} {minimum:g}.", field=path)
        return value

    return check


def choice(*values: str) -> Check:
    """Return the check for a closed set of strings."""

    def check(value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise fail(path, f"one of {', '.join(map(repr, values))}", value)
        if value not in values:
            raise OptionsError(
                f"`{path}` must be one of {', '.join(map(repr, values))}.{suggestion(value, values)}", field=path
            )
        return value

    return check


def constant(expected: str) -> Check:
    """Return the check for the one value that a tag field may have."""
    return choice(expected)


def optional(check: Check) -> Check:
    """Return `check` for values that may also be None."""

    def either(value: Any, path: str) -> Any:
        return None if value is None else check(value, path)

    return either


def list_of(check: Check, *, example: str = '["..."]') -> Check:
    """Return the check for lists and tuples; the result is a tuple. A bare string is refused: it is a list of letters."""

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
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return text(value, path)
    if isinstance(value, float):
        return number()(value, path)
    if depth > _MAX_DEPTH:
        raise OptionsError(f"`{path}` is nested too deeply.", field=path)
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
    copied: dict[str, Any] = json_value(value, path)
    return copied


def function(value: Any, path: str) -> Any:
    """Accept anything that can be called."""
    if not callable(value):
        raise fail(path, "a function", value)
    return value


def opaque(value: Any, path: str) -> Any:
    """Accept anything."""
    del path
    return value


def instance(kind: type[Checked]) -> Check:
    """Return the check for objects of `kind`, or dicts with its field names."""

    def check(value: Any, path: str) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise fail(path, f"a {kind.__name__} or a dict", value)
        return build(kind, value, path)

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
