"""Programs in this process that are killed after any statement to SQLite; what others find then is what they would find in truth."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

__all__ = ["KilledError", "Mortal"]


class KilledError(BaseException):
    """The program is gone; the text is its last statement."""


class Mortal(sqlite3.Connection):
    """A connection whose program is killed after some statements, in a transaction or between two of them.

    Attributes:
        left: how many it still makes; all programs share it, because one runs at a time.
    """

    left = 0

    @classmethod
    def use(cls, patches: pytest.MonkeyPatch) -> None:
        """Let all connections be of this kind."""
        patches.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=cls))

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        found = super().execute(statement, *values)
        Mortal.left -= 1
        if Mortal.left == 0:
            found.close()
            self.rollback()  # as the next program does it that opens the file
            self.close()
            raise KilledError(statement)
        return found

    def executemany(self, statement: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        for values in rows:
            self.execute(statement, values)
        return self.cursor()

    @property
    def in_transaction(self) -> bool:  # the code of a program that is gone does nothing more
        return Mortal.left != 0 and super().in_transaction
