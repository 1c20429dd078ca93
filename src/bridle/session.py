"""What both shells of a session share and that needs no waiting.

`SessionCore` stands between a `Connection` and a shell: it hands messages to turns and cursors, counts what is unread, keeps the
deadlines, and decides which answer of a callback counts. A shell moves bytes, runs callbacks and waits; it calls the core from one
place at a time (the loop's thread, or under a lock). Nothing here refers to the user's `Session`: a forgotten one can be collected.
"""

from __future__ import annotations

import logging
import math
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from bridle.bounds import LONGEST_SECONDS
from bridle.errors import (
    BridleError,
    CheckpointingNotEnabledError,
    InitializationError,
    NotSupportedError,
    SessionClosedError,
    SlowConsumerError,
    StreamWarning,
    TooManyDecodeErrors,
    TurnTimeoutError,
    printable,
)
from bridle.hooks.matchers import check_hooks, registration
from bridle.launch import in_process_servers
from bridle.launch.encode import external_servers
from bridle.messages import CommandLifecycleMessage, ResultMessage
from bridle.messages.base import frame_summary
from bridle.options import Options
from bridle.permissions.requests import check_can_use_tool
from bridle.protocol import events as core_events
from bridle.protocol.connection import SETTLE_SECONDS, Connection, Role
from bridle.protocol.control import row_for
from bridle.protocol.oneshot import PromptTaken
from bridle.protocol.session_states import Activity, Ending, Lifecycle, TurnState
from bridle.session_callbacks import Callbacks
from bridle.session_events import (
    ActivityChanged,
    BackgroundTasksChanged,
    SessionCompleted,
    SessionFailed,
    SessionStarted,
    SessionStopped,
    TurnCompleted,
    TurnStarted,
    Warned,
)
from bridle.session_inbox import Answer, Flag, Inbox, TurnBase, size_of
from bridle.session_stream import StreamSide
from bridle.tools import server_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridle.errors import DecodeError, WarningCode
    from bridle.launch import LaunchPlan
    from bridle.messages import Message
    from bridle.messages.system import BackgroundTask
    from bridle.protocol.control_results import ServerInfo
    from bridle.session_events import SessionEvent

__all__ = ["SessionBase", "SessionCore", "checked_content", "checked_timeout", "sent_servers"]

logger = logging.getLogger("bridle")

EXIT_SECONDS = 5.0
"""For how long the exit status is awaited after the end of the output."""
_WARNINGS_KEPT = 1_000

T = TypeVar("T", bound="TurnBase")


def checked_content(prompt: object) -> str | list[Any]:
    """Return a prompt as a frame holds it.

    Raises:
        TypeError: it is neither a str nor a list of content blocks.
    """
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, (list, tuple)):
        return list(prompt)
    hint = "; options are given as `options=`" if isinstance(prompt, Options) else ""
    raise TypeError(f"`prompt` must be a str or a list of content blocks, not {type(prompt).__name__}{hint}")


def checked_timeout(timeout: object) -> float | None:
    """Return the seconds that a call has; None if it says nothing. Infinity is no deadline.

    Raises:
        TypeError: it is no number.
        ValueError: it is none that a clock could reach.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
        raise TypeError(f"`timeout` must be a number of seconds or None, not {type(timeout).__name__}")
    try:
        seconds = float(timeout)
    except OverflowError:
        return float("inf")
    if math.isnan(seconds):
        raise ValueError("`timeout` is no number (NaN)")
    return max(0.0, seconds)


class SessionCore:
    """The state of a session.

    Args:
        options: what the user wants.
        post: runs a function where the core may be touched, soon; safe from any thread.
        for_stream: a query reads from it: see `StreamSide`.
    """

    interrupt_seconds = 2.0
    """For how long a stop waits for an open turn to end after its interrupt."""

    def __init__(
        self, options: Options | None, post: Callable[[Callable[[], None]], None], *, for_stream: bool = False
    ) -> None:
        if options is not None and not isinstance(options, Options):
            raise TypeError(f"`options` must be a bridle.Options, not {type(options).__name__}")
        self.options = options = options if options is not None else Options()
        hooks = check_hooks(options.hooks, "hooks") if options.hooks is not None else {}
        if options.can_use_tool is not None:
            check_can_use_tool(options.can_use_tool, "can_use_tool")
        servers = _own_servers(options)
        self.hooks = registration(hooks, options.timeouts.hook)
        self.connection = Connection(
            Role.HOST,
            limits=options.limits,
            hold_until_confirmed=self.hooks.blocking,
            long_lines_end=for_stream and options.on_oversize != "skip",
            results_excuse=for_stream,
        )
        self.stream = StreamSide(self, post) if for_stream else None
        self.callbacks = Callbacks(
            options,
            self.hooks,
            servers,
            self.connection,
            warn=self.warn,
            session=lambda: self.session() if self.session is not None else None,
            post=post,
            arm=self.arm,
            disarm=self.disarm,
            answered=self._answered,
        )
        self.session: Callable[[], object] | None = None
        self.ready = Flag()
        self.ended = Flag()
        self.settled = Flag()
        """Woken, never set, when the session may have become quiet or its turns may have ended."""
        self.start_error: BridleError | None = None
        self.stop_asked = False
        self.abandoned = False
        self.warnings: deque[StreamWarning] = deque(maxlen=_WARNINGS_KEPT)
        self.errors: deque[DecodeError] = deque(maxlen=_WARNINGS_KEPT)
        self._to_tell: deque[StreamWarning] = deque()
        self._deadlines: dict[tuple[str, str], tuple[float, float]] = {}
        self._given_up: set[str] = set()  # prompts whose deadline passed, while the CLI has not ended them
        self._waiting_in_vain: set[str] = set()
        self._answers: dict[str, Answer] = {}
        self._turns: weakref.WeakValueDictionary[str, TurnBase] = weakref.WeakValueDictionary()
        self._message_cursors: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self._event_cursors: weakref.WeakSet[Inbox] = weakref.WeakSet()
        self._slow_was_said = False
        self._held_at_most = 0
        self._stopping = False
        self._now = 0.0
        timeouts = options.timeouts
        self._first_message, self._idle, self._turn = timeouts.first_message, timeouts.idle, timeouts.turn
        limits = [timeouts.first_message, timeouts.idle, timeouts.turn]
        if for_stream:  # its input may be closed by whoever reads the prompts
            limits += [timeouts.after_result, timeouts.background]
        self.poll = min((limit for limit in limits if limit), default=None)
        """Deadlines that another thread sets begin at any moment; none of them passes sooner than this after it."""

    # -- warnings ------------------------------------------------------------------------------------------------------

    def warn(self, code: WarningCode | StreamWarning, message: str = "", **context: object) -> None:
        """Keep a warning; `tell` passes it on."""
        warning = code if isinstance(code, StreamWarning) else StreamWarning(code, message, context)
        self.warnings.append(warning)
        if self.stream is not None:
            self.stream.inbox.add((warning,), 0)  # told when it is handed out
        else:
            self._to_tell.append(warning)
        self._happened(Warned(warning))

    def warn_before_start(self, warning: StreamWarning) -> None:
        """Keep a warning that is issued by `warnings.warn`, too."""
        self.warnings.append(warning)
        self._to_tell.append(warning)
        self._happened(Warned(warning))

    @property
    def has_to_tell(self) -> bool:
        """True while there are warnings that `tell` has not passed on."""
        return bool(self._to_tell)

    def tell(self) -> None:
        """Log new warnings and call `on_warning` for them. Called where user code may run."""
        while True:
            try:
                warning = self._to_tell.popleft()
            except IndexError:  # several threads may tell at once
                return
            logger.warning("%s", warning)
            if self.options.on_warning is not None:
                try:
                    self.options.on_warning(warning)
                except KeyboardInterrupt:
                    raise
                except (
                    BaseException
                ):  # `SystemExit`, say: it is called where it would end the driver, and trio as a whole
                    logger.exception("`on_warning` raised; the session goes on")

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def arm(self, kind: str, name: str, seconds: float | None) -> None:
        """Set a deadline, counted from now; None takes it away."""
        if seconds is None:
            self._deadlines.pop((kind, name), None)
        else:
            self._deadlines[kind, name] = (self._now + seconds, seconds)

    def disarm(self, kind: str, name: str) -> None:
        """Take a deadline away."""
        self._deadlines.pop((kind, name), None)

    def is_armed(self, kind: str, name: str) -> bool:
        """True while that deadline is set."""
        return (kind, name) in self._deadlines

    def wait_seconds(self, now: float) -> float | None:
        """Return how long may be waited before `expire`; None for ever."""
        if not self._deadlines:
            return None
        first = min(when for when, _ in self._deadlines.values())
        return min(max(0.0, first - now), LONGEST_SECONDS)  # a longer wait is one in parts

    def expire(self, now: float, stderr_tail: bytes) -> None:
        """Take that time has passed."""
        self._now = now
        for key, (when, seconds) in list(self._deadlines.items()):
            if when > now or key not in self._deadlines:
                continue
            del self._deadlines[key]
            kind, name = key
            match kind:
                case "request":
                    self.connection.expire(name, seconds, stderr_tail)
                case "callback":
                    self.callbacks.expire(name, seconds)
                case "settle":
                    self.connection.settle()
                case "first_message" | "idle" | "turn":
                    self._turn_expired(kind, name, seconds)
                case "background" | "after_result" if self.stream is not None:
                    self.stream.overstayed(kind, seconds)
                case "finish":
                    self.warn("CLI_DID_NOT_EXIT", f"The CLI did not exit within {seconds:g} s of the end of its input.")
                    self.stop_asked = True
                case "exit":
                    if self.stream is not None:
                        self.stream.overdue = True
                    self.connection.fail(
                        SessionClosedError(
                            expected=False, reason=f"the CLI closed its output and did not exit within {seconds:g} s"
                        )
                    )

    def _turn_expired(self, kind: Literal["first_message", "idle", "turn"], turn_id: str, seconds: float) -> None:
        connection = self.connection
        open_turn = connection.turns.get(turn_id)
        if open_turn is None:
            return
        current = set(connection.turns.current_ids)
        waits = not open_turn.written or (open_turn.state is TurnState.QUEUED and bool(current))
        if waits and current and current <= self._given_up and turn_id in self._waiting_in_vain:
            waits = False  # a whole deadline later the CLI still keeps at a prompt that was interrupted for its own
        if waits or (kind != "turn" and len(connection.in_flight_requests)):
            # The session is not ready, another prompt has the floor, or it is us who keep the CLI waiting.
            if current and current <= self._given_up:
                self._waiting_in_vain.add(turn_id)
            self.arm(kind, turn_id, seconds)
            return
        self._given_up = {turn_id, *(given_up for given_up in self._given_up if given_up in connection.turns)}
        self._waiting_in_vain.discard(turn_id)
        for other in ("first_message", "idle", "turn"):
            self.disarm(other, turn_id)
        if self.stream is not None:
            connection.fail(TurnTimeoutError(kind, seconds))
            return
        turn = self._turns.get(turn_id)
        if turn is not None:
            turn._inbox.end(TurnTimeoutError(kind, seconds))
            turn._over.set()
        connection.expire_turn(turn_id)

    # -- starting and ending -------------------------------------------------------------------------------------------

    def initialize(self, plan: LaunchPlan, now: float) -> None:
        """Write `initialize`."""
        self._now = now
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("started\n%s", plan.describe())
        fields = dict(plan.initialize)
        if self.hooks.wire:
            fields["hooks"] = self.hooks.wire
        request_id = self.connection.send_initialize(fields)
        self.arm("request", request_id, self.options.timeouts.initialize)

    def begin_stop(self, now: float) -> None:
        """Stop: refuse what is new, interrupt what runs, and set the deadline for it."""
        if self._stopping:
            return
        self._stopping = self.stop_asked = True
        self._now = now
        connection = self.connection
        connection.begin_stop()
        if not connection.over and connection.turns.open and not self.abandoned:
            try:
                connection.interrupt(internal=True)
            except BridleError:
                return
            self.arm("stop", "", self.interrupt_seconds)

    def output_ended(self, now: float) -> None:
        """Take that stdout has ended: the exit has to follow."""
        self._now = now
        self.arm("exit", "", EXIT_SECONDS)

    def input_closed(self, now: float) -> None:
        """Take that stdin was closed, because all is done: the CLI is to exit by itself."""
        self._now = now
        if self.stream is not None:
            self.stream.look_at_the_end()
        self.arm("finish", "", self.options.timeouts.after_result)

    @property
    def may_end(self) -> bool:
        """True once the process is to be stopped: it is over, or nothing is left to wait for."""
        if self.connection.over:
            return True
        return self._stopping and (not self.connection.turns.open or ("stop", "") not in self._deadlines)

    @property
    def turn_open(self) -> bool:
        """True if the model may be at work, or the session is lost."""
        return bool(self.connection.turns.open) or self.connection.ending is Ending.FAILED or self.abandoned

    def crashed(self, exit_code: int | None) -> bool:
        """Return whether an exit with this code is a crash."""
        last = self.connection.last_result
        after_error = exit_code is not None and exit_code > 0 and last is not None and last.is_error
        return bool(self.connection.turns.open) or (exit_code != 0 and not after_error)

    def process_gone(self, exit_code: int | None, stderr_tail: bytes) -> None:
        """Take that the process is gone."""
        self.connection.receive_eof()
        self.connection.process_exited(exit_code, stderr_tail)

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def ask(self, subtype: str, fields: Mapping[str, Any], operation: str, timeout: float | None, now: float) -> Answer:
        """Send a control request.

        Raises:
            ControlError, SessionClosedError, TypeError, ValueError: as `Connection.send_request` and `checked_timeout` say.
        """
        self._now = now
        timeout = checked_timeout(timeout)
        if subtype == "rewind_files" and not self.options.enable_file_checkpointing:
            raise CheckpointingNotEnabledError
        answer = Answer(self.connection.send_request(subtype, fields, operation=operation))
        self._answers[answer.request_id] = answer
        if timeout is None:
            row = row_for(subtype)
            timeouts = self.options.timeouts
            timeout = timeouts.rewind if row is not None and row.deadline == "rewind" else timeouts.control
        self.arm("request", answer.request_id, timeout)
        return answer

    def deadline_of(self, answer: Answer) -> float | None:
        """Return how many seconds an answer has."""
        deadline = self._deadlines.get(("request", answer.request_id))
        return deadline[1] if deadline is not None else None

    def give_up(self, answer: Answer) -> None:
        """Take that nobody waits for an answer any more."""
        self._answers.pop(answer.request_id, None)
        self.disarm("request", answer.request_id)
        self.connection.cancel_request(answer.request_id)

    def send(
        self,
        prompt: object,
        make: Callable[[str], T],
        fields: Mapping[str, Any] | None,
        now: float,
        turn_id: str | None = None,
    ) -> T:
        """Send a prompt.

        Raises:
            TypeError, ValueError, SessionClosedError: as `Connection.send_prompt` says.
        """
        self._now = now
        if self.options.verbatim_prompts:
            fields = {"client_composed": True, **(fields or {})}
        turn = make(self.connection.send_prompt(checked_content(prompt), turn_id=turn_id, fields=fields))
        self._turns[turn.id] = turn
        self.arm("first_message", turn.id, self._first_message)
        self.arm("turn", turn.id, self._turn)
        return turn

    def add_cursor(self, inbox: Inbox, *, events: bool) -> None:
        """Give a cursor what happens from now on."""
        if self.connection.over:
            inbox.end(None if events else self.connection.terminal_error)
        else:
            (self._event_cursors if events else self._message_cursors).add(inbox)

    # -- what happened -------------------------------------------------------------------------------------------------

    def pump(self, now: float) -> None:
        """Take what the connection reports, until there is nothing more."""
        self._now = now
        connection = self.connection
        noted = logger.isEnabledFor(logging.DEBUG)
        while happened := connection.events_received():
            for event in happened:
                if noted:
                    _log(event)
                self._handle(event)
        if connection.unsettled:
            if ("settle", "") not in self._deadlines:
                self.arm("settle", "", SETTLE_SECONDS)
        else:
            self.disarm("settle", "")
        if self.stream is not None:
            self.stream.look_at_the_end()
        if self.settled.waiters and (connection.quiet or connection.over or not connection.turns.open):
            self.settled.wake()

    def received(self, now: float) -> None:
        """Take that bytes came: whoever waits for silence waits anew."""
        self._now = now
        self.disarm("settle", "")
        self.disarm("after_result", "")

    def _handle(self, event: core_events.Event) -> None:
        match event:
            case core_events.MessagesReceived():
                self._on_messages(event)
            case core_events.RequestReceived():
                self.callbacks.begin(event)
            case core_events.RequestCancelled():
                self.callbacks.cancelled(event.request_id)
            case core_events.RequestResolved():
                self._on_resolved(event)
            case core_events.TurnStateChanged():
                self._on_turn(event)
            case core_events.Warned():
                self.warn(event.warning)
            case core_events.BadLine():
                self._on_bad_line(event.error)
            case core_events.ActivityChanged():
                self._happened(ActivityChanged(event.activity))
            case core_events.BackgroundTasksChanged():
                self._happened(BackgroundTasksChanged(event.tasks))
            case core_events.OperationsReleased():
                self._count_anew()
            case core_events.HandshakeCompleted():
                self._on_ready(event.server_info)
            case core_events.HandshakeFailed():
                self.start_error = event.error
                self.ready.set()
            case core_events.Ended():
                self._on_end(event)

    def _happened(self, event: SessionEvent) -> None:
        for inbox in list(self._event_cursors):
            inbox.add((event,), 0)

    def _on_bad_line(self, error: DecodeError) -> None:
        end = self.connection.terminal_error
        if self.stream is not None and isinstance(end, TooManyDecodeErrors) and end.last is error:
            return  # it is raised, and no item besides
        self.errors.append(error)
        if self.stream is not None:
            self.stream.inbox.add((error,), size_of(error))
        else:
            logger.warning("%s", error)

    def _on_messages(self, event: core_events.MessagesReceived) -> None:
        cursors = list(self._message_cursors)
        if self.stream is not None:
            cursors.append(self.stream.inbox)
            if isinstance(event.messages[-1], ResultMessage):
                self.disarm("background", "")
        turns = [turn for turn_id in event.turn_ids if (turn := self._turns.get(turn_id)) is not None]
        if cursors or turns:
            size = sum(len(message.raw) for message in event.messages)
            for inbox in cursors:
                inbox.add(event.messages, size)
            for turn in turns:
                turn._inbox.add(event.messages, size)
                last = event.messages[-1]
                if isinstance(last, ResultMessage):
                    turn._result = last
            self._look_at_buffers(size * (len(cursors) + len(turns)))
        if event.turn_ids and (self._first_message or self._idle):
            self._postpone(event.turn_ids, event.messages)

    def _postpone(self, turn_ids: tuple[str, ...], messages: list[Message]) -> None:
        if all(isinstance(message, CommandLifecycleMessage) for message in messages):
            return  # that a prompt was taken is no answer to it
        for turn_id in turn_ids:
            if turn_id in self.connection.turns:
                self.disarm("first_message", turn_id)
                self.arm("idle", turn_id, self._idle)

    def _look_at_buffers(self, added: int) -> None:
        limit = self.options.limits.buffered_bytes
        self._held_at_most += added
        if self._held_at_most * 2 <= limit and not self._slow_was_said:
            return  # counted only where it may matter: a program may hold all turns of weeks
        held = sum(inbox.size for inbox in self._message_cursors)
        held += self.stream.inbox.size if self.stream is not None else 0
        held += sum(turn._inbox.size for turn in self._turns.values())
        self._held_at_most = held
        if held > limit:
            self.connection.fail(SlowConsumerError(held, limit))
        elif held * 2 > limit:
            if not self._slow_was_said:
                self._slow_was_said = True
                text = f"{held:,} bytes of messages wait unread; at {limit:,} the session fails."
                self.warn("SLOW_CONSUMER", text, buffered=held, limit=limit)
        elif held * 4 < limit:
            self._slow_was_said = False

    def _on_resolved(self, event: core_events.RequestResolved) -> None:
        self.disarm("request", event.request_id)
        answer = self._answers.pop(event.request_id, None)
        if answer is not None:
            answer.result, answer.error = event.result, event.error
            answer.flag.set()

    def _on_turn(self, event: core_events.TurnStateChanged) -> None:
        turn = self._turns.get(event.turn_id)
        if turn is not None:
            turn._state = event.state
        if event.state is TurnState.STARTED:
            self.arm("turn", event.turn_id, self._turn)
            self._happened(TurnStarted(event.turn_id))
            if self.stream is not None:
                self.stream.inbox.add((PromptTaken(),), 0)
        if event.state.over:
            for kind in ("first_message", "idle", "turn"):
                self.disarm(kind, event.turn_id)
            if self.stream is not None:
                self.stream.turn_over(event.error)
            if turn is not None:
                turn._inbox.end(event.error)
                turn._over.set()
            self._happened(TurnCompleted(event.turn_id, event.state))
            self._count_anew()

    def _count_anew(self) -> None:
        """Let the deadlines of prompts that wait begin now: only now they can be taken up."""
        for turn in self.connection.turns.open:
            if turn.state is TurnState.QUEUED:
                self.arm("first_message", turn.id, self._first_message)
                self.arm("turn", turn.id, self._turn)

    def _answered(self) -> None:
        """Let silence be counted anew: it was us who kept the CLI waiting."""
        for kind, seconds in (("idle", self._idle), ("first_message", self._first_message)):
            if seconds is None:
                continue
            for turn in self.connection.turns.open:  # not all deadlines: of callbacks there may be thousands
                if self.is_armed(kind, turn.id):
                    self.arm(kind, turn.id, seconds)

    def _on_ready(self, info: ServerInfo | None) -> None:
        for kind, name in list(self._deadlines):
            if kind == "request" and name not in self._answers:
                self.disarm(kind, name)
        if self.hooks.blocking and (
            info is None or info.hook_on_failure_supported is not True or info.hooks_applied is False
        ):
            self.connection.fail(
                InitializationError(
                    "a hook has `on_failure='block'`, and this CLI does not say that it would honour it; update the CLI"
                )
            )
            return
        self._happened(SessionStarted(info))
        self.ready.set()
        if self.stream is not None:
            self.stream.ready()

    def _on_end(self, event: core_events.Ended) -> None:
        self._deadlines.clear()
        self.callbacks.end()
        for answer in self._answers.values():
            answer.error = self.connection.closed_error()
            answer.flag.set()
        self._answers.clear()
        if event.ending is Ending.FAILED and event.error is not None:
            last: SessionEvent = SessionFailed(event.error, event.exit_code)
        elif event.ending is Ending.STOPPED:
            last = SessionStopped(event.exit_code)
        else:
            last = SessionCompleted(event.exit_code)
        self._happened(last)
        for inbox in [*self._message_cursors, *self._event_cursors]:
            inbox.end(event.error if event.ending is Ending.FAILED and inbox in self._message_cursors else None)
        self._message_cursors.clear()
        self._event_cursors.clear()
        if not self.ready.is_set:
            self.start_error = self.start_error or self.connection.closed_error()
            self.ready.set()
        if self.stream is not None:
            self.stream.end(event)
        self.settled.wake()


class SessionBase:
    """What a session of either shell can say without waiting."""

    _core: SessionCore

    @property
    def options(self) -> Options:
        """The options it was made with."""
        return self._core.options

    @property
    def state(self) -> Lifecycle:
        """NEW, STARTING, INITIALIZING, RUNNING, STOPPING, STOPPED or FAILED."""
        return self._core.connection.lifecycle

    @property
    def activity(self) -> Activity:
        """What the CLI says it is doing: running, idle, requires_action, unknown."""
        return self._core.connection.activity

    @property
    def background_tasks(self) -> tuple[BackgroundTask, ...]:
        """What runs in the background, as last reported."""
        return self._core.connection.background_tasks

    @property
    def server_info(self) -> ServerInfo | None:
        """What the CLI said of itself; None before, and if it said nothing."""
        return self._core.connection.server_info

    @property
    def session_id(self) -> str | None:
        """The session, as soon as a message has named it: for `Options(resume=...)`."""
        return self._core.connection.session_id

    @property
    def exit_code(self) -> int | None:
        """The CLI's exit code, once it is known; negative for a signal."""
        return self._core.connection.exit_code

    @property
    def warnings(self) -> list[StreamWarning]:
        """What was degraded so far: the last thousand."""
        return list(self._core.warnings)


def sent_servers(servers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return servers as `mcp_set_servers` sends them, and those of this process by name.

    Raises:
        OptionsError: one is nothing that can be a server, or needs a package that is missing.
        NotSupportedError: one is of a kind that this version cannot serve.
    """
    options = Options(mcp_servers=dict(servers))
    inside = _own_servers(options)
    wire = {**external_servers(options), **{name: {"type": "sdk", "name": name} for name in inside}}
    return wire, inside


def _own_servers(options: Options) -> dict[str, Any]:
    servers = dict(in_process_servers(options))
    for name, server in servers.items():
        kind = server_kind(server)
        if kind == "mcp":
            from bridle.mcp_bridge import check_package

            check_package(name, server)
        elif kind not in ("tools", "callable"):
            raise NotSupportedError(
                "mcp_servers",
                f"A {type(server).__name__} (`{name}`) cannot be served: use `bridle.tool_server`, a server object of the `mcp` package, "
                "or a function that takes one JSON-RPC dict and returns one.",
            )
    return servers


def _log(event: core_events.Event) -> None:
    """Say what happened: kinds, sizes and states, and nothing of what is in it."""
    match event:
        case core_events.MessagesReceived():
            for message in event.messages:
                logger.debug("%s", frame_summary(message))
        case core_events.RequestReceived():
            logger.debug("the CLI asks: %s (%s)", printable(event.subtype, 100), printable(event.request_id, 100))
        case core_events.RequestResolved():
            failed = "" if event.error is None else f": {type(event.error).__name__}"
            logger.debug("%s (%s) is over%s", event.operation, event.request_id, failed)
        case core_events.TurnStateChanged():
            logger.debug("turn %s is %s", event.turn_id, event.state.name)
        case core_events.ActivityChanged():
            logger.debug("the CLI is %s", event.activity.name)
        case core_events.Ended():
            logger.debug("the session has ended: %s, exit code %s", event.ending.name, event.exit_code)
