"""What a connection has to report, in order. Messages are collected, so that one costs no more than its place in a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.errors import StreamWarning
from bridle.protocol import events

if TYPE_CHECKING:
    from bridle.errors import WarningCode
    from bridle.messages import Message
    from bridle.protocol.turns import TurnTable

__all__ = ["EventQueue"]


class EventQueue:
    """The events that were not taken yet. Append plain messages to `batch`; `session_id` is that of the first message with one."""

    def __init__(self, turns: TurnTable) -> None:
        self.batch: list[Message] = []
        self.messages = 0
        self.session_id: str | None = None
        self._events: list[events.Event] = []
        self._turns = turns

    def __bool__(self) -> bool:
        return bool(self._events or self.batch)

    def emit(self, event: events.Event) -> None:
        """Add an event."""
        self.flush()
        self._events.append(event)

    def warn(self, code: WarningCode, message: str, **context: object) -> None:
        """Add a warning."""
        self.warned(StreamWarning(code, message, context))

    def warned(self, warning: StreamWarning) -> None:
        """Add a ready warning."""
        self.emit(events.Warned(warning))

    def deliver(self, message: Message, turn_ids: tuple[str, ...]) -> None:
        """Add a message of known prompts."""
        self.flush()
        self._add([message], turn_ids)

    def flush(self) -> None:
        """Make an event of the collected messages."""
        if self.batch:
            batch, self.batch = self.batch, []
            self._add(batch, self._turns.current_ids)

    def take(self) -> list[events.Event]:
        """Return all events, and forget them."""
        self.flush()
        happened, self._events = self._events, []
        return happened

    def _add(self, messages: list[Message], turn_ids: tuple[str, ...]) -> None:
        self.messages += len(messages)
        if self.session_id is None:
            ids = (getattr(message, "session_id", None) for message in messages)
            self.session_id = next((found for found in ids if isinstance(found, str) and found), None)
        self._events.append(events.MessagesReceived(messages, turn_ids))
