"""The seed of all that tests choose at random: a new one for each run in CI, otherwise the same cases every time.

`HACKAMORE_TEST_SEED` repeats a run. The header of pytest names the seed.
"""

from __future__ import annotations

import os
import secrets

VARIABLE = "HACKAMORE_TEST_SEED"
if os.environ.get("HACKAMORE_CI") == "1":
    os.environ.setdefault(VARIABLE, str(secrets.randbelow(999_999) + 1))  # the workers of xdist inherit it
SEED = int(os.environ.get(VARIABLE, "0"))


def seeded(number: int) -> int:
    """Return a seed for `random.Random`: another one for each number, and for each run with another seed."""
    return SEED * 1_000_000 + number


def told() -> str:
    """Return the seed, and how to repeat the run."""
    if not SEED:
        return f"seed: none, the same cases every time ({VARIABLE}=1 tries others)"
    return f"seed: {SEED} (repeat a test with {VARIABLE}={SEED} ./dev test PATH)"
