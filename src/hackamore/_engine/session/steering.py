"""The audience of a query over the bidirectional launch: the same query core, its prompts, and the limit of unread messages.

Everything that comes goes through the ending table, in order, when it comes; the stream takes the items in portions. The input is closed
when all prompts were sent and the joint rule allows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hackamore._engine.protocol.deadlines import TURN_KINDS
from hackamore._engine.protocol.states.session import TurnState
from hackamore._engine.queries.ending import Overtime, QueryCore
from hackamore._engine.queries.prompts import Feeder, is_many, one_prompt
from hackamore._engine.session.events import SessionStarted, WarningRaised
from hackamore._engine.session.readers import Readers, size_of
from hackamore.errors import (
    BudgetError,
    HackamoreError,
    PromptIterableError,
    SessionClosedError,
    StartError,
    escape_terminal,
    text_of,
)
from hackamore.runtime.flags import Flag

if TYPE_CHECKING:
    from hackamore._engine.protocol import events
    from hackamore._engine.queries.ending import Item
    from hackamore._engine.queries.prompts import OnePrompt
    from hackamore._engine.session.core import SessionCore
    from hackamore._engine.session.events import SessionEvent
    from hackamore._engine.session.readers import BrokenLine, Inbox, Progress
    from hackamore.errors import StreamWarning
    from hackamore.messages import Message

_PORTION = 1_000
"""How many items the stream takes without letting other tasks run."""


class SteeredQuery:
    """The audience of a query. `more` is woken when an item was added, or none can follow."""

    fail_on_bad_lines: ClassVar[bool] = False
    in_order: ClassVar[bool] = True
    # The last two start when the input is closed, which another thread may do while the reader waits.
    late_timeouts: ClassVar[tuple[str, ...]] = (*TURN_KINDS, "after_result", "background")

    def __init__(self, session: SessionCore[Any]) -> None:
        self.core: QueryCore = QueryCore(session.connection, session.options)
        self.more: Flag = Flag()
        self._session = session
        self._connection = session.connection
        self._overtime = Overtime(session.options.timeouts, session.deadlines)
        self._unread = 0
        self._added = 0
        self._readers = Readers(session, lambda: self._unread)  # callbacks may also send prompts and read
        self._feeder: Feeder | None = None
        self._sent = 0
        self._unanswered = False

    # -- the reader ----------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """True once all items were taken and none can follow."""
        return self.core.over and not self.core.items

    @property
    def tells_the_end(self) -> bool:
        """True if the stream says how a start failed: because of a prompt, or by a result in place of a start."""
        error = self._session.start_error
        return not isinstance(error, StartError) or (
            self._connection.state.exited and self._connection.conversation.last_result is not None
        )

    def take(self) -> list[Item]:
        """Return the next items, as many as are given without letting other tasks run."""
        items = self.core.items
        portion = [items.popleft() for _ in range(min(len(items), _PORTION))]
        self._unread -= sum(map(size_of, portion))
        return portion

    # -- prompts -------------------------------------------------------------------------------------------------------

    def send_all(self, prompts: object, now: float) -> None:
        """Send one prompt now, or begin to read an iterable of them as soon as the session is ready."""
        if is_many(prompts):
            self._feeder = Feeder(prompts, self._send_later, self._prompts_ended)
            return
        self._send(one_prompt(prompts), now)
        self._connection.outbox.close_input()

    def _send(self, prompt: OnePrompt, now: float) -> None:
        self._session.send(prompt.content, prompt.fields, now, prompt.turn_id)
        self._sent += 1

    def _send_later(self, prompt: OnePrompt) -> None:
        def send() -> None:
            try:
                self._send(prompt, self._session.deadlines.now)
            except SessionClosedError:
                pass  # the reader gets the reason
            except BudgetError as error:  # not a defect of the iterable
                self._connection.fail(error)
            except (HackamoreError, ValueError) as error:  # ValueError: its id is taken
                problem = PromptIterableError(self._sent, escape_terminal(text_of(error), 500))
                problem.__cause__ = error
                self._connection.fail(problem)

        self._session.post(send)

    def _prompts_ended(self, problem: PromptIterableError | None) -> None:
        def end() -> None:  # after the prompts, which are posted as well
            if problem is not None:
                self._connection.fail(problem)
            elif not self._connection.state.over:
                self._connection.outbox.close_input()

        self._session.post(end)

    # -- what the core of the session calls ----------------------------------------------------------------------------

    def add(self, inbox: Inbox, *, events: bool) -> None:
        self._readers.add(inbox, events=events)

    def sent(self, turn: Progress) -> None:
        """Keep a turn, for as long as a callback does."""
        self._readers.sent(turn)

    def messages(self, messages: list[Message], turn_ids: tuple[str, ...], *, to_cursors: bool = True) -> None:
        self._overtime.heard(messages)
        if not self.core.over:
            size = sum(len(message.raw) for message in messages)
            self.core.messages(messages, size)
            self._unread += size
            self._added += size
            self._readers.held()
            self.more.wake()
        self._readers.messages(messages, turn_ids, to_cursors=to_cursors)

    def held(self) -> None:
        self._readers.held()

    def warned(self, warning: StreamWarning) -> None:
        self.core.warned(warning)
        self.session_event(WarningRaised(warning))
        self.more.wake()

    def broken_line(self, line: BrokenLine) -> None:
        items = self.core.items
        before = len(items)
        self.core.broken_line(line)
        if len(items) > before:
            self._unread += size_of(items[-1])
        self._judged()

    def turn_changed(self, event: events.TurnStateChanged) -> None:
        self._readers.turn_changed(event)
        if event.state is TurnState.STARTED:
            self.core.prompt_taken()
        elif event.state.over:
            self._unanswered = self._unanswered or event.error is not None
            if self._feeder is not None:
                self._feeder.answered()

    def turn_given_up(self, turn_id: str, error: HackamoreError) -> None:
        self.core.prompt_taken()  # it may be one that waits behind an answered one
        self.core.given_up(error)
        self._judged()

    def session_event(self, event: SessionEvent) -> None:
        """Tell the event cursors of callbacks; begin to read the prompts when the session is ready."""
        self._readers.session_event(event)
        if isinstance(event, SessionStarted) and self._feeder is not None:
            self._session.callbacks.start(self._feeder.job)  # not before: an iterable can be read only once

    def progress(self) -> tuple[int, int]:
        unread, taken = self._readers.progress()
        return self._unread + unread, self._added - self._unread + taken

    def pumped(self) -> None:
        """Limit how long the CLI may stay once every prompt was answered."""
        connection = self._connection
        state = connection.state
        waits = state.finishing and not (state.over or state.input_closed or len(connection.turns))
        self._overtime.look(connection.conversation.background_tasks, waits=waits)

    def exit_timeout_expired(self, kind: str, seconds: float, stderr_tail: bytes) -> None:
        """End the query, unless the CLI waits for an answer of a callback."""
        if kind in ("after_result", "background") and self._connection.exchanges.in_flight:
            self._session.deadlines.arm(kind, "", seconds)
            return
        self.core.still_running(seconds, stderr_tail)
        self._judged()

    def ended(self, event: events.Ended) -> None:
        """End the query as the table says, and stop reading the prompts."""
        if self._feeder is not None:
            self._session.callbacks.drop(self._feeder.job)
            self._feeder.answered()  # it may wait for room
        if self._unanswered and self._session.start_error is None:
            self.core.prompt_taken()  # an earlier result does not hide that this prompt has none
        self.core.ended(event)
        self._readers.ended(event)
        self.more.wake()

    def _judged(self) -> None:
        if self.core.over and not self._connection.state.over:
            if self.core.terminal_error is not None:
                self._connection.fail(self.core.terminal_error)
            else:
                self._session.stop.ask()
        self.more.wake()
