"""The pauses of everything that tries again."""

from __future__ import annotations

import random

import pytest

from hackamore.options.retry import back_off


@pytest.mark.parametrize(
    ("first", "longest", "waits"),
    [(0.5, 30.0, [0.5, 1, 2, 4, 8, 16, 30, 30]), (0.0, 60.0, [0, 0]), (9.0, 5.0, [5, 5]), (1e-9, 1e300, [1e-9, 2e-9])],
)
def test_a_wait_is_twice_as_long_as_the_last_one_up_to_the_longest(
    first: float, longest: float, waits: list[float]
) -> None:
    assert [back_off(failures, first, longest, max) for failures in range(1, len(waits) + 1)] == waits
    assert [back_off(failures, first, longest, min) for failures in range(1, len(waits) + 1)] == [w / 2 for w in waits]


def test_any_number_of_failures_has_a_wait() -> None:
    assert back_off(10**6, 1.0, 60.0, max) == 60.0


def test_programs_that_failed_together_do_not_try_together() -> None:
    found = [back_off(3, 1.0, 60.0, random.uniform) for _ in range(20)]
    assert len(set(found)) > 1
    assert all(2 <= wait <= 4 for wait in found)
