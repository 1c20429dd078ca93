"""The readers of a session that has one holder after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore._engine.session.readers import Readers, Unread

if TYPE_CHECKING:
    from hackamore._engine.session.core import SessionCore
    from hackamore._engine.session.readers import Progress
    from hackamore.errors import HackamoreError


class PooledReaders(Readers):
    """The turns and cursors of the present holder.

    Attributes:
        said: True once a prompt was sent.
    """

    def __init__(self, core: SessionCore[Any]) -> None:
        super().__init__(core)
        self.said: bool = False

    def sent(self, turn: Progress) -> None:
        self.said = True
        super().sent(turn)

    def dismiss(self, error: HackamoreError) -> None:
        """End all turns and cursors: their holder returned the session. Open ones raise the error."""
        for turn in list(self._turns.values()):
            if not turn.over.is_set:
                turn.end(error)
        for inbox in list(self._messages):
            inbox.end(error)
        for inbox in list(self._events):
            inbox.end()
        self._unread = Unread()
        self._turns.clear()
        self._messages.clear()
        self._events.clear()
