"""The state tables: what is not in a table cannot happen, and a cell that is missing is a protocol error.

A machine is an enum of states, an enum of happenings, and a dict from a pair of both to what follows. `session` has the machines of a
connection, where only the next state follows; `query` has the one that judges a query, where a cell also says what the reader gets.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Member"]


class Member(Enum):
    """A member of a closed set. There is one object of each, so its identity is its hash: tables are looked into for every frame."""

    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__
