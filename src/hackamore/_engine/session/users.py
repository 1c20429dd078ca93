"""Answers, warnings and calls of callbacks: all that the users of a session get beside its messages."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from hackamore._engine.protocol.control import row_for
from hackamore._engine.session.events import WarningRaised
from hackamore.checked.functions import callback_failure
from hackamore.errors import CheckpointingNotEnabledError, StreamWarning
from hackamore.options.bounds import checked_timeout
from hackamore.runtime.flags import Flag

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Mapping

    from hackamore._engine.answering.observers import Observers
    from hackamore._engine.protocol.conversation import ConversationState
    from hackamore._engine.protocol.deadlines import Deadlines
    from hackamore._engine.protocol.events import RequestResolved
    from hackamore._engine.protocol.exchanges import Exchanges
    from hackamore._engine.protocol.log import SessionLog
    from hackamore._engine.session.events import SessionEvent
    from hackamore.checked.functions import Reach
    from hackamore.errors import HackamoreError, WarningCode
    from hackamore.messages.results import ControlResult
    from hackamore.options.options import Options

_KEPT = 1_000  # a field that is new in each frame warns in each frame


class Warnings:
    """The last thousand warnings; `deliver` passes those on that wait. `tell` and `report` tell the audience, the second as an event."""

    def __init__(
        self,
        on_warning: Callable[[StreamWarning], object] | None,
        log: SessionLog,
        tell: Callable[[StreamWarning], None],
        report: Callable[[SessionEvent], None],
    ) -> None:
        self.kept: deque[StreamWarning] = deque(maxlen=_KEPT)
        self.waiting: deque[StreamWarning] = deque()
        self._issued: list[StreamWarning] = []
        self._on_warning = on_warning
        self._log = log
        self._tell = tell
        self._report = report

    def add(self, code: WarningCode | StreamWarning, message: str = "", **context: object) -> None:
        """Keep a warning, and tell the audience."""
        warning = code if isinstance(code, StreamWarning) else StreamWarning(code, message, context)
        self.kept.append(warning)
        self._tell(warning)

    def add_before_start(self, warning: StreamWarning) -> None:
        """Keep a warning that the caller also issues with `warnings.warn`."""
        self._issued.append(warning)
        self.add_after_end(warning)
        self._report(WarningRaised(warning))

    def add_after_end(self, warning: StreamWarning) -> None:
        """Keep a warning for the log and `on_warning`: readers have their end."""
        self.kept.append(warning)
        self.waiting.append(warning)

    def deliver(self) -> None:
        """Log new warnings and call `on_warning` for them. Called where user code may run."""
        while True:
            try:
                warning = self.waiting.popleft()
            except IndexError:  # several threads may deliver at the same time
                return
            # `warnings.warn` has shown some already.
            level = logging.DEBUG if warning in self._issued else logging.WARNING
            self._log.log(level, "%s", warning, extra={"code": warning.code})
            if self._on_warning is not None:
                try:
                    self._on_warning(warning)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    # `SystemExit`, say: it is called where it would end the driver, and trio as a whole.
                    failure = callback_failure(
                        "`on_warning`", self._on_warning, error, kind="on_warning", extra=self._log.ids()
                    )
                    self.kept.append(failure)  # without another call of `on_warning`


class Answer:
    """A control operation that waits for its answer."""

    __slots__ = ("error", "flag", "request_id", "result")

    def __init__(self, request_id: str) -> None:
        self.request_id: str = request_id
        self.flag: Flag = Flag()
        self.result: ControlResult | None = None
        self.error: HackamoreError | None = None

    def take(self) -> ControlResult:
        """Return the result, or raise the error of the operation."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # an error and the frame that raises it must not keep each other alive
        assert self.result is not None  # noqa: S101 - for the type checker
        return self.result


class Requests:
    """The control requests of callers, until they are answered, time out or are dropped."""

    def __init__(
        self, options: Options, exchanges: Exchanges, deadlines: Deadlines, observers: Observers | None
    ) -> None:
        self._options = options
        self._exchanges = exchanges
        self._deadlines = deadlines
        self._observers = observers
        self._open: dict[str, Answer] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._open

    def ask(self, subtype: str, fields: Mapping[str, Any], operation: str, timeout: float | None, now: float) -> Answer:
        """Send a control request; it can fail as `Exchanges.send_request` and `checked_timeout` do."""
        self._deadlines.now = now
        timeout = checked_timeout(timeout)  # before anything is sent
        row = row_for(subtype)
        if row is not None and row.needs and not getattr(self._options, row.needs):
            raise CheckpointingNotEnabledError
        answer = Answer(self._exchanges.send_request(subtype, fields, operation=operation))
        self._open[answer.request_id] = answer
        if self._observers is not None:
            self._observers.request_sent(answer.request_id, operation)
        if timeout is None:
            timeouts = self._options.timeouts
            timeout = timeouts.rewind if row is not None and row.deadline == "rewind" else timeouts.control
        self._deadlines.arm("request", answer.request_id, timeout)
        return answer

    def deadline_of(self, answer: Answer) -> float | None:
        """Return how many seconds an answer has."""
        return self._deadlines.seconds_of("request", answer.request_id)

    def give_up(self, answer: Answer) -> None:
        """Drop an answer that no caller waits for any more."""
        self._open.pop(answer.request_id, None)
        self._deadlines.disarm("request", answer.request_id)
        self._exchanges.cancel_request(answer.request_id)

    def resolved(self, event: RequestResolved) -> None:
        """Hand an answer to its caller."""
        self._deadlines.disarm("request", event.request_id)
        answer = self._open.pop(event.request_id, None)
        if answer is not None:
            answer.result, answer.error = event.result, event.error
            answer.flag.set()


class Reached:
    """Whom callbacks reach: the sender of the running turn, or who has the session."""

    def __init__(self, holder: Reach, conversation: ConversationState) -> None:
        self.now: Reach = holder
        self._conversation = conversation
        self._holder = holder
        self._senders: dict[str, tuple[Reach, Reach]] = {}  # with the holder of that time
        self._handed_over = False  # the work that runs is of an earlier holder

    def lend(self, conversation: str | None, caller: Any, context: contextvars.Context | None) -> None:
        """Set the caller that has the session from now on. Open work belongs to the caller before, until it is over."""
        self._holder = self._holder.lent(conversation, caller, context)
        self._handed_over = True
        self.settle()

    def settle(self) -> None:
        """Forget an earlier holder, and what its reach refers to, once none of its work is left."""
        if self._handed_over and not self._conversation.at_work:
            self.now, self._handed_over = self._holder, False

    def sender(self, context: contextvars.Context | None) -> Reach:
        """Return the reach of who sends now."""
        return self._holder.lent(self._holder.conversation, self._holder.caller, context)

    def sent(self, turn_id: str, sender: Reach, *, begins: bool) -> None:
        """Keep who has sent a turn; if it begins now, its callbacks reach them."""
        self._senders[turn_id] = sender, self._holder
        if begins:
            self.started(turn_id)

    def started(self, turn_id: str) -> None:
        self.now, holder = self._senders[turn_id]  # it was sent, and is not over
        self._handed_over = holder is not self._holder

    def over(self, turn_id: str) -> None:
        self._senders.pop(turn_id, None)
