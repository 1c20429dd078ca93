"""Bytes into frames: framing, decoding, the count of bad lines, the last line without a line end.

The one reader of a peer's output, for queries and sessions, hosts and the simulated CLI. Frames that change nothing else go straight
into the batch of messages, so that one of them costs no more than decoding it; everything else is handed to the connection, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.errors import DecodeError
from bridle.messages import (
    MESSAGE_TYPES,
    AssistantMessage,
    BackgroundTasksChangedMessage,
    CommandLifecycleMessage,
    Frame,
    InitMessage,
    ResultMessage,
    SessionStateChangedMessage,
    StreamEvent,
    TaskNotificationMessage,
    TaskUpdatedMessage,
    UserMessage,
    decode,
)
from bridle.messages.control import ControlCancelRequest, ControlRequest, ControlResponse
from bridle.messages.decode import decode_run
from bridle.protocol.framing import LineFramer, OversizedLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bridle.protocol.event_queue import EventQueue

__all__ = ["NOTHING_PLAIN", "PLAIN", "PLAIN_AND_NAMELESS", "Kinds", "Reading"]

Kinds = frozenset[type[Frame]]

PLAIN: Kinds = frozenset(MESSAGE_TYPES.values()) - {
    ResultMessage,
    InitMessage,
    SessionStateChangedMessage,
    BackgroundTasksChangedMessage,
    TaskNotificationMessage,
    TaskUpdatedMessage,
    CommandLifecycleMessage,
}
"""Messages that change nothing else: almost every frame."""
PLAIN_AND_NAMELESS: Kinds = frozenset(
    kind for kind in PLAIN if not {"user_message_uuid", "user_message_uuids"} & set(kind.__struct_fields__)
) - {AssistantMessage, StreamEvent}
"""The same while an ordinary frame may tell which prompt is being answered."""
NOTHING_PLAIN: Kinds = frozenset()
"""For the role CLI, which delivers no messages."""
_DECODED_ONCE: Kinds = frozenset(
    (
        AssistantMessage,
        UserMessage,
        ResultMessage,
        CommandLifecycleMessage,
        ControlRequest,
        ControlResponse,
        ControlCancelRequest,
    )
)
"""Frames that need attention and no second look: a `StreamEvent` needs one, and a `system` frame is not recognised by the first."""


class Reading:
    """Reads the output of a peer, and counts the undecodable lines since the last frame.

    Args:
        line_bytes: the most bytes a line may have.
        queue: gets plain messages and the warnings of the decoder.
        plain: returns the classes that may go straight to the queue; called again after every frame that did not.
    """

    __slots__ = ("_framer", "_plain", "_queue", "bad_lines", "last_bad_line", "received")

    def __init__(self, line_bytes: int, queue: EventQueue, plain: Callable[[], Kinds]) -> None:
        self.received = False
        self.bad_lines = 0
        self.last_bad_line: bytes | None = None
        self._framer = LineFramer(line_bytes)
        self._queue = queue
        self._plain = plain

    def receive_data(self, data: bytes) -> Iterator[Frame | DecodeError | OversizedLine]:
        """Read; yield, in order, all that is not a plain message. Whoever stops iterating drops the rest."""
        self.received = True
        lines = iter(self._framer.receive_data(data))
        while True:
            count, line = decode_run(lines, self._plain(), self._queue.batch.append, _DECODED_ONCE)
            if count:
                self.bad_lines = 0
            if line is None:
                return
            if line.__class__ is not bytes:
                if line.__class__ is not OversizedLine:
                    self.bad_lines = 0
                yield line
                continue
            try:
                frame = decode(line, self._queue.warned)
            except DecodeError as error:
                if not line.isspace():
                    self.bad_lines += 1
                    self.last_bad_line = error.line
                    yield error
            else:
                self.bad_lines = 0
                yield frame

    def receive_eof(self) -> Frame | bytes | None:
        """Return what is left without a line end: a frame, the bytes that are none, or None."""
        tail = self._framer.receive_eof()
        if not isinstance(tail, bytes):  # a line that is too long was reported as soon as it was
            return None
        try:
            return decode(tail, self._queue.warned)
        except DecodeError:
            self.last_bad_line = tail
            return tail
