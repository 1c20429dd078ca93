"""The core of a session: bytes and happenings in, events and bytes out. It never waits and knows no clock.

A shell calls `receive_data`, `receive_eof` and `process_exited`, takes `events_received()` and writes `data_to_send()`; whatever it
wants it asks for with the `send_*` methods. Deadlines are the shell's: it tells what passed with `expire`. What arrives never raises;
what we ask for raises only before anything was changed.

`Role.HOST` is the library, `Role.CLI` its opposite: same framing, same exchanges, same handshake, so that each is tested by the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.errors import (
    ControlTimeoutError,
    InitializationTimeoutError,
    InitQueueOverflowError,
    TooManyPendingRequestsError,
)
from bridle.protocol import events, frames
from bridle.protocol.connection_arrivals import Arrivals
from bridle.protocol.connection_base import Role
from bridle.protocol.control import encode_request, row_for
from bridle.protocol.exchanges import PendingRequest
from bridle.protocol.states.session import (
    HANDSHAKE,
    INPUT,
    LIFECYCLE,
    Asked,
    Ending,
    Half,
    HalfHappening,
    Handshake,
    HandshakeHappening,
    Lifecycle,
    LifecycleHappening,
    TurnHappening,
    TurnState,
    WorkHappening,
)
from bridle.protocol.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.protocol.frames import Payload

__all__ = ["SETTLE_SECONDS", "Connection", "Role"]

SETTLE_SECONDS = 5.0
"""How long the CLI may say nothing after a background task ended, before it is believed that nothing follows. Seen: 0.03 s."""
_INTERNAL_REQUESTS = 256
"""Of the requests for whose answers nobody waits, so many are remembered: a peer may answer none of them."""


class Connection(Arrivals):
    """One end of a session.

    Args:
        role: which end.
        limits: every bound; `line_bytes`, `consecutive_decode_errors`, `queued_operations`, `pending_requests`, `early_requests` count.
        hold_until_confirmed: nothing is sent on an implicit confirmation: a guard depends on what the CLI says about itself.
        one_way: the launch gives the prompt and reads nothing more (`--print`): no handshake, nothing is written, control frames mean
            nothing. `RUNNING` from `begin_start` on. Read `events_received()`: messages in batches, `Warned`, `BadLine`, `IncompleteLine`,
            `BackgroundTasksChanged`, `ActivityChanged`, and `Ended`. An exit gives `Ended(by_exit=True)`: how it is to be judged is the
            query's to say, with `exit_code`, `stderr_tail`, `last_result` and `process_failure()`; what disturbs the stream, and `fail()`,
            gives `Ended.error` (`by_exit=False`).
        long_lines_end: a line that is too long ends the session, and is not skipped with a warning.
        results_excuse: after a result, with no prompt open, any number of lines may be bad.
        random_bytes: where ids come from.

    Attributes:
        server_info: what the CLI said of itself, once it did.
        terminal_error: why the session failed, if it did.
        exit_code: the process's, once it is known.
        turns: the prompts of ours that are open.
    """

    # -- out -----------------------------------------------------------------------------------------------------------

    def events_received(self) -> list[events.Event]:
        """Return what happened since the last call, in order."""
        return self._queue.take()

    @property
    def has_news(self) -> bool:
        """True while `events_received` has something to return."""
        return bool(self._queue)

    def data_to_send(self) -> bytes:
        """Return what is to be written: whole lines. It counts as written."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    # -- starting and ending -------------------------------------------------------------------------------------------

    def begin_start(self) -> None:
        """Take that the process is being started."""
        one_way = self._handshake is Handshake.NONE
        started = LifecycleHappening.LAUNCHED if one_way else LifecycleHappening.START
        self._lifecycle = LIFECYCLE[self._lifecycle, started]

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
            self._queue.emit(events.HandshakeFailed(self.closed_error()))
        self._tell_turns(self.turns.end(TurnHappening.STOPPED, only_unwritten=True), error=True)
        for waiting in self._in_flight:
            self._fail(waiting, "the session is stopping", "stopping")
        early, self._early = self._early, {}
        for frame in early.values():
            self._on_request(frame)

    def settle(self) -> None:
        """Take that the CLI has said nothing for long enough after a background task ended."""
        self._cli.happened(WorkHappening.SETTLED)
        self._look_at_rules()

    # -- what we ask for -----------------------------------------------------------------------------------------------

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
        if turn is None or not self._somebody_reads:
            return False
        if not turn.written:
            return self.withdraw_prompt(turn_id)
        if turn.state is TurnState.STARTED:
            self.interrupt(internal=True)
        elif self._lifecycle is not Lifecycle.STOPPING:
            self.send_request("cancel_async_message", {"message_uuid": turn_id}, internal=True)
        return True

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
        if internal:
            self._internal.append(request_id)
            if len(self._internal) > _INTERNAL_REQUESTS:
                self._pending.remove(self._internal.popleft())
        self._write_or_hold(request, frame)
        return request_id

    def _initialize_expired(self, seconds: float | None, stderr_tail: bytes) -> None:
        self._stderr_tail = stderr_tail or self._stderr_tail
        implicit = self._handshake is Handshake.IMPLICIT
        self._handshake = HANDSHAKE[self._handshake, HandshakeHappening.DEADLINE]
        if not implicit:
            self.fail(self._start_error() or InitializationTimeoutError(seconds or 0.0, self._captured()))
            return
        self._pending.remove(self._initialize_id or "")
        self._lifecycle = LIFECYCLE[self._lifecycle, LifecycleHappening.CONFIRMED]
        self._queue.warn(
            "INIT_UNCONFIRMED",
            "The CLI works with us and has not answered `initialize`: nothing is known about what it can do.",
            seconds=seconds,
        )
        self._queue.emit(events.InitUnconfirmed())
        self._queue.emit(events.HandshakeCompleted(None))
        self._release()

    # -- what we answer ------------------------------------------------------------------------------------------------

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
