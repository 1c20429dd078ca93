"""The core of a query: the events of its connection in, items for its user and the ending out.

A query is a connection with an ending table (`protocol.states.query`): each event becomes a `Trigger`, and the cell of the table says
what the user gets and which state follows. It is the same for both launches; nothing here waits or knows a clock.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from hackamore._engine.protocol import events
from hackamore._engine.protocol.diagnostics import did_not_exit, incomplete_last_line, line_skipped
from hackamore._engine.protocol.states.query import ONE_SHOT, State, Trigger, Yield
from hackamore._engine.protocol.states.session import Ending
from hackamore.errors import DecodeError, DecodeErrorLimitError, LineTooLongError, PartialResult, StreamWarning
from hackamore.messages import AssistantMessage, ResultMessage, StreamEvent, TextBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hackamore._engine.protocol.connection import Connection
    from hackamore._engine.protocol.deadlines import Deadlines
    from hackamore.errors import HackamoreError, WarningCode
    from hackamore.messages import Message
    from hackamore.options.bounds import Timeouts
    from hackamore.options.options import Options

    Item = Message | StreamWarning | DecodeError

_OVER = (State.ENDING, State.CLOSED)


_RECENT_BYTES = 16 * 1024 * 1024
_OBJECT_BYTES = 700
"""The memory of a message besides its line: of short messages it is the larger part."""


class Recent:
    """The last messages of a query or turn, for `error.partial`: 16 MiB at most."""

    __slots__ = ("_batches", "_size")

    def __init__(self) -> None:
        self._batches: deque[tuple[list[Message], int]] = deque()
        self._size = 0

    def add(self, messages: list[Message], size: int) -> None:
        """Add a batch of `size` bytes; the list must not change any more."""
        size += len(messages) * _OBJECT_BYTES
        self._batches.append((messages, size))
        self._size += size
        while self._size > _RECENT_BYTES and len(self._batches) > 1:
            self._size -= self._batches.popleft()[1]

    def partial(self, session_id: str | None) -> PartialResult:
        """Return the messages as the partial result of an error."""
        return partial_of([message for batch, _ in self._batches for message in batch], session_id)


def partial_of(messages: Sequence[Message], session_id: str | None) -> PartialResult:
    """Return messages as the partial result of an error."""
    results = [message for message in messages if isinstance(message, ResultMessage)]
    last = results[-1] if results else None
    usage = last.usage if last is not None else None
    if usage is None:
        usages = [message.usage for message in messages if isinstance(message, AssistantMessage)]
        usage = usages[-1] if usages else None
    return PartialResult(
        messages,
        text=last_text(messages) if last is None or last.is_error else last.result or last_text(messages),
        session_id=session_id or (last.session_id if last is not None else None) or None,
        usage=usage,
        cost=last.total_cost_usd if last is not None else None,
    )


def last_text(messages: Sequence[Message]) -> str:
    """Return the text of the last assistant message of the main loop that has one."""
    return next((text for message in reversed(messages) if (text := _text(message))), "")


def _text(message: Message) -> str:
    if not isinstance(message, AssistantMessage) or message.parent_tool_use_id is not None:
        return ""
    return "".join(block.text for block in message.content if isinstance(block, TextBlock))


class TextDeltas:
    """Takes the text of the answer out of messages: deltas where the CLI streams them, whole messages otherwise."""

    def __init__(self) -> None:
        self._streamed = False

    def of(self, message: Message) -> str:
        """Return the text that a message adds; empty if it adds none."""
        if isinstance(message, StreamEvent):
            delta = message.text_delta if message.parent_tool_use_id is None else None
            self._streamed = self._streamed or bool(delta)
            return delta or ""
        text = _text(message)
        if text and self._streamed:
            self._streamed = False  # its deltas came before it
            return ""
        return text


class QueryCore:
    """The items of a query, and how it ends.

    Attributes:
        items: the items that were not taken yet.
        state: the state in the ending table.
    """

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
        """The last result so far."""
        return self.results[-1] if self.results else None

    # -- triggers ----------------------------------------------------------------------------------------------------

    def messages(self, messages: list[Message], size: int) -> None:
        """Apply messages that have about `size` bytes together. A result comes alone."""
        self.recent.add(messages, size)
        self._move(Trigger.RESULT if isinstance(messages[-1], ResultMessage) else Trigger.MESSAGE, messages)

    def warned(self, warning: StreamWarning) -> None:
        """Give a ready warning."""
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
        """Apply the end of the connection."""
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
            self._move(Trigger.INCOMPLETE_LAST_LINE, self._incomplete)
        after_error = self.state is State.RESULT_RECEIVED and self.results[-1].is_error
        if exit_code == 0 or after_error:
            empty = not connection.received and not self.results
            trigger = Trigger.EXITED_EMPTY if empty else Trigger.EXITED_CLEAN
        elif self._strict_exit_status:
            trigger = Trigger.EXITED_WITH_ERROR_STRICT
        else:
            trigger = Trigger.EXITED_WITH_ERROR
        self._move(trigger, _Exit(exit_code, connection.stderr_tail))

    def _move(self, trigger: Trigger, fact: Any = None) -> None:
        """Look up the cell and do what it says."""
        cell = ONE_SHOT[self.state, trigger]
        self.state = cell.then
        _GIVES[cell.gives](self, fact)

    def give(self, code: WarningCode, message: str, **context: object) -> None:
        """Add a warning to the items."""
        self.items.append(StreamWarning(code, message, context))


class _Exit:
    """An exit, or that it did not come within `waited` seconds."""

    __slots__ = ("exit_code", "stderr_tail", "waited")

    def __init__(self, exit_code: int | None, stderr_tail: bytes, waited: float = 0.0) -> None:
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        self.waited = waited


# -- what a cell gives: one function for each `Yield`, called with the fact of the trigger ---------------------------


def _nothing(core: QueryCore, fact: object) -> None:
    """Give nothing."""


def _messages(core: QueryCore, messages: list[Message]) -> None:
    core.items.extend(messages)
    if isinstance(messages[-1], ResultMessage):
        core.results.append(messages[-1])


def _decode_error(core: QueryCore, line: events.BadLine) -> None:
    core.items.append(line.error)


def _too_many_decode_errors(core: QueryCore, line: events.BadLine) -> None:
    core.terminal_error = DecodeErrorLimitError(line.count, line.error)


def _line_too_long(core: QueryCore, line: events.LongLine) -> None:
    core.terminal_error = LineTooLongError(line.size, core.line_bytes, line.head)


def _given_error(core: QueryCore, error: HackamoreError) -> None:
    core.terminal_error = error


def _process_error(core: QueryCore, exited: _Exit) -> None:
    core.terminal_error = core.connection.process_failure(exited.exit_code, exited.stderr_tail)


def _oversized_line_skipped(core: QueryCore, line: events.LongLine) -> None:
    core.items.append(line_skipped(line.size, line.head, core.line_bytes))


def _unexpected_data(core: QueryCore, line: events.BadLine | bytes) -> None:
    data = line if isinstance(line, bytes) else line.error.line
    core.give("UNEXPECTED_DATA_AFTER_RESULT", "Data that is not a message came after the result.", line=data[:2_000])


def _incomplete_last_line(core: QueryCore, line: bytes) -> None:
    core.items.append(incomplete_last_line(line))


def _empty_response(core: QueryCore, exited: _Exit) -> None:
    core.give("EMPTY_RESPONSE", "The CLI exited with code 0 and printed nothing.", exit_code=exited.exit_code)


def _clean_exit_no_result(core: QueryCore, exited: _Exit) -> None:
    text = "The CLI exited with code 0 before a result came."
    core.give("CLEAN_EXIT_NO_RESULT", text, exit_code=exited.exit_code)


def _nonzero_exit_after_result(core: QueryCore, exited: _Exit) -> None:
    core.give(
        "NONZERO_EXIT_AFTER_RESULT",
        f"The CLI exited with code {exited.exit_code} after a successful result.",
        exit_code=exited.exit_code,
        stderr_tail=exited.stderr_tail.decode("utf-8", "replace"),
    )


def _cli_did_not_exit(core: QueryCore, exited: _Exit) -> None:
    core.items.append(did_not_exit(exited.waited, core.connection.background_tasks))


_GIVES: dict[Yield, Callable[[QueryCore, Any], None]] = {
    Yield.MESSAGE: _messages,
    Yield.DECODE_ERROR: _decode_error,
    Yield.WARN_OVERSIZED_LINE_SKIPPED: _oversized_line_skipped,
    Yield.WARN_UNEXPECTED_DATA_AFTER_RESULT: _unexpected_data,
    Yield.WARN_INCOMPLETE_LAST_LINE: _incomplete_last_line,
    Yield.WARN_EMPTY_RESPONSE: _empty_response,
    Yield.WARN_CLEAN_EXIT_NO_RESULT: _clean_exit_no_result,
    Yield.WARN_NONZERO_EXIT_AFTER_RESULT: _nonzero_exit_after_result,
    Yield.WARN_CLI_DID_NOT_EXIT: _cli_did_not_exit,
    Yield.RAISE_TOO_MANY_DECODE_ERRORS: _too_many_decode_errors,
    Yield.RAISE_LINE_TOO_LONG: _line_too_long,
    Yield.RAISE_PROCESS_ERROR: _process_error,
    Yield.RAISE_TURN_TIMEOUT: _given_error,
    Yield.RAISE_FAILURE: _given_error,
    Yield.END: _nothing,
    Yield.NOTHING: _nothing,
}


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

    def look(self, connection: Connection, *, waits: bool) -> None:
        """Start or remove the timeouts; `waits` tells whether the exit of the CLI is all that is left to come."""
        busy = waits and any(not task.ambient for task in connection.background_tasks)
        self._run("background", self._background, busy)
        self._run("after_result", self._after_result, waits and not busy)

    def _run(self, kind: str, seconds: float | None, runs: bool) -> None:
        if not runs:
            self._deadlines.disarm(kind, "")
        elif not self._deadlines.is_armed(kind, ""):
            self._deadlines.arm(kind, "", seconds)
