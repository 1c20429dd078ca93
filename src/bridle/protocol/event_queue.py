"""What a connection has to report, in order. Messages are collected, so that one costs no more than its place in a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.errors import StreamWarning
from bridle.protocol import events

if TYPE_CHECKING:
    from bridle.errors import WarningCode
    from bridle.messages import Message
    from bridle.protocol.activity import CliActivity
    from bridle.protocol.turns import TurnTable

__all__ = ["EventQueue"]


class EventQueue:
    """The events that were not taken yet.

    Args:
        turns: knows which prompts a message belongs to that names none.
        activity: learns from each delivered message.

    Attributes:
        batch: the messages that came since the last event. Append to it; read it through `take`.
    """

    __slots__ = ("_activity", "_events", "_turns", "batch")

    def __init__(self, turns: TurnTable, activity: CliActivity) -> None:
        self.batch: list[Message] = []
        self._events: list[events.Event] = []
        self._turns = turns
        self._activity = activity

    def __bool__(self) -> bool:
        return bool(self._events or self.batch)

    def flush(self) -> None:
        """Make an event of the collected messages."""
        if self.batch:
            batch, self.batch = self.batch, []
            self._add(batch, self._turns.current_ids)

    def deliver(self, message: Message, turn_ids: tuple[str, ...]) -> None:
        """Add a message of known prompts."""
        self.flush()
        self._add([message], turn_ids)

    def emit(self, event: events.Event) -> None:
        """Add an event."""
        self.flush()
        self._events.append(event)

    def warn(self, code: WarningCode, message: str, **context: object) -> None:
        """Add a warning."""
        self.emit(events.Warned(StreamWarning(code, message, context)))

    def warned(self, warning: StreamWarning) -> None:
        """Add a ready warning."""
        self.emit(events.Warned(warning))

    def take(self) -> list[events.Event]:
        """Return all events, and forget them."""
        self.flush()
        happened, self._events = self._events, []
        return happened

    def _add(self, messages: list[Message], turn_ids: tuple[str, ...]) -> None:
        self._activity.heard(messages)
        self._events.append(events.MessagesReceived(messages, turn_ids))
