"""The core of a query or session: bytes and triggers in, events and bytes out. It never waits and knows no clock.

Four verbs move bytes: `receive_data` and `receive_eof` in, `events_received` and `data_to_send` out; `process_exited` brings the exit.
`expire` applies timeouts, which belong to shells. Receiving never raises for what the peer sent; sending raises only before anything
was changed.

`Role.HOST` is the library, `Role.CLI` its opposite: same framing, same exchanges, same handshake, so that each is tested by the other.

The parts stand alone, and users call the part they need. `FrameReader` makes frames of bytes, and `Outbox` keeps frames and events
until they are taken. `ConversationState` knows prompts (in their `TurnTable`), tasks and results. `Exchanges` has the requests of both
sides: each stands in its ledger from before its first byte until its one ending. `Machines` has the states that all share.
Here is what concerns several of them: who gets a frame, the handshake, and the end.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hackamore._engine.protocol import events
from hackamore._engine.protocol.control import error_text, open_requests, read_answer
from hackamore._engine.protocol.conversation import PLAIN, PLAIN_AND_NAMELESS, ConversationState
from hackamore._engine.protocol.diagnostics import exit_code_hint, process_failure, refused_option
from hackamore._engine.protocol.exchanges import Exchanges
from hackamore._engine.protocol.framing import FrameReader
from hackamore._engine.protocol.log import SessionLog
from hackamore._engine.protocol.machines import Machines, Role
from hackamore._engine.protocol.outbox import Outbox
from hackamore._engine.protocol.states import session as states
from hackamore._engine.protocol.turns import TurnTable
from hackamore.errors import (
    CLIExitedDuringInitError,
    DecodeErrorLimitError,
    InitializationError,
    InitializationTimeoutError,
    SessionClosedError,
    SessionNotFoundError,
)
from hackamore.messages import Message, UserMessage
from hackamore.messages.control import ControlCancelRequest, ControlRequest, ControlResponse, TranscriptMirror
from hackamore.messages.results import ServerInfo, decode_result
from hackamore.options.bounds import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hackamore._engine.protocol.control import Answer
    from hackamore._engine.protocol.exchanges import PendingRequest
    from hackamore._engine.protocol.framing import Found
    from hackamore.errors import HackamoreError

__all__ = ["Connection", "Role"]


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
        limits = limits or Limits()
        plain = (
            (PLAIN, PLAIN_AND_NAMELESS) if role is Role.HOST else (frozenset(), frozenset())
        )  # a CLI gets no messages
        self.state: Machines = Machines(role, hold_until_confirmed=hold_until_confirmed, one_way=one_way)
        self.turns: TurnTable = TurnTable()
        self.log: SessionLog = SessionLog(self.state, self.turns)
        self.outbox: Outbox = Outbox(self.state, self.turns)
        self.events_received: Callable[[], list[events.Event]] = self.outbox.events_received
        self.data_to_send: Callable[[], bytes] = self.outbox.data_to_send
        self.reader: FrameReader = FrameReader(
            limits, self.turns, self.outbox.warned, plain, fail_on_bad_lines=fail_on_bad_lines
        )
        self.conversation: ConversationState = ConversationState(
            self.state, self.turns, self.outbox, self.log, random_bytes=random_bytes
        )
        self.exchanges: Exchanges = Exchanges(self.state, self.outbox, self.log, limits, random_bytes)
        self._mirrored = mirrored

    @property
    def input_may_close(self) -> bool:
        """True while stdin may be closed: it was requested and the joint rule holds."""
        state = self.state
        # Read after every step of a driver, so the rest of the rule is looked at only after a request to close.
        if state.input is not states.Half.CLOSING or state.over:
            return False
        return states.input_may_close(self.conversation.snapshot(input=state.input, **self.exchanges.unanswered()))

    def receive_data(self, data: bytes) -> None:
        """Read bytes from the peer."""
        state = self.state
        if state.ending is not None or state.output is states.Half.CLOSED:
            return
        for found in self.reader.receive_data(data):
            if isinstance(found, list):
                self.outbox.add_all(found)
                continue
            self._receive(found)
            if state.ending is not None:  # five bad lines in a row: the rest of this read is not delivered any more
                return
        self.outbox.flush()

    def receive_eof(self) -> None:
        """Apply the end of the peer's output. A session has ended when the exit status is known too.

        A host that closed its side still reads: the role CLI continues, and only its own requests are resolved.
        """
        state = self.state
        if state.output is states.Half.CLOSED:
            return
        if not state.over:
            for found in self.reader.receive_eof():
                self._receive(found)
        state.output = states.OUTPUT[state.output, states.HalfTrigger.CLOSED]
        if state.process is states.Process.EXITED:
            self._end_with_process()
        elif state.role is Role.CLI and not state.over:
            self.exchanges.end_pending()

    def process_exited(self, exit_code: int | None, stderr_tail: bytes = b"") -> None:
        """Apply the exit of the process. The session has ended when the output has been read to its end too.

        The code is negative for a signal; None if the process had to be stopped because it did not exit by itself.
        """
        state = self.state
        if state.process is states.Process.EXITED:
            return
        state.process = states.PROCESS[state.process, states.ProcessTrigger.EXITED]
        state.exit_code, state.stderr_tail = exit_code, stderr_tail
        if state.output is states.Half.CLOSED or state.role is Role.CLI:  # the result may still be in the pipe
            self._end_with_process()

    def _receive(self, found: Found) -> None:
        one_way = self.state.one_way
        match found:
            case Message() if self.state.role is Role.HOST:
                self.conversation.receive(found)
            case UserMessage():
                self.outbox.emit(events.PromptReceived(found, found.uuid))
            case ControlRequest() if not one_way:  # with `--print` stdin is closed: it cannot be answered
                self.exchanges.receive(found)
            case ControlResponse() if not one_way:
                self._on_response(found)
            case ControlCancelRequest() if not one_way:
                self.exchanges.cancelled(found)
            case TranscriptMirror() if self._mirrored:
                self.outbox.emit_aside(events.TranscriptMirrored(found))
            case events.Event():
                self.outbox.emit(found)
            case DecodeErrorLimitError():
                self.fail(found)
            case _:
                self.log.debug("a frame of type %r was dropped", found.type)

    def _on_response(self, frame: ControlResponse) -> None:
        answer = read_answer(frame)
        request_id = answer.request_id or frame.outer_request_id or ""
        request = self.exchanges.pending.get(request_id)
        if request is None or not request.written:  # late, or a played back request of this side
            self.log.debug("no request waits for the control response to %r", request_id)
        elif request_id == self.exchanges.initialize_id:
            self._initialize_answered(request, answer)
        elif isinstance(result := self.exchanges.answered(request, answer), ServerInfo):
            self.conversation.server_info = result  # `initialize` may be sent again, with `request()`

    def send_initialize(self, fields: Mapping[str, Any] | None = None) -> str:
        """Write `initialize`; return its request id, for `expire`. Raise SessionClosedError if the session is over."""
        self.state.require_open()
        if self.state.handshake is not states.Handshake.UNSENT:
            raise RuntimeError("`initialize` was sent already; to send it again is a request like others")
        request_id = self.exchanges.send_initialize(fields or {})
        self.state.move_lifecycle(states.LifecycleTrigger.INITIALIZE_SENT)
        self.outbox.move_handshake(states.HandshakeTrigger.SENT)
        self.exchanges.receive_early()  # only now: before SENT they would wait again
        return request_id

    def _initialize_answered(self, request: PendingRequest, answer: Answer) -> None:
        self.exchanges.pending.remove(request.request_id)
        if answer.failed:
            self.outbox.move_handshake(states.HandshakeTrigger.ERROR)
            self.fail(InitializationError(error_text(answer.error)))
            return
        info = self.conversation.server_info = decode_result(ServerInfo, answer.response, self.outbox.warned)
        self.conversation.read_capabilities(info.capabilities)
        self._ready(states.HandshakeTrigger.ANSWER)
        for open_request in open_requests(answer, self.outbox.warned):
            self.exchanges.receive(open_request)

    def _initialize_expired(self, request_id: str, seconds: float | None) -> None:
        if self.state.handshake is not states.Handshake.IMPLICIT:
            self.outbox.move_handshake(states.HandshakeTrigger.DEADLINE)
            # A refused option in stderr is the cause, and the silence is not.
            self.fail(self._start_error() or InitializationTimeoutError(seconds or 0.0, self._captured()))
            return
        self.exchanges.pending.remove(request_id)
        self.outbox.warn(
            "INIT_UNCONFIRMED",
            "The CLI works but has not answered `initialize`: its capabilities are unknown.",
            seconds=seconds,
        )
        self._ready(states.HandshakeTrigger.DEADLINE)

    def _ready(self, trigger: states.HandshakeTrigger) -> None:
        self.outbox.move_handshake(trigger)
        self.state.move_lifecycle(states.LifecycleTrigger.CONFIRMED)
        self.outbox.emit(events.HandshakeCompleted(self.conversation.server_info))

    def expire(self, request_id: str, seconds: float | None = None, stderr_tail: bytes = b"") -> bool:
        """Apply an expired timeout: of a request of this side, of `initialize`, or of a request of the peer. Return True if it was open."""
        if request_id != self.exchanges.initialize_id or request_id not in self.exchanges.pending:
            return self.exchanges.expire(request_id, seconds, self.conversation.api_error)
        self.state.stderr_tail = stderr_tail or self.state.stderr_tail  # for the error: no exit has brought it yet
        self._initialize_expired(request_id, seconds)
        return True

    def expire_turn(self, turn_id: str) -> bool:
        """Interrupt or cancel a prompt whose timeout has passed; its end is reported as always. True if it was open."""
        record = self.turns.get(turn_id)
        if record is None or not self.state.writable:
            return False
        if not record.written:
            self.outbox.drop(record)
            self.conversation.report_turns(self.turns.withdraw(turn_id))
        elif record.state is states.TurnState.STARTED:
            self.exchanges.interrupt(internal=True)
        elif not self.state.stopping:  # a stop cancels prompts that wait by itself
            # An interrupt would end the turn of another prompt.
            self.exchanges.send_request("cancel_async_message", {"message_uuid": turn_id}, internal=True)
        return True

    def begin_stop(self) -> None:
        """Stop the session: nothing new is accepted, waiters wake, and requests of the CLI get the safe answer immediately.

        A turn stays open until its result comes or the process has ended: an interrupt may still be sent.
        """
        before, starting = self.state.lifecycle, self.state.starting
        if before is states.SessionState.NEW:
            self._end(states.Ending.STOPPED, None)
            return
        self.state.move_lifecycle(states.LifecycleTrigger.STOP)
        if before is self.state.lifecycle:
            return
        self.outbox.held.clear()
        self.exchanges.end_pending()
        if starting:
            self.outbox.move_handshake(states.HandshakeTrigger.ENDED)
            self.outbox.emit(events.HandshakeFailed(self.state.closed_error()))
        self.conversation.report_turns(self.turns.end(states.TurnTrigger.STOPPED, only_unwritten=True), ended=True)
        self.exchanges.stop()

    def fail(self, error: HackamoreError) -> None:
        """End the session with an error: the process could not be started, or its shell failed. Everything open is resolved."""
        # A failure during a stop is its consequence.
        self._end(states.Ending.STOPPED if self.state.stopping else states.Ending.FAILED, error)

    def process_failure(self, exit_code: int | None, stderr_tail: bytes) -> HackamoreError:
        """Return the error for a process that ended, or had to be stopped, without success."""
        return process_failure(
            exit_code,
            stderr_tail=stderr_tail,
            stdout_was_empty=not self.reader.received,
            any_message=self.outbox.any_message,
            last_non_json_line=self.reader.last_bad_line,
            last_result=self.conversation.last_result,
        )

    def _start_error(self) -> HackamoreError | None:
        if (refused := refused_option(self.state.stderr)) is not None:  # a named option helps more than the exit code
            return refused
        last = self.conversation.last_result
        if last is not None and last.is_error:
            # `--resume` of an unknown id gives an error result, then exit 1.
            if (unknown := SessionNotFoundError.found_in(last.errors)) is not None:
                return unknown
            return InitializationError("; ".join(last.errors) or last.result or "no reason given")
        return None

    def _captured(self) -> str:
        parts = (self.state.stderr_tail, self.reader.last_bad_line or b"")
        printed = [part.strip() for part in parts if part.strip()]
        return b"\nstdout: ".join(printed).decode("utf-8", "replace")

    def _end_with_process(self) -> None:
        state = self.state
        if state.over:
            return
        if state.role is Role.CLI:
            self._end(states.Ending.COMPLETED, None)
            return
        code, last = state.exit_code, self.conversation.last_result
        how = states.Exit.CLEAN if code == 0 else states.Exit.ERROR
        # A negative code is a signal, and so a crash, also after an error result.
        if code is not None and code > 0 and last is not None and last.is_error:
            how = states.Exit.AFTER_ERROR_RESULT
        open_turns = len(self.turns) > 0
        ending = states.ENDINGS[state.lifecycle, open_turns, how]
        error: HackamoreError | None = None
        if ending is states.Ending.FAILED and state.lifecycle is not states.SessionState.RUNNING:
            error = self._start_error() or CLIExitedDuringInitError(code, self._captured())
        elif ending is states.Ending.FAILED:
            hint = exit_code_hint(code, stdout_was_empty=not self.reader.received)
            reason = f"the CLI exited{' while a prompt was open' if open_turns else ''}. {hint}"
            error = SessionClosedError(expected=False, reason=reason, exit_code=code, stderr_tail=state.stderr)
        self._end(ending, error)

    def _end(self, ending: states.Ending, error: HackamoreError | None) -> None:
        """End: everything that is open is resolved, once."""
        state, outbox = self.state, self.outbox
        if state.over:
            return
        starting = state.starting
        outbox.flush()  # now, while prompts are open: later these messages belong to none
        state.ending = ending
        state.terminal_error = state.named(error) if ending is states.Ending.FAILED and error is not None else None
        outbox.move_handshake(states.HandshakeTrigger.ENDED)
        state.move_lifecycle(
            states.LifecycleTrigger.FAILURE if ending is states.Ending.FAILED else states.LifecycleTrigger.ENDED_WELL
        )
        outbox.input_was_closed()
        outbox.held.clear()
        if starting:
            outbox.emit(events.HandshakeFailed(state.closed_error()))
        self.exchanges.end()
        death = states.TurnTrigger.DIED if ending is states.Ending.FAILED else states.TurnTrigger.STOPPED
        self.conversation.report_turns(self.turns.end(death), ended=True)
        self.conversation.end()
        outbox.emit(events.Ended(ending, state.terminal_error, state.exit_code, by_exit=state.exited))
