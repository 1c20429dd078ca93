"""The way out of a connection: events for its shell (`events_received`), and frames for the peer (`data_to_send`)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from hackamore._engine.protocol import events, frames
from hackamore._engine.protocol.states.session import HANDSHAKE, INPUT, HalfTrigger, Handshake, HandshakeTrigger
from hackamore.errors import StreamWarning
from hackamore.messages import AssistantMessage, StreamEvent

if TYPE_CHECKING:
    from hackamore._engine.protocol.frames import Payload
    from hackamore._engine.protocol.machines import Machines
    from hackamore._engine.protocol.turns import TurnTable
    from hackamore.errors import WarningCode
    from hackamore.messages import APIRetryMessage, Message


class Sendable(Protocol):
    """A prompt or request."""

    written: bool


class Outbox:
    """The events and frames that were not taken yet, each in their order. One read may bring a thousand messages: they are one event."""

    __slots__ = ("_batch", "_events", "_state", "_turns", "any_message", "api_retry", "frames", "held")

    def __init__(self, state: Machines, turns: TurnTable) -> None:
        self.any_message: bool = False  # True once there was a message
        self.api_retry: APIRetryMessage | None = None  # the last failed API request; None if the API has answered since
        self.held: deque[tuple[Sendable, bytes]] = deque()  # frames that wait until the handshake is confirmed
        self._state = state
        self._turns = turns
        self._batch: list[Message] = []
        self._events: list[events.Event] = []
        self.frames: list[bytes] = []

    @property
    def waiting(self) -> bool:
        """True while `events_received` has something to return."""
        return bool(self._events or self._batch)

    def events_received(self) -> list[events.Event]:
        """Return what happened since the last call, in order."""
        if self._batch:
            self.flush()
        happened, self._events = self._events, []
        return happened

    def emit(self, event: events.Event) -> None:
        self.flush()
        self._events.append(event)

    def emit_aside(self, event: events.Event) -> None:
        """Report an event whose place among the messages does not matter."""
        self._events.append(event)

    def warn(self, code: WarningCode, message: str, **context: object) -> None:
        self.warned(StreamWarning(code, message, context))

    def warned(self, warning: StreamWarning) -> None:
        self.emit(events.WarningRaised(warning))

    def add(self, message: Message) -> None:
        """Report a message of the current prompts."""
        self._batch.append(message)

    def add_all(self, messages: list[Message]) -> None:
        """Report messages of the current prompts. The list belongs to the outbox from now on."""
        if self._batch:
            self._batch += messages
        else:
            self._batch = messages

    def deliver(self, message: Message, turn_ids: tuple[str, ...]) -> None:
        """Report a message of known prompts."""
        self.flush()
        self._batch.append(message)
        self.flush(turn_ids)

    def flush(self, turn_ids: tuple[str, ...] | None = None) -> None:
        """Make an event of the collected messages; they belong to the current prompts, if no others are known."""
        batch = self._batch
        if not batch:
            return
        self._batch = []
        self.any_message = True
        # The API has answered: an error of a later timeout must not name this failure.
        if self.api_retry is not None and any(isinstance(each, (AssistantMessage, StreamEvent)) for each in batch):
            self.api_retry = None
        if self._state.session_id is None:
            ids = (getattr(message, "session_id", None) for message in batch)
            self._state.session_id = next((found for found in ids if isinstance(found, str) and found), None)
        self._events.append(events.MessagesReceived(batch, self._turns.current_ids if turn_ids is None else turn_ids))

    def data_to_send(self) -> bytes:
        """Return what is to be written: whole lines. It counts as written."""
        if not self.frames:
            return b""
        data = b"".join(self.frames)
        self.frames.clear()
        return data

    def write(self, frame: bytes) -> bool:
        """Queue a frame; return False if it could not be read any more."""
        if self._state.writable:
            self.frames.append(frame)
            return True
        return False

    def send(self, what: Sendable, frame: bytes, *, flows: bool) -> None:
        """Write the frame of a request or prompt, or hold it."""
        if flows:
            what.written = True
            self.write(frame)
        else:
            self.held.append((what, frame))

    def send_message(self, message: Payload) -> None:
        """Send any other frame, which is a JSON object: for the role CLI, and for frames that have no method."""
        self._state.require_open()
        self.write(frames.message_frame(message))

    def drop(self, what: Sendable) -> None:
        self.held = deque(item for item in self.held if item[0] is not what)

    def move_handshake(self, trigger: HandshakeTrigger) -> None:
        """Move the handshake, and write the held frames if they flow from now on."""
        state = self._state
        flowed = state.flows
        state.handshake = HANDSHAKE[state.handshake, trigger]
        if state.flows and not flowed:
            held, self.held = self.held, deque()
            for what, frame in held:
                self.send(what, frame, flows=True)
            self.emit(events.OperationsReleased(implicitly=state.handshake is Handshake.IMPLICIT))

    def close_input(self) -> None:
        """Close stdin as soon as `input_may_close` is true. Further prompts are refused."""
        self._move_input(HalfTrigger.CLOSE_ASKED)

    def input_was_closed(self) -> None:
        """Apply that stdin is closed."""
        self._move_input(HalfTrigger.CLOSED)

    def input_broke(self) -> None:
        """Apply that the peer does not read any more. Its end, which follows, resolves what is open."""
        self._move_input(HalfTrigger.BROKEN)

    def _move_input(self, trigger: HalfTrigger) -> None:
        self._state.input = INPUT[self._state.input, trigger]
        if not self._state.writable:
            self.frames.clear()
