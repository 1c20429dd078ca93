"""The core of a session: bytes and happenings in, events and bytes out. It never waits and knows no clock.

A shell calls `receive_data`, `receive_eof` and `process_exited`, takes `events_received()` and writes `data_to_send()`; whatever it
wants it asks for with the `send_*` methods. Deadlines are the shell's: it tells what passed with `expire`. What arrives never raises;
what we ask for raises only before anything was changed.

`Role.HOST` is the library, `Role.CLI` its opposite: same framing, same exchanges, same handshake, so that each is tested by the other.
"""

from __future__ import annotations

import copy
import logging
import os
from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from bridle.bounds import Limits
from bridle.errors import (
    CLIExitedDuringInitError,
    ControlRejectedError,
    ControlTimeoutError,
    DecodeError,
    InitializationError,
    InitializationTimeoutError,
    InitQueueOverflowError,
    LineTooLongError,
    SessionClosedError,
    StreamWarning,
    TooManyDecodeErrors,
    TooManyPendingRequestsError,
    UnsupportedCLIVersionError,
)
from bridle.messages import (
    MESSAGE_TYPES,
    AssistantMessage,
    BackgroundTasksChangedMessage,
    CommandLifecycleMessage,
    InitMessage,
    Message,
    ResultMessage,
    SessionStateChangedMessage,
    StreamEvent,
    TaskNotificationMessage,
    UserMessage,
    decode,
)
from bridle.messages.control import ControlCancelRequest, ControlRequest, ControlResponse
from bridle.messages.decode import decode_run
from bridle.protocol import events, frames
from bridle.protocol import session_states as states
from bridle.protocol.answers import Answer, error_text, read_answer
from bridle.protocol.control import ControlRow, Direction, encode_request, fail_answer, malformed, row_for
from bridle.protocol.control_results import ControlResult, ServerInfo, decode_result
from bridle.protocol.diagnostics import exit_code_hint, process_failure
from bridle.protocol.exchanges import InFlightRequest, Ledger, PendingRequest
from bridle.protocol.framing import LineFramer, OversizedLine
from bridle.protocol.session_states import (
    ACTIVITY,
    ENDINGS,
    HANDSHAKE,
    INPUT,
    LIFECYCLE,
    OUTPUT,
    PROCESS,
    Activity,
    Asked,
    Ending,
    Exit,
    Half,
    HalfHappening,
    Handshake,
    HandshakeHappening,
    Lifecycle,
    LifecycleHappening,
    Process,
    ProcessHappening,
    Snapshot,
    TurnHappening,
    TurnState,
)
from bridle.protocol.turns import Turn, TurnTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridle.errors import BridleError, WarningCode
    from bridle.messages import Frame
    from bridle.messages.system import BackgroundTask
    from bridle.protocol.frames import Payload

__all__ = ["SETTLE_SECONDS", "Connection", "Role"]

SETTLE_SECONDS = 5.0
"""How long the CLI may say nothing after a background task ended, before it is believed that nothing follows. Seen: 0.03 s."""

logger = logging.getLogger("bridle")


class Role(Enum):
    """Which end of the wire a connection is."""

    HOST = auto()
    CLI = auto()


class Connection:
    """One end of a session.

    Args:
        role: which end.
        limits: every bound; `line_bytes`, `consecutive_decode_errors`, `queued_operations`, `pending_requests`, `early_requests` count.
        hold_until_confirmed: nothing is sent on an implicit confirmation: a guard depends on what the CLI says about itself.
        long_lines_end: a line that is too long ends the session, and is not skipped with a warning.
        results_excuse: after a result, with no prompt open, any number of lines may be bad.
        random_bytes: where ids come from.

    Attributes:
        server_info: what the CLI said of itself, once it did.
        session_id: the session, as last reported.
        background_tasks: what runs in the background, as last reported.
        last_result: the last result that came.
        terminal_error: why the session failed, if it did.
        exit_code: the process's, once it is known.
        turns: the prompts of ours that are open.
    """

    def __init__(
        self,
        role: Role = Role.HOST,
        *,
        limits: Limits | None = None,
        hold_until_confirmed: bool = False,
        long_lines_end: bool = False,
        results_excuse: bool = False,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.role = role
        self.server_info: ServerInfo | None = None
        self.session_id: str | None = None
        self.background_tasks: tuple[BackgroundTask, ...] = ()
        self.last_result: ResultMessage | None = None
        self.terminal_error: BridleError | None = None
        self.exit_code: int | None = None
        self.turns = TurnTable()
        self._limits = limits or Limits()
        self._hold_until_confirmed = hold_until_confirmed
        self._long_lines_end = long_lines_end
        self._results_excuse = results_excuse
        self._random_bytes = random_bytes
        self._framer = LineFramer(self._limits.line_bytes)
        self._lifecycle = Lifecycle.NEW
        self._handshake = Handshake.UNSENT
        self._input = Half.OPEN
        self._output = Half.OPEN
        self._process = Process.ALIVE
        self._activity = Activity.UNKNOWN
        self._asked = Asked.NOTHING
        self._unsettled = False
        self._pending: Ledger[PendingRequest] = Ledger()
        self._in_flight: Ledger[InFlightRequest] = Ledger()
        self._early: dict[str, ControlRequest] = {}
        self._held: deque[tuple[PendingRequest | Turn, bytes]] = deque()
        self._initialize_id: str | None = None
        self._counter = 0
        self._events: deque[events.Event] = deque()
        self._batch: list[Message] = []
        self._out: list[bytes] = []
        self._bad_lines = 0
        self._received = False
        self._last_bad_line: bytes | None = None
        self._stderr_tail = b""
        self._may_close_was_said = False
        self._flows_was_said = False
        self._ended: Ending | None = None

    # -- where it stands ----------------------------------------------------------------------------------------------

    @property
    def lifecycle(self) -> Lifecycle:
        """Where the session stands, as its user sees it."""
        return self._lifecycle

    @property
    def handshake(self) -> Handshake:
        """How far `initialize` has come."""
        return self._handshake

    @property
    def activity(self) -> Activity:
        """What the CLI says it is doing."""
        return self._activity

    @property
    def over(self) -> bool:
        """True once nothing more can happen: the process, if it lives, is to be stopped."""
        return self._ended is not None

    @property
    def ending(self) -> Ending | None:
        """How it ended, once it has."""
        return self._ended

    @property
    def quiet(self) -> bool:
        """True while nothing goes on: no prompt of ours is open, nothing runs in the background, and the CLI is idle."""
        return states.is_quiet(self.snapshot())

    @property
    def unsettled(self) -> bool:
        """True between the end of a background task and the CLI's next word; after `SETTLE_SECONDS` of it, call `settle`."""
        return self._unsettled

    @property
    def input_may_close(self) -> bool:
        """True while stdin may be closed: it was asked for and the joint rule holds."""
        # Asked after every frame, so the rest of the rule is looked at only once closing was asked for.
        return self._input is Half.CLOSING and not self.over and states.input_may_close(self.snapshot())

    @property
    def finishing(self) -> bool:
        """True once stdin was asked to be closed: no prompt is taken any more."""
        return self._input is not Half.OPEN

    @property
    def stderr_tail(self) -> bytes:
        """The last part of the process's stderr, once it has exited."""
        return self._stderr_tail

    @property
    def exited(self) -> bool:
        """True once the exit status is known and the output was read to its end."""
        return self._process is Process.EXITED and self._output is Half.CLOSED

    @property
    def input_closed(self) -> bool:
        """True once nothing can be written any more."""
        return self._input is Half.CLOSED

    @property
    def pending_requests(self) -> tuple[PendingRequest, ...]:
        """Our requests that wait for an answer."""
        return tuple(self._pending)

    @property
    def in_flight_requests(self) -> tuple[InFlightRequest, ...]:
        """The peer's requests that wait for ours."""
        return tuple(self._in_flight)

    def snapshot(self) -> Snapshot:
        """Return what the joint rules look at."""
        return Snapshot(
            lifecycle=self._lifecycle,
            handshake=self._handshake,
            input=self._input,
            output=self._output,
            process=self._process,
            activity=self._activity,
            open_turns=len(self.turns),
            pending_requests=sum(not request.internal for request in self._pending),
            in_flight_requests=len(self._in_flight) + len(self._early),
            background_tasks=sum(not task.ambient for task in self.background_tasks),
            unsettled=self._unsettled,
            hold_until_confirmed=self._hold_until_confirmed,
            peer_only_listens=self.role is Role.CLI,
        )

    # -- in -----------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer."""
        if self.over or self._output is Half.CLOSED:
            return
        self._received = True
        if self.role is Role.CLI:
            for arrived in self._framer.receive_data(data):
                self._receive_line(arrived)
                if self.over:
                    return
            return
        lines = iter(self._framer.receive_data(data))
        while True:
            kinds = _PLAIN_AND_NAMELESS if self.turns.names_matter else _PLAIN
            count, line = decode_run(lines, kinds, self._batch.append)
            if count:
                self._bad_lines = 0
            if line is None:
                break
            self._receive_line(line)
            if self.over:
                return
        self._flush()

    def receive_eof(self) -> None:
        """Take that the peer will send nothing more. A session has ended when the exit status is known too.

        A host that closed its side still reads: the role CLI goes on, and only what it had asked for is resolved.
        """
        if self._output is Half.CLOSED:
            return
        tail = self._framer.receive_eof()
        if tail is not None and not self.over:
            if isinstance(tail, bytes):
                try:
                    frame = decode(tail, self._warn_later)
                except DecodeError:
                    self._last_bad_line = tail
                    self._warn("INCOMPLETE_LAST_LINE", "The output ended in the middle of a line.", line=tail[:2_000])
                else:
                    self._dispatch(frame)
            self._flush()
        self._output = OUTPUT[self._output, HalfHappening.CLOSED]
        if self._process is Process.EXITED:
            self._end_with_process()
        elif self.role is Role.CLI and not self.over:
            for request in self._pending:
                self._resolve(request, error=self.closed_error())
            self._emit(events.HostFinished())

    def process_exited(self, exit_code: int | None, stderr_tail: bytes = b"") -> None:
        """Take the exit status. The session has ended when the output has been read to its end too.

        Args:
            exit_code: negative for a signal; None if the process had to be stopped because it did not exit by itself. The role CLI
                tells its own.
            stderr_tail: the last part of its stderr.
        """
        if self._process is Process.EXITED:
            return
        self._process = PROCESS[self._process, ProcessHappening.EXITED]
        self.exit_code = exit_code
        self._stderr_tail = stderr_tail
        if self._output is Half.CLOSED or self.role is Role.CLI:
            self._end_with_process()

    def fail(self, error: BridleError) -> None:
        """Take that the session is lost: the process could not be started, or its shell gave up. Everything open is resolved."""
        self._end(Ending.STOPPED if self._asked is Asked.STOP else Ending.FAILED, error)

    # -- out ----------------------------------------------------------------------------------------------------------

    def events_received(self) -> list[events.Event]:
        """Return what happened since the last call, in order."""
        self._flush()
        happened = list(self._events)
        self._events.clear()
        return happened

    def data_to_send(self) -> bytes:
        """Return what is to be written: whole lines. It counts as written."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    # -- starting and ending ------------------------------------------------------------------------------------------

    def begin_start(self) -> None:
        """Take that the process is being started."""
        self._lifecycle = LIFECYCLE[self._lifecycle, LifecycleHappening.START]

    def send_initialize(self, fields: Mapping[str, Any] | None = None) -> str:
        """Write `initialize`; return its request id, for `expire`.

        Raises:
            ValueError: if JSON cannot hold a field.
            TypeError: if a field has the wrong type.
            SessionClosedError: if the session is over.
        """
        self._require_open()
        if self._handshake is not Handshake.UNSENT:
            raise RuntimeError("`initialize` was sent already; to send it again is a request like others")
        request_id = self._next_id()
        frame = frames.request_frame(request_id, "initialize", encode_request("initialize", dict(fields or {})))
        request = PendingRequest(request_id, "initialize", row_for("initialize"))
        request.written = True
        self._pending.add(request)
        self._initialize_id = request_id
        self._lifecycle = LIFECYCLE[self._lifecycle, LifecycleHappening.INITIALIZE_SENT]
        self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.SENT]
        self._write(frame)
        early, self._early = self._early, {}
        for waiting in early.values():
            self._on_request(waiting)
        return request_id

    def close_input(self) -> None:
        """Ask for stdin to be closed as soon as the joint rule allows it; `InputMayClose` tells when. No prompt is taken any more."""
        self._input = INPUT[self._input, HalfHappening.CLOSE_ASKED]
        if self._asked is Asked.NOTHING:
            self._asked = Asked.FINISH
        self._look_at_rules()

    def input_was_closed(self) -> None:
        """Take that stdin is closed."""
        self._input = INPUT[self._input, HalfHappening.CLOSED]
        self._out.clear()

    def input_broke(self) -> None:
        """Take that the peer does not read any more. Its end, which follows, resolves what is open."""
        self._input = INPUT[self._input, HalfHappening.BROKEN]
        self._out.clear()

    def begin_stop(self) -> None:
        """Stop the session: nothing new is accepted, waiters wake, and what the CLI asks gets the safe answer at once.

        A turn stays open until its result comes or the process has ended: `interrupt()` may still be sent.
        """
        self._asked = Asked.STOP
        before = self._lifecycle
        self._lifecycle = LIFECYCLE[before, LifecycleHappening.STOP]
        if before is Lifecycle.NEW:
            self._end(Ending.STOPPED, None)
        if before is self._lifecycle or self.over:
            return
        self._held.clear()
        starting = self._handshake in (Handshake.UNSENT, Handshake.SENT, Handshake.IMPLICIT)
        for request in self._pending:
            self._resolve(request, error=self.closed_error())
        if starting:
            self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.ENDED]
            self._emit(events.HandshakeFailed(self.closed_error()))
        self._tell_turns(self.turns.end(TurnHappening.STOPPED, only_unwritten=True), error=True)
        for waiting in self._in_flight:
            self._fail(waiting, "the session is stopping", "stopping")
        early, self._early = self._early, {}
        for frame in early.values():
            self._on_request(frame)

    def settle(self) -> None:
        """Take that the CLI has said nothing for long enough after a background task ended."""
        self._unsettled = False
        self._look_at_rules()

    def closed_error(self) -> BridleError:
        """Return a fresh error for somebody who wants something of a session that is over, or is being stopped."""
        if self.terminal_error is not None:
            return copy.copy(self.terminal_error)
        stopping = self._asked is Asked.STOP
        return SessionClosedError(
            expected=stopping or self._ended is Ending.COMPLETED or self._asked is Asked.FINISH,
            reason="it was stopped" if stopping else "it has ended",
            exit_code=self.exit_code,
            stderr_tail=self._stderr_tail.decode("utf-8", "replace"),
        )

    # -- what we ask for ----------------------------------------------------------------------------------------------

    def send_prompt(
        self, content: object, *, turn_id: str | None = None, fields: Mapping[str, Any] | None = None
    ) -> str:
        """Send a prompt; return its id, a uuid. Before the session is ready it waits, without a bound.

        Args:
            content: a string, or a list of content blocks.
            turn_id: the id; a fresh one by default.
            fields: further fields of the frame by their names on the wire.

        Raises:
            ValueError: if JSON cannot hold it, or the id is taken.
            SessionClosedError: if the session is over, being stopped, or was asked to finish.
        """
        self._require_open()
        if self._lifecycle is Lifecycle.STOPPING or self._input is not Half.OPEN:
            raise self.closed_error()
        turn = Turn(turn_id or self._uuid())
        if turn.id in self.turns:
            raise ValueError(f"a prompt with the id {turn.id!r} is open already")
        frame = frames.user_frame(content, turn.id, fields)
        self.turns.add(turn)
        self._write_or_hold(turn, frame)
        return turn.id

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
            fields: what it carries.
            operation: what its user calls it, for errors.
            internal: nobody waits for it: its ending is not reported.

        Raises:
            TypeError: if a field is missing or has the wrong type.
            ValueError: if JSON cannot hold it.
            SessionClosedError: if the session is over or being stopped.
            TooManyPendingRequestsError: if `Limits.pending_requests` wait already.
            InitQueueOverflowError: if the session is not ready and `Limits.queued_operations` wait already.
        """
        self._require_open()
        if self._lifecycle is Lifecycle.STOPPING:
            raise self.closed_error()
        return self._request(subtype, fields, operation or subtype, internal)

    def interrupt(self, *, cancel_queued: bool = False, internal: bool = False) -> str:
        """Send an interrupt; return its request id. It is accepted while the session stops, and while it finishes."""
        self._require_open()
        fields = {"cancel_queued": True} if cancel_queued else {}
        return self._request("interrupt", fields, "interrupt", internal)

    def cancel_request(self, request_id: str) -> bool:
        """Give a request of ours up: its waiter has gone, and its answer will be nobody's. True if it was open."""
        if request_id == self._initialize_id and self.role is Role.HOST:
            return False  # without it there is no session: stop that instead
        request = self._pending.remove(request_id)
        if request is None:
            return False
        if request.written:
            self._write(frames.cancel_frame(request_id))
        else:
            self._unhold(request)
        self._look_at_rules()
        return True

    def withdraw_prompt(self, turn_id: str) -> bool:
        """Take back a prompt that was not written yet; True if there was one. One that was is the CLI's to cancel."""
        turn = self.turns.get(turn_id)
        if turn is None or turn.written:
            return False
        self._unhold(turn)
        self._tell_turns(self.turns.withdraw(turn_id))
        self._look_at_rules()
        return True

    def expire(self, request_id: str, seconds: float | None = None, stderr_tail: bytes = b"") -> bool:
        """Take that a deadline passed: of a request of ours, of `initialize`, or of one that we are handling.

        Args:
            request_id: which request.
            seconds: the length of the deadline, for messages.
            stderr_tail: what the process has printed, for a start that failed.

        Returns:
            True if it was open.
        """
        if request_id == self._initialize_id and request_id in self._pending:
            self._initialize_expired(seconds, stderr_tail)
            return True
        request = self._pending.get(request_id)
        if request is not None:
            if not request.written:
                self._unhold(request)
            self._resolve(request, error=ControlTimeoutError(request.operation, request_id, seconds))
            self._look_at_rules()
            return True
        waiting = self._in_flight.get(request_id)
        if waiting is None:
            return False
        within = f" within {seconds:g} s" if seconds is not None else " in time"
        self._fail(waiting, f"it was not answered{within}", "expired")
        self._look_at_rules()
        return True

    def expire_turn(self, turn_id: str) -> bool:
        """Take that a deadline of a prompt passed: it is interrupted, or withdrawn; its end is reported as always. True if it was open."""
        turn = self.turns.get(turn_id)
        if turn is None or not states.may_write(self.snapshot()):
            return False
        if not turn.written:
            return self.withdraw_prompt(turn_id)
        if turn.state is TurnState.STARTED:
            self.interrupt(internal=True)
        elif self._lifecycle is not Lifecycle.STOPPING:
            self.send_request("cancel_async_message", {"message_uuid": turn_id}, internal=True)
        return True

    # -- what we answer -----------------------------------------------------------------------------------------------

    def send_response(self, request_id: str, payload: Payload | None = None) -> bool:
        """Answer a request of the peer. The first ending counts: later ones do nothing.

        Args:
            request_id: which request.
            payload: the answer: an object, or ready JSON that is copied as it is.

        Returns:
            True if it was still open and the answer was written: after our input was closed nobody reads it.

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
        return self._answer(request_id, frames.error_frame(request_id, error, code), HandshakeHappening.ERROR)

    def fail_request(self, request_id: str, reason: str) -> bool:
        """Answer a request of the peer safely, as its row says; returns what `send_response` does."""
        waiting = self._in_flight.get(request_id)
        if waiting is None:
            return False
        return self._answer(request_id, self._safe_frame(waiting.row, waiting.frame, request_id, reason))

    def send_message(self, message: Payload) -> None:
        """Send any other frame: for the role CLI, and for frames that have no method.

        Raises:
            ValueError: if it is not a JSON object.
        """
        self._require_open()
        self._write(frames.message_frame(message))

    # -- inside: what arrives -----------------------------------------------------------------------------------------

    def _receive_line(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine) and self._long_lines_end:
            self.fail(LineTooLongError(line.size, self._limits.line_bytes, line.head))
            return
        if isinstance(line, OversizedLine):
            self._warn(
                "OVERSIZED_LINE_SKIPPED",
                f"A line of at least {line.size:,} bytes was skipped; `Limits.line_bytes` is {self._limits.line_bytes:,}.",
                size=line.size,
                head=line.head,
            )
            return
        try:
            frame = decode(line, self._warn_later)
        except DecodeError as error:
            if not line.isspace():
                self._bad_line(error)
            return
        self._bad_lines = 0
        self._dispatch(frame)

    def _bad_line(self, error: DecodeError) -> None:
        self._last_bad_line = error.line
        self._bad_lines += 1
        self._emit(events.BadLine(error))
        excused = self._results_excuse and self.last_result is not None and not len(self.turns)
        if self._bad_lines >= self._limits.consecutive_decode_errors and not excused:
            self.fail(TooManyDecodeErrors(self._bad_lines, error))

    def _dispatch(self, frame: Frame) -> None:
        match frame:
            case ControlRequest():
                self._on_request(frame)
            case ControlResponse():
                self._on_response(frame)
            case ControlCancelRequest():
                self._on_cancel(frame)
            case UserMessage() if self.role is Role.CLI:
                self._emit(events.PromptReceived(frame, frame.uuid))
            case Message() if self.role is Role.CLI:
                logger.debug("the host sent a frame of type %r", frame.type)
            case ResultMessage():
                self._on_result(frame)
            case CommandLifecycleMessage():
                self._on_report(frame)
            case SessionStateChangedMessage():
                self._on_state(frame)
            case BackgroundTasksChangedMessage():
                self._on_tasks(frame)
            case TaskNotificationMessage():
                self._unsettled = self._unsettled or not frame.ambient
                self._batch.append(frame)
            case Message():
                self._on_message(frame)
            case _:
                logger.debug("frame of type %r is for nobody", frame.type)

    def _on_message(self, frame: Message) -> None:
        if isinstance(frame, InitMessage):
            self.session_id = frame.session_id or self.session_id
            self._learn(frame.capabilities)
        if self.turns.names_matter:
            named = getattr(frame, "user_message_uuids", None) or ()
            one = getattr(frame, "user_message_uuid", None)
            if named or one:
                self._flush()
                self._tell_turns(self.turns.named([*named, one] if one else named))
            elif isinstance(frame, (InitMessage, AssistantMessage, StreamEvent)):
                self._flush()
                self._tell_turns(self.turns.work_begins())
        self._batch.append(frame)

    def _learn(self, capabilities: list[str]) -> None:
        # A turn that the CLI starts by itself must not be taken for ours before it has read our first prompt.
        if _REPORTS_ON_PROMPTS in capabilities:
            self.turns.reported = True

    def _on_result(self, frame: ResultMessage) -> None:
        self._flush()
        self.last_result = frame
        self.session_id = frame.session_id or self.session_id
        ended = self.turns.finished_by(frame)
        self._events.append(events.MessagesReceived([frame], tuple(turn.id for turn in ended)))
        self._tell_turns(ended)
        self._look_at_rules()

    def _on_report(self, frame: CommandLifecycleMessage) -> None:
        self._flush()
        whose = (frame.command_uuid,) if frame.command_uuid in self.turns else ()
        self._events.append(events.MessagesReceived([frame], whose))
        self._tell_turns(self.turns.report(frame.command_uuid, frame.state))
        self._look_at_rules()

    def _on_state(self, frame: SessionStateChangedMessage) -> None:
        if not frame.sdk_host_only:
            self._batch.append(frame)  # asked for by the user, and not by us
        activity = ACTIVITY.get(frame.state, Activity.RUNNING)
        self._unsettled = False
        if activity is not self._activity:
            self._activity = activity
            self._emit(events.ActivityChanged(activity))
        if activity is Activity.IDLE:
            self._flush()
            self._tell_turns(self.turns.idle())
        self._look_at_rules()

    def _on_tasks(self, frame: BackgroundTasksChangedMessage) -> None:
        self._batch.append(frame)
        tasks = tuple(frame.tasks)
        if tasks != self.background_tasks:
            self.background_tasks = tasks
            self._emit(events.BackgroundTasksChanged(tasks))
        self._look_at_rules()

    def _on_request(self, frame: ControlRequest) -> None:
        request_id = frame.request_id
        if not request_id:
            logger.debug("a control request without an id was dropped")
            return
        if not self._in_flight.fresh(request_id) or request_id in self._early:
            logger.debug("control request %s came twice", request_id)
            return
        if self.role is Role.HOST and self._handshake is Handshake.UNSENT and self._lifecycle is not Lifecycle.STOPPING:
            if len(self._early) >= self._limits.early_requests:
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
        if self.role is Role.HOST:
            self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.REQUEST]
            self._release()
        wanted = Direction.HOST_TO_CLI if self.role is Role.CLI else Direction.CLI_TO_HOST
        row = row_for(subtype)
        if row is None or row.direction not in (wanted, Direction.BOTH):
            self._refuse(request_id, f"Unknown subtype: {subtype}", "unsupported_request")
            return
        if (problem := malformed(row, frame.request_raw)) is not None:
            self._warn(
                "CALLBACK_FAILED", f"A `{subtype}` request cannot be read: {problem}.", subtype=subtype, reason=problem
            )
            self._answer_at_once(request_id, row, frame, f"the request cannot be read: {problem}")
            return
        if self._lifecycle is Lifecycle.STOPPING:
            self._answer_at_once(request_id, row, frame, "the session is stopping")
            return
        if self.role is Role.CLI and subtype == "initialize" and self._handshake is Handshake.UNSENT:
            self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.SENT]
            self._initialize_id = request_id
        self._in_flight.add(InFlightRequest(request_id, row, frame))
        self._emit(events.RequestReceived(request_id, subtype, frame, row))

    def _on_response(self, frame: ControlResponse) -> None:
        answer = read_answer(frame)
        request_id = answer.request_id or frame.outer_request_id or ""
        request = self._pending.get(request_id)
        if request is None or not request.written:
            # Late, never ours, or our own answer that the CLI plays back (`--replay-user-messages`).
            logger.debug("a control response to %r is for nobody", request_id)
            return
        failed = answer.subtype == "error" or (answer.subtype is None and bool(answer.error))
        if request_id == self._initialize_id and self.role is Role.HOST:
            self._initialize_answered(request_id, answer, failed)
        elif failed:
            self._resolve(
                request, error=ControlRejectedError(request.operation, error_text(answer.error), answer.error_code)
            )
        else:
            kind = request.row.result if request.row is not None else ControlResult
            result = decode_result(kind, answer.response, self._warn_later)
            if isinstance(result, ServerInfo):
                self.server_info = result
            self._resolve(request, result=result)
        self._look_at_rules()

    def _on_cancel(self, frame: ControlCancelRequest) -> None:
        request_id = frame.request_id or ""
        self._early.pop(request_id, None)
        waiting = self._in_flight.remove(request_id)
        if waiting is None:
            logger.debug("a cancellation of %r is for nobody", request_id)
            return
        self._emit(events.RequestCancelled(request_id, waiting.subtype, "cancelled"))
        self._look_at_rules()

    # -- inside: the handshake ----------------------------------------------------------------------------------------

    def _initialize_answered(self, request_id: str, answer: Answer, failed: bool) -> None:
        self._pending.remove(request_id)
        if failed:
            self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.ERROR]
            self.fail(InitializationError(error_text(answer.error)))
            return
        info = decode_result(ServerInfo, answer.response, self._warn_later)
        assert isinstance(info, ServerInfo)  # noqa: S101 - for the type checker
        self.server_info = info
        self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.ANSWER]
        self._lifecycle = LIFECYCLE[self._lifecycle, LifecycleHappening.CONFIRMED]
        self._learn(info.capabilities)
        self._emit(events.HandshakeCompleted(info))
        self._release()
        for pending in (answer.pending_permission_requests, answer.pending_user_dialog_requests):
            self._open_again(pending)

    def _open_again(self, pending: Raw) -> None:
        """Take requests that the CLI still wants to have answered, as if they had come now."""
        try:
            requests = msgspec.json.decode(pending, type=list[Raw]) if pending else []
            for request in requests:
                again = decode(bytes(request), self._warn_later)
                if isinstance(again, ControlRequest):
                    self._on_request(again)
        except (ValueError, RecursionError, DecodeError):
            logger.debug("pending requests in the answer to `initialize` could not be read")

    def _initialize_expired(self, seconds: float | None, stderr_tail: bytes) -> None:
        self._stderr_tail = stderr_tail or self._stderr_tail
        implicit = self._handshake is Handshake.IMPLICIT
        self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.DEADLINE]
        if not implicit:
            self.fail(self._start_error() or InitializationTimeoutError(seconds or 0.0, self._captured()))
            return
        self._pending.remove(self._initialize_id or "")
        self._lifecycle = LIFECYCLE[self._lifecycle, LifecycleHappening.CONFIRMED]
        self._warn(
            "INIT_UNCONFIRMED",
            "The CLI works with us and has not answered `initialize`: nothing is known about what it can do.",
            seconds=seconds,
        )
        self._emit(events.InitUnconfirmed())
        self._emit(events.HandshakeCompleted(None))
        self._release()

    def _captured(self) -> str:
        if self._stderr_tail.strip():
            return self._stderr_tail.decode("utf-8", "replace")
        return (self._last_bad_line or b"").decode("utf-8", "replace")

    def _start_error(self) -> BridleError | None:
        """Return the error that says most about a start that failed, if there is something to say."""
        known = process_failure(
            self.exit_code,
            stderr_tail=self._stderr_tail,
            stdout_was_empty=not self._received,
            message_count=0,
            last_non_json_line=self._last_bad_line,
            last_result=self.last_result,
        )
        if isinstance(known, UnsupportedCLIVersionError):
            return known
        if self.last_result is not None and self.last_result.is_error:
            return InitializationError(
                "; ".join(self.last_result.errors) or self.last_result.result or "no reason given"
            )
        return None

    def _release(self) -> None:
        """Write what waited, if it may flow now."""
        if self._flows_was_said or not states.operations_flow(self.snapshot()):
            return
        self._flows_was_said = True
        held, self._held = self._held, deque()
        for what, frame in held:
            what.written = True
            self._write(frame)
        self._emit(events.OperationsReleased(implicitly=self._handshake is Handshake.IMPLICIT))

    # -- inside: what we send -----------------------------------------------------------------------------------------

    def _request(self, subtype: str, fields: Mapping[str, Any] | None, operation: str, internal: bool) -> str:
        wire = encode_request(subtype, dict(fields or {}))
        pending = sum(not request.internal for request in self._pending)
        if pending >= self._limits.pending_requests and not internal:
            raise TooManyPendingRequestsError(operation, pending, self._limits.pending_requests)
        if self.role is Role.HOST and not self._flows_was_said and not internal:
            waiting = sum(isinstance(what, PendingRequest) for what, _ in self._held)
            if waiting >= self._limits.queued_operations:
                raise InitQueueOverflowError(operation, waiting, self._limits.queued_operations)
        request_id = self._next_id()
        frame = frames.request_frame(request_id, subtype, wire)
        request = PendingRequest(request_id, subtype, row_for(subtype), operation=operation, internal=internal)
        self._pending.add(request)
        self._write_or_hold(request, frame)
        return request_id

    def _write_or_hold(self, what: PendingRequest | Turn, frame: bytes) -> None:
        if self.role is Role.CLI or self._flows_was_said or self._lifecycle is Lifecycle.STOPPING:
            what.written = True
            self._write(frame)
        else:
            self._held.append((what, frame))

    def _unhold(self, what: PendingRequest | Turn) -> None:
        self._held = deque(item for item in self._held if item[0] is not what)

    def _write(self, frame: bytes) -> bool:
        written = not self.over and states.may_write(self.snapshot())
        if written:
            self._out.append(frame)
        return written

    def _next_id(self) -> str:
        self._counter += 1
        return f"req_{self._counter}_{self._random_bytes(4).hex()}"

    def _uuid(self) -> str:
        import uuid

        return str(uuid.UUID(bytes=self._random_bytes(16), version=4))

    def _require_open(self) -> None:
        if self.over or not states.may_write(self.snapshot()):
            raise self.closed_error()

    # -- inside: endings of exchanges ---------------------------------------------------------------------------------

    def _resolve(
        self, request: PendingRequest, *, result: ControlResult | None = None, error: BridleError | None = None
    ) -> None:
        if self._pending.remove(request.request_id) is None or request.internal:
            return
        if request.request_id == self._initialize_id and self.role is Role.HOST:
            return  # the handshake's own events tell
        self._emit(events.RequestResolved(request.request_id, request.operation, result, error))

    def _answer(self, request_id: str, frame: bytes, says: HandshakeHappening = HandshakeHappening.ANSWER) -> bool:
        self._in_flight.remove(request_id)
        written = self._write(frame)
        if self.role is Role.CLI and request_id == self._initialize_id and self._handshake is Handshake.SENT:
            self._handshake = HANDSHAKE[self._handshake, says]
        self._look_at_rules()
        return written

    def _answer_at_once(self, request_id: str, row: ControlRow, frame: ControlRequest, reason: str) -> None:
        self._in_flight.add(InFlightRequest(request_id, row, frame))
        self._answer(request_id, self._safe_frame(row, frame, request_id, reason))

    def _refuse(self, request_id: str, error: str, code: str | None = None) -> None:
        self._in_flight.forget(request_id)
        self._write(frames.error_frame(request_id, error, code))

    def _fail(self, waiting: InFlightRequest, reason: str, why: Any) -> None:
        self._answer(waiting.request_id, self._safe_frame(waiting.row, waiting.frame, waiting.request_id, reason))
        self._emit(events.RequestCancelled(waiting.request_id, waiting.subtype, why))

    def _safe_frame(self, row: ControlRow, frame: ControlRequest, request_id: str, reason: str) -> bytes:
        payload = fail_answer(row, frame, reason) if self.role is Role.HOST else None
        if payload is None:
            return frames.error_frame(request_id, reason)
        return frames.success_frame(request_id, payload)

    # -- inside: the end ----------------------------------------------------------------------------------------------

    def _end_with_process(self) -> None:
        if self.over:
            return
        last = self.last_result
        if self.exit_code == 0 or self.role is Role.CLI:
            code = Exit.CLEAN
        elif self.exit_code is not None and self.exit_code > 0 and last is not None and last.is_error:
            code = Exit.AFTER_ERROR_RESULT
        else:
            code = Exit.ERROR
        ending = ENDINGS[self._asked, len(self.turns) > 0, code]
        if self._asked is Asked.STOP:
            self._end(ending, None)
        elif self.role is Role.HOST and self._lifecycle is not Lifecycle.RUNNING:
            error = self._start_error() or CLIExitedDuringInitError(self.exit_code, self._captured())
            self._end(Ending.FAILED, error)
        elif ending is Ending.FAILED:
            hint = exit_code_hint(self.exit_code, stdout_was_empty=not self._received)
            self._end(
                ending,
                SessionClosedError(
                    expected=False,
                    reason=f"the CLI exited{' while a prompt was open' if len(self.turns) else ''}. {hint}",
                    exit_code=self.exit_code,
                    stderr_tail=self._stderr_tail.decode("utf-8", "replace"),
                ),
            )
        else:
            self._end(ending, None)

    def _end(self, ending: Ending, error: BridleError | None) -> None:
        """The one way out: everything that is open is resolved, once."""
        if self.over:
            return
        self._flush()
        self.terminal_error = error if ending is Ending.FAILED else None
        starting = self.role is Role.HOST and self._handshake in (Handshake.UNSENT, Handshake.SENT, Handshake.IMPLICIT)
        if starting or self._lifecycle is Lifecycle.INITIALIZING:
            self._emit(events.HandshakeFailed(self.closed_error()))
        self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.ENDED]
        happening = LifecycleHappening.FAILURE if ending is Ending.FAILED else LifecycleHappening.ENDED_WELL
        self._lifecycle = LIFECYCLE.get((self._lifecycle, happening), self._lifecycle)
        self._ended = ending
        self._held.clear()
        self._early.clear()
        self._out.clear()
        for request in self._pending:
            self._resolve(request, error=self.closed_error())
        for waiting in self._in_flight:
            self._in_flight.remove(waiting.request_id)
            self._emit(events.RequestCancelled(waiting.request_id, waiting.subtype, "ended"))
        death = TurnHappening.DIED if ending is Ending.FAILED else TurnHappening.STOPPED
        self._tell_turns(self.turns.end(death), error=True)
        self.background_tasks = ()
        self._unsettled = False
        self._emit(events.Ended(ending, self.terminal_error, self.exit_code, by_exit=self.exited))

    # -- inside: telling ----------------------------------------------------------------------------------------------

    def _look_at_rules(self) -> None:
        allowed = self.input_may_close
        if allowed and not self._may_close_was_said:
            self._emit(events.InputMayClose())
        self._may_close_was_said = allowed

    def _tell_turns(self, turns: list[Turn], *, error: bool = False) -> None:
        for turn in turns:
            self._emit(events.TurnStateChanged(turn.id, turn.state, self.closed_error() if error else None))

    def _warn(self, code: WarningCode, message: str, **context: object) -> None:
        self._warn_later(StreamWarning(code, message, context))

    def _warn_later(self, warning: StreamWarning) -> None:
        self._emit(events.Warned(warning))

    def _flush(self) -> None:
        if self._batch:
            self._events.append(events.MessagesReceived(self._batch, self.turns.current_ids))
            self._batch = []

    def _emit(self, event: events.Event) -> None:
        self._flush()
        self._events.append(event)


_REPORTS_ON_PROMPTS = "msg_lifecycle_v1"
_SPECIAL = {
    ResultMessage,
    SessionStateChangedMessage,
    BackgroundTasksChangedMessage,
    TaskNotificationMessage,
    CommandLifecycleMessage,
    InitMessage,
}
_PLAIN = frozenset(MESSAGE_TYPES.values()) - _SPECIAL
"""What is delivered and changes nothing else: almost every frame."""
_PLAIN_AND_NAMELESS = frozenset(
    kind for kind in _PLAIN if not {"user_message_uuid", "user_message_uuids"} & set(kind.__struct_fields__)
) - {AssistantMessage, StreamEvent}
"""The same while an ordinary frame may tell which prompt is being answered."""
