"""The audience of a session's core: the object that gets messages, warnings and endings.

There are two: `readers.Readers` has the turns and cursors of a session, `steering.SteeredQuery` the items of a query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from bridle.errors import StreamWarning, TurnTimeoutError
    from bridle.messages import Message
    from bridle.protocol import events
    from bridle.session.events import SessionEvent
    from bridle.session.inbox import Inbox, Progress

    BrokenLine = events.BadLine | events.LongLine | events.IncompleteLine

__all__ = ["Audience"]


class Audience(Protocol):
    """What a core calls, in the order of the wire.

    Attributes:
        judges_lines: whether the connection itself decides about bad and long lines.
        late_timeouts: the timeouts, as `Timeouts` names them, that a thread may start while another one reads.
    """

    judges_lines: ClassVar[bool]
    late_timeouts: ClassVar[tuple[str, ...]]

    def __init__(self, core: Any) -> None: ...

    def add(self, inbox: Inbox, *, events: bool) -> None:
        """A cursor was made."""

    def sent(self, turn: Progress) -> None:
        """A prompt was sent."""

    def messages(self, messages: list[Message], turn_ids: tuple[str, ...]) -> None:
        """Messages came; `turn_ids` are the prompts that they answer."""

    def warned(self, warning: StreamWarning) -> None:
        """Something was degraded."""

    def broken_line(self, line: BrokenLine) -> None:
        """A line cannot be used. `LongLine` does not come if the connection judges lines."""

    def turn_changed(self, event: events.TurnStateChanged) -> None:
        """The state of a turn changed."""

    def turn_timed_out(self, turn_id: str, error: TurnTimeoutError) -> None:
        """A timeout of a turn passed."""

    def happened(self, event: SessionEvent) -> None:
        """The session itself changed."""

    def pumped(self) -> None:
        """All events were passed on, or the input was closed."""

    def overstayed(self, kind: str, seconds: float, stderr_tail: bytes) -> None:
        """The CLI did not exit in time: `after_result`, `background`, `finish` or `exit`."""

    def ended(self, event: events.Ended) -> None:
        """The session is over."""
