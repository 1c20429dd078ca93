"""The parts of a shell command as rules see them: programs with their arguments, paths, domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hackamore.policy.paths import Target

READ, WRITE, RUN, CHANGE, UNKNOWN = range(5)
"""Effects of a program, by strength; `UNKNOWN` needs a rule with `effect = "any"`."""


class PathUse(NamedTuple):
    """A path that a program or a redirect reads or writes."""

    text: str
    target: Target | None
    """None if the place is not known."""
    writes: bool
    redirect: bool = False
    walks: bool = False
    """Whether a program reads what it finds below; rules for every folder (`**/.env`) would deny each such search."""
    problem: str = ""


class ProgramUse(NamedTuple):
    """A program with its arguments, as far as the table of programs knows them."""

    name: str
    """The name, or the whole path of a program that is not in a folder of the system."""
    place: str
    """The path as it was written; empty if it had no folder."""
    verb: tuple[str, ...]
    """The words that say what it does; "" for one that is not known."""
    flags: frozenset[str]
    effect: int
    text: str
    problem: str = ""
    """The reason why the effect is unknown."""
    paths: tuple[PathUse, ...] = ()
    domains: tuple[str, ...] = ()
    targets: bool = False
    """Whether each word of `verb` stands for itself, as the targets of `make` do."""


class Reading(NamedTuple):
    """A shell command, taken apart."""

    uses: tuple[ProgramUse | PathUse | str, ...]
    """Programs, paths and (as texts) domains."""
    cannot_tell: tuple[str, ...]
