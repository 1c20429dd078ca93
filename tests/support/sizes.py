"""The sizes of storms and other tests at random: how many kills, interleavings and tasks they have.

`./dev test` and CI have the first number, HACKAMORE_TEST_THOROUGH=1 the second, `./dev storm` (HACKAMORE_TEST_STORM=1) the third.
HACKAMORE_TEST_KILLS is the number of kills of each storm instead.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from tests.support.examples import SHARE


class Size(NamedTuple):
    """The three numbers."""

    ci: int
    thorough: int
    storm: int


SIZES = {
    "kills of servers and writers": Size(4, 20, 200),
    "kills of hosts": Size(4, 20, 100),
    "kills of programs": Size(6, 50, 500),
    "kills of pools": Size(2, 4, 20),
    "kills of a fleet": Size(8, 60, 200),
    "kills of a cluster": Size(8, 60, 120),
    "kills of agents": Size(4, 8, 40),
    "kills of approvals": Size(8, 150, 600),
    "kills of links": Size(12, 12, 300),
    "interleavings of objects": Size(8, 250, 1000),
    "interleavings of approvals": Size(3, 40, 200),
    "deletions of databases": Size(60, 300, 1000),
    "interleavings of holders": Size(12, 500, 1000),
    "conversations": Size(10, 60, 200),
    "conversations through both packages": Size(10, 200, 200),
    "runs of the real CLI": Size(20, 200, 1000),
    "calls decided by the CLI alone": Size(30, 300, 1500),
    "recordings with hostile texts": Size(20, 100, 1000),
    "commands of policies": Size(400, 4000, 100_000),
}
STORM = bool(os.environ.get("HACKAMORE_TEST_STORM"))
_TIER = 2 if STORM else int(os.environ.get("HACKAMORE_TEST_THOROUGH") == "1")


def size(name: str) -> int:
    """Return the size for this run; mutation testing has a share of it."""
    number = SIZES[name][_TIER]
    if name.startswith("kills"):
        number = int(os.environ.get("HACKAMORE_TEST_KILLS", number))
    return max(1, round(number * min(SHARE, 1)))
