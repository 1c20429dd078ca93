"""The frame for everything that is configured: frozen, keyword-only values that are checked when they are built.

`Checked` is the base class of `Options`, `Timeouts`, `Limits` and the nested configuration classes. A field is declared
with `option(default=..., check=...)`; the checks are in `option_checks`.

This is not `dataclasses`, because importing that (with `inspect`) costs more than all of these options, and because a
wrong keyword should name the right one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, TypeAlias, dataclass_transform

from bridle.errors import OptionsError

__all__ = ["Check", "Checked", "Field", "brief", "option", "redacted", "suggestion", "to_wire", "wire_name"]

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


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
class Checked:
    """A frozen, keyword-only value whose fields were checked when it was built."""

    __fields__: ClassVar[dict[str, Field]] = {}
    __replaced__: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        fields = dict(cls.__fields__)
        # Python 3.14 moves annotations: there they must be asked for in text form.
        for name, annotation in _annotations(cls).items():
            field = cls.__dict__.get(name)
            if isinstance(field, Field):
                delattr(cls, name)
                wire = field.wire or wire_name(name)
                fields[name] = Field(name, field.default, field.check, wire, field.secret, str(annotation), field.row)
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
    """Return the class's own annotations, as text."""
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
    if replaced := kind.__replaced__.get(name):
        return OptionsError(f"`{kind.__name__}` takes no `{name}`: {replaced}", field=name)
    return OptionsError(f"`{kind.__name__}` has no field `{name}`.{suggestion(name, kind.__fields__)}", field=name)
