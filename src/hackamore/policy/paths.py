"""Patterns of paths, programs and domains, and the questions that rules ask of them.

A subject may have wildcards of its own (`cat *.pem`), or stand for everything below it (`rm -r build`). A rule that allows then has to
cover all that the subject may be; a rule that asks or denies matches if it covers any of it.
"""

from __future__ import annotations

import os
import posixpath
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_ANY = "**"


class Target(NamedTuple):
    """A path of a call, absolute and without `..`, as it stands and with its symlinks resolved."""

    places: tuple[tuple[str, ...], ...]
    """The components of each place that the path may mean."""
    pattern: bool = False
    """Whether components have wildcards, as the shell reads them."""


def components(path: str) -> tuple[str, ...]:
    """Return the parts of a path between slashes."""
    return tuple(part for part in path.split("/") if part)


@lru_cache(maxsize=4096)
def glob(pattern: str, *, exact: bool = True) -> re.Pattern[str]:
    """Return the pattern of a name: `*` and `?` are wildcards, all else stands for itself. Not `exact`: case does not matter."""
    text = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.compile(text, re.DOTALL | (re.NOFLAG if exact else re.IGNORECASE))


def is_name(pattern: str, text: str, *, exact: bool = True) -> bool:
    """Return whether a name has the form of a pattern."""
    return glob(pattern, exact=exact).fullmatch(text) is not None


def is_domain(pattern: str, domain: str) -> bool:
    """Return whether a domain has the form of a pattern; `*.example.com` is not `example.com`."""
    return is_name(pattern, domain.rstrip("."), exact=False)


def covers(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether every path that `path` may mean has the form of a pattern; `**` is any number of components, none included."""
    if not pattern:
        return not path
    if pattern[0] == _ANY:
        if len(pattern) == 1:
            return True
        return any(covers(pattern[1:], path[at:]) for at in range(len(path) + 1))
    if not path or path[0] == _ANY:
        return False
    # A wildcard of the subject is covered only by a pattern that takes every name; a `*` in a name on the disk is refused with it.
    if pattern[0] != "*" and (set(path[0]) & set("*?[") or not is_name(pattern[0], path[0])):
        return False
    return covers(pattern[1:], path[1:])


def touches(pattern: tuple[str, ...], path: tuple[str, ...], *, wild: bool) -> bool:
    """Return whether any path that `path` may mean has the form of a pattern; case does not matter, as on some disks."""
    if not pattern:
        return all(part == _ANY for part in path) if wild else not path
    if pattern[0] == _ANY:
        return any(touches(pattern[1:], path[at:], wild=wild) for at in range(len(path) + 1)) or (
            wild and bool(path) and path[0] == _ANY and touches(pattern[1:], path[1:], wild=wild)
        )
    if not path:
        return False
    if wild and path[0] == _ANY:
        return touches(pattern[1:], path, wild=wild) or touches(pattern, path[1:], wild=wild)
    same = overlap(pattern[0].lower(), path[0].lower()) if wild else is_name(pattern[0], path[0], exact=False)
    return same and touches(pattern[1:], path[1:], wild=wild)


@lru_cache(maxsize=4096)
def overlap(one: str, other: str) -> bool:
    """Return whether a name exists that has the form of both patterns; a bracket of the shell may be any letter."""
    if not one or not other:
        return not (one + other).strip("*")
    if one[0] == "*" or other[0] == "*":
        return (overlap(one[1:], other) or overlap(one, other[1:])) if one[0] == "*" else overlap(other, one)
    if other[0] == "[" and (end := other.find("]", 2)) > 0:
        return overlap(one[1:], other[end + 1 :])
    if one[0] != other[0] and "?" not in (one[0], other[0]):
        return False
    return overlap(one[1:], other[1:])


def matches_target(patterns: tuple[tuple[str, ...], ...], target: Target, *, every: bool) -> bool:
    """Return whether patterns cover a target wholly (`every`: what a rule that allows needs), or any place of it."""
    if every:
        return all(any(covers(pattern, place) for pattern in patterns) for place in target.places)
    return any(touches(pattern, place, wild=target.pattern) for pattern in patterns for place in target.places)


def target_of(
    path: str, cwd: str | None, resolve: Callable[[str], str], *, wild: bool = False, tree: bool = False
) -> tuple[Target | None, str]:
    """Return the target of a path, or None with the reason; `wild`: it has wildcards; `tree`: everything below it counts."""
    if cwd is None and not path.startswith("/"):
        return None, "the folder that it starts in is not known"
    whole = components(os.path.join(cwd or "/", path))
    if len(whole) > 200 or any(len(part) > 255 for part in whole):
        return None, "it is too long"
    at = next((number for number, part in enumerate(whole) if wild and set(part) & set("*?[")), len(whole))
    fixed, rest = whole[:at], whole[at:]
    if ".." in rest:
        return None, "it has `..` behind a wildcard"
    # Both a link and its goal count: some programs replace the one, some write through to the other.
    try:
        places = {components(resolve("/" + "/".join(fixed)))}
        if fixed and fixed[-1] not in (".", ".."):
            places.add((*components(resolve("/" + "/".join(fixed[:-1]))), fixed[-1]))
    except (OSError, ValueError) as error:
        return None, f"it cannot be resolved ({type(error).__name__})"
    if any("proc" in place[:1] for place in (whole, *places)):
        return None, "paths below `/proc` lead anywhere"
    below = (*rest, _ANY) if tree else rest
    return Target(tuple((*place, *below) for place in sorted(places)), pattern=bool(below)), ""


class Machine(NamedTuple):
    """Another machine, whose paths a policy decides on. Its links cannot be followed from here: paths count as they are written.

    Attributes:
        name: the machine, for people.
        home: the home folder over there, which `~` stands for.
    """

    name: str
    home: str

    def resolve(self, path: str) -> str:
        """Return a path without `..`."""
        return posixpath.normpath(path)

    def expand(self, path: str) -> str:
        """Return a path with `~` filled in; homes of other users stay."""
        return self.home + path[1:] if path == "~" or path.startswith("~/") else path


class Here:
    """The machine of this process."""

    name = ""

    def resolve(self, path: str) -> str:
        """Return a path without symlinks and `..`; the part of the engine that reads the disk."""
        return os.path.realpath(path)

    def expand(self, path: str) -> str:
        """Return a path with `~` and `~user` filled in."""
        return os.path.expanduser(path)
