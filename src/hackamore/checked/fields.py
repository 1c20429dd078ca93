"""The base of all configuration: frozen, keyword-only values that are checked when they are built.

`Checked` is the base class of `Options`, `Timeouts`, `Limits` and the nested configuration classes. A field is declared
with `option(default=..., check=...)`.

Checks are functions of a value and its path; they return the value to keep, or raise `OptionsError` with that path. They accept values
that they returned before, so that `replace` can run them again. Errors show short values; fields declared `secret` never show theirs.

Hackamore does not use `dataclasses` here: importing it (with `inspect`) costs more than all of these options, and an unknown
keyword should suggest the right one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self, TypeAlias, dataclass_transform

from hackamore.errors import OptionsError, without_keys

Check: TypeAlias = Callable[[Any, str], Any]


class _Required:
    def __repr__(self) -> str:
        return "(required)"


REQUIRED = _Required()


class Field(NamedTuple):
    """The facts about one field of a `Checked` class; `row` is for the class and its users."""

    name: str
    default: Any
    check: Check
    wire: str
    secret: bool
    annotation: str
    row: Any


def option(check: Check, row: Any = None, *, default: Any = REQUIRED, wire: str = "", secret: bool = False) -> Any:
    """Declare a field: its check, its row if it has one, default, name on the wire, and whether `repr` must hide it."""
    return Field("", default, check, wire, secret, "", row)


def wire_name(name: str) -> str:
    """Return the camelCase form of a snake_case name."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


class _Signature:
    """The signature of a `Checked` class for `inspect`, made when it is read: importing `inspect` costs too much before."""

    def __get__(self, instance: object, owner: type[Checked]) -> Any:
        import inspect

        if instance is not None or "__init__" in owner.__dict__:  # HookMatcher declares its own
            raise AttributeError("__signature__")
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [
                inspect.Parameter(
                    field.name,
                    keyword,
                    default=inspect.Parameter.empty if field.default is REQUIRED else field.default,
                    annotation=field.annotation,
                )
                for field in owner.__fields__.values()
            ]
        )


class _Documented:
    """The docstring of a `Checked` class with its fields in it, read from the source on access."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, instance: object, owner: type[Checked]) -> str:
        docs = field_docs(owner)
        head, raises, tail = self._text.rstrip().partition("\n\n    Raises:")
        lines = [head, "", "    Args:"]
        for field in owner.__fields__.values():
            default = "required" if field.default is REQUIRED else f"default {brief(field.default, 40)}"
            lines.append(
                f"        {field.name} ({field.annotation}; {default}): {docs.get(field.name, '')}".rstrip(": ")
            )
        return "\n".join(lines) + raises + tail + "\n"


def field_docs(kind: type[Checked]) -> dict[str, str]:
    """Return the strings below the fields of a class, by field; none if its source is not there."""
    import ast
    import inspect
    import textwrap

    try:
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    found = {}
    body = getattr(tree, "body", [])
    for node, following in zip(body, body[1:], strict=False):  # noqa: RUF007 - itertools is not imported otherwise
        match node, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = text
    return found


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
class Checked:
    """A frozen, keyword-only value whose fields were checked when it was built."""

    __fields__: ClassVar[dict[str, Field]] = {}
    __replaced__: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        fields = dict(cls.__fields__)
        # Python 3.14 moves annotations: there they must be read in text form.
        for name, annotation in _annotations(cls).items():
            field = cls.__dict__.get(name)
            if isinstance(field, Field):
                delattr(cls, name)
                wire = field.wire or wire_name(name)
                fields[name] = Field(name, field.default, field.check, wire, field.secret, str(annotation), field.row)
        cls.__fields__ = fields
        text = cls.__dict__.get("__doc__")
        if isinstance(text, str) and fields and "Args:" not in text and "Attributes:" not in text:
            cls.__doc__ = _Documented(text)  # type: ignore[assignment]

    if TYPE_CHECKING:

        def __init__(self, **given: Any) -> None: ...

    else:

        def __init__(self, *positional, **given):
            if positional:
                raise _positional(type(self), positional[0])
            try:
                self._fill(given)
            except OptionsError as error:
                # The frames of checks say nothing to users: the text names the place.
                raise error.with_traceback(None) from None

    __signature__: ClassVar[Any] = _Signature()

    def _fill(self, given: dict[str, Any]) -> None:
        fields = type(self).__fields__
        values = self.__dict__
        for name, field in fields.items():
            if name in given:
                value = given.pop(name)
                if value is field.default or (value is None and field.default is None):
                    values[name] = field.default
                else:
                    try:
                        values[name] = field.check(value, name)
                    except OptionsError as error:
                        if field.secret:
                            raise _hidden(error) from None
                        raise
            elif field.default is REQUIRED:
                raise OptionsError(f"`{type(self).__name__}` needs `{name}`.", field=name)
            else:
                values[name] = field.default
        for name in given:
            raise _unknown(type(self), name)
        self._check_together()

    def _check_together(self) -> None:
        """Check rules that concern several fields."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with `changes` applied and checked.

        Args:
            changes: new values of fields, by name.

        Returns:
            The copy.

        Raises:
            OptionsError: a name or a value is wrong.

        Example:
            ::

                careful = options.replace(permission_mode="plan")
        """
        return type(self)(**{**self.given(), **changes})

    def given(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, by name.

        Returns:
            A new dict of Python values.
        """
        values = self.__dict__
        return {
            name: values[name]
            for name, field in type(self).__fields__.items()
            if not (values[name] is field.default or _same(values[name], field.default))
        }

    def to_wire(self) -> dict[str, Any]:
        """Return the fields that are set, with the names of the CLI.

        Returns:
            A dict that JSON can represent.
        """
        return {
            field.wire: to_wire(self.__dict__[name])
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


def _annotations(kind: type) -> dict[str, Any]:
    own: dict[str, Any] | None = kind.__dict__.get("__annotations__")  # noqa: RUF063 - `inspect` costs too much to import
    if own is None and sys.version_info >= (3, 14):  # pragma: no cover
        import annotationlib

        own = annotationlib.get_annotations(kind, format=annotationlib.Format.STRING)
    return own or {}


def _restore(kind: type[Checked], given: dict[str, Any]) -> Checked:
    value = kind.__new__(kind)
    for name, field in kind.__fields__.items():
        value.__dict__[name] = given.get(name, field.default)
    return value


def _same(left: Any, right: Any) -> bool:
    """Compare without mistaking `True` for `1` or `0` for `False`."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def to_wire(value: Any) -> Any:
    """Return `value` as JSON has it: wire names, dicts and lists."""
    if isinstance(value, Checked):
        return value.to_wire()
    if isinstance(value, Mapping):
        return {name: to_wire(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_wire(part) for part in value]
    return value


def redacted(value: Any) -> str:
    """Return a `repr` that keeps the names in a mapping and hides everything else."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: '...'" for name in value) + "}"
    if isinstance(value, (list, tuple)):
        return f"<{len(value)} hidden>" if value else "()"
    return "'...'"


def brief(value: Any, limit: int = 200) -> str:
    """Return a `repr` of bounded length, without API keys."""
    shown = without_keys(repr(value))
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


def _positional(kind: type[Checked], value: Any) -> OptionsError:
    names = list(kind.__fields__)
    first = "model" if isinstance(value, str) and "model" in names else names[0]
    example = f"{kind.__name__}({first}={_plain(value) or '...'})"
    return OptionsError(
        f"`{kind.__name__}` takes keyword arguments only, got {shown(value)}. Name the field: `{example}`."
    )


def _unknown(kind: type[Checked], name: str) -> OptionsError:
    if replaced := kind.__replaced__.get(name):
        return OptionsError(f"`{kind.__name__}` takes no `{name}`: {replaced}", field=name)
    return OptionsError(f"`{kind.__name__}` has no field `{name}`.{suggestion(name, kind.__fields__)}", field=name)


_MAX_DEPTH = 200
_MOST_BITS = 4096  # Python refuses to write numbers of more than 4300 digits.


_LONGEST_SHOWN = 40
_HIDDEN = "(hidden)"


def _plain(value: Any) -> str:
    """Return the text of a short scalar that does not look like a key or token; "" for other values."""
    import re

    if type(value) not in (str, int, float, bool) or (type(value) is int and value.bit_length() > 200):
        return ""
    text = repr(value)
    if len(text) > _LONGEST_SHOWN or text[1:2] in ("{", "[") or re.search(r"sk-|[A-Za-z0-9+/_=-]{24}", text):
        return ""
    return text


def shown(value: Any, *, hide: bool = False) -> str:
    """Return a value as an error shows it: `'five' (str)` for short plain values, `a list` for all others."""
    kind = type(value).__name__
    if value is None:
        return "None"
    text = "" if hide else _plain(value)
    return f"{text} ({kind})" if text else f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def fail(path: str, expected: str, value: Any, hint: str = "") -> OptionsError:
    """Return the error for a value of the wrong type."""
    kind = type(value)
    if kind.__name__ in expected.replace(",", "").split():  # another package has a class of this name
        found = hidden = f"the {kind.__name__} of `{kind.__module__.partition('.')[0]}`"
    else:
        found, hidden = shown(value), shown(value, hide=True)
    more = f" {hint}" if hint else ""
    return _made(path, f"must be {expected}, got {found}.{more}", f"must be {expected}, got {hidden}.{more}")


_NO_VALUE: Any = object()


def wrong(path: str, problem: str, value: Any = _NO_VALUE, hint: str = "") -> OptionsError:
    """Return the error for a value of the right type that is not allowed. With `value`, the problem has no full stop."""
    if value is _NO_VALUE:
        return OptionsError(f"`{path}` {problem}", field=path)
    got = f", got {text}" if (text := _plain(value)) else ""
    more = f" {hint}" if hint else ""
    return _made(path, f"{problem}{got}.{more}", f"{problem}.{more}")


def _made(path: str, problem: str, hidden: str) -> OptionsError:
    error = OptionsError(f"`{path}` {problem}", field=path)
    if hidden != problem:
        error.__dict__[_HIDDEN] = f"`{path}` {hidden}"
    return error


def _hidden(error: OptionsError) -> OptionsError:
    return OptionsError(error.__dict__.get(_HIDDEN, str(error)), field=error.field)


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
        problem = "must not contain lone surrogates (text that is not valid Unicode); decode it with errors='replace'."
        raise wrong(path, problem) from None
    # Not `str(value)`: for `class Model(str, Enum)` that is "Model.SONNET".
    return str.__str__(value)


def path_text(value: Any, path: str) -> str:
    """Accept a str or path object, and return it as str (names that are not valid Unicode included)."""
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


name_text: Callable[[Any, str], str] = _not_empty(text)
# An empty path means no path to the CLI, without a warning.
named_path: Callable[[Any, str], str] = _not_empty(path_text)


_LARGEST = 2**63 - 1


def whole(value: int, path: str) -> int:
    """Return an int as nothing but an int, if it is one that other programs can read."""
    if not -_LARGEST <= value <= _LARGEST:
        raise wrong(path, "is beyond 64 bits.")
    return int.__index__(value)


def integer(minimum: int | None = None, maximum: int | None = None) -> Check:
    """Return the check for whole numbers from `minimum` on, up to `maximum`."""

    def check(value: Any, path: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise fail(path, "an int", value, f"Pass a whole number without quotes, such as {max(minimum or 0, 5)}.")
        if minimum is not None and value < minimum:
            raise wrong(path, f"must be {minimum} or more", value)
        if maximum is not None and value > maximum:
            raise wrong(path, f"must be at most {maximum:,}", value)
        return whole(value, path)

    return check


def number(minimum: float | None = None, *, exclusive: bool = False, maximum: float | None = None) -> Check:
    """Return the check for finite numbers from `minimum` on (above it, with `exclusive`), up to `maximum`."""

    def check(value: Any, path: str) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise fail(path, "a number", value)
        if not float("-inf") < value < float("inf"):
            raise wrong(path, "must be finite", value)
        if minimum is not None and (value < minimum or (exclusive and value == minimum)):
            raise wrong(path, f"must be {'more than' if exclusive else 'at least'} {minimum:g}", value)
        if maximum is not None and value > maximum:
            raise wrong(path, f"must be at most {maximum:,}", value)
        return whole(value, path) if isinstance(value, int) else float.__float__(value)

    return check


def choice(*values: str) -> Check:
    """Return the check for a closed set of strings."""

    expected = f"one of {', '.join(map(repr, values))}"

    def check(value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise fail(path, expected, value)
        if value not in values:
            raise wrong(path, f"must be {expected}", value, suggestion(value, values).strip())
        return values[values.index(value)]

    return check


def optional(check: Check) -> Check:
    """Return `check` for values that may also be None."""

    def either(value: Any, path: str) -> Any:
        return None if value is None else check(value, path)

    return either


def list_of(check: Check, *, example: str = '["..."]') -> Check:
    """Return the check for lists and tuples; the result is a tuple. A bare string is refused."""

    def every(value: Any, path: str) -> tuple[Any, ...]:
        if isinstance(value, str):
            raise fail(path, "a list of strings", value, f"Write `{path}={example}`.")
        if not isinstance(value, (list, tuple)):
            raise fail(path, "a list", value)
        return tuple(check(part, f"{path}[{index}]") for index, part in enumerate(value))

    return every


strings: Check = list_of(name_text)


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
        again = OptionsError(f"In `{path}`: {error}", field=inner)
        if (hidden := error.__dict__.get(_HIDDEN)) is not None:
            again.__dict__[_HIDDEN] = f"In `{path}`: {hidden}"
        raise again from None


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
        for field in by_name.values():
            if field.default is REQUIRED and field.wire not in copied:
                _refuse_misspelt(field.wire, copied.keys() - by_wire.keys(), path)
        # Building the class checks types and required keys; the dict is kept, with the keys that only the CLI knows.
        build(kind, {key: part for key, part in copied.items() if key in by_wire and part is not None}, path)
        return copied

    return check


def _refuse_misspelt(wanted: str, unknown: Iterable[str], path: str) -> None:
    import difflib

    if close := difflib.get_close_matches(wanted, sorted(unknown), n=1, cutoff=0.7):
        problem = f"has no `{wanted}`, but a key `{close[0]}`. Did you mean `{wanted}`?"
        raise OptionsError(f"`{path}` {problem}", field=f"{path}.{close[0]}")


def tagged(kinds: Mapping[str, type[Checked]]) -> Check:
    """Return the check for objects of these classes, or dicts whose `type` names one."""

    def check(value: Any, path: str) -> Any:
        if isinstance(value, tuple(kinds.values())):
            return value
        if not isinstance(value, Mapping):
            raise fail(path, f"one of {', '.join(kind.__name__ for kind in kinds.values())} or a dict", value)
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in kinds:
            raise wrong(f"{path}.type", f"must be one of {', '.join(map(repr, kinds))}", kind)
        return build(kinds[kind], value, path)

    return check
