"""The row of an option: how the CLI receives its value, and which sources may set it.

A row is a plain value. `bridle.launch.table` turns it into arguments, variables and fields of `initialize`;
`bridle.options.sources` applies its rules for variables and files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, NoReturn, TypeAlias, TypedDict, Unpack

    Kind: TypeAlias = Literal["argv", "initialize", "environment", "host"]
    FlagForm: TypeAlias = Literal["value", "switch", "off", "each", "comma", "json"]
    Form: TypeAlias = FlagForm | Literal["initialize", "variable", "special", "host"]
    Refusal: TypeAlias = str | Callable[[Any], tuple[str, str] | None]

    class _More(TypedDict, total=False):
        shown: str
        place: int
        session: bool
        repeats: tuple[str, ...]
        yields_to: str
        deprecated: str
        way_out: str
        since: str
        merge: Literal["replace", "deep", "together"]
        variable: Literal["", "text", "function"]
        refused: Refusal


__all__ = ["Row", "flag", "host", "initialize", "special", "variable"]

_TEXTS = {
    "value": "`{0}={1}`",
    "switch": "`{0}`",
    "off": "`{0}` when False",
    "each": "`{0}={1}`, repeated",
    "comma": "`{0}=A,B`",
    "json": "`{0}=JSON`",
    "initialize": "`initialize.{0}`",
    "host": "-",
}


class Row:
    """How one option is sent, and where its value may come from.

    Attributes:
        kind: where the value goes: flags, the `initialize` request, variables of the child, or nowhere (`host`).
        form: how it is written. The forms `value` to `json` make flags; `special` has a function in `launch.encode`.
        name: the flag, the field of `initialize`, or the variable.
        text: the flags, fields or variables for people; "" derives them from the name.
        shown: the placeholder of the value in this text.
        constant: the text of the variable; "" means the value itself.
        place: the position among all rows on the command line, which is that of the official package; rows without
            one follow in the order of the class.
        session: True if any value needs the bidirectional protocol. Fields of `initialize` always do.
        repeats: flags that the CLI adds up when they are given twice.
        yields_to: the option that wins over this one, with a warning.
        deprecated: the replacement, for the warning `DEPRECATED_OPTION`.
        way_out: the advice for a value that is too long for one argument.
        since: the lowest CLI version that knows it, if that is known.
        merge: how `Options.load` combines two sources: the higher one wins, mappings are merged deeply, or both are joined.
        variable: how the text of its `BRIDLE_...` variable is read: as it is (`text`), not at all (`function`); "" derives
            it from the type.
        refused: the reason why an untrusted file must not set it; or a function of the value that returns the reason and
            the place, or None.
    """

    # A plain class, because a named tuple of this size takes a millisecond to make at import.
    kind: Kind
    form: Form
    name: str
    text: str = ""
    shown: str = "V"
    constant: str = ""
    place: int = 1000
    session: bool = False
    repeats: tuple[str, ...] = ()
    yields_to: str = ""
    deprecated: str = ""
    way_out: str = "Make it shorter."
    since: str = ""
    merge: Literal["replace", "deep", "together"] = "replace"
    variable: Literal["", "text", "function"] = ""
    refused: Refusal = ""

    def __init__(
        self, kind: Kind, form: Form, name: str, text: str = "", constant: str = "", **more: Unpack[_More]
    ) -> None:
        self.__dict__.update(more, kind=kind, form=form, name=name, text=text, constant=constant)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a row is frozen")

    @property
    def becomes(self) -> str:
        """The flags, fields or variables for people."""
        if self.form == "variable":
            return f"`{self.name}={self.constant}`" if self.constant else f"`{self.name}`"
        return self.text or _TEXTS[self.form].format(self.name, self.shown)


def flag(name: str, form: FlagForm = "value", *, text: str = "", **more: Unpack[_More]) -> Row:
    """Return the row of a flag.

    Args:
        name: the flag.
        form: `value` writes `--flag=value` (a bare `--flag` for True), `switch` a bare flag for True, `off` one for False,
            `each` one flag per item, `comma` all items in one, `json` compact JSON. None writes nothing.
        text: the text for people, if it differs.
        **more: other fields of the row.
    """
    if form == "each":
        more["repeats"] = (name,)
    return Row("argv", form, name, text, **more)


def initialize(name: str, **more: Unpack[_More]) -> Row:
    """Return the row of a field of the `initialize` request."""
    return Row("initialize", "initialize", name, **more)


def variable(name: str, constant: str = "", **more: Unpack[_More]) -> Row:
    """Return the row of a variable of the child; it has the value, or `constant` if the option is True."""
    return Row("environment", "variable", name, "", constant, **more)


def special(kind: Kind, text: str, **more: Unpack[_More]) -> Row:
    """Return the row of an option that a function in `bridle.launch.encode` writes."""
    return Row(kind, "special", "", text, **more)


def host(text: str = "", **more: Unpack[_More]) -> Row:
    """Return the row of an option that stays in this process."""
    return Row("host", "host", "", text, **more)
