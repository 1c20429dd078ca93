"""The core of a query: the events of its connection in, items for its user and the ending out.

A query is a connection with an ending table (`protocol.states.query`): each event becomes a `Trigger`, and the cell of the table says
what the user gets and which state follows. It is the same for both launches; nothing here waits or knows a clock.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from hackamore._engine.protocol import events
from hackamore._engine.protocol.diagnostics import did_not_exit, incomplete_last_line, line_skipped
from hackamore._engine.protocol.states.query import ONE_SHOT, State, Trigger, Yield
from hackamore._engine.protocol.states.session import Ending
from hackamore.errors import DecodeError, DecodeErrorLimitError, LineTooLongError, PartialResult, StreamWarning
from hackamore.messages import AssistantMessage, ResultMessage, StreamEvent, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hackamore._engine.protocol.connection import Connection
    from hackamore._engine.protocol.deadlines import Deadlines
    from hackamore.errors import HackamoreError, WarningCode
    from hackamore.messages import Message
    from hackamore.messages.system import BackgroundTask
    from hackamore.options.bounds import Timeouts
    from hackamore.options.options import Options

    Item = Message | StreamWarning | DecodeError

_OVER = (State.ENDING, State.CLOSED)


_RECENT_BYTES = 1024 * 1024
_MANY = 8
_OBJECT_BYTES = 700
"""The memory of a message besides its line: of short messages it is the larger part."""


class Recent:
    """The last complete messages of a query or turn, for `error.partial`: 1 MiB at most, and the last dropped one with a text.

    Of a batch with many only the lines are kept: objects that outlive their reader take a fifth of the time of a flood.
    """

    __slots__ = ("_batches", "_size", "_spoken")

    def __init__(self) -> None:
        self._batches: deque[tuple[list[Message | bytes], int]] = deque()
        self._size = 0
        self._spoken: Message | None = None

    def add(self, messages: list[Message], size: int) -> None:
        """Add a batch of about `size` bytes; the list must not change any more. Pieces of messages are left out."""
        if len(messages) == 1 and messages[0].__class__ is StreamEvent:
            return  # a token at a time
        if StreamEvent in map(type, messages):
            messages = [message for message in messages if message.__class__ is not StreamEvent]
            if not messages:
                return
            size = sum(len(message.raw) for message in messages)
        batch: list[Any] = messages
        if len(messages) >= _MANY:
            batch = list(map(_raw, messages))
        else:
            size += _OBJECT_BYTES * len(messages)
        self._batches.append((batch, size))
        self._size += size
        while self._size > _RECENT_BYTES and len(self._batches) > 1:  # the last batch stays, however large
            dropped, size = self._batches.popleft()
            self._size -= size
            for each in reversed(dropped):
                # Few lines are decoded for this: it is done once for each read.
                if each.__class__ is not bytes or b'"text"' in each:
                    message = _message(each)
                    if _text(message):
                        self._spoken = message
                        break

    def partial(self, session_id: str | None) -> PartialResult:
        """Return the messages as the partial result of an error."""
        recent = [_message(each) for batch, _ in self._batches for each in batch]
        if self._spoken is not None and not last_text(recent):
            recent.insert(0, self._spoken)
        return partial_of(recent, session_id)


_raw = attrgetter("raw")


def _message(kept: Message | bytes) -> Message:
    return decode(kept, id) if isinstance(kept, bytes) else kept  # type: ignore[return-value]  # it was a message


def partial_of(messages: Sequence[Message], session_id: str | None) -> PartialResult:
    results = [message for message in messages if isinstance(message, ResultMessage)]
    last = results[-1] if results else None
    usage = last.usage if last is not None else None
    if usage is None:
        usages = [message.usage for message in messages if isinstance(message, AssistantMessage)]
        usage = usages[-1] if usages else None
    return PartialResult(
        messages,
        # Where an error has a `result`, as that of an API failure, it is the error's text and no answer.
        text=last_text(messages) if last is None or last.is_error else last.result or last_text(messages),
        session_id=session_id or (last.session_id if last is not None else None) or None,
        usage=usage,
        cost=last.total_cost_usd if last is not None else None,
    )


def last_text(messages: Sequence[Message]) -> str:
    """Return the text of the last assistant message of the main loop that has one."""
    return next((text for message in reversed(messages) if (text := _text(message))), "")


def _text(message: Message) -> str:
    return message.text if isinstance(message, AssistantMessage) and message.parent_tool_use_id is None else ""


class TextDeltas:
    """Takes the text of the answer out of messages: deltas where the CLI streams them, whole messages otherwise."""

    def __init__(self) -> None:
        self._streamed = False

    def of(self, message: Message) -> str:
        """Return the text that a message adds; empty if it adds none."""
        if isinstance(message, StreamEvent):
            delta = message.text_delta if message.parent_tool_use_id is None else None  # subagents stream as well
            self._streamed = self._streamed or bool(delta)
            return delta or ""
        text = _text(message)
        if text and self._streamed:
            self._streamed = False  # its deltas came before it
            return ""
        return text


class QueryCore:
    """The items of a query that were not taken yet, and how it ends."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self.items: deque[Item] = deque()
        self.state: State = State.STREAMING
        self.terminal_error: HackamoreError | None = None
        self.results: list[ResultMessage] = []
        self.recent: Recent = Recent()
        self.connection = connection
        self.line_bytes: int = options.limits.line_bytes
        self._bad_line_limit = options.limits.consecutive_decode_errors
        self._skip_long_lines = options.on_oversize == "skip"
        self._strict_exit_status = options.strict_exit_status
        self._incomplete: bytes | None = None

    @property
    def over(self) -> bool:
        """True once no further item can come: stop the process, then give the end or raise `terminal_error`."""
        return self.state in _OVER

    @property
    def last_result(self) -> ResultMessage | None:
        return self.results[-1] if self.results else None

    # -- triggers ----------------------------------------------------------------------------------------------------

    def messages(self, messages: list[Message], size: int) -> None:
        """Apply messages that have about `size` bytes together. A result comes alone."""
        self.recent.add(messages, size)
        self._move(Trigger.RESULT if isinstance(messages[-1], ResultMessage) else Trigger.MESSAGE, messages)

    def warned(self, warning: StreamWarning) -> None:
        if not self.over:
            self.items.append(warning)

    def broken_line(self, line: events.BadLine | events.LongLine | events.IncompleteLine) -> None:
        """Apply a line that cannot be used."""
        match line:
            case events.BadLine():
                at_limit = line.count >= self._bad_line_limit
                self._move(Trigger.BAD_LINE_LIMIT if at_limit else Trigger.BAD_LINE, line)
            case events.LongLine():
                skipped = Trigger.OVERSIZED_LINE_SKIPPED
                self._move(skipped if self._skip_long_lines else Trigger.OVERSIZED_LINE, line)
            case events.IncompleteLine():
                self._incomplete = line.line  # its meaning depends on the exit

    def prompt_taken(self) -> None:
        """Apply that the CLI works on a further prompt."""
        self._move(Trigger.PROMPT)

    def given_up(self, error: HackamoreError) -> None:
        """Apply that this side does not wait for the turn any longer."""
        self._move(Trigger.DEADLINE, error)

    def still_running(self, seconds: float, stderr_tail: bytes) -> None:
        """Apply that the CLI did not exit in time."""
        self._move(Trigger.STILL_RUNNING, _Exit(None, stderr_tail, seconds))

    def ended(self, event: events.Ended) -> None:
        if event.ending is Ending.STOPPED:
            self._move(Trigger.STOPPED)
        elif event.by_exit:
            self._exited(event.exit_code)
        else:
            self._move(Trigger.FAILED, event.error)

    def asked_at_the_end(self) -> None:
        """Apply that the user asks for the next item when no further one can come."""
        self._move(Trigger.ASKED_AT_THE_END)

    def _exited(self, exit_code: int | None) -> None:
        connection = self.connection
        if exit_code is None and self.results:
            exit_code = 0  # the exit code is unknown, and the CLI sent a result
        if self._incomplete is not None and (exit_code == 0 or self.state is State.RESULT_RECEIVED):
            self._move(Trigger.INCOMPLETE_LAST_LINE, self._incomplete)  # otherwise the error quotes it
        after_error = self.state is State.RESULT_RECEIVED and self.results[-1].is_error
        if exit_code == 0 or after_error:  # the CLI exits 1 after each error result
            empty = not connection.reader.received and not self.results
            trigger = Trigger.EXITED_EMPTY if empty else Trigger.EXITED_CLEAN
        elif self._strict_exit_status:
            trigger = Trigger.EXITED_WITH_ERROR_STRICT
        else:
            trigger = Trigger.EXITED_WITH_ERROR
        self._move(trigger, _Exit(exit_code, connection.state.stderr_tail))

    def _move(self, trigger: Trigger, fact: Any = None) -> None:
        cell = ONE_SHOT[self.state, trigger]
        self.state = cell.then
        match cell.gives:
            case Yield.MESSAGE:
                self.items.extend(fact)
                if isinstance(fact[-1], ResultMessage):
                    self.results.append(fact[-1])
            case Yield.DECODE_ERROR:
                self.items.append(fact.error)
            case Yield.WARN_OVERSIZED_LINE_SKIPPED:
                self.items.append(line_skipped(fact.size, fact.head, self.line_bytes))
            case Yield.WARN_UNEXPECTED_DATA_AFTER_RESULT:
                data = fact if isinstance(fact, bytes) else fact.error.line
                text = "Data that is not a message came after the result."
                self.give("UNEXPECTED_DATA_AFTER_RESULT", text, line=data[:2_000])
            case Yield.WARN_INCOMPLETE_LAST_LINE:
                self.items.append(incomplete_last_line(fact))
            case Yield.WARN_EMPTY_RESPONSE:
                text = "The CLI exited with code 0 and printed nothing."
                self.give("EMPTY_RESPONSE", text, exit_code=fact.exit_code)
            case Yield.WARN_CLEAN_EXIT_NO_RESULT:
                text = "The CLI exited with code 0 before a result came."
                self.give("CLEAN_EXIT_NO_RESULT", text, exit_code=fact.exit_code)
            case Yield.WARN_NONZERO_EXIT_AFTER_RESULT:
                text = f"The CLI exited with code {fact.exit_code} after a successful result."
                tail = fact.stderr_tail.decode("utf-8", "replace")
                self.give("NONZERO_EXIT_AFTER_RESULT", text, exit_code=fact.exit_code, stderr_tail=tail)
            case Yield.WARN_CLI_DID_NOT_EXIT:
                self.items.append(did_not_exit(fact.waited, self.connection.conversation.background_tasks))
            case Yield.RAISE_TOO_MANY_DECODE_ERRORS:
                self.terminal_error = DecodeErrorLimitError(fact.count, fact.error)
            case Yield.RAISE_LINE_TOO_LONG:
                self.terminal_error = LineTooLongError(fact.size, self.line_bytes, fact.head)
            case Yield.RAISE_PROCESS_ERROR:
                self.terminal_error = self.connection.process_failure(fact.exit_code, fact.stderr_tail)
            case Yield.RAISE_TURN_TIMEOUT | Yield.RAISE_FAILURE:
                self.terminal_error = fact
            case Yield.END | Yield.NOTHING:
                pass

    def give(self, code: WarningCode, message: str, **context: object) -> None:
        self.items.append(StreamWarning(code, message, context))


class _Exit:
    """An exit, or that it did not come within `waited` seconds."""

    __slots__ = ("exit_code", "stderr_tail", "waited")

    def __init__(self, exit_code: int | None, stderr_tail: bytes, waited: float = 0.0) -> None:
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        self.waited = waited


class Overtime:
    """Limits how long the CLI may stay after the last prompt was answered: silent (`after_result`), or with tasks (`background`)."""

    def __init__(self, timeouts: Timeouts, deadlines: Deadlines) -> None:
        self._after_result = timeouts.after_result
        self._background = timeouts.background
        self._deadlines = deadlines

    def heard(self, messages: list[Message]) -> None:
        """Count silence from here; after a result, background work as well."""
        self._deadlines.disarm("after_result", "")
        if isinstance(messages[-1], ResultMessage):
            self._deadlines.disarm("background", "")

    def look(self, tasks: Iterable[BackgroundTask], *, waits: bool) -> None:
        """Start or remove the timeouts; `waits` tells whether the exit of the CLI is all that is left to come."""
        busy = waits and any(not task.ambient for task in tasks)  # ambient tasks always run
        self._run("background", self._background, busy)
        self._run("after_result", self._after_result, waits and not busy)

    def _run(self, kind: str, seconds: float | None, runs: bool) -> None:
        if not runs:
            self._deadlines.disarm(kind, "")
        elif not self._deadlines.is_armed(kind, ""):  # only `heard` starts it again
            self._deadlines.arm(kind, "", seconds)
