"""The core of a one-shot stream: bytes and happenings in, items out.

`OneShotConnection` never waits and knows no clock. A shell feeds it what the transport brings and what its clock says, takes the
items, and stops the process once `over` is true. Which happening gives what stands in `states.ONE_SHOT` and nowhere else.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from bridle.errors import DecodeError, LineTooLongError, StreamWarning, TooManyDecodeErrors, TurnTimeoutError
from bridle.messages import (
    MESSAGE_TYPES,
    BackgroundTasksChangedMessage,
    Frame,
    InitMessage,
    Message,
    ResultMessage,
    SessionStateChangedMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    decode,
)
from bridle.messages.decode import decode_run
from bridle.protocol.diagnostics import process_failure
from bridle.protocol.framing import LineFramer, OversizedLine
from bridle.protocol.states.query import ONE_SHOT, Happening, State, Yield

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridle.errors import BridleError, WarningCode

    Item = Message | StreamWarning | DecodeError

__all__ = ["Deadlines", "OneShotConnection", "PromptTaken", "SessionOver"]

logger = logging.getLogger("bridle")

_ENDED_TASK_STATES = frozenset({"completed", "failed", "stopped", "killed", "cancelled"})
_TASK_FRAMES = (BackgroundTasksChangedMessage, TaskStartedMessage, TaskNotificationMessage, TaskUpdatedMessage)

DeadlineKind = Literal["first_message", "idle", "turn", "after_result", "background", "exit"]


class Deadlines:
    """The deadlines of a stream, in seconds; None is none."""

    __slots__ = ("after_result", "background", "exit", "first_message", "idle", "turn")

    def __init__(
        self,
        *,
        first_message: float | None = None,
        idle: float | None = None,
        turn: float | None = None,
        after_result: float | None = 30.0,
        background: float | None = 600.0,
        exit: float | None = 5.0,  # noqa: A002 - the name of the deadline
    ) -> None:
        self.first_message = first_message
        self.idle = idle
        self.turn = turn
        self.after_result = after_result
        self.background = background
        self.exit = exit


class PromptTaken:
    """The CLI works on a further prompt."""

    __slots__ = ()


class SessionOver(NamedTuple):
    """A session that read for a stream is over.

    Attributes:
        exit_code: of the process.
        stderr_tail: what it printed last.
        turn_open: True if a prompt was not answered.
        stopped: True if we stopped it, for a reason that was told already.
        error: what ended it, if it was not its exit.
    """

    exit_code: int | None
    stderr_tail: bytes
    turn_open: bool
    stopped: bool
    error: BridleError | None


class OneShotConnection:
    """What a one-shot stream knows: its lines, its state, its items and its deadlines.

    Args:
        line_bytes: the most bytes a line may have.
        bad_line_limit: this many lines in a row that are no JSON objects end the stream.
        skip_oversized: pass over too long lines with a warning instead of ending.
        strict_exit_status: a non-zero exit after a success is an error and not a warning.
        deadlines: how long to wait for what.
        now: the shell's clock, in seconds; only differences count.
    """

    def __init__(
        self,
        *,
        line_bytes: int,
        bad_line_limit: int,
        skip_oversized: bool = False,
        strict_exit_status: bool = False,
        deadlines: Deadlines | None = None,
        now: float = 0.0,
    ) -> None:
        self.items: deque[Item] = deque()
        self.state = State.STREAMING
        self.terminal_error: BridleError | None = None
        self.session_id: str | None = None
        self.results: list[ResultMessage] = []
        self.output_ended = False
        self.background_tasks: set[str] = set()
        self._goes_on = False
        self._framer = LineFramer(line_bytes)
        self._line_bytes = line_bytes
        self._bad_line_limit = bad_line_limit
        self._bad_lines = 0
        self._skip_oversized = skip_oversized
        self._strict_exit_status = strict_exit_status
        self._deadlines = deadlines or Deadlines()
        self._received = False
        self._message_count = 0
        self._last_bad_line: bytes | None = None
        self._started_at = self._last_message_at = self._result_at = self._output_ended_at = now

    @property
    def over(self) -> bool:
        """True once nothing more can come: the shell stops the process, then gives the end (or `terminal_error`)."""
        return self.state is State.ENDING or self.state is State.CLOSED

    @property
    def last_result(self) -> ResultMessage | None:
        """The last result so far."""
        return self.results[-1] if self.results else None

    @property
    def turn_open(self) -> bool:
        """True while the model may be at work for us."""
        return self.last_result is None or bool(self.background_tasks) or self._goes_on

    def crashed(self, exit_code: int | None) -> bool:
        """Tell whether such an exit is a crash: then nothing that the process started may stay, else it may have been wanted."""
        by_signal = exit_code is not None and (exit_code < 0 or exit_code > 128)
        return by_signal or self.state is State.STREAMING

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes of stdout."""
        if self.over:
            return
        self._received = True
        warn = self.items.append
        append = self.items.append
        delivered = 0
        lines = iter(self._framer.receive_data(data))
        while True:
            count, line = decode_run(lines, _PLAIN, append)
            if count:
                delivered += count
                self._bad_lines = 0
            if line is None:
                break
            if type(line) is not bytes:
                self._oversized(line)
                if self.over:
                    return
                continue
            try:
                frame = decode(line, warn)
            except DecodeError as error:
                self._message_count += delivered
                delivered = 0
                if line.isspace():
                    continue
                self._bad_line(error)
                if self.over:
                    return
                continue
            if self._bad_lines:
                self._bad_lines = 0
            if frame.__class__ in _PLAIN or self._special(frame, now):
                delivered += 1
                append(frame)  # type: ignore[arg-type]  # what is plain is a message
        if delivered:
            self._message_count += delivered
            self._last_message_at = now
            if self.session_id is None:
                self._find_session_id()

    def receive_eof(self, now: float) -> None:
        """Take the end of stdout: what is left of a line is decoded, and the exit is awaited."""
        if self.output_ended:
            return
        self.output_ended = True
        self._output_ended_at = now
        tail = self._framer.receive_eof()
        if tail is None or self.over:
            return
        if isinstance(tail, OversizedLine):  # pragma: no cover - the limit was reported when it was crossed
            self._oversized(tail)
            return
        count = len(self.items)
        try:
            frame = decode(tail, self.items.append)
        except DecodeError:
            while len(self.items) > count:
                self.items.pop()
            self._last_bad_line = self._incomplete = tail
            return
        if frame.__class__ in _PLAIN or self._special(frame, now):
            self._message_count += 1
            self.items.append(frame)  # type: ignore[arg-type]
        self._last_message_at = now

    _incomplete: bytes | None = None

    def process_exited(self, exit_code: int | None, stderr_tail: bytes) -> None:
        """Take the exit; `exit_code` is None where its status cannot be known (somebody else took it, or the transport has none)."""
        if self.over:
            return
        if exit_code is None and self.last_result is not None:
            exit_code = 0  # it did what it was asked for
        if self._incomplete is not None and (exit_code == 0 or self.state is State.RESULT_RECEIVED):
            self._happen(Happening.INCOMPLETE_LAST_LINE, line=self._incomplete)
        after_error = self.state is State.RESULT_RECEIVED and self.results[-1].is_error
        if exit_code == 0 or after_error:
            empty = not self._received and self.last_result is None
            happening = Happening.EXITED_EMPTY if empty else Happening.EXITED_CLEAN
        elif self._strict_exit_status:
            happening = Happening.EXITED_WITH_ERROR_STRICT
        else:
            happening = Happening.EXITED_WITH_ERROR
        self._happen(happening, exit_code=exit_code, stderr_tail=stderr_tail)

    # -- where a session reads for us -----------------------------------------------------------------------------------

    def take(self, items: Iterable[Message | StreamWarning | DecodeError | PromptTaken | SessionOver]) -> None:
        """Take what a session has decoded, in order: the same rules as for bytes."""
        append = self.items.append
        self._received = True
        for item in items:
            kind = item.__class__
            if kind in _PLAIN:
                self._message_count += 1
                append(item)  # type: ignore[arg-type]  # what is plain is a message
            elif isinstance(item, StreamWarning):
                if item.code == "INCOMPLETE_LAST_LINE":
                    self._incomplete = item.context["line"]  # what it means depends on the exit
                else:
                    append(item)
            elif isinstance(item, DecodeError):
                self._last_bad_line = item.line
                self._happen(Happening.BAD_LINE, decode_error=item, line=item.line)
            elif isinstance(item, PromptTaken):
                self._happen(Happening.PROMPT)
            elif isinstance(item, SessionOver):
                self._session_over(item)
            elif self._special(item, 0.0):
                self._message_count += 1
                append(item)
        if self.session_id is None:
            self._find_session_id()

    def _session_over(self, end: SessionOver) -> None:
        if end.turn_open:
            self._happen(Happening.PROMPT)
        if end.error is not None:
            self.terminal_error = end.error
            self.state = State.CLOSED
        elif end.stopped:
            self.state = State.ENDING
        else:
            self.process_exited(end.exit_code, end.stderr_tail)

    def asked_at_the_end(self) -> None:
        """Take that the user asks for the next item when nothing more will come."""
        self._happen(Happening.ASKED_AT_THE_END)

    def wait_seconds(self, now: float) -> float | None:
        """Return how long the shell may wait for the next bytes or for the exit, in seconds; None is for ever."""
        due = [at for _, at, _ in self._open_deadlines()]
        return max(0.0, min(due) - now) if due else None

    def expire(self, now: float, stderr_tail: bytes = b"") -> None:
        """Take the time: what is due happens. To be called only after everything readable was read."""
        for kind, at, seconds in self._open_deadlines():
            if now < at or self.over:
                continue
            if kind in {"first_message", "idle", "turn"}:
                self._happen(Happening.DEADLINE, deadline=TurnTimeoutError(kind, seconds))
            else:
                self._happen(Happening.STILL_RUNNING, exit_code=None, stderr_tail=stderr_tail, waited=seconds)
            return

    def _open_deadlines(self) -> list[tuple[DeadlineKind, float, float]]:
        wanted: list[tuple[DeadlineKind, float, float | None]] = []
        deadlines = self._deadlines
        if self.over:
            return []
        if self.output_ended:
            wanted.append(("exit", self._output_ended_at, deadlines.exit))
        elif self.state is State.STREAMING:
            if self._message_count == 0:
                wanted.append(("first_message", self._started_at, deadlines.first_message))
            else:
                wanted.append(("idle", self._last_message_at, deadlines.idle))
            wanted.append(("turn", self._started_at, deadlines.turn))
        elif self.background_tasks:
            wanted.append(("background", self._result_at, deadlines.background))
        else:
            wanted.append(("after_result", self._last_message_at, deadlines.after_result))
        return [(kind, since + seconds, seconds) for kind, since, seconds in wanted if seconds is not None]

    def _special(self, frame: Frame, now: float) -> bool:
        """Take a frame that changes what we know; True if it is delivered."""
        if isinstance(frame, ResultMessage):
            self.results.append(frame)
            self._result_at = now
            self._goes_on = False
            self.session_id = frame.session_id or self.session_id
            self.state = ONE_SHOT[self.state, Happening.RESULT].then
            return True
        if isinstance(frame, _TASK_FRAMES):
            self._track_tasks(frame)
            return True
        if isinstance(frame, InitMessage):
            self._goes_on = bool(self.results)  # a turn that the CLI begins by itself
            return True
        if isinstance(frame, SessionStateChangedMessage) and frame.state == "idle":
            self._goes_on = False
        if isinstance(frame, SessionStateChangedMessage) and frame.sdk_host_only:
            return False  # the launch asked for it, on behalf of the library and not of its user
        if isinstance(frame, Message):
            return True
        logger.debug("frame of type %r is not for the user of a one-shot stream", frame.type)
        return False

    def _track_tasks(self, frame: Frame) -> None:
        match frame:
            case BackgroundTasksChangedMessage(tasks=tasks):
                self.background_tasks = {task.task_id for task in tasks if task.task_id}
            case TaskNotificationMessage(task_id=task_id):
                self._goes_on = self._goes_on or not frame.ambient  # the CLI tells the model
                self.background_tasks.discard(task_id or "")
            case TaskUpdatedMessage(task_id=str(task_id)) if frame.status in _ENDED_TASK_STATES:
                self.background_tasks.discard(task_id)
            case _:
                pass

    def _find_session_id(self) -> None:
        for item in tuple(self.items):  # in one step: another thread may close the stream and clear them
            session_id = getattr(item, "session_id", None)
            if isinstance(session_id, str) and session_id:
                self.session_id = session_id
                return

    def _bad_line(self, error: DecodeError) -> None:
        self._last_bad_line = error.line
        self._bad_lines += 1
        at_limit = self._bad_lines >= self._bad_line_limit
        self._happen(Happening.BAD_LINE_LIMIT if at_limit else Happening.BAD_LINE, decode_error=error, line=error.line)

    def _oversized(self, line: OversizedLine) -> None:
        happening = Happening.OVERSIZED_LINE_SKIPPED if self._skip_oversized else Happening.OVERSIZED_LINE
        self._happen(happening, oversized=line)

    def _happen(
        self,
        happening: Happening,
        *,
        line: bytes = b"",
        decode_error: DecodeError | None = None,
        oversized: OversizedLine | None = None,
        deadline: TurnTimeoutError | None = None,
        exit_code: int | None = None,
        stderr_tail: bytes = b"",
        waited: float | None = None,
    ) -> None:
        """Look the cell up and do what it says."""
        cell = ONE_SHOT[self.state, happening]
        self.state = cell.then
        match cell.gives:
            case Yield.DECODE_ERROR if decode_error is not None:
                self.items.append(decode_error)
            case Yield.RAISE_TOO_MANY_DECODE_ERRORS if decode_error is not None:
                self.terminal_error = TooManyDecodeErrors(self._bad_lines, decode_error)
            case Yield.RAISE_LINE_TOO_LONG if oversized is not None:
                self.terminal_error = LineTooLongError(oversized.size, self._line_bytes, oversized.head)
            case Yield.WARN_OVERSIZED_LINE_SKIPPED if oversized is not None:
                self._warn(
                    "OVERSIZED_LINE_SKIPPED",
                    f"A line of at least {oversized.size:,} bytes was skipped; `Limits.line_bytes` is {self._line_bytes:,}.",
                    size=oversized.size,
                    head=oversized.head,
                )
            case Yield.RAISE_TURN_TIMEOUT:
                self.terminal_error = deadline
            case Yield.RAISE_PROCESS_ERROR:
                self.terminal_error = process_failure(
                    exit_code,
                    stderr_tail=stderr_tail,
                    stdout_was_empty=not self._received,
                    message_count=self._message_count,
                    last_non_json_line=self._last_bad_line,
                    last_result=self.last_result,
                )
            case Yield.WARN_UNEXPECTED_DATA_AFTER_RESULT:
                self._warn(
                    "UNEXPECTED_DATA_AFTER_RESULT",
                    "Something that is not a message came after the result.",
                    line=line[:2_000],
                )
            case Yield.WARN_INCOMPLETE_LAST_LINE:
                self._warn("INCOMPLETE_LAST_LINE", "The output ended in the middle of a line.", line=line[:2_000])
            case Yield.WARN_EMPTY_RESPONSE:
                self._warn("EMPTY_RESPONSE", "The CLI exited with code 0 and printed nothing.", exit_code=exit_code)
            case Yield.WARN_CLEAN_EXIT_NO_RESULT:
                self._warn(
                    "CLEAN_EXIT_NO_RESULT", "The CLI exited with code 0 before a result came.", exit_code=exit_code
                )
            case Yield.WARN_NONZERO_EXIT_AFTER_RESULT:
                self._warn(
                    "NONZERO_EXIT_AFTER_RESULT",
                    f"The CLI exited with code {exit_code} after a successful result.",
                    exit_code=exit_code,
                    stderr_tail=stderr_tail.decode("utf-8", "replace"),
                )
            case Yield.WARN_CLI_DID_NOT_EXIT:
                tasks = sorted(self.background_tasks)
                self._warn(
                    "CLI_DID_NOT_EXIT",
                    "The CLI was still there after its result and was stopped"
                    + (f"; {len(tasks)} background tasks were running." if tasks else "."),
                    seconds=waited,
                    background_tasks=tasks,
                )
            case _:
                pass

    def _warn(self, code: WarningCode, message: str, **context: object) -> None:
        self.items.append(StreamWarning(code, message, context))


_PLAIN = frozenset(MESSAGE_TYPES.values()) - {ResultMessage, InitMessage, SessionStateChangedMessage, *_TASK_FRAMES}
"""What is delivered and changes nothing else: almost every frame."""
