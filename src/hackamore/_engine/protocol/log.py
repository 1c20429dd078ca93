"""The log of one query or session: records on the logger `hackamore` that name their session, turn and process."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from hackamore.runtime.log import Log, logger, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.protocol.machines import Machines
    from hackamore._engine.protocol.turns import TurnTable

__all__ = ["SessionLog", "issue", "logger", "one_line"]


class SessionLog(Log):
    def __init__(self, state: Machines, turns: TurnTable) -> None:
        super().__init__()
        self.pid: Callable[[], int | None] = _unknown
        self._state = state
        self._turns = turns

    def ids(self) -> dict[str, Any]:
        turns = self._turns.current_ids
        return {"session_id": self._state.session_id, "turn_id": turns[0] if turns else None, "pid": self.pid()}


def _unknown() -> None:
    return None


def issue(warning: Warning) -> None:
    """Issue a warning with `warnings.warn`, at the line of the program that called Hackamore."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - `inspect` has the same, and reads files
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith("hackamore."):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
