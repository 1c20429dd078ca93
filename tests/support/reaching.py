"""Property tests that reach the code behind its first check: generators whose cases are all refused show nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from hypothesis import strategies as st

Property = TypeVar("Property", bound=Callable[..., Any])

SHARE = 1 / 3
"""The share of the cases that has to pass the first check of the code under test."""
FEWEST = 20
"""Fewer cases say nothing about a share: mutation testing tries few."""

_passed: list[None] = []


def reached() -> None:
    """Say that this case has passed the first check."""
    _passed.append(None)


def reaching(property_test: Property) -> Property:
    """Fail a property test, above `@given`, if fewer than a third of all its cases say `reached()`."""
    handle: Any = property_test
    case = handle.hypothesis.inner_test
    cases: list[bool] = []

    @wraps(case)
    def counted(*args: Any, **kwargs: Any) -> None:
        _passed.clear()
        case(*args, **kwargs)
        cases.append(bool(_passed))

    handle.hypothesis.inner_test = counted

    @wraps(property_test)
    def whole(*args: Any, **kwargs: Any) -> None:
        cases.clear()
        property_test(*args, **kwargs)
        share = sum(cases) / len(cases)
        assert len(cases) < FEWEST or share >= SHARE, f"{share:.0%} of {len(cases)} cases pass the first check"

    checked: Any = whole
    return checked  # type: ignore[no-any-return]


def mostly(right: st.SearchStrategy[Any], wrong: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values of which seven of eight are right."""
    return st.integers(0, 7).flatmap(lambda number: wrong if number == 7 else right)


def damaged(lines: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return lines with some bytes taken out and others put in. Most get letters inside of a word: they are JSON if the line is."""

    def inside(line: bytes, number: int, put: str) -> bytes:
        places = [place for place in range(1, len(line)) if line[place - 1 : place + 1].isalpha()]
        place = places[number % len(places)]
        return line[:place] + put.encode() + line[place:]

    def anywhere(line: bytes, number: int, cut: int, put: bytes) -> bytes:
        place = number % (len(line) + 1)
        return line[:place] + put + line[place + cut :]

    numbers = st.integers(0, 10_000)
    return mostly(
        st.builds(inside, st.sampled_from(lines), numbers, st.text("abcXYZ_ \u00e9", min_size=1, max_size=2)),
        st.builds(anywhere, st.sampled_from(lines), numbers, st.integers(0, 20), st.binary(max_size=4)),
    )


def changed(line: bytes, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return the JSON object of a line with up to three of its fields changed or left out."""
    fields: dict[str, Any] = json.loads(line)
    names = st.sampled_from(sorted(fields))
    return st.builds(
        lambda other, without: {name: value for name, value in (fields | other).items() if name not in without},
        st.dictionaries(names, values, max_size=2),
        st.sets(names, max_size=1),
    )
