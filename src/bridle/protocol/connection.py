"""The core of a query or session: bytes and happenings in, events and bytes out. It never waits and knows no clock.

Four verbs move bytes: `receive_data` and `receive_eof` in, `events_received` and `data_to_send` out; `process_exited` brings the exit.
The `send_*` methods start what we want, and `expire` applies timeouts, which belong to shells. Receiving never raises for what the peer
sent; sending raises only before anything was changed.

`Role.HOST` is the library, `Role.CLI` its opposite: same framing, same exchanges, same handshake, so that each is tested by the other.

A connection is composed of parts that know of each other only what they are given: `Life` (lifecycle, handshake, ending), `Halves` (input,
output, process), the ledgers in `OwnRequests` and `PeerRequests`, the open prompts in `TurnTable` and, for what comes in, `Reading`,
`Conversation` and `EventQueue`. What concerns several of them stands here.
"""

from __future__ import annotations

import logging
import os
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from bridle.errors import (
    CLIExitedDuringInitError,
    DecodeError,
    InitializationError,
    InitializationTimeoutError,
    SessionClosedError,
    TooManyDecodeErrors,
)
from bridle.messages import Message, UserMessage
from bridle.messages.control import ControlCancelRequest, ControlRequest, ControlResponse
from bridle.options.bounds import Limits
from bridle.protocol import events, frames
from bridle.protocol.answers import error_text, open_requests, read_answer
from bridle.protocol.conversation import Conversation
from bridle.protocol.diagnostics import exit_code_hint, line_skipped, process_failure, refused_option
from bridle.protocol.event_queue import EventQueue
from bridle.protocol.framing import OversizedLine
from bridle.protocol.halves import Halves
from bridle.protocol.life import Life, Role
from bridle.protocol.own_requests import OwnRequests
from bridle.protocol.peer_requests import PeerRequests
from bridle.protocol.reading import NOTHING_PLAIN, PLAIN, PLAIN_AND_NAMELESS, Reading
from bridle.protocol.results import ServerInfo, decode_result
from bridle.protocol.states import session as states
from bridle.protocol.states.session import (
    ENDINGS,
    Activity,
    Ending,
    Exit,
    Half,
    HalfHappening,
    Handshake,
    HandshakeHappening,
    Lifecycle,
    LifecycleHappening,
    Process,
    Snapshot,
    TurnHappening,
    TurnState,
    Work,
    WorkHappening,
)
from bridle.protocol.turns import PromptRecord, TurnTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridle.errors import BridleError
    from bridle.messages import Frame, ResultMessage
    from bridle.messages.system import BackgroundTask
    from bridle.protocol.answers import Answer
    from bridle.protocol.exchanges import InFlightRequest, PendingRequest
    from bridle.protocol.frames import Payload
    from bridle.protocol.reading import Kinds

__all__ = ["SETTLE_SECONDS", "Connection", "Role"]

logger = logging.getLogger("bridle")

SETTLE_SECONDS = 5.0
"""How long the CLI may say nothing after a background task ended, before it is believed that nothing follows. Seen: 0.03 s."""


def _part(path: str, doc: str) -> Any:
    """Return a property that reads an attribute of a part."""
    return property(attrgetter(path), doc=doc)


class Connection:
    """One end of a query or session.

    Args:
        role: which end.
        limits: `line_bytes`, `consecutive_decode_errors`, `queued_operations`, `pending_requests` and `early_requests` count here.
        hold_until_confirmed: nothing is sent on an implicit confirmation: a guard depends on what the CLI says about itself.
        one_way: the launch gives the prompt and reads nothing more (`--print`): no handshake, nothing is written, control frames mean
            nothing. `RUNNING` from `begin_start` on. Read `events_received()`: messages in batches, `Warned`, `BadLine`, `LongLine`,
            `IncompleteLine`, `BackgroundTasksChanged`, `ActivityChanged`, and `Ended`. An exit gives `Ended(by_exit=True)`: the query
            judges it, with `exit_code`, `stderr_tail`, `last_result` and `process_failure()`. `fail()` gives `Ended.error`.
        judges_lines: False for queries: bad and long lines are reported as `BadLine` and `LongLine`, and the ending table decides. Else too
            many bad lines in a row fail the session, and long lines are skipped with a warning.
        random_bytes: where ids come from.

    Attributes:
        server_info: the CLI's description of itself, once it has answered `initialize`.
        turns: the open prompts.
    """

    def __init__(
        self,
        role: Role = Role.HOST,
        *,
        limits: Limits | None = None,
        hold_until_confirmed: bool = False,
        one_way: bool = False,
        judges_lines: bool = True,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.server_info: ServerInfo | None = None
        self.turns = TurnTable()
        self._limits = limits or Limits()
        self._judges_lines = judges_lines
        self._random_bytes = random_bytes
        self._queue = queue = EventQueue(self.turns)
        self._reading = Reading(self._limits.line_bytes, queue, self._plain)
        self._halves = halves = Halves(one_way=one_way, peer_only_listens=role is Role.CLI)
        self._life = life = Life(role, halves, queue, one_way=one_way, hold_until_confirmed=hold_until_confirmed)
        self._conversation = Conversation(life, self.turns, queue)
        self._own = OwnRequests(self._limits, life, halves, queue, random_bytes)
        self._peers = PeerRequests(self._limits, life, halves, queue)

    # -- how it stands -------------------------------------------------------------------------------------------------

    role: Role = _part("_life.role", "The end of the wire that this is.")
    lifecycle: Lifecycle = _part("_life.lifecycle", "The state of the session, as its user sees it.")
    handshake: Handshake = _part("_life.handshake", "The state of the handshake.")
    over: bool = _part("_life.over", "True once nothing more can happen: the process, if it lives, is to be stopped.")
    ending: Ending | None = _part("_life.ending", "How it ended, once it has.")
    terminal_error: BridleError | None = _part("_life.error", "Why it failed, if it did.")
    activity: Activity = _part("_conversation.activity", "The state that the CLI has reported.")
    session_id: str | None = _part("_queue.session_id", "The session, as soon as a message has named it.")
    last_result: ResultMessage | None = _part("_conversation.last_result", "The last result.")
    background_tasks: tuple[BackgroundTask, ...] = _part(
        "_conversation.background_tasks", "The running background tasks, ambient ones included."
    )
    message_count: int = _part("_queue.messages", "The number of messages so far.")
    received: bool = _part("_reading.received", "True once any byte has come.")
    exit_code: int | None = _part("_halves.exit_code", "The exit code of the process, once it is known.")
    stderr_tail: bytes = _part("_halves.stderr_tail", "The last part of stderr, once the process has exited.")
    exited: bool = _part("_halves.exited", "True once the exit status is known and the output was read to its end.")

    @property
    def quiet(self) -> bool:
        """True while nothing goes on: no prompt of ours is open, nothing runs in the background, and the CLI is idle."""
        return states.is_quiet(self.snapshot())

    @property
    def unsettled(self) -> bool:
        """True between the end of a background task and the CLI's next word; after `SETTLE_SECONDS` of it, call `settle`."""
        return self._conversation.work is Work.DUE

    @property
    def working(self) -> bool:
        """True while the CLI is at work: on a prompt of ours, or in a turn that it began by itself."""
        return bool(len(self.turns)) or self._conversation.work is Work.WORKING

    @property
    def at_work(self) -> bool:
        """True while the model may be at work, now or soon: it works, a task runs in the background, or one has just ended."""
        return self.working or self.unsettled or self._conversation.busy_tasks > 0

    @property
    def input_may_close(self) -> bool:
        """True while stdin may be closed: it was asked for and the joint rule holds."""
        # Read after every step of a driver, so the rest of the rule is looked at only once closing was asked for.
        return self._halves.input is Half.CLOSING and not self.over and states.input_may_close(self.snapshot())

    @property
    def finishing(self) -> bool:
        """True once stdin was asked to be closed: no prompt is taken any more."""
        return self._halves.input is not Half.OPEN

    @property
    def input_closed(self) -> bool:
        """True once nothing can be written any more."""
        return self._halves.input in (Half.CLOSED, Half.BROKEN)

    @property
    def pending_requests(self) -> tuple[PendingRequest, ...]:
        """Our requests that wait for an answer."""
        return tuple(self._own.pending)

    @property
    def in_flight_requests(self) -> tuple[InFlightRequest, ...]:
        """The peer's requests that wait for our answer."""
        return tuple(self._peers.in_flight)

    def snapshot(self) -> Snapshot:
        """Return what the joint rules look at."""
        return Snapshot(
            lifecycle=self._life.lifecycle,
            handshake=self._life.handshake,
            input=self._halves.input,
            output=self._halves.output,
            process=self._halves.process,
            activity=self._conversation.activity,
            open_turns=len(self.turns),
            pending_requests=self._own.waited_for,
            in_flight_requests=len(self._peers.in_flight) + len(self._peers.early),
            background_tasks=self._conversation.busy_tasks,
            unsettled=self.unsettled,
            hold_until_confirmed=self._life.hold_until_confirmed,
            peer_only_listens=self._halves.peer_only_listens,
        )

    # -- bytes in ------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Read bytes from the peer."""
        if self.over or self._halves.output is Half.CLOSED:
            return
        for arrived in self._reading.receive_data(data):
            self._take(arrived)
            if self.over:
                return
        self._queue.flush()

    def receive_eof(self) -> None:
        """Apply the end of the peer's output. A session has ended when the exit status is known too.

        A host that closed its side still reads: the role CLI goes on, and only its own requests are resolved.
        """
        if self._halves.output is Half.CLOSED:
            return
        tail = self._reading.receive_eof()
        if tail is not None and not self.over:
            self._take(tail)
            self._queue.flush()
        self._halves.output_ended()
        if self._halves.process is Process.EXITED:
            self._end_with_process()
        elif self.role is Role.CLI and not self.over:
            self._own.end()

    def process_exited(self, exit_code: int | None, stderr_tail: bytes = b"") -> None:
        """Apply the exit of the process. The session has ended when the output has been read to its end too.

        Args:
            exit_code: negative for a signal; None if the process had to be stopped because it did not exit by itself. The role CLI
                tells its own.
            stderr_tail: the last part of its stderr.
        """
        if self._halves.process is Process.EXITED:
            return
        self._halves.process_exited(exit_code, stderr_tail)
        if self._halves.output is Half.CLOSED or self.role is Role.CLI:
            self._end_with_process()

    def _plain(self) -> Kinds:
        if self.role is Role.CLI:
            return NOTHING_PLAIN
        return PLAIN_AND_NAMELESS if self.turns.names_matter else PLAIN

    def _take(self, arrived: Frame | DecodeError | OversizedLine | bytes) -> None:
        match arrived:
            case DecodeError():
                self._on_bad_line(arrived)
            case OversizedLine():
                self._on_long_line(arrived)
            case bytes():
                self._queue.emit(events.IncompleteLine(arrived))
            case Message() if self.role is Role.HOST:
                self._conversation.receive(arrived)
            case UserMessage():
                self._queue.emit(events.PromptReceived(arrived, arrived.uuid))
            case ControlRequest() if not self._life.one_way:
                self._peers.receive(arrived)
            case ControlResponse() if not self._life.one_way:
                self._on_response(arrived)
            case ControlCancelRequest() if not self._life.one_way:
                self._peers.cancelled(arrived)
            case _:
                logger.debug("a frame of type %r was dropped", arrived.type)

    def _on_long_line(self, line: OversizedLine) -> None:
        if self._judges_lines:
            self._queue.warned(line_skipped(line.size, line.head, self._limits.line_bytes))
        else:
            self._queue.emit(events.LongLine(line.size, line.head))

    def _on_bad_line(self, error: DecodeError) -> None:
        count = self._reading.bad_lines
        self._queue.emit(events.BadLine(error, count))
        if self._judges_lines and count >= self._limits.consecutive_decode_errors:
            self.fail(TooManyDecodeErrors(count, error))

    # -- events and bytes out ------------------------------------------------------------------------------------------

    def events_received(self) -> list[events.Event]:
        """Return what happened since the last call, in order."""
        return self._queue.take()

    @property
    def has_news(self) -> bool:
        """True while `events_received` has something to return."""
        return bool(self._queue)

    def data_to_send(self) -> bytes:
        """Return what is to be written: whole lines. It counts as written."""
        return self._halves.take()

    # -- the start -----------------------------------------------------------------------------------------------------

    def begin_start(self) -> None:
        """Apply that the process is being started."""
        self._life.happened(LifecycleHappening.LAUNCHED if self._life.one_way else LifecycleHappening.START)

    def send_initialize(self, fields: Mapping[str, Any] | None = None) -> str:
        """Write `initialize`; return its request id, for `expire`.

        Raises:
            ValueError: if JSON cannot hold a field.
            TypeError: if a field has the wrong type.
            SessionClosedError: if the session is over.
        """
        self._life.require_open()
        if self.handshake is not Handshake.UNSENT:
            raise RuntimeError("`initialize` was sent already; to send it again is a request like others")
        request_id = self._own.initialize(fields or {})
        self._life.happened(LifecycleHappening.INITIALIZE_SENT)
        self._life.handshake_happened(HandshakeHappening.SENT)
        self._peers.receive_early()
        return request_id

    def _on_response(self, frame: ControlResponse) -> None:
        answer = read_answer(frame)
        request = self._own.waiting_for(answer.request_id or frame.outer_request_id or "")
        if request is None:
            return
        if request.request_id == self._own.initialize_id:
            self._initialize_answered(request, answer)
            return
        result = self._own.answered(request, answer)
        if isinstance(result, ServerInfo):
            self.server_info = result

    def _initialize_answered(self, request: PendingRequest, answer: Answer) -> None:
        self._own.pending.remove(request.request_id)
        if answer.failed:
            self._life.handshake_happened(HandshakeHappening.ERROR)
            self.fail(InitializationError(error_text(answer.error)))
            return
        self.server_info = decode_result(ServerInfo, answer.response, self._queue.warned)
        self._conversation.learn(self.server_info.capabilities)
        self._ready(HandshakeHappening.ANSWER)
        for open_request in open_requests(answer, self._queue.warned):
            self._peers.receive(open_request)

    def _initialize_expired(self, request_id: str, seconds: float | None) -> None:
        if self.handshake is not Handshake.IMPLICIT:
            self._life.handshake_happened(HandshakeHappening.DEADLINE)
            self.fail(self._start_error() or InitializationTimeoutError(seconds or 0.0, self._captured()))
            return
        self._own.pending.remove(request_id)
        self._queue.warn(
            "INIT_UNCONFIRMED",
            "The CLI works with us and has not answered `initialize`: nothing is known about what it can do.",
            seconds=seconds,
        )
        self._ready(HandshakeHappening.DEADLINE)

    def _ready(self, happening: HandshakeHappening) -> None:
        self._life.handshake_happened(happening)
        self._life.happened(LifecycleHappening.CONFIRMED)
        self._queue.emit(events.HandshakeCompleted(self.server_info))

    # -- prompts and requests of ours ----------------------------------------------------------------------------------

    def send_prompt(
        self, content: object, *, turn_id: str | None = None, fields: Mapping[str, Any] | None = None
    ) -> str:
        """Send a prompt; return its id, a uuid. Before the session is ready it waits, without a limit.

        Args:
            content: a string, or a list of content blocks.
            turn_id: the id; a fresh one by default.
            fields: further fields of the frame by their names on the wire.

        Raises:
            ValueError: if JSON cannot hold it, or the id is taken.
            SessionClosedError: if the session is over, being stopped, or was asked to finish.
        """
        self._life.require_open()
        if self._life.stopping or self.finishing:
            raise self.closed_error()
        record = PromptRecord(turn_id or self._uuid())
        if record.id in self.turns:
            raise ValueError(f"a prompt with the id {record.id!r} is open already")
        frame = frames.user_frame(content, record.id, fields)
        self.turns.add(record)
        self._halves.send(record, frame, flows=self._life.flows)
        return record.id

    def _uuid(self) -> str:
        import uuid

        return str(uuid.UUID(bytes=self._random_bytes(16), version=4))

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
            internal: no caller waits for it: its ending is not reported.

        Raises:
            TypeError: if a field is missing or has the wrong type.
            ValueError: if JSON cannot hold it.
            SessionClosedError: if the session is over or being stopped.
            TooManyPendingRequestsError: if `Limits.pending_requests` wait already.
            InitQueueOverflowError: if the session is not ready and `Limits.queued_operations` wait already.
        """
        self._life.require_open()
        if self._life.stopping:
            raise self.closed_error()
        return self._own.send(subtype, fields or {}, operation or subtype, internal=internal)

    def interrupt(self, *, cancel_queued: bool = False, internal: bool = False) -> str:
        """Send an interrupt; return its request id. It is accepted while the session stops, and while it finishes."""
        self._life.require_open()
        fields = {"cancel_queued": True} if cancel_queued else {}
        return self._own.send("interrupt", fields, "interrupt", internal=internal)

    def cancel_request(self, request_id: str) -> bool:
        """Give up a request of ours: its answer will be dropped. True if it was open."""
        return self._own.cancel(request_id)

    def expire(self, request_id: str, seconds: float | None = None, stderr_tail: bytes = b"") -> bool:
        """Apply an expired timeout: of a request of ours, of `initialize`, or of one that we are handling.

        Args:
            request_id: which request.
            seconds: the length of the timeout, for messages.
            stderr_tail: what the process has printed, for a start that failed.

        Returns:
            True if it was open.
        """
        if self._own.awaits_initialize(request_id):
            self._halves.stderr_tail = stderr_tail or self._halves.stderr_tail
            self._initialize_expired(request_id, seconds)
            return True
        return self._own.expire(request_id, seconds) or self._peers.expire(request_id, seconds)

    def expire_turn(self, turn_id: str) -> bool:
        """Interrupt or cancel a prompt whose timeout has passed; its end is reported as always. True if it was open."""
        record = self.turns.get(turn_id)
        if record is None or not self._halves.open:
            return False
        if not record.written:
            self._halves.drop(record)
            self._conversation.tell(self.turns.withdraw(turn_id))
        elif record.state is TurnState.STARTED:
            self.interrupt(internal=True)
        elif not self._life.stopping:
            self.send_request("cancel_async_message", {"message_uuid": turn_id}, internal=True)
        return True

    def settle(self) -> None:
        """Apply that the CLI has said nothing for long enough after a background task ended."""
        self._conversation.happened(WorkHappening.SETTLED)

    # -- answers of ours -----------------------------------------------------------------------------------------------

    def send_response(self, request_id: str, payload: Payload | None = None) -> bool:
        """Answer a request of the peer. The first ending counts: later ones do nothing.

        Args:
            request_id: which request.
            payload: the answer: an object, or ready JSON that is copied as it is.

        Returns:
            True if it was still open and the answer was written: after our input was closed it cannot be read.

        Raises:
            ValueError: if JSON cannot hold it; the request stays open.
        """
        if request_id not in self._peers.in_flight:
            return False
        return self._peers.answer(request_id, frames.success_frame(request_id, payload))

    def send_error(self, request_id: str, error: str, code: str | None = None) -> bool:
        """Answer a request of the peer with an error; returns what `send_response` does."""
        if request_id not in self._peers.in_flight:
            return False
        return self._peers.answer(request_id, frames.error_frame(request_id, error, code), HandshakeHappening.ERROR)

    def fail_request(self, request_id: str, reason: str) -> bool:
        """Answer a request of the peer safely, as its row says; returns what `send_response` does."""
        return self._peers.fail(request_id, reason)

    def send_message(self, message: Payload) -> None:
        """Send any other frame: for the role CLI, and for frames that have no method.

        Raises:
            ValueError: if it is not a JSON object.
        """
        self._life.require_open()
        self._halves.write(frames.message_frame(message))

    # -- the end -------------------------------------------------------------------------------------------------------

    def close_input(self) -> None:
        """Ask for stdin to be closed as soon as `input_may_close` says so. No prompt is taken any more."""
        self._halves.input_happened(HalfHappening.CLOSE_ASKED)

    def input_was_closed(self) -> None:
        """Apply that stdin is closed."""
        self._halves.input_happened(HalfHappening.CLOSED)

    def input_broke(self) -> None:
        """Apply that the peer does not read any more. Its end, which follows, resolves what is open."""
        self._halves.input_happened(HalfHappening.BROKEN)

    def begin_stop(self) -> None:
        """Stop the session: nothing new is accepted, waiters wake, and requests of the CLI get the safe answer immediately.

        A turn stays open until its result comes or the process has ended: `interrupt()` may still be sent.
        """
        before, starting = self.lifecycle, self._life.starting
        if before is Lifecycle.NEW:
            self._end(Ending.STOPPED, None)
            return
        self._life.happened(LifecycleHappening.STOP)
        if before is self.lifecycle:
            return
        self._halves.drop_all()
        self._own.end()
        if starting:
            self._life.handshake_happened(HandshakeHappening.ENDED)
            self._queue.emit(events.HandshakeFailed(self.closed_error()))
        self._conversation.tell(self.turns.end(TurnHappening.STOPPED, only_unwritten=True), ended=True)
        self._peers.stop()

    def fail(self, error: BridleError) -> None:
        """End the session with an error: the process could not be started, or its shell gives up. Everything open is resolved."""
        self._end(Ending.STOPPED if self._life.stopping else Ending.FAILED, error)

    def closed_error(self) -> BridleError:
        """Return a fresh error for a caller who wants something of a session that is over, or is being stopped."""
        return self._life.closed_error()

    def process_failure(self, exit_code: int | None, stderr_tail: bytes) -> BridleError:
        """Return the error for a process that ended, or had to be stopped, without success."""
        return process_failure(
            exit_code,
            stderr_tail=stderr_tail,
            stdout_was_empty=not self.received,
            message_count=self.message_count,
            last_non_json_line=self._reading.last_bad_line,
            last_result=self.last_result,
        )

    def _start_error(self) -> BridleError | None:
        """Return the cause of a failed start, if the CLI has named one."""
        if (refused := refused_option(self._halves.stderr)) is not None:
            return refused
        last = self.last_result
        if last is not None and last.is_error:
            return InitializationError("; ".join(last.errors) or last.result or "no reason given")
        return None

    def _captured(self) -> str:
        printed = self.stderr_tail
        return (printed if printed.strip() else self._reading.last_bad_line or b"").decode("utf-8", "replace")

    def _end_with_process(self) -> None:
        if self.over:
            return
        if self.role is Role.CLI:
            self._end(Ending.COMPLETED, None)
            return
        code, last = self.exit_code, self.last_result
        how = Exit.CLEAN if code == 0 else Exit.ERROR
        if code is not None and code > 0 and last is not None and last.is_error:
            how = Exit.AFTER_ERROR_RESULT
        open_turns = len(self.turns) > 0
        ending = ENDINGS[self.lifecycle, open_turns, how]
        error: BridleError | None = None
        if ending is Ending.FAILED and self.lifecycle is not Lifecycle.RUNNING:
            error = self._start_error() or CLIExitedDuringInitError(code, self._captured())
        elif ending is Ending.FAILED:
            hint = exit_code_hint(code, stdout_was_empty=not self.received)
            reason = f"the CLI exited{' while a prompt was open' if open_turns else ''}. {hint}"
            error = SessionClosedError(expected=False, reason=reason, exit_code=code, stderr_tail=self._halves.stderr)
        self._end(ending, error)

    def _end(self, ending: Ending, error: BridleError | None) -> None:
        """End: everything that is open is resolved, once."""
        if self.over:
            return
        starting = self._life.starting
        self._queue.flush()
        self._life.end(ending, error)
        self._halves.input_happened(HalfHappening.CLOSED)
        self._halves.drop_all()
        if starting:
            self._queue.emit(events.HandshakeFailed(self.closed_error()))
        self._own.end()
        self._peers.end()
        death = TurnHappening.DIED if ending is Ending.FAILED else TurnHappening.STOPPED
        self._conversation.tell(self.turns.end(death), ended=True)
        self._conversation.end()
        self._queue.emit(events.Ended(ending, self.terminal_error, self.exit_code, by_exit=self.exited))
