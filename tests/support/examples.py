"""How many random examples a test tries: fewer where `HACKAMORE_TEST_EXAMPLES` says so, as mutation testing does, and more in a storm."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("HACKAMORE_TEST_EXAMPLES", "10" if os.environ.get("HACKAMORE_TEST_STORM") else "1"))


def examples(number: int) -> int:
    """Return `number`, or its share."""
    return max(1, round(number * SHARE))
