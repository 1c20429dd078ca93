"""What a connection knows, and the ways in which everything in it ends: exchanges, turns, and the session as a whole.

Each exchange has one owner and one removal, and `_end` is the one way out. `connection_arrivals.py` and `connection.py` build on it.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from bridle.errors import (
    CLIExitedDuringInitError,
    InitializationError,
    SessionClosedError,
    UnsupportedCLIVersionError,
)
from bridle.options.bounds import Limits
from bridle.protocol import events, frames
from bridle.protocol.activity import CliActivity
from bridle.protocol.control import ControlRow, fail_answer
from bridle.protocol.diagnostics import exit_code_hint, process_failure
from bridle.protocol.event_queue import EventQueue
from bridle.protocol.exchanges import InFlightRequest, Ledger, PendingRequest
from bridle.protocol.reading import NOTHING_PLAIN, PLAIN, PLAIN_AND_NAMELESS, Kinds, Reading
from bridle.protocol.states import session as states
from bridle.protocol.states.session import (
    ENDINGS,
    HANDSHAKE,
    LIFECYCLE,
    Activity,
    Asked,
    Ending,
    Exit,
    Half,
    Handshake,
    HandshakeHappening,
    Lifecycle,
    LifecycleHappening,
    Process,
    Snapshot,
    TurnHappening,
    Work,
)
from bridle.protocol.turns import Turn, TurnTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.errors import BridleError
    from bridle.messages import ResultMessage
    from bridle.messages.control import ControlRequest
    from bridle.messages.system import BackgroundTask
    from bridle.protocol.results import ControlResult, ServerInfo

__all__ = ["ConnectionBase", "Role"]


class Role(Enum):
    """Which end of the wire a connection is."""

    HOST = auto()
    CLI = auto()


class ConnectionBase:
    """The state of one end of a session: see `Connection`."""

    def __init__(
        self,
        role: Role = Role.HOST,
        *,
        limits: Limits | None = None,
        hold_until_confirmed: bool = False,
        one_way: bool = False,
        long_lines_end: bool = False,
        results_excuse: bool = False,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.role = role
        self.server_info: ServerInfo | None = None
        self.terminal_error: BridleError | None = None
        self.exit_code: int | None = None
        self.turns = TurnTable()
        self._cli = CliActivity(Work.WORKING if one_way else Work.UNKNOWN)
        self._queue = EventQueue(self.turns, self._cli)
        self._limits = limits or Limits()
        self._hold_until_confirmed = hold_until_confirmed
        self._long_lines_end = long_lines_end
        self._results_excuse = results_excuse
        self._random_bytes = random_bytes
        self._reading = Reading(self._limits.line_bytes, self._queue, self._plain_kinds)
        self._lifecycle = Lifecycle.NEW
        self._handshake = Handshake.NONE if one_way else Handshake.UNSENT
        self._input = Half.CLOSED if one_way else Half.OPEN
        self._output = Half.OPEN
        self._process = Process.ALIVE
        self._asked = Asked.NOTHING
        self._pending: Ledger[PendingRequest] = Ledger()
        self._internal: deque[str] = deque()
        self._in_flight: Ledger[InFlightRequest] = Ledger()
        self._early: dict[str, ControlRequest] = {}
        self._held: deque[tuple[PendingRequest | Turn, bytes]] = deque()
        self._initialize_id: str | None = None
        self._counter = 0
        self._out: list[bytes] = []
        self._stderr_tail = b""
        self._may_close_was_said = False
        self._flows_was_said = False
        self._ended: Ending | None = None

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
        return self._cli.reported

    @property
    def session_id(self) -> str | None:
        """The session, as soon as a message has named it."""
        return self._cli.session_id

    @property
    def background_tasks(self) -> tuple[BackgroundTask, ...]:
        """The running background tasks, ambient ones included."""
        return self._cli.background_tasks

    @property
    def last_result(self) -> ResultMessage | None:
        """The last result."""
        return self._cli.last_result

    @property
    def message_count(self) -> int:
        """The number of messages so far."""
        return self._cli.messages

    @property
    def received(self) -> bool:
        """True once any byte has come."""
        return self._reading.received

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
        return self._cli.work is Work.DUE

    @property
    def working(self) -> bool:
        """True while the CLI is at work: on a prompt of ours, or in a turn that it began by itself."""
        return bool(len(self.turns)) or self._cli.work is Work.WORKING

    @property
    def at_work(self) -> bool:
        """True while the model may be at work, now or soon: it works, a task runs in the background, or one has just ended."""
        return self.working or self.unsettled or self._cli.busy_in_background > 0

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
            activity=self._cli.reported,
            open_turns=len(self.turns),
            pending_requests=sum(not request.internal for request in self._pending),
            in_flight_requests=len(self._in_flight) + len(self._early),
            background_tasks=self._cli.busy_in_background,
            unsettled=self.unsettled,
            hold_until_confirmed=self._hold_until_confirmed,
            peer_only_listens=self.role is Role.CLI,
        )

    # -- writing -------------------------------------------------------------------------------------------------------

    def _write_or_hold(self, what: PendingRequest | Turn, frame: bytes) -> None:
        if self.role is Role.CLI or self._flows_was_said or self._lifecycle is Lifecycle.STOPPING:
            what.written = True
            self._write(frame)
        else:
            self._held.append((what, frame))

    def _unhold(self, what: PendingRequest | Turn) -> None:
        self._held = deque(item for item in self._held if item[0] is not what)

    def _release(self) -> None:
        """Write what waited, if it may flow now."""
        if self._flows_was_said or not states.operations_flow(self.snapshot()):
            return
        self._flows_was_said = True
        held, self._held = self._held, deque()
        for what, frame in held:
            what.written = True
            self._write(frame)
        self._queue.emit(events.OperationsReleased(implicitly=self._handshake is Handshake.IMPLICIT))

    def _write(self, frame: bytes) -> bool:
        written = not self.over and self._somebody_reads
        if written:
            self._out.append(frame)
        return written

    @property
    def _somebody_reads(self) -> bool:
        return states.somebody_reads(self._input, self._output, self._process, self.role is Role.CLI)

    def _next_id(self) -> str:
        self._counter += 1
        return f"req_{self._counter}_{self._random_bytes(4).hex()}"

    def _uuid(self) -> str:
        import uuid

        return str(uuid.UUID(bytes=self._random_bytes(16), version=4))

    def _require_open(self) -> None:
        if self.over or not self._somebody_reads:
            raise self.closed_error()

    # -- endings of exchanges ------------------------------------------------------------------------------------------

    def _resolve(
        self, request: PendingRequest, *, result: ControlResult | None = None, error: BridleError | None = None
    ) -> None:
        if self._pending.remove(request.request_id) is None or request.internal:
            return
        if request.request_id == self._initialize_id and self.role is Role.HOST:
            return  # the handshake's own events tell
        self._queue.emit(events.RequestResolved(request.request_id, request.operation, result, error))

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
        self._queue.emit(events.RequestCancelled(waiting.request_id, waiting.subtype, why))

    def _safe_frame(self, row: ControlRow, frame: ControlRequest, request_id: str, reason: str) -> bytes:
        payload = fail_answer(row, frame, reason) if self.role is Role.HOST else None
        if payload is None:
            return frames.error_frame(request_id, reason)
        return frames.success_frame(request_id, payload)

    # -- the end -------------------------------------------------------------------------------------------------------

    def fail(self, error: BridleError) -> None:
        """Take that the session is lost: the process could not be started, or its shell gave up. Everything open is resolved."""
        self._end(Ending.STOPPED if self._asked is Asked.STOP else Ending.FAILED, error)

    def closed_error(self) -> BridleError:
        """Return a fresh error for somebody who wants something of a session that is over, or is being stopped."""
        if self.terminal_error is not None:
            return copy.copy(self.terminal_error)
        stopping = self._asked is Asked.STOP
        return SessionClosedError(
            expected=stopping or self._ended is Ending.COMPLETED or self._asked is Asked.FINISH,
            reason="it was stopped" if stopping else "it has ended" if self.over else "it ends, and takes nothing new",
            exit_code=self.exit_code,
            stderr_tail=self._stderr_tail.decode("utf-8", "replace"),
        )

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
            hint = exit_code_hint(self.exit_code, stdout_was_empty=not self._reading.received)
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
        self._queue.flush()
        self.terminal_error = error if ending is Ending.FAILED else None
        starting = self.role is Role.HOST and self._handshake in (Handshake.UNSENT, Handshake.SENT, Handshake.IMPLICIT)
        if starting or self._lifecycle is Lifecycle.INITIALIZING:
            self._queue.emit(events.HandshakeFailed(self.closed_error()))
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
            self._queue.emit(events.RequestCancelled(waiting.request_id, waiting.subtype, "ended"))
        death = TurnHappening.DIED if ending is Ending.FAILED else TurnHappening.STOPPED
        self._tell_turns(self.turns.end(death), error=True)
        self._cli.ended()
        self._queue.emit(events.Ended(ending, self.terminal_error, self.exit_code, by_exit=self.exited))

    def _captured(self) -> str:
        if self._stderr_tail.strip():
            return self._stderr_tail.decode("utf-8", "replace")
        return (self._reading.last_bad_line or b"").decode("utf-8", "replace")

    def _start_error(self) -> BridleError | None:
        """Return the error that says most about a start that failed, if there is something to say."""
        known = self._process_failure(self.exit_code, self._stderr_tail, message_count=0)
        if isinstance(known, UnsupportedCLIVersionError):
            return known
        if self.last_result is not None and self.last_result.is_error:
            return InitializationError(
                "; ".join(self.last_result.errors) or self.last_result.result or "no reason given"
            )
        return None

    def process_failure(self, exit_code: int | None, stderr_tail: bytes) -> BridleError:
        """Return the error for a process that ended, or had to be stopped, without success."""
        return self._process_failure(exit_code, stderr_tail, self._cli.messages)

    def _process_failure(self, exit_code: int | None, stderr_tail: bytes, message_count: int) -> BridleError:
        return process_failure(
            exit_code,
            stderr_tail=stderr_tail,
            stdout_was_empty=not self._reading.received,
            message_count=message_count,
            last_non_json_line=self._reading.last_bad_line,
            last_result=self.last_result,
        )

    # -- telling -------------------------------------------------------------------------------------------------------

    def _look_at_rules(self) -> None:
        allowed = self.input_may_close
        if allowed and not self._may_close_was_said:
            self._queue.emit(events.InputMayClose())
        self._may_close_was_said = allowed

    def _tell_turns(self, turns: list[Turn], *, error: bool = False) -> None:
        for turn in turns:
            self._queue.emit(events.TurnStateChanged(turn.id, turn.state, self.closed_error() if error else None))

    def _plain_kinds(self) -> Kinds:
        if self.role is Role.CLI:
            return NOTHING_PLAIN
        return PLAIN_AND_NAMELESS if self.turns.names_matter else PLAIN
