"""Property tests that reach the code behind its first check: generators whose cases are all refused show nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Property = TypeVar("Property", bound=Callable[..., Any])

SHARE = 1 / 3
"""The share of the cases that has to pass the first check of the code under test."""
FEWEST = 20
"""Fewer cases say nothing about a share: mutation testing tries few."""

_passed = False


def reached() -> None:
    """Say that this case has passed the first check."""
    global _passed
    _passed = True


def reaching(property_test: Property) -> Property:
    """Fail a property test, above `@given`, if fewer than a third of all its cases say `reached()`."""
    handle: Any = property_test
    case = handle.hypothesis.inner_test
    cases: list[bool] = []

    @wraps(case)
    def counted(*args: Any, **kwargs: Any) -> None:
        global _passed
        _passed = False
        case(*args, **kwargs)
        cases.append(_passed)

    handle.hypothesis.inner_test = counted

    @wraps(property_test)
    def whole(*args: Any, **kwargs: Any) -> None:
        cases.clear()
        property_test(*args, **kwargs)
        share = sum(cases) / len(cases)
        assert len(cases) < FEWEST or share >= SHARE, f"{share:.0%} of {len(cases)} cases pass the first check"

    checked: Any = whole
    return checked  # type: ignore[no-any-return]
