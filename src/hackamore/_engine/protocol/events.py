"""Events of a connection. Values; what happened is already true of the connection when they are taken.

Messages come in batches, because one read may bring a thousand and none of them should cost more than its place in a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from hackamore._engine.protocol.control_table import ControlRow
    from hackamore._engine.protocol.states.session import Ending, SessionActivity, TurnState
    from hackamore.errors import DecodeError, HackamoreError, StreamWarning
    from hackamore.messages import Message
    from hackamore.messages.control import ControlRequest, TranscriptMirror
    from hackamore.messages.conversation import UserMessage
    from hackamore.messages.results import ControlResult, ServerInfo
    from hackamore.messages.system import BackgroundTask


class Event(msgspec.Struct, frozen=True, eq=False):
    """The base of all events."""


class TranscriptMirrored(Event, frozen=True, eq=False):
    """The CLI wrote entries to a transcript. Only for connections that are `mirrored`."""

    frame: TranscriptMirror


class HandshakeCompleted(Event, frozen=True, eq=False):
    """The session is ready. `server_info` is None if the handshake was only confirmed implicitly."""

    server_info: ServerInfo | None


class HandshakeFailed(Event, frozen=True, eq=False):
    """The session did not become ready: `Ended` follows."""

    error: HackamoreError


class OperationsReleased(Event, frozen=True, eq=False):
    """The frames that were held for the handshake were written; `implicitly` if the CLI has not answered `initialize` yet."""

    implicitly: bool


class RequestReceived(Event, frozen=True, eq=False):
    """The peer sent a request: exactly one answer, or `expire`, ends it."""

    request_id: str  # to be given to `send_response`, `send_error`, `fail_request` or `expire`
    subtype: str
    frame: ControlRequest  # `frame.request_raw` are the bytes of the request, `frame.request` is decoded when touched
    row: ControlRow  # its row in the table, with the class of its timeout and its answer in case of failure


class RequestCancelled(Event, frozen=True, eq=False):
    """A request of the peer is over without an answer of its handler, which is to be stopped.

    It was `cancelled` by the peer (nothing is written), `expired` or `stopping` (the safe answer was written), or `ended` with the session.
    """

    request_id: str
    subtype: str
    reason: Literal["cancelled", "expired", "stopping", "ended"]


class RequestResolved(Event, frozen=True, eq=False):
    """A request of this side is over: with its answer, or with an error: rejected, too late, cancelled, or the session ended."""

    request_id: str
    operation: str
    result: ControlResult | None = None
    error: HackamoreError | None = None


class MessagesReceived(Event, frozen=True, eq=False):
    """Messages, at least one, in the order of the wire, of these prompts: none, one, or all that are answered together."""

    messages: list[Message]
    turn_ids: tuple[str, ...] = ()


class TurnStateChanged(Event, frozen=True, eq=False):
    """A prompt of this side has moved one step. `error` is the session's, if its end is the reason; a failed result speaks for itself."""

    turn_id: str
    state: TurnState
    error: HackamoreError | None = None


class LoginRefused(Event, frozen=True, eq=False):
    """The API refused the login again. The CLI would repeat the request for minutes: these prompts end with the error."""

    turn_ids: tuple[str, ...]
    error: HackamoreError


class ActivityChanged(Event, frozen=True, eq=False):
    """The CLI reports another state."""

    activity: SessionActivity


class BackgroundTasksChanged(Event, frozen=True, eq=False):
    """Other tasks run in the background: these."""

    tasks: tuple[BackgroundTask, ...]


class WarningRaised(Event, frozen=True, eq=False):
    """Something was degraded."""

    warning: StreamWarning


class BadLine(Event, frozen=True, eq=False):
    """A line was not a JSON object. `count` is the number of such lines in a row, this one included."""

    error: DecodeError
    count: int


class LongLine(Event, frozen=True, eq=False):
    """A line was longer than the limit. Its bytes are skipped; `size` is its length so far."""

    size: int
    head: bytes


class IncompleteLine(Event, frozen=True, eq=False):
    """The output ended in the middle of a line that cannot be read."""

    line: bytes


class PromptReceived(Event, frozen=True, eq=False):
    """Role CLI only: the host sent a prompt."""

    message: UserMessage
    uuid: str | None


class Ended(Event, frozen=True, eq=False):
    """The session is over, and everything that was open has been resolved before. The last event."""

    ending: Ending
    error: HackamoreError | None = None
    exit_code: int | None = None
    by_exit: bool = False  # True if the exit of the process ended it
