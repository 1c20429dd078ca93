"""Members of the tables that hold all state: enums that are cheap as keys."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable


class Member(Enum):
    """A member of a closed set. There is one object of each, so its identity is its hash: tables are looked into for every frame."""

    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__
