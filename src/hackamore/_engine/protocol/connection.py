"""The core of a query or session: bytes and triggers in, events and bytes out. It never waits and knows no clock.

Four verbs move bytes: `receive_data` and `receive_eof` in, `events_received` and `data_to_send` out; `process_exited` brings the exit.
The `send_*` methods start requests, and `expire` applies timeouts, which belong to shells. Receiving never raises for what the peer
sent; sending raises only before anything was changed.

`Role.HOST` is the library, `Role.CLI` its opposite: same framing, same exchanges, same handshake, so that each is tested by the other.

Every state moves by a table of `states.session`. The parts that stand alone are the framer, the open prompts (`TurnTable`) and the open
requests of both directions (`Ledger`): each request stands in its ledger from before its first byte until its one ending.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from hackamore._engine.protocol import events, frames
from hackamore._engine.protocol.control import (
    encode_request,
    error_text,
    fail_answer,
    malformed,
    open_requests,
    read_answer,
    row_for,
)
from hackamore._engine.protocol.control_table import Direction
from hackamore._engine.protocol.diagnostics import (
    api_failure,
    exit_code_hint,
    line_skipped,
    process_failure,
    refused_option,
)
from hackamore._engine.protocol.exchanges import REQUEST_BYTES, InFlightRequest, Ledger, PendingRequest
from hackamore._engine.protocol.framing import LineFramer, OversizedLine
from hackamore._engine.protocol.log import SessionLog
from hackamore._engine.protocol.states import session as states
from hackamore._engine.protocol.states.session import (
    ENDINGS,
    HANDSHAKE,
    INPUT,
    LIFECYCLE,
    OUTPUT,
    PROCESS,
    WORK,
    Ending,
    Exit,
    Half,
    HalfTrigger,
    Handshake,
    HandshakeTrigger,
    LifecycleTrigger,
    Process,
    ProcessTrigger,
    SessionActivity,
    SessionState,
    Snapshot,
    TurnState,
    TurnTrigger,
    Work,
    WorkTrigger,
)
from hackamore._engine.protocol.turns import PromptRecord, TurnTable
from hackamore.errors import (
    CLIExitedDuringInitError,
    ControlRejectedError,
    ControlTimeoutError,
    DecodeError,
    DecodeErrorLimitError,
    InitializationError,
    InitializationTimeoutError,
    InitQueueOverflowError,
    SessionClosedError,
    SessionNotFoundError,
    StreamWarning,
    TooManyPendingRequestsError,
)
from hackamore.messages import (
    MESSAGE_TYPES,
    APIRetryMessage,
    AssistantMessage,
    AuthenticationError,
    BackgroundTasksChangedMessage,
    CommandLifecycleMessage,
    Frame,
    InitMessage,
    Message,
    RateLimitEvent,
    ResultMessage,
    SessionStateChangedMessage,
    StreamEvent,
    TaskNotificationMessage,
    TaskUpdatedMessage,
    UserMessage,
    decode,
)
from hackamore.messages.control import ControlCancelRequest, ControlRequest, ControlResponse, TranscriptMirror
from hackamore.messages.conversation import REFUSED
from hackamore.messages.decode import decode_all, decode_run
from hackamore.messages.results import ControlResult, ServerInfo, decode_result
from hackamore.options.bounds import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal

    from hackamore._engine.protocol.control import Answer
    from hackamore._engine.protocol.frames import Payload
    from hackamore.errors import HackamoreError, WarningCode
    from hackamore.messages import RateLimitInfo
    from hackamore.messages.system import BackgroundTask


SETTLE_SECONDS = 5.0
"""How long the CLI may say nothing after a background task ended, before it is believed that nothing follows. Seen: 0.03 s."""

PLAIN: frozenset[type[Frame]] = frozenset(MESSAGE_TYPES.values()) - {
    ResultMessage,
    RateLimitEvent,
    InitMessage,
    APIRetryMessage,
    SessionStateChangedMessage,
    BackgroundTasksChangedMessage,
    TaskNotificationMessage,
    TaskUpdatedMessage,
    CommandLifecycleMessage,
}
"""Messages that change nothing else: almost every frame. They go straight into the batch, so that one costs no more than decoding it."""
_PLAIN_AND_NAMELESS = frozenset(
    kind for kind in PLAIN if not {"user_message_uuid", "user_message_uuids"} & set(kind.__struct_fields__)
) - {AssistantMessage, StreamEvent}
"""The same while an ordinary frame may tell which prompt is being answered."""
_MANY_LINES = 8  # a token at a time brings one line: decoding in steps is for reads that have many
_SHOWN_HEAD_BYTES = 200  # of the 8 KiB that the framer keeps, which are masked first
_NOTHING_PLAIN: frozenset[type[Frame]] = frozenset()
"""For the role CLI, which delivers no messages."""
_DECODED_ONCE: frozenset[type[Frame]] = frozenset(
    (
        AssistantMessage,
        UserMessage,
        ResultMessage,
        CommandLifecycleMessage,
        ControlRequest,
        ControlResponse,
        ControlCancelRequest,
        TranscriptMirror,
    )
)
"""Frames that need attention and no second look: a `StreamEvent` needs one, and a `system` frame is not recognised by the first."""
_REPORTS_ON_PROMPTS = "msg_lifecycle_v1"  # else a turn that the CLI begins itself passes for that of a prompt
_TASK_ENDED = frozenset({"completed", "failed", "stopped", "killed", "cancelled"})  # after `paused` it continues
_INTERNAL_REQUESTS = 256
"""The number of internal requests that are remembered: a peer may answer none of them."""
_IS_STOPPING = "the session is stopping"


class Role(Enum):
    """Which end of the wire a connection is."""

    HOST = auto()
    CLI = auto()


_ASKS_US = {Role.HOST: Direction.CLI_TO_HOST, Role.CLI: Direction.HOST_TO_CLI}
_PLAIN_FOR = {Role.HOST: (PLAIN, _PLAIN_AND_NAMELESS), Role.CLI: (_NOTHING_PLAIN, _NOTHING_PLAIN)}


class Connection:
    """One end of a query or session.

    Args:
        limits: `line_bytes`, `consecutive_decode_errors`, `queued_operations`, `pending_requests` and `early_requests`
            count here, and `buffered_bytes` for early requests.
        hold_until_confirmed: nothing is sent on an implicit confirmation: a guard depends on what the CLI says about itself.
        one_way: the launch gives the prompt and reads nothing more (`--print`): no handshake, nothing is written, control frames mean
            nothing. `RUNNING` from `begin_start` on. Read `events_received()`: messages in batches, `WarningRaised`, `BadLine`, `LongLine`,
            `IncompleteLine`, `BackgroundTasksChanged`, `ActivityChanged`, and `Ended`. An exit gives `Ended(by_exit=True)`: the query
            judges it, with `exit_code`, `stderr_tail`, `last_result` and `process_failure()`. `fail()` gives `Ended.error`.
        fail_on_bad_lines: False for queries: bad and long lines are reported as `BadLine` and `LongLine`, and the ending table
            decides. Else too many bad lines in a row fail the session, and long lines are skipped with a warning.
        mirrored: entries of transcripts are reported as `TranscriptMirrored`; else they are dropped.
        random_bytes: where ids come from.

    Attributes:
        mask: takes secrets out of a line that is not of the protocol, for errors and warnings. The host sets it for its launch.
    """

    def __init__(
        self,
        role: Role = Role.HOST,
        *,
        limits: Limits | None = None,
        hold_until_confirmed: bool = False,
        one_way: bool = False,
        fail_on_bad_lines: bool = True,
        mirrored: bool = False,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.role = role
        # the state of the session, as its user sees it. That it is being stopped stands here and nowhere else.
        self.lifecycle: SessionState = SessionState.NEW
        self.handshake = Handshake.NONE if one_way else Handshake.UNSENT
        # how it ended, once it has: then nothing more can happen, and the process, if it lives, is to be stopped
        self.ending: Ending | None = None
        self.terminal_error: HackamoreError | None = None
        self.server_info: ServerInfo | None = None  # the CLI's description of itself, once it has answered `initialize`
        self.turns: TurnTable = TurnTable()
        self.log: SessionLog = SessionLog(self)
        self.activity: SessionActivity = SessionActivity.UNKNOWN
        self.background_tasks: tuple[BackgroundTask, ...] = ()  # the running background tasks, ambient ones included
        self.last_result: ResultMessage | None = None
        self._rate_limit: RateLimitInfo | None = None
        self._api_retry: APIRetryMessage | None = None
        self._key_source: str | None = None
        self.session_id: str | None = None  # the session, as soon as a message has named it
        self.received: bool = False  # True once any byte has come
        self.exit_code: int | None = None
        self.stderr_tail: bytes = b""
        self._limits = limits or Limits()
        self._hold_until_confirmed = hold_until_confirmed
        self._one_way = one_way
        self._judges_lines = fail_on_bad_lines
        self._mirrored = mirrored
        self._random_bytes = random_bytes
        self._peer_only_listens = role is Role.CLI
        # Input
        self._framer = LineFramer(self._limits.line_bytes)
        self._always_plain, self._plain_and_nameless = _PLAIN_FOR[role]
        self._floods = False  # True after a read with plain messages alone: the next one is likely to have no others
        self._bad_lines = 0
        self._last_bad_line: bytes | None = None
        self.mask: Callable[[bytes], bytes] = bytes
        self._batch: list[Message] = []
        self._events: list[events.Event] = []
        self._any_message = False
        self._work = Work.WORKING if one_way else Work.UNKNOWN  # the launch gives the prompt
        # Output: frames to write, and those that are held until the handshake is confirmed
        self._input = Half.CLOSED if one_way else Half.OPEN
        self._output = Half.OPEN
        self._process = Process.ALIVE
        self._frames: list[bytes] = []
        self._held: deque[tuple[PendingRequest | PromptRecord, bytes]] = deque()
        # Requests of this side, and the peer's, of which a host keeps those that come before its `initialize`
        self._pending: Ledger[PendingRequest] = Ledger()
        self._internal: deque[str] = deque()
        self._counter = 0
        self._in_flight: Ledger[InFlightRequest] = Ledger()
        self._early: dict[str, ControlRequest] = {}
        self._initialize_id: str | None = None
        self._peer_initialize_id: str | None = None

    # -- how it stands -------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """True once nothing more can happen: the process, if it lives, is to be stopped."""
        return self.ending is not None

    @property
    def exited(self) -> bool:
        """True once the exit status is known and the output was read to its end."""
        return self._process is Process.EXITED and self._output is Half.CLOSED

    @property
    def quiet(self) -> bool:
        """True while all is quiet: no prompt is open, nothing runs in the background, and the CLI is idle."""
        return states.is_quiet(self.snapshot())

    @property
    def unsettled(self) -> bool:
        """True between the end of a background task and the CLI's next word; after `SETTLE_SECONDS` of it, call `settle`."""
        return self._work is Work.DUE

    @property
    def working(self) -> bool:
        """True while the CLI is at work: on a prompt of this side, or in a turn that it began by itself."""
        return bool(len(self.turns)) or self._work is Work.WORKING

    @property
    def at_work(self) -> bool:
        """True while the model may be at work, now or soon: it works, a task runs in the background, or one has just ended."""
        return self.working or self.unsettled or self._busy_tasks > 0

    @property
    def input_may_close(self) -> bool:
        """True while stdin may be closed: it was requested and the joint rule holds."""
        # Read after every step of a driver, so the rest of the rule is looked at only after a request to close.
        return self._input is Half.CLOSING and not self.over and states.input_may_close(self.snapshot())

    @property
    def finishing(self) -> bool:
        """True once closing stdin was requested: prompts are refused."""
        return self._input is not Half.OPEN

    @property
    def input_closed(self) -> bool:
        """True once nothing can be written any more."""
        return self._input in (Half.CLOSED, Half.BROKEN)

    @property
    def pending_requests(self) -> tuple[PendingRequest, ...]:
        """The requests of this side that wait for an answer."""
        return tuple(self._pending)

    @property
    def in_flight_requests(self) -> tuple[InFlightRequest, ...]:
        """The peer's requests that wait for an answer of this side."""
        return tuple(self._in_flight)

    @property
    def in_flight_bytes(self) -> int:
        """The bytes that these requests occupy."""
        return self._in_flight.size

    @property
    def answers_are_due(self) -> bool:
        """True while requests of the peer wait for an answer."""
        return len(self._in_flight) > 0

    @property
    def _stopping(self) -> bool:
        return self.lifecycle is SessionState.STOPPING

    @property
    def _starting(self) -> bool:
        """True while a host waits for its handshake to be confirmed or to fail."""
        waiting = self.handshake in (Handshake.UNSENT, Handshake.SENT, Handshake.IMPLICIT)
        return self.role is Role.HOST and (waiting or self.lifecycle is SessionState.INITIALIZING)

    @property
    def _flows(self) -> bool:
        """True if prompts and operations are written immediately."""
        flows = states.operations_flow(self.handshake, self._hold_until_confirmed)
        return flows or self._stopping or self.role is Role.CLI

    @property
    def _writable(self) -> bool:
        """True while a frame that is written may still be read."""
        return states.peer_can_read(self._input, self._output, self._process, self._peer_only_listens)

    @property
    def _busy_tasks(self) -> int:
        """The number of background tasks that count as activity."""
        return sum(not task.ambient for task in self.background_tasks)

    @property
    def _waited_for(self) -> int:
        """The number of our open requests that a caller waits for."""
        return sum(not request.internal for request in self._pending)  # a CLI may never answer messages of servers

    def snapshot(self) -> Snapshot:
        """Return what the joint rules look at."""
        return Snapshot(
            input=self._input,
            activity=self.activity,
            open_turns=len(self.turns),
            pending_requests=self._waited_for,
            in_flight_requests=len(self._in_flight) + len(self._early),
            background_tasks=self._busy_tasks,
            unsettled=self.unsettled,
        )

    # -- the machines --------------------------------------------------------------------------------------------------

    def _move_lifecycle(self, trigger: LifecycleTrigger) -> None:
        self.lifecycle = LIFECYCLE[self.lifecycle, trigger]

    def _move_work(self, trigger: WorkTrigger) -> None:
        self._work = WORK[self._work, trigger]

    def _move_handshake(self, trigger: HandshakeTrigger) -> None:
        """Move the handshake, and write the held frames if they flow from now on."""
        flowed = self._flows
        self.handshake = HANDSHAKE[self.handshake, trigger]
        if self._flows and not flowed:
            held, self._held = self._held, deque()
            for what, frame in held:
                self._send(what, frame, flows=True)
            self._emit(events.OperationsReleased(implicitly=self.handshake is Handshake.IMPLICIT))

    def _move_input(self, trigger: HalfTrigger) -> None:
        """Move the input half; drop frames once it is closed."""
        self._input = INPUT[self._input, trigger]
        if not self._writable:
            self._frames.clear()

    # -- bytes in ------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Read bytes from the peer."""
        if self.ending is not None or self._output is Half.CLOSED:
            return
        self.received = True
        received = self._framer.receive_data(data)
        plain = self._always_plain if not self.turns.prompt_is_unknown else self._plain_and_nameless
        # One other frame among them, and `decode_all` has worked for nothing: hence `_floods`.
        if self._floods and len(received) >= _MANY_LINES and (messages := decode_all(received, plain)):
            self._bad_lines = 0
            self._batch += messages
            self._flush()
            return
        lines = iter(received)
        self._floods = True
        while True:
            count, line = decode_run(lines, plain, self._batch.append, _DECODED_ONCE)
            if count:
                self._bad_lines = 0
            if line is None:
                break
            self._floods = False
            if line.__class__ is bytes:
                try:
                    frame: Frame = decode(line, self._warned)
                except DecodeError as error:
                    if not line.isspace():  # an empty line with blanks in it is not a damaged frame
                        self._on_bad_line(error)
                else:
                    self._on_frame(frame)
            elif line.__class__ is OversizedLine:
                self._on_long_line(line)
            else:
                self._on_frame(line)
            if self.ending is not None:  # five bad lines in a row: the rest of this read is not delivered any more
                return
            # The frame may have named the prompt, or shown that the CLI reports on prompts.
            plain = self._always_plain if not self.turns.prompt_is_unknown else self._plain_and_nameless
        if self._batch:
            self._flush()

    def receive_eof(self) -> None:
        """Apply the end of the peer's output. A session has ended when the exit status is known too.

        A host that closed its side still reads: the role CLI continues, and only its own requests are resolved.
        """
        if self._output is Half.CLOSED:
            return
        tail = self._framer.receive_eof()
        # A line that is too long was reported as soon as it was.
        if isinstance(tail, bytes) and not self.over:
            try:
                self._on_frame(decode(tail, self._warned))
            except DecodeError:  # a killed CLI stops in the middle of a line: it does not count as a bad one
                self._last_bad_line = tail = self.mask(tail)
                self._emit(events.IncompleteLine(tail))
        self._output = OUTPUT[self._output, HalfTrigger.CLOSED]
        if self._process is Process.EXITED:
            self._end_with_process()
        elif self.role is Role.CLI and not self.over:
            self._end_pending()

    def process_exited(self, exit_code: int | None, stderr_tail: bytes = b"") -> None:
        """Apply the exit of the process. The session has ended when the output has been read to its end too.

        Args:
            exit_code: negative for a signal; None if the process had to be stopped because it did not exit by itself. The role CLI
                tells its own.
        """
        if self._process is Process.EXITED:
            return
        self._process = PROCESS[self._process, ProcessTrigger.EXITED]
        self.exit_code, self.stderr_tail = exit_code, stderr_tail
        if self._output is Half.CLOSED or self.role is Role.CLI:  # the result may still be in the pipe
            self._end_with_process()

    def _on_frame(self, frame: Frame) -> None:
        self._bad_lines = 0
        match frame:
            case Message() if self.role is Role.HOST:
                self._on_message(frame)
            case UserMessage():
                self._emit(events.PromptReceived(frame, frame.uuid))
            case ControlRequest() if not self._one_way:  # with `--print` stdin is closed: it cannot be answered
                self._on_request(frame)
            case ControlResponse() if not self._one_way:
                self._on_response(frame)
            case ControlCancelRequest() if not self._one_way:
                self._on_cancellation(frame)
            case TranscriptMirror() if self._mirrored:
                self._events.append(events.TranscriptMirrored(frame))  # its place among plain messages does not matter
            case _:
                self.log.debug("a frame of type %r was dropped", frame.type)

    def _on_long_line(self, line: OversizedLine) -> None:
        head = self.mask(line.head)[:_SHOWN_HEAD_BYTES]  # a secret that a cut divides would not be recognised
        if self._judges_lines:
            self._warned(line_skipped(line.size, head, self._limits.line_bytes))
        else:
            self._emit(events.LongLine(line.size, head))

    def _on_bad_line(self, error: DecodeError) -> None:
        self._bad_lines += 1
        self._last_bad_line = error.line = self.mask(error.line)
        # The error below it and the frames between hold the line as it came. `tblib` pickles them, reporters of errors send them.
        error.__context__ = error.__traceback__ = None
        self._emit(events.BadLine(error, self._bad_lines))
        if self._judges_lines and self._bad_lines >= self._limits.consecutive_decode_errors:
            self.fail(DecodeErrorLimitError(self._bad_lines, error))

    # -- the conversation: prompts, activity, background tasks, results ------------------------------------------------

    def _on_message(self, message: Message) -> None:
        match message:
            case ResultMessage():
                self._on_result(message)
            case RateLimitEvent(rate_limit_info=limit):
                self._batch.append(message)
                self._rate_limit = limit if limit.status == "rejected" else None  # `allowed_warning` refuses nothing
            case APIRetryMessage():
                self._on_api_retry(message)
            case CommandLifecycleMessage(command_uuid=turn_id):
                self._deliver(message, (turn_id,) if turn_id in self.turns else ())  # first: the report may end it
                self._report_turns(self.turns.report(turn_id, message.state))
            case SessionStateChangedMessage():
                self._on_state(message)
            case BackgroundTasksChangedMessage():
                self._batch.append(message)
                self._set_background_tasks(message.tasks)
            case TaskNotificationMessage():
                self._batch.append(message)
                self._task_ended(message.task_id, counts=not message.ambient)  # housekeeping keeps no caller waiting
            case TaskUpdatedMessage():
                self._batch.append(message)
                if message.status in _TASK_ENDED:
                    running = (task for task in self.background_tasks if task.task_id == message.task_id)
                    self._task_ended(message.task_id, counts=any(not task.ambient for task in running))
            case _:
                if isinstance(message, InitMessage):
                    self.session_id = message.session_id or self.session_id
                    self._key_source = message.api_key_source
                    self._move_work(WorkTrigger.TURN_BEGINS)
                    self._read_capabilities(message.capabilities)  # believed from the first frame on
                if self.turns.prompt_is_unknown:
                    self._look_for_names(message)
                self._batch.append(message)

    def _on_api_retry(self, retry: APIRetryMessage) -> None:
        """Log a failed API request; end the current turns if the API refuses a login that the CLI has renewed.

        Before it repeats a request, the CLI refreshes a login and runs `apiKeyHelper` again: the first refusal proves nothing (2.1.330).
        """
        before, self._api_retry = self._api_retry, retry
        again = retry.attempt > 1 and (before is None or before.error_status in REFUSED)
        self._batch.append(retry)
        self.log.warning(
            "an API request failed: %s; the CLI repeats it in %.1f s",
            self.api_error,
            retry.retry_delay_ms / 1000,
            extra={"code": "API_RETRY"},
        )
        # The prompt of a one-way launch is not in `turns`: its command line or stdin has it.
        turn_is_open = self.last_result is None if self._one_way else bool(self.turns.current_ids)
        if again and turn_is_open and retry.error_status in REFUSED:
            error = AuthenticationError(retry.error_status, key_source=self.key_source)
            self._emit(events.LoginRefused(self.turns.current_ids, self._named(error)))

    @property
    def api_error(self) -> str:
        """The last failed API request, for texts; empty if there is none, or the API has answered since."""
        return "" if self._api_retry is None else api_failure(self._api_retry)

    @property
    def key_source(self) -> str | None:
        """The source of the CLI's key or token; None if it does not name one."""
        account = self.server_info.account if self.server_info is not None else None
        named = (self._key_source, account.token_source if account is not None else None)
        # The CLI names a missing key "none".
        return next((source for source in named if source not in (None, "none")), None)

    def _read_capabilities(self, capabilities: list[str]) -> None:
        """Read whether the CLI reports on prompts: then a turn that it starts by itself is not taken for one of this side."""
        if _REPORTS_ON_PROMPTS in capabilities:
            self.turns.reported = True

    def _report_turns(self, changed: list[PromptRecord], *, ended: bool = False) -> None:
        for record in changed:
            error = self.closed_error() if ended else None
            self._emit(events.TurnStateChanged(record.id, record.state, error))

    def _on_result(self, result: ResultMessage) -> None:
        self._flush()
        if result.is_error and self._rate_limit is not None:
            vars(result)["rate_limit"] = self._rate_limit
        if result.is_error:
            vars(result)["key_source"] = self.key_source
        self._rate_limit = self._api_retry = None
        self.last_result = result
        self.session_id = result.session_id or self.session_id
        self._move_work(WorkTrigger.RESULT)
        ended = self.turns.finished_by(result)
        self._deliver(result, tuple(record.id for record in ended))
        self._report_turns(ended)

    def _on_state(self, message: SessionStateChangedMessage) -> None:
        if not message.sdk_host_only:
            self._batch.append(message)  # the user asked for it, and not the library
        before, self.activity = self.activity, states.activity_named(message.state)
        self._move_work(WorkTrigger.SAYS_IDLE if self.activity is SessionActivity.IDLE else WorkTrigger.SAYS_BUSY)
        if self.activity is not before:
            self._emit(events.ActivityChanged(self.activity))
        if self.activity is SessionActivity.IDLE:
            self._flush()
            self._report_turns(self.turns.idle())  # `idle` follows each result: a prompt without one gets none

    def _task_ended(self, task_id: str, *, counts: bool) -> None:
        if counts:
            self._move_work(WorkTrigger.TASK_ENDED)
        self._set_background_tasks(task for task in self.background_tasks if task.task_id != task_id)

    def _set_background_tasks(self, tasks: Iterable[BackgroundTask]) -> None:
        before, self.background_tasks = self.background_tasks, tuple(tasks)
        if self.background_tasks != before:
            self._emit(events.BackgroundTasksChanged(self.background_tasks))

    def _look_for_names(self, message: Message) -> None:
        named = getattr(message, "user_message_uuids", None) or ()
        one = getattr(message, "user_message_uuid", None)
        if named or one:
            self._flush()
            self._report_turns(self.turns.named([*named, one] if one else named))
        # A CLI that names no prompt answers in the order of sending.
        elif isinstance(message, (InitMessage, AssistantMessage, StreamEvent)):
            self._flush()
            self._report_turns(self.turns.work_begins())

    # -- events and bytes out ------------------------------------------------------------------------------------------

    def events_received(self) -> list[events.Event]:
        """Return what happened since the last call, in order."""
        if self._batch:
            self._flush()
        happened, self._events = self._events, []
        return happened

    @property
    def has_news(self) -> bool:
        """True while `events_received` has something to return."""
        return bool(self._events or self._batch)

    def data_to_send(self) -> bytes:
        """Return what is to be written: whole lines. It counts as written."""
        if not self._frames:
            return b""
        data = b"".join(self._frames)
        self._frames.clear()
        return data

    def _emit(self, event: events.Event) -> None:
        self._flush()
        self._events.append(event)

    def _warned(self, warning: StreamWarning) -> None:
        self._emit(events.WarningRaised(warning))

    def _warn(self, code: WarningCode, message: str, **context: object) -> None:
        self._warned(StreamWarning(code, message, context))

    def _deliver(self, message: Message, turn_ids: tuple[str, ...]) -> None:
        """Report a message of known prompts."""
        self._flush()
        self._batch.append(message)
        self._flush(turn_ids)

    def _flush(self, turn_ids: tuple[str, ...] | None = None) -> None:
        """Make an event of the collected messages; they belong to the current prompts, if no others are known."""
        batch = self._batch
        if not batch:
            return
        self._batch = []
        self._any_message = True
        # The API has answered: an error of a later timeout must not name this failure.
        if self._api_retry is not None and any(isinstance(each, (AssistantMessage, StreamEvent)) for each in batch):
            self._api_retry = None
        if self.session_id is None:
            ids = (getattr(message, "session_id", None) for message in batch)
            self.session_id = next((found for found in ids if isinstance(found, str) and found), None)
        self._events.append(events.MessagesReceived(batch, self.turns.current_ids if turn_ids is None else turn_ids))

    def _write(self, frame: bytes) -> bool:
        """Queue a frame; return False if it could not be read any more."""
        if self._writable:
            self._frames.append(frame)
            return True
        return False

    def _send(self, what: PendingRequest | PromptRecord, frame: bytes, *, flows: bool) -> None:
        """Write the frame of a request or prompt, or hold it."""
        if flows:
            what.written = True
            self._write(frame)
        else:
            self._held.append((what, frame))

    def _drop(self, what: PendingRequest | PromptRecord) -> None:
        self._held = deque(item for item in self._held if item[0] is not what)

    # -- the start -----------------------------------------------------------------------------------------------------

    def begin_start(self) -> None:
        """Apply that the process is being started."""
        self._move_lifecycle(LifecycleTrigger.LAUNCHED if self._one_way else LifecycleTrigger.START)

    def send_initialize(self, fields: Mapping[str, Any] | None = None) -> str:
        """Write `initialize`; return its request id, for `expire`. Raise SessionClosedError if the session is over."""
        self._require_open()
        if self.handshake is not Handshake.UNSENT:
            raise RuntimeError("`initialize` was sent already; to send it again is a request like others")
        request, frame = self._open_request("initialize", fields or {}, "initialize", internal=False)
        self._initialize_id = request.request_id
        self._send(request, frame, flows=True)
        self._move_lifecycle(LifecycleTrigger.INITIALIZE_SENT)
        self._move_handshake(HandshakeTrigger.SENT)
        self._receive_early()  # only now: before SENT they would wait again
        return request.request_id

    def _initialize_answered(self, request: PendingRequest, answer: Answer) -> None:
        self._pending.remove(request.request_id)
        if answer.failed:
            self._move_handshake(HandshakeTrigger.ERROR)
            self.fail(InitializationError(error_text(answer.error)))
            return
        self.server_info = decode_result(ServerInfo, answer.response, self._warned)
        self._read_capabilities(self.server_info.capabilities)
        self._ready(HandshakeTrigger.ANSWER)
        for open_request in open_requests(answer, self._warned):
            self._on_request(open_request)

    def _initialize_expired(self, request_id: str, seconds: float | None) -> None:
        if self.handshake is not Handshake.IMPLICIT:
            self._move_handshake(HandshakeTrigger.DEADLINE)
            # A refused option in stderr is the cause, and the silence is not.
            self.fail(self._start_error() or InitializationTimeoutError(seconds or 0.0, self._captured()))
            return
        self._pending.remove(request_id)
        self._warn(
            "INIT_UNCONFIRMED",
            "The CLI works but has not answered `initialize`: its capabilities are unknown.",
            seconds=seconds,
        )
        self._ready(HandshakeTrigger.DEADLINE)

    def _ready(self, trigger: HandshakeTrigger) -> None:
        self._move_handshake(trigger)
        self._move_lifecycle(LifecycleTrigger.CONFIRMED)
        self._emit(events.HandshakeCompleted(self.server_info))

    # -- prompts and requests of ours ----------------------------------------------------------------------------------

    def send_prompt(
        self, content: object, *, turn_id: str | None = None, fields: Mapping[str, Any] | None = None
    ) -> str:
        """Send a prompt, a string or a list of content blocks; return its id, a uuid. It waits, without limit, until the session is ready.

        Raises:
            ValueError: if JSON cannot hold it, or the id is taken.
            SessionClosedError: if the session is over, being stopped, or finishing.
        """
        self.check_prompts()
        record = PromptRecord(turn_id or self.new_uuid())
        if record.id in self.turns:
            raise ValueError(f"a prompt with the id {record.id!r} is open already")
        frame = frames.user_frame(content, record.id, fields)
        self.turns.add(record)
        self._send(record, frame, flows=self._flows)
        return record.id

    def check_prompts(self) -> None:
        """Raise SessionClosedError if no prompt can be sent: the session is over, being stopped, or finishing."""
        self._require_open()
        if self._stopping or self.finishing:
            raise self.closed_error()

    def new_uuid(self) -> str:
        """Return a random uuid of version 4; an object of `uuid` takes three times as long."""
        value = bytearray(self._random_bytes(16))
        value[6], value[8] = value[6] & 0x0F | 0x40, value[8] & 0x3F | 0x80
        text = value.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def send_request(
        self,
        subtype: str,
        fields: Mapping[str, Any] | None = None,
        *,
        operation: str | None = None,
        internal: bool = False,
    ) -> str:
        """Send a control request; return its id. Before the session is ready it waits in a queue.

        Args:
            subtype: which one; one that has no row is sent as it is.
            internal: no caller waits for it: its ending is not reported.

        Raises:
            SessionClosedError: if the session is over or being stopped.
            TooManyPendingRequestsError: if `Limits.pending_requests` wait already.
            InitQueueOverflowError: if the session is not ready and `Limits.queued_operations` wait already.
        """
        self._require_open()
        if self._stopping:
            raise self.closed_error()
        return self._request(subtype, fields or {}, operation or subtype, internal=internal)

    def interrupt(self, *, cancel_queued: bool = False, internal: bool = False) -> str:
        """Send an interrupt; return its request id. It is accepted while the session stops, and while it finishes."""
        self._require_open()
        fields = {"cancel_queued": True} if cancel_queued else {}
        return self._request("interrupt", fields, "interrupt", internal=internal)

    def _request(self, subtype: str, fields: Mapping[str, Any], operation: str, *, internal: bool) -> str:
        """Open a request, within the limits; return its id."""
        if not internal:
            count, limit = self._waited_for, self._limits.pending_requests
            if count >= limit:
                raise TooManyPendingRequestsError(operation, count, limit)
            waiting = sum(isinstance(what, PendingRequest) for what, _ in self._held)  # prompts wait without a limit
            if waiting >= self._limits.queued_operations and not self._flows:
                raise InitQueueOverflowError(operation, waiting, self._limits.queued_operations)
        request, frame = self._open_request(subtype, fields, operation, internal=internal)
        if internal:
            self._internal.append(request.request_id)
            if len(self._internal) > _INTERNAL_REQUESTS:
                self._pending.remove(self._internal.popleft())
        self._send(request, frame, flows=self._flows)
        return request.request_id

    def _open_request(
        self, subtype: str, fields: Mapping[str, Any], operation: str, *, internal: bool
    ) -> tuple[PendingRequest, bytes]:
        wire = encode_request(subtype, dict(fields))
        request_id = f"req_{self._counter + 1}_{self._random_bytes(4).hex()}"
        frame = frames.request_frame(request_id, subtype, wire)
        self._counter += 1  # after the encoding: a request that was refused uses no id
        request = PendingRequest(request_id, row_for(subtype), operation, subtype, internal)
        self._pending.add(request)
        return request, frame

    def _on_response(self, frame: ControlResponse) -> None:
        answer = read_answer(frame)
        request_id = answer.request_id or frame.outer_request_id or ""
        request = self._pending.get(request_id)
        if request is None or not request.written:  # late, or a played back request of this side
            self.log.debug("no request waits for the control response to %r", request_id)
        elif request_id == self._initialize_id:
            self._initialize_answered(request, answer)
        elif answer.failed:
            error = ControlRejectedError(request.operation, error_text(answer.error), answer.error_code)
            self._resolve(request, error=error)
        else:
            kind = request.row.result if request.row is not None else ControlResult
            result = decode_result(kind, answer.response, self._warned)
            self._resolve(request, result=result)
            if isinstance(result, ServerInfo):  # `initialize` may be sent again, with `request()`
                self.server_info = result

    def _resolve(
        self, request: PendingRequest, *, result: ControlResult | None = None, error: HackamoreError | None = None
    ) -> None:
        self._pending.remove(request.request_id)
        # The end of `initialize` is `HandshakeFailed`.
        if not request.internal and request.request_id != self._initialize_id:
            self._emit(events.RequestResolved(request.request_id, request.operation, result, error))

    def _end_pending(self) -> None:
        """Resolve all requests of this side: the session is over, or ends."""
        for request in self._pending:
            self._resolve(request, error=self.closed_error())

    def cancel_request(self, request_id: str) -> bool:
        """Abandon a request of this side: its answer will be dropped. True if it was open."""
        if request_id == self._initialize_id:
            return False  # there is no session without it: stop that instead
        request = self._pending.remove(request_id)
        if request is None:
            return False
        if request.written:
            self._write(frames.cancel_frame(request_id))  # 2.1.327 ignores it and answers: the answer is dropped
        else:
            self._drop(request)
        return True

    def expire(self, request_id: str, seconds: float | None = None, stderr_tail: bytes = b"") -> bool:
        """Apply an expired timeout: of a request of this side, of `initialize`, or of a request of the peer. Return True if it was open."""
        request = self._pending.get(request_id)
        if request is None:
            return self._request_expired(request_id, seconds)
        if request_id == self._initialize_id:
            self.stderr_tail = stderr_tail or self.stderr_tail  # for the error: no exit has brought it yet
            self._initialize_expired(request_id, seconds)
            return True
        if not request.written:
            self._drop(request)
        self._resolve(
            request, error=ControlTimeoutError(request.operation, request_id, seconds, api_error=self.api_error)
        )
        return True

    def expire_turn(self, turn_id: str) -> bool:
        """Interrupt or cancel a prompt whose timeout has passed; its end is reported as always. True if it was open."""
        record = self.turns.get(turn_id)
        if record is None or not self._writable:
            return False
        if not record.written:
            self._drop(record)
            self._report_turns(self.turns.withdraw(turn_id))
        elif record.state is TurnState.STARTED:
            self.interrupt(internal=True)
        elif not self._stopping:  # a stop cancels prompts that wait by itself
            # An interrupt would end the turn of another prompt.
            self.send_request("cancel_async_message", {"message_uuid": turn_id}, internal=True)
        return True

    def settle(self) -> None:
        """Apply that the CLI has said nothing for long enough after a background task ended."""
        self._move_work(WorkTrigger.SETTLED)

    # -- requests of the peer: each gets exactly one answer, from a handler or, safely, from its row ------------------

    def _on_request(self, frame: ControlRequest) -> None:
        """Check a request, and report it or answer it immediately."""
        request_id = frame.request_id
        if not request_id or not self._in_flight.fresh(request_id) or request_id in self._early:
            self.log.debug("a control request was dropped: its id %r is empty or was used before", request_id)
            return
        host = self.role is Role.HOST
        if host and self.handshake is Handshake.UNSENT and not self._stopping:  # after a stop `initialize` never comes
            size = sum(len(early.raw) for early in self._early.values()) + len(frame.raw)
            if len(self._early) >= self._limits.early_requests or size > self._limits.buffered_bytes:
                self._refuse(request_id, "Too many requests before `initialize`")
            else:
                self._early[request_id] = frame
            return
        try:
            subtype = frame.subtype
        except DecodeError as error:
            self._refuse(request_id, f"Malformed request: {error.detail}")
            return
        if subtype is None:
            self._refuse(request_id, "Malformed request: `subtype` is missing")
            return
        if host:
            self._move_handshake(HandshakeTrigger.REQUEST)  # of any kind: it proves that the CLI has read `initialize`
        row = row_for(subtype)
        if row is None or row.direction not in (_ASKS_US[self.role], Direction.BOTH):
            self._refuse(request_id, f"Unknown subtype: {subtype}", "unsupported_request")
            return
        request = InFlightRequest(request_id, row, frame, len(frame.raw) + REQUEST_BYTES)
        if (problem := malformed(row, frame.request_raw)) is not None:
            text = f"A `{subtype}` request cannot be read: {problem}."
            self._warn("CALLBACK_FAILED", text, subtype=subtype, reason=problem)
            self._answer_safely(request, f"the request cannot be read: {problem}")
            return
        if self._stopping:
            self._answer_safely(request, _IS_STOPPING)
            return
        if subtype == "initialize" and self.handshake is Handshake.UNSENT:
            self._peer_initialize_id = request_id
            self._move_handshake(HandshakeTrigger.SENT)
        self._in_flight.add(request)
        self._emit(events.RequestReceived(request_id, subtype, frame, row))

    def _receive_early(self) -> None:
        """Take up the requests that waited for `initialize`."""
        early, self._early = self._early, {}
        for frame in early.values():
            self._on_request(frame)

    def _on_cancellation(self, frame: ControlCancelRequest) -> None:
        """Close a request that the peer has cancelled: nothing is written."""
        request_id = frame.request_id or ""
        self._early.pop(request_id, None)
        request = self._in_flight.remove(request_id)
        if request is None:
            self.log.debug("no request is open that the cancellation of %r could mean", request_id)
        else:
            self._emit(events.RequestCancelled(request_id, request.subtype, "cancelled"))

    def send_response(self, request_id: str, payload: Payload | None = None) -> bool:
        """Answer a request of the peer. The first ending counts: later ones do nothing.

        Args:
            payload: the answer: an object, or ready JSON that is copied as it is.

        Returns:
            True if it was still open and the answer was written: after stdin was closed it cannot be read.

        Raises:
            ValueError: if JSON cannot hold it; the request stays open.
        """
        if request_id not in self._in_flight:
            return False
        return self._answer(request_id, frames.success_frame(request_id, payload))

    def send_error(self, request_id: str, error: str, code: str | None = None) -> bool:
        """Answer a request of the peer with an error; returns what `send_response` does."""
        if request_id not in self._in_flight:
            return False
        return self._answer(request_id, frames.error_frame(request_id, error, code), HandshakeTrigger.ERROR)

    def fail_request(self, request_id: str, reason: str) -> bool:
        """Answer a request of the peer safely, as its row says; returns what `send_response` does."""
        request = self._in_flight.get(request_id)
        return request is not None and self._answer_safely(request, reason)

    def _request_expired(self, request_id: str, seconds: float | None) -> bool:
        request = self._in_flight.get(request_id)
        if request is None:
            return False
        within = f" within {seconds:g} s" if seconds is not None else " in time"
        self._take_away(request, f"it was not answered{within}", "expired")
        return True

    def _take_away(self, request: InFlightRequest, reason: str, why: Literal["expired", "stopping"]) -> None:
        self._answer_safely(request, reason)
        self._emit(events.RequestCancelled(request.request_id, request.subtype, why))

    def _answer(self, request_id: str, frame: bytes, trigger: HandshakeTrigger = HandshakeTrigger.ANSWER) -> bool:
        """Close a request with a frame; return whether the frame was written."""
        self._in_flight.remove(request_id)
        written = self._write(frame)
        if request_id == self._peer_initialize_id and self.handshake is Handshake.SENT:
            self._move_handshake(trigger)
        return written

    def _answer_safely(self, request: InFlightRequest, reason: str) -> bool:
        request_id = request.request_id
        payload = fail_answer(request.row, request.frame, reason) if self.role is Role.HOST else None
        no = payload is None
        frame = frames.error_frame(request_id, reason) if no else frames.success_frame(request_id, payload)
        self._in_flight.forget(request_id)  # one that cannot be read, or comes during a stop, is never opened
        return self._answer(request_id, frame)

    def _refuse(self, request_id: str, error: str, code: str | None = None) -> None:
        self._in_flight.forget(request_id)
        self._write(frames.error_frame(request_id, error, code))

    # -- other frames --------------------------------------------------------------------------------------------------

    def send_message(self, message: Payload) -> None:
        """Send any other frame, which is a JSON object: for the role CLI, and for frames that have no method."""
        self._require_open()
        self._write(frames.message_frame(message))

    # -- the end -------------------------------------------------------------------------------------------------------

    def close_input(self) -> None:
        """Close stdin as soon as `input_may_close` is true. Further prompts are refused."""
        self._move_input(HalfTrigger.CLOSE_ASKED)

    def input_was_closed(self) -> None:
        """Apply that stdin is closed."""
        self._move_input(HalfTrigger.CLOSED)

    def input_broke(self) -> None:
        """Apply that the peer does not read any more. Its end, which follows, resolves what is open."""
        self._move_input(HalfTrigger.BROKEN)

    def begin_stop(self) -> None:
        """Stop the session: nothing new is accepted, waiters wake, and requests of the CLI get the safe answer immediately.

        A turn stays open until its result comes or the process has ended: `interrupt()` may still be sent.
        """
        before, starting = self.lifecycle, self._starting
        if before is SessionState.NEW:
            self._end(Ending.STOPPED, None)
            return
        self._move_lifecycle(LifecycleTrigger.STOP)
        if before is self.lifecycle:
            return
        self._held.clear()
        self._end_pending()
        if starting:
            self._move_handshake(HandshakeTrigger.ENDED)
            self._emit(events.HandshakeFailed(self.closed_error()))
        self._report_turns(self.turns.end(TurnTrigger.STOPPED, only_unwritten=True), ended=True)
        for request in self._in_flight:
            self._take_away(request, _IS_STOPPING, "stopping")
        self._receive_early()

    def fail(self, error: HackamoreError) -> None:
        """End the session with an error: the process could not be started, or its shell failed. Everything open is resolved."""
        # A failure during a stop is its consequence.
        self._end(Ending.STOPPED if self._stopping else Ending.FAILED, error)

    def closed_error(self) -> HackamoreError:
        """Return a fresh error for a caller who wants something of a session that is over, or is being stopped."""
        if self.terminal_error is not None:
            return self._named(copy.copy(self.terminal_error))  # raised twice, one error would collect tracebacks
        stopped = self._stopping or self.ending is Ending.STOPPED
        error = SessionClosedError(
            expected=stopped or self.over or self._input in (Half.CLOSING, Half.CLOSED),
            reason="it was stopped" if stopped else "it has ended" if self.over else "it ends, and takes nothing new",
            exit_code=self.exit_code,
            stderr_tail=self._stderr,
        )
        return self._named(error)

    def _named(self, error: HackamoreError) -> HackamoreError:
        """Set the session id of an error."""
        error.session_id = error.session_id or self.session_id
        return error

    def _require_open(self) -> None:
        if self.over or not self._writable:
            raise self.closed_error()

    @property
    def _stderr(self) -> str:
        return self.stderr_tail.decode("utf-8", "replace")

    def process_failure(self, exit_code: int | None, stderr_tail: bytes) -> HackamoreError:
        """Return the error for a process that ended, or had to be stopped, without success."""
        return process_failure(
            exit_code,
            stderr_tail=stderr_tail,
            stdout_was_empty=not self.received,
            any_message=self._any_message,
            last_non_json_line=self._last_bad_line,
            last_result=self.last_result,
        )

    def _start_error(self) -> HackamoreError | None:
        """Return the cause of a failed start, if the CLI has named one."""
        if (refused := refused_option(self._stderr)) is not None:  # a named option helps more than the exit code
            return refused
        last = self.last_result
        if last is not None and last.is_error:
            # `--resume` of an unknown id gives an error result, then exit 1.
            if (unknown := SessionNotFoundError.found_in(last.errors)) is not None:
                return unknown
            return InitializationError("; ".join(last.errors) or last.result or "no reason given")
        return None

    def _captured(self) -> str:
        printed = [part.strip() for part in (self.stderr_tail, self._last_bad_line or b"") if part.strip()]
        return b"\nstdout: ".join(printed).decode("utf-8", "replace")

    def _end_with_process(self) -> None:
        if self.over:
            return
        if self.role is Role.CLI:
            self._end(Ending.COMPLETED, None)
            return
        code, last = self.exit_code, self.last_result
        how = Exit.CLEAN if code == 0 else Exit.ERROR
        # A negative code is a signal, and so a crash, also after an error result.
        if code is not None and code > 0 and last is not None and last.is_error:
            how = Exit.AFTER_ERROR_RESULT
        open_turns = len(self.turns) > 0
        ending = ENDINGS[self.lifecycle, open_turns, how]
        error: HackamoreError | None = None
        if ending is Ending.FAILED and self.lifecycle is not SessionState.RUNNING:
            error = self._start_error() or CLIExitedDuringInitError(code, self._captured())
        elif ending is Ending.FAILED:
            hint = exit_code_hint(code, stdout_was_empty=not self.received)
            reason = f"the CLI exited{' while a prompt was open' if open_turns else ''}. {hint}"
            error = SessionClosedError(expected=False, reason=reason, exit_code=code, stderr_tail=self._stderr)
        self._end(ending, error)

    def _end(self, ending: Ending, error: HackamoreError | None) -> None:
        """End: everything that is open is resolved, once."""
        if self.over:
            return
        starting = self._starting
        self._flush()  # now, while prompts are open: later these messages belong to none
        self.ending = ending
        self.terminal_error = self._named(error) if ending is Ending.FAILED and error is not None else None
        self._move_handshake(HandshakeTrigger.ENDED)
        self._move_lifecycle(LifecycleTrigger.FAILURE if ending is Ending.FAILED else LifecycleTrigger.ENDED_WELL)
        self._move_input(HalfTrigger.CLOSED)
        self._held.clear()
        if starting:
            self._emit(events.HandshakeFailed(self.closed_error()))
        self._end_pending()
        self._early.clear()
        for request in self._in_flight:
            self._in_flight.remove(request.request_id)
            self._emit(events.RequestCancelled(request.request_id, request.subtype, "ended"))
        death = TurnTrigger.DIED if ending is Ending.FAILED else TurnTrigger.STOPPED
        self._report_turns(self.turns.end(death), ended=True)
        self.background_tasks = ()
        self._move_work(WorkTrigger.ENDED)
        self._emit(events.Ended(ending, self.terminal_error, self.exit_code, by_exit=self.exited))
