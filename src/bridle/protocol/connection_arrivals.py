"""What arrives at a connection: bytes, frames, the end of them, and the exit of the process. Receiving never raises."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from bridle.errors import (
    ControlRejectedError,
    DecodeError,
    InitializationError,
    LineTooLongError,
    TooManyDecodeErrors,
)
from bridle.messages import (
    AssistantMessage,
    BackgroundTasksChangedMessage,
    CommandLifecycleMessage,
    InitMessage,
    Message,
    ResultMessage,
    SessionStateChangedMessage,
    StreamEvent,
    TaskNotificationMessage,
    TaskUpdatedMessage,
    UserMessage,
    decode,
)
from bridle.messages.control import ControlCancelRequest, ControlRequest, ControlResponse
from bridle.protocol import events
from bridle.protocol.answers import Answer, error_text, read_answer
from bridle.protocol.connection_base import ConnectionBase, Role
from bridle.protocol.control import Direction, malformed, row_for
from bridle.protocol.exchanges import InFlightRequest
from bridle.protocol.framing import OversizedLine
from bridle.protocol.results import ControlResult, ServerInfo, decode_result
from bridle.protocol.states.session import (
    HANDSHAKE,
    LIFECYCLE,
    OUTPUT,
    PROCESS,
    Activity,
    Half,
    HalfHappening,
    Handshake,
    HandshakeHappening,
    Lifecycle,
    LifecycleHappening,
    Process,
    ProcessHappening,
)

if TYPE_CHECKING:
    from bridle.messages import Frame

__all__ = ["Arrivals"]

logger = logging.getLogger("bridle")


class Arrivals(ConnectionBase):
    """The half of a connection that the peer drives."""

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer."""
        if self.over or self._output is Half.CLOSED:
            return
        for arrived in self._reading.receive_data(data):
            self._take(arrived)
            if self.over:
                return
        self._queue.flush()

    def receive_eof(self) -> None:
        """Take that the peer will send nothing more. A session has ended when the exit status is known too.

        A host that closed its side still reads: the role CLI goes on, and only what it had asked for is resolved.
        """
        if self._output is Half.CLOSED:
            return
        tail = self._reading.receive_eof()
        if tail is not None and not self.over:
            self._take(tail)
            self._queue.flush()
        self._output = OUTPUT[self._output, HalfHappening.CLOSED]
        if self._process is Process.EXITED:
            self._end_with_process()
        elif self.role is Role.CLI and not self.over:
            for request in self._pending:
                self._resolve(request, error=self.closed_error())
            self._queue.emit(events.HostFinished())

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

    # -- frames --------------------------------------------------------------------------------------------------------

    def _take(self, arrived: Frame | DecodeError | OversizedLine | bytes) -> None:
        match arrived:
            case DecodeError():
                self._on_bad_line(arrived)
            case OversizedLine():
                self._on_long_line(arrived)
            case bytes():
                self._queue.emit(events.IncompleteLine(arrived))
            case _:
                self._dispatch(arrived)

    def _on_long_line(self, line: OversizedLine) -> None:
        limit = self._limits.line_bytes
        if self._long_lines_end:
            self.fail(LineTooLongError(line.size, limit, line.head))
            return
        self._queue.warn(
            "OVERSIZED_LINE_SKIPPED",
            f"A line of at least {line.size:,} bytes was skipped; `Limits.line_bytes` is {limit:,}.",
            size=line.size,
            head=line.head,
        )

    def _on_bad_line(self, error: DecodeError) -> None:
        self._queue.emit(events.BadLine(error))
        count = self._reading.bad_lines
        excused = self._results_excuse and self.last_result is not None and not len(self.turns)
        if count >= self._limits.consecutive_decode_errors and not excused:
            self.fail(TooManyDecodeErrors(count, error))

    def _dispatch(self, frame: Frame) -> None:
        match frame:
            case ControlRequest() | ControlResponse() | ControlCancelRequest() if self._handshake is Handshake.NONE:
                logger.debug("a %r frame has no meaning in a one-way launch", frame.type)
            case ControlRequest():
                self._on_request(frame)
            case ControlResponse():
                self._on_response(frame)
            case ControlCancelRequest():
                self._on_cancel(frame)
            case UserMessage() if self.role is Role.CLI:
                self._queue.emit(events.PromptReceived(frame, frame.uuid))
            case Message() if self.role is Role.CLI:
                logger.debug("the host sent a frame of type %r", frame.type)
            case ResultMessage():
                self._on_result(frame)
            case CommandLifecycleMessage():
                self._on_report(frame)
            case SessionStateChangedMessage():
                self._on_state(frame)
            case BackgroundTasksChangedMessage():
                self._on_tasks(frame, self._cli.tasks_listed(frame))
            case TaskNotificationMessage():
                self._on_tasks(frame, self._cli.task_notified(frame))
            case TaskUpdatedMessage():
                self._on_tasks(frame, self._cli.task_updated(frame))
            case Message():
                self._on_message(frame)
            case _:
                logger.debug("frame of type %r is for nobody", frame.type)

    def _on_message(self, frame: Message) -> None:
        if isinstance(frame, InitMessage):
            self._cli.turn_began(frame)
            self._learn(frame.capabilities)
        if self.turns.names_matter:
            named = getattr(frame, "user_message_uuids", None) or ()
            one = getattr(frame, "user_message_uuid", None)
            if named or one:
                self._queue.flush()
                self._tell_turns(self.turns.named([*named, one] if one else named))
            elif isinstance(frame, (InitMessage, AssistantMessage, StreamEvent)):
                self._queue.flush()
                self._tell_turns(self.turns.work_begins())
        self._queue.batch.append(frame)

    def _learn(self, capabilities: list[str]) -> None:
        # A turn that the CLI starts by itself must not be taken for ours before it has read our first prompt.
        if _REPORTS_ON_PROMPTS in capabilities:
            self.turns.reported = True

    def _on_result(self, frame: ResultMessage) -> None:
        self._queue.flush()
        self._cli.answered(frame)
        ended = self.turns.finished_by(frame)
        self._queue.deliver(frame, tuple(turn.id for turn in ended))
        self._tell_turns(ended)
        self._look_at_rules()

    def _on_report(self, frame: CommandLifecycleMessage) -> None:
        self._queue.deliver(frame, (frame.command_uuid,) if frame.command_uuid in self.turns else ())
        self._tell_turns(self.turns.report(frame.command_uuid, frame.state))
        self._look_at_rules()

    def _on_state(self, frame: SessionStateChangedMessage) -> None:
        if not frame.sdk_host_only:
            self._queue.batch.append(frame)  # asked for by the user, and not by us
        if self._cli.state_reported(frame):
            self._queue.emit(events.ActivityChanged(self.activity))
        if self.activity is Activity.IDLE:
            self._queue.flush()
            self._tell_turns(self.turns.idle())
        self._look_at_rules()

    def _on_tasks(self, frame: Message, changed: bool) -> None:
        self._queue.batch.append(frame)
        if changed:
            self._queue.emit(events.BackgroundTasksChanged(self.background_tasks))
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
            self._queue.warn(
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
        self._queue.emit(events.RequestReceived(request_id, subtype, frame, row))

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
            result = decode_result(kind, answer.response, self._queue.warned)
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
        self._queue.emit(events.RequestCancelled(request_id, waiting.subtype, "cancelled"))
        self._look_at_rules()

    # -- the handshake -------------------------------------------------------------------------------------------------

    def _initialize_answered(self, request_id: str, answer: Answer, failed: bool) -> None:
        self._pending.remove(request_id)
        if failed:
            self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.ERROR]
            self.fail(InitializationError(error_text(answer.error)))
            return
        info = decode_result(ServerInfo, answer.response, self._queue.warned)
        assert isinstance(info, ServerInfo)  # noqa: S101 - for the type checker
        self.server_info = info
        self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.ANSWER]
        self._lifecycle = LIFECYCLE[self._lifecycle, LifecycleHappening.CONFIRMED]
        self._learn(info.capabilities)
        self._queue.emit(events.HandshakeCompleted(info))
        self._release()
        for pending in (answer.pending_permission_requests, answer.pending_user_dialog_requests):
            self._open_again(pending)

    def _open_again(self, pending: Raw) -> None:
        """Take requests that the CLI still wants to have answered, as if they had come now."""
        try:
            requests = msgspec.json.decode(pending, type=list[Raw]) if pending else []
            for request in requests:
                again = decode(bytes(request), self._queue.warned)
                if isinstance(again, ControlRequest):
                    self._on_request(again)
        except (ValueError, RecursionError, DecodeError):
            logger.debug("pending requests in the answer to `initialize` could not be read")


_REPORTS_ON_PROMPTS = "msg_lifecycle_v1"
