"""`Retry`: how often `run` tries again after a failure. `back_off`: how long everything waits that tries again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hackamore.checked.fields import Checked, boolean, integer, number, option, optional
from hackamore.options.bounds import LONGEST_SECONDS

Uniform: TypeAlias = Callable[[float, float], float]
"""Returns a number between two others, as `random.uniform`: programs that failed together do not try together."""
CONTINUE = (
    "A technical failure interrupted the work on my last request. Continue where it stopped. Do not repeat steps that are done; where "
    "the outcome of a step is unknown, check it before you repeat the step. If no step was done yet, begin now."
)
"""The prompt of an attempt that resumes a session; `docs/guides/production/rate-limits.md` quotes it."""
_seconds = number(0, maximum=LONGEST_SECONDS)


class Retry(Checked):
    """The retries of `run`: after an error whose `retryable` is True, `run` waits and tries again.

    The wait doubles after each attempt, and a random part of up to a half is taken off, so that many programs do not try at the same
    moment. A rate limit that says when it resets is waited for.

    Attributes:
        attempts: attempts at most, the first one included.
        backoff: seconds before the second attempt; each further wait is twice as long.
        max_delay: seconds that such a wait takes at most.
        rate_limit_wait: seconds to wait at most until a rate limit resets; a later reset raises immediately. None waits as long as it
            takes.
        resume: True resumes the session of the failed attempt, so that finished work is not done again; False sends the prompt again.

    Raises:
        OptionsError: a value has the wrong type, or is out of range.

    Example:
        ::

            answer = await hackamore.run("Fix the tests.", retry=hackamore.Retry(attempts=5, rate_limit_wait=3600))
    """

    attempts: int = option(integer(1), default=3)
    backoff: float = option(_seconds, default=1.0)
    max_delay: float = option(_seconds, default=60.0)
    rate_limit_wait: float | None = option(optional(_seconds), default=300.0)
    resume: bool = option(boolean, default=True)


def back_off(failures: int, first: float, longest: float, uniform: Uniform) -> float:
    """Return the seconds to wait after some failures in a row: twice as long each time, and less by up to a half."""
    wait = min(first * 2.0 ** min(failures - 1, 60), longest)  # `2.0 ** 1024` is an OverflowError
    return uniform(wait / 2, wait)
