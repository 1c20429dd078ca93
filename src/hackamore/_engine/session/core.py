"""The core of a session: a connection, its callbacks, its timeouts and an audience. It never waits.

`SessionCore` passes what the connection reports on to the callbacks and to its `Audience`, and applies timeouts. A shell moves bytes, runs
callbacks and waits; it calls the core from one place at a time (the thread of the event loop, or under a lock). Nothing here refers to the
user's `Session`: a forgotten one can be collected.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from hackamore._engine.answering.jobs import SessionParts
from hackamore._engine.answering.observers import Observed, observers_of
from hackamore._engine.answering.routing import Callbacks
from hackamore._engine.launch import in_process_servers
from hackamore._engine.launch.encode import external_servers
from hackamore._engine.protocol import events as core_events
from hackamore._engine.protocol.connection import Connection, Role
from hackamore._engine.protocol.conversation import SETTLE_SECONDS
from hackamore._engine.protocol.deadlines import EXIT_SECONDS, Deadlines, TurnDeadlines
from hackamore._engine.protocol.log import SessionLog, one_line
from hackamore._engine.protocol.states.session import Ending, Half, SessionActivity, SessionState, TurnState
from hackamore._engine.queries.prompts import PRIORITIES, OnePrompt, parts_of
from hackamore._engine.session.events import (
    ActivityChanged,
    BackgroundTasksChanged,
    SessionCompleted,
    SessionFailed,
    SessionStarted,
    SessionStopped,
)
from hackamore._engine.session.readers import Progress
from hackamore._engine.session.stopping import Stop, Stopping
from hackamore._engine.session.users import Reached, Requests, Warnings
from hackamore.checked.functions import Reach
from hackamore.errors import (
    HackamoreError,
    InitializationError,
    NotSupportedError,
    SessionClosedError,
    SessionNotStartedError,
    StreamWarning,
    TurnTimeoutError,
    escape_terminal,
)
from hackamore.hooks.matchers import check_hooks, registration
from hackamore.messages.base import frame_summary
from hackamore.messages.decode import prepare
from hackamore.options.kinds import uuid as checked_uuid
from hackamore.options.options import Options
from hackamore.runtime.flags import Flag
from hackamore.runtime.log import logger
from hackamore.tools import server_kind

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Iterator

    from hackamore._engine.answering.jobs import Job
    from hackamore._engine.answering.observers import Observers
    from hackamore._engine.launch import LaunchPlan
    from hackamore._engine.session.events import SessionEvent
    from hackamore._engine.session.readers import Audience
    from hackamore._engine.session.storing import Storing
    from hackamore.hooks.matchers import Registration
    from hackamore.messages.results import ServerInfo
    from hackamore.messages.system import BackgroundTask

_OWN_FIELDS = frozenset({"type", "message", "uuid", "priority"})

A = TypeVar("A", bound="Audience")


def _place_of_caller() -> str:
    """Return the file and line of the user's code that is running: the leak check names a forgotten session by it."""
    frame = sys._getframe(1)  # noqa: SLF001 - documented, despite its name
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("hackamore."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"


class ShellStep(Enum):
    """A step of a shell, which takes it before it gets the following one."""

    CALLBACKS = auto()  # stop and start callbacks
    WARN = auto()  # deliver warnings, where user code may run
    WRITE = auto()  # write the data to send
    CLOSE_INPUT = auto()  # close stdin, and call `input_closed`
    END = auto()  # stop the process


class SessionCore(Generic[A]):
    """The state of a session. `post` runs a function where the core may be touched, soon; it is safe from any thread."""

    def __init__(self, options: Options | None, post: Callable[[Callable[[], None]], None], audience: type[A]) -> None:
        if options is not None and not isinstance(options, Options):
            raise TypeError(f"`options` must be a hackamore.Options, not {type(options).__name__}")
        self.created_at: str = _place_of_caller()
        options = options if options is not None else Options()
        self.options: Options = options
        hooks = check_hooks(options.hooks, "hooks") if options.hooks is not None else {}
        servers = own_servers(options)
        self._guard = None
        if options.policy is not None:
            from hackamore._engine.answering.guarding import PolicyGuard

            self._guard = PolicyGuard(options.policy, options, servers)
            hooks["PreToolUse"] = (self._guard.matcher(), *hooks.get("PreToolUse", ()))
        self.hooks: Registration = registration(hooks, options.timeouts.hook)
        self.post = post
        self.connection: Connection = Connection(
            Role.HOST,
            limits=options.limits,
            hold_until_confirmed=self.hooks.blocking,  # a guard is in force before the first prompt
            fail_on_bad_lines=audience.fail_on_bad_lines,
            mirrored=options.session_store is not None,
        )
        self.deadlines: Deadlines = Deadlines()
        self._turn_deadlines = TurnDeadlines(
            options.timeouts, self.deadlines, self.connection.turns, self.connection.exchanges.in_flight
        )
        self.audience = audience(self)
        self.kind: Literal["query", "session"] = "query" if audience.in_order else "session"
        find = Reach(lambda: self.session() if self.session is not None else None)
        self.reached: Reached = Reached(find, self.connection.conversation)
        self.log: SessionLog = self.connection.log
        self.warnings: Warnings = Warnings(
            options.on_warning, self.log, self.audience.warned, self.audience.session_event
        )
        subject = Observed(
            self.kind,
            options,
            self.connection.state,
            self.warnings.add,
            lambda turn_id, error: post(lambda: self.give_up_turn(turn_id, error)),
        )
        self.observers: Observers | None = observers_of(options, subject, self.warnings.add, self.log.ids, self._guard)
        parts = SessionParts(
            self.connection,
            self.connection.exchanges,
            self.deadlines,
            self._turn_deadlines.answered,
            self.warnings.add,
            lambda: self.reached.now,
            post,
            self.log,
            self.observers,
        )
        self.requests: Requests = Requests(options, self.connection.exchanges, self.deadlines, self.observers)
        self.callbacks: Callbacks = Callbacks(options, self.hooks, servers, parts, self._guard)
        self.session: Callable[[], object] | None = None
        self.ready: Flag = Flag()  # set once the session is ready, or will not be
        self.ended: Flag = Flag()  # set once the process is gone and everything was reported
        self.settled: Flag = Flag()  # woken, never set, when the session may be quiet now, or its turns over
        self.start_error: HackamoreError | None = None
        self.stop: Stopping = Stopping(options, self.connection, self.deadlines)
        self._input_broke = False
        self.storing: Storing | None = None
        if options.session_store is not None:
            from hackamore._engine.session.storing import Storing

            self.storing = Storing(self)
        late = (getattr(options.timeouts, kind) for kind in audience.late_timeouts)
        # the shortest timeout that another thread may start at any moment while one reads; None if there is none
        self.poll: float | None = min((seconds for seconds in late if seconds), default=None)

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def expire(self, now: float, stderr_tail: bytes) -> None:
        """Apply expired timeouts, after processing data that has already arrived."""
        connection = self.connection
        if connection.outbox.waiting:
            self.pump(now)  # data that came in time counts, also if this program was too busy to read it
        for kind, name, seconds in self.deadlines.passed(now):
            match kind:
                case "request":
                    connection.expire(name, seconds, stderr_tail)
                case "callback":
                    self.callbacks.expire(name, seconds)
                case "settle":
                    connection.conversation.settle()
                case "first_message" | "idle" | "turn":
                    if self._turn_deadlines.expired(kind, name, seconds):
                        self.audience.turn_given_up(
                            name, TurnTimeoutError(kind, seconds, api_error=connection.conversation.api_error)
                        )
                case "store" if self.storing is not None:
                    self.storing.expire(name, seconds)
                case "background" | "after_result" | "finish" | "exit":
                    if self.storing is not None:
                        self.storing.release_all()  # else a query would end without its result
                    self.audience.exit_timeout_expired(kind, seconds, stderr_tail)
                    if kind == "exit":
                        self._gave_up("output", seconds)
                case "input":
                    self._gave_up("input", seconds)
                case "stop" | "last_words":
                    self.stop.move(Stop.DONE)

    def _gave_up(self, closed: str, seconds: float) -> None:
        reason = f"the CLI closed its {closed} and did not exit within {seconds:g} s"
        self.connection.fail(SessionClosedError(expected=False, reason=reason))

    # -- starting and ending -------------------------------------------------------------------------------------------

    def initialize(self, plan: LaunchPlan, now: float, mask: Callable[[bytes], bytes]) -> None:
        """Write `initialize`. `mask` takes secrets out of lines that errors show."""
        self.deadlines.now, self.connection.reader.mask = now, mask
        if self._guard is not None:
            self._guard.mask = mask
        if self.log.isEnabledFor(logging.DEBUG):
            self.log.debug("started; %s", one_line(plan.describe()))
        prepare()
        fields = dict(plan.initialize)
        if self.hooks.wire:
            fields["hooks"] = self.hooks.wire
        if self.observers is not None:
            self.observers.launched()
        request_id = self.connection.send_initialize(fields)
        self.deadlines.arm("request", request_id, self.options.timeouts.initialize)

    def output_ended(self, now: float) -> None:
        """Start the timeout of the exit, after the end of stdout."""
        self.deadlines.now = now
        self.deadlines.arm("exit", "", EXIT_SECONDS)

    def input_broke(self, now: float) -> None:
        """Take, once, that the CLI does not read any more: its exit has to follow."""
        if self._input_broke:
            return
        self._input_broke = True
        if self.connection.state.over or self.stop.asked:  # a stop closes the input itself
            return
        self.deadlines.now = now
        self.connection.outbox.input_broke()
        self.deadlines.arm("input", "", EXIT_SECONDS)

    def next_steps(self, now: float) -> Iterator[ShellStep]:
        """Process what happened, and yield what the shell does next, in order."""
        if self.stop.state is not Stop.NO:
            self.stop.begin(now)
        self.pump(now)
        callbacks, state = self.callbacks, self.connection.state
        if callbacks.to_run or callbacks.to_stop:
            yield ShellStep.CALLBACKS
            if self.connection.outbox.waiting or self.storing is not None:
                self.pump(now)  # eager ones have ended: what follows from that belongs to this round
        if self.warnings.waiting:
            yield ShellStep.WARN
        if self.connection.outbox.frames:
            yield ShellStep.WRITE
        if self.observers is not None:
            self.was_written()
        # The rest of these rules is looked at only when it matters: this runs for each read.
        if (state.input is Half.CLOSING or self.stop.state is not Stop.NO) and self.stop.closes_input:
            yield ShellStep.CLOSE_INPUT
        if self.needs_driver and self.stop.may_end:
            yield ShellStep.END

    def input_closed(self, now: float) -> None:
        """Apply that stdin is closed: the exit has to follow, and during a stop the last words of the CLI."""
        self.deadlines.now = now
        self.connection.outbox.input_was_closed()
        if not self.stop.input_closed():
            self.audience.pumped()
            self.deadlines.arm("finish", "", self.options.timeouts.after_result)

    @property
    def needs_driver(self) -> bool:
        """True while the driver has to look itself: there are warnings to tell, a stop was requested, or the session is over."""
        over = self.connection.state.ending is not None
        return bool(self.warnings.waiting) or self.stop.state is not Stop.NO or over

    def begin_last_writes(self, now: float) -> None:
        """Let the store have everything that waits: the process is gone, and no other timeout counts any more."""
        self.deadlines.clear()
        self.deadlines.now = now
        if self.storing is not None:
            self.storing.begin_end()

    @property
    def turn_open(self) -> bool:
        """True if the model may be at work, or the session is lost."""
        connection = self.connection
        # Background work counts: in a grace period the CLI would continue it.
        return connection.conversation.at_work or connection.state.ending is Ending.FAILED or self.stop.abandoned

    def crashed(self, exit_code: int | None) -> bool:
        last = self.connection.conversation.last_result  # 2.1.327 exits 1 after an error result
        after_error = exit_code is not None and exit_code > 0 and last is not None and last.is_error
        return len(self.connection.turns) > 0 or (exit_code != 0 and not after_error)

    def ends_well(self, exit_code: int | None) -> bool:
        """Return whether the session is still to end, and not by a crash: then the store has everything before readers see the end."""
        return not self.connection.state.over and (self.stop.asked or not self.crashed(exit_code))

    @property
    def quiet(self) -> bool:
        """True while the CLI is quiet, and no result waits for the store."""
        return self.connection.conversation.quiet and not (self.storing is not None and self.storing.holds)

    def lost(self, reason: str, now: float) -> None:
        """End the session, if it has not ended, because nothing drives it any more."""
        if not self.connection.state.over:
            self.connection.fail(SessionClosedError(expected=False, reason=reason))
        self.pump(now)

    def process_gone(self, exit_code: int | None, stderr_tail: bytes) -> None:
        self.connection.receive_eof()  # first: a last line without its newline may be the result
        self.connection.process_exited(exit_code, stderr_tail)

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def send(
        self,
        prompt: object,
        fields: Mapping[str, Any] | None,
        now: float,
        turn_id: str | None = None,
        context: contextvars.Context | None = None,
    ) -> Progress:
        """Send a prompt; return its turn. Its callbacks get the context variables. It can fail as `Connection.send_prompt` does."""
        self.deadlines.now = now
        if self.options.verbatim_prompts:
            fields = {"client_composed": True, **(fields or {})}  # no `@path`, no slash commands (CLI 2.1.248)
        content = checked_content(prompt)
        sender = self.reached.sender(context)
        begins = not self.connection.conversation.working  # else it begins when the CLI takes it up
        if self.observers is None:
            turn = Progress(self.connection.conversation.send_prompt(content, turn_id=turn_id, fields=fields))
        else:
            turn = Progress(self._send_observed(self.observers, content, turn_id, fields))
        self.reached.sent(turn.id, sender, begins=begins)
        self.audience.sent(turn)
        self._turn_deadlines.sent(turn.id)
        return turn

    def _send_observed(
        self, observers: Observers, content: Any, turn_id: str | None, fields: Mapping[str, Any] | None
    ) -> str:
        """Send a prompt that an observer may refuse; return its id."""
        self.connection.conversation.check_prompts()  # first: observers hear of nothing that cannot be sent
        turn_id = turn_id or self.connection.conversation.new_uuid()
        observers.prompt_sending(turn_id, content)
        try:
            return self.connection.conversation.send_prompt(content, turn_id=turn_id, fields=fields)
        except Exception as error:  # a budget has reserved a model call for it
            observers.turn_changed(turn_id, "failed", error if isinstance(error, HackamoreError) else None)
            raise

    def was_written(self) -> None:
        """Let observers hear of callbacks whose answers were written."""
        if self.observers is not None:
            self.observers.report()

    def give_up_turn(self, turn_id: str | None, error: HackamoreError) -> None:
        """End a turn with an error, and interrupt it; the session continues, a query is over. None is work that no prompt started."""
        if turn_id is None:
            self._give_up_own_work(error)
        elif turn_id in self.connection.turns:
            self._turn_deadlines.given_up(turn_id)
            self.audience.turn_given_up(turn_id, error)

    def _give_up_own_work(self, error: HackamoreError) -> None:
        if self.kind == "session":
            self.interrupt_all(cancel_queued=False)
        elif not (self.connection.state.over or self.stop.asked):  # a query ends with each turn that timed out
            self.audience.turn_given_up("", error)

    def interrupt_all(self, *, cancel_queued: bool) -> None:
        """Interrupt the running turn and stop background agents; prompts that wait are cancelled, or begin then."""
        connection = self.connection
        if connection.state.over or self.stop.asked:
            return
        connection.exchanges.interrupt(cancel_queued=cancel_queued, internal=True)
        for task in connection.conversation.background_tasks:
            if task.task_type != "local_bash":  # a command costs nothing
                connection.exchanges.send_request("stop_task", {"task_id": task.task_id}, internal=True)

    @property
    def interrupted(self) -> bool:
        """True once all is over that `interrupt_all` ends: no turn and no agent is left that could call a callback."""
        conversation = self.connection.conversation
        tasks = conversation.background_tasks
        return not conversation.working and all(task.ambient or task.task_type == "local_bash" for task in tasks)

    # -- what happened -------------------------------------------------------------------------------------------------

    def pump(self, now: float) -> None:
        """Process the events of the connection, until there are none."""
        self.deadlines.now = now
        connection = self.connection
        storing, observers = self.storing, self.observers
        happened = connection.events_received()
        news = bool(happened)
        noted = news and self.log.isEnabledFor(logging.DEBUG)
        while happened:
            for event in happened:
                if noted:
                    _log(self.log, event)
                if observers is not None:
                    observers.saw(event)
                if storing is None or not storing.keeps(event):
                    self.handle(event)
            happened = connection.events_received()
        if storing is not None:
            storing.move()
        if self.stop.state is Stop.INTERRUPTED and not connection.conversation.working:
            self.stop.turn_over()
        unsettled = connection.conversation.unsettled
        if self.deadlines:
            if news:  # with any message the CLI is at work: `after_result` counts its silence
                self.deadlines.disarm("after_result", "")
            if news or not unsettled:
                self.deadlines.disarm("settle", "")  # keep-alives do not count, and postpone nothing
        if unsettled and not self.deadlines.is_armed("settle", ""):
            self.deadlines.arm("settle", "", SETTLE_SECONDS)
        self.reached.settle()
        self.audience.pumped()
        if storing is not None and storing.holds:
            return
        over = connection.state.over or not len(connection.turns)
        if self.settled.waiters and (over or connection.conversation.quiet):
            self.settled.wake()

    def callback_ended(self, job: Job, outcome: object, error: BaseException | None, now: float) -> None:
        """Finish a callback and restart the idle timeout of its turn."""
        self.deadlines.now = now
        self.callbacks.finish(job, outcome, error)

    def received(self, now: float) -> None:
        """Restart the timeouts of silence: bytes came, and `pump` processes them."""
        self.deadlines.now = now

    def deliver(self, event: core_events.MessagesReceived, *, to_cursors: bool = True) -> None:
        """Give messages to the audience; without `to_cursors` to the turns alone."""
        self.audience.messages(event.messages, event.turn_ids, to_cursors=to_cursors)
        if event.turn_ids:
            self._turn_deadlines.heard(event.turn_ids, event.messages)

    def handle(self, event: core_events.Event) -> None:
        match event:
            case core_events.MessagesReceived():
                self.deliver(event)
            case core_events.RequestReceived():
                self.callbacks.begin(event)
                self.audience.held()  # open requests count in `Limits.buffered_bytes`
            case core_events.RequestCancelled():
                self.callbacks.cancelled(event.request_id)
            case core_events.RequestResolved():
                self.requests.resolved(event)
            case core_events.TurnStateChanged():
                self.turn_over(event)
                self.audience.turn_changed(event)
            case core_events.LoginRefused():
                for turn_id in event.turn_ids:
                    self.give_up_turn(turn_id, copy.copy(event.error))  # each reader raises its own
            case core_events.WarningRaised():
                self.warnings.add(event.warning)
            case core_events.BadLine() | core_events.LongLine() | core_events.IncompleteLine():
                self.audience.broken_line(event)
            case core_events.ActivityChanged():
                self.audience.session_event(ActivityChanged(event.activity))
            case core_events.BackgroundTasksChanged():
                self.audience.session_event(BackgroundTasksChanged(event.tasks))
            case core_events.OperationsReleased():
                self._turn_deadlines.count_anew()  # only now the CLI can read the prompts
            case core_events.HandshakeCompleted():
                self._on_ready(event.server_info)
            case core_events.HandshakeFailed():
                self.start_error = event.error
                self.ready.set()
            case core_events.Ended():
                self._on_end(event)

    def turn_over(self, event: core_events.TurnStateChanged) -> None:
        if event.state is TurnState.STARTED:
            self.reached.started(event.turn_id)
            self._turn_deadlines.started(event.turn_id)
        elif event.state.over:
            self.reached.over(event.turn_id)
            self._turn_deadlines.over(event.turn_id)

    def _on_ready(self, info: ServerInfo | None) -> None:
        for name in self.deadlines.names("request"):
            if name not in self.requests:  # that of `initialize`, also after an implicit confirmation
                self.deadlines.disarm("request", name)
        # A CLI that ignores `on_failure` would let the tool run where the hook cannot be reached: refused, and not assumed.
        if self.hooks.blocking and (
            info is None or info.hook_on_failure_supported is not True or info.hooks_applied is False
        ):
            self.connection.fail(
                InitializationError(
                    "a hook has `on_failure='block'`, and this CLI does not say that it would honour it; update the CLI"
                )
            )
            return
        self.audience.session_event(SessionStarted(info))
        self.ready.set()

    def _on_end(self, event: core_events.Ended) -> None:
        self.deadlines.clear()
        self.callbacks.end()
        if event.ending is Ending.FAILED and event.error is not None:
            last: SessionEvent = SessionFailed(event.error, event.exit_code)
        elif event.ending is Ending.STOPPED:
            last = SessionStopped(event.exit_code)
        else:
            last = SessionCompleted(event.exit_code)
        self.audience.session_event(last)
        if not self.ready.is_set:
            self.start_error = self.start_error or self.connection.state.closed_error()
            self.ready.set()
        self.audience.ended(event)
        self.settled.wake()  # `wait_idle` raises: with turns open it is never quiet


class SessionBase:
    """A session, as it is now."""

    _core: SessionCore[Any]

    @property
    def pid(self) -> int | None:
        """The process id of the CLI; None before it is started, and if the transport has none."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}(state={str(self.state)!r}, session_id={self.session_id!r}, pid={self.pid})"

    def _require_start(self, call: str) -> None:
        """Raise SessionNotStartedError if the session was not started: the call would wait for ever."""
        if self._core.connection.state.lifecycle is SessionState.NEW:
            raise SessionNotStartedError(call)

    @property
    def options(self) -> Options:
        return self._core.options

    @property
    def state(self) -> SessionState:
        """The state: `new`, `starting`, `initializing`, `running`, `stopping`, `stopped` or `failed`."""
        return self._core.connection.state.lifecycle

    @property
    def activity(self) -> SessionActivity:
        """The activity that the CLI reports: `running`, `idle`, `requires_action`; `unknown` before its first report."""
        return self._core.connection.conversation.activity

    @property
    def background_tasks(self) -> tuple[BackgroundTask, ...]:
        return self._core.connection.conversation.background_tasks

    @property
    def server_info(self) -> ServerInfo | None:
        """The answer of the CLI to `initialize`; None before it, and without one."""
        return self._core.connection.conversation.server_info

    @property
    def session_id(self) -> str | None:
        """The session, as soon as a message has named it: for `Options(resume=...)`."""
        return self._core.connection.state.session_id

    @property
    def exit_code(self) -> int | None:
        """The CLI's exit code, once it is known; negative for a signal."""
        return self._core.connection.state.exit_code

    @property
    def warnings(self) -> list[StreamWarning]:
        return list(self._core.warnings.kept)


def driver_error(error: Exception) -> HackamoreError:
    """Return what ends a session whose driver, or its transport, raised; log what should not happen."""
    if isinstance(error, HackamoreError):
        return error
    logger.error("a session's driver failed", exc_info=error)
    failure = SessionClosedError(expected=False, reason=f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _log(log: SessionLog, event: core_events.Event) -> None:
    """Return an event for the log: kinds, sizes and states, and no content."""
    match event:
        case core_events.MessagesReceived():
            turn = {"turn_id": event.turn_ids[0]} if event.turn_ids else {}
            for message in event.messages:
                log.debug("%s", frame_summary(message), extra=turn)
        case core_events.RequestReceived():
            log.debug("the CLI asks: %s (%s)", event.subtype, escape_terminal(event.request_id, 100))
        case core_events.RequestResolved():
            failed = "" if event.error is None else f": {type(event.error).__name__}"
            log.debug("%s (%s) is over%s", event.operation, event.request_id, failed)
        case core_events.TurnStateChanged():
            log.debug("turn %s is %s", event.turn_id, event.state, extra={"turn_id": event.turn_id})
        case core_events.ActivityChanged():
            log.debug("the CLI is %s", event.activity)
        case core_events.Ended():
            log.debug("the session has ended: %s, exit code %s", event.ending.name, event.exit_code)


# -- checks of what users hand in, before anything is sent -------------------------------------------------------------


def checked_content(prompt: object) -> str | list[Any]:
    """Return a prompt as a frame holds it; raise TypeError if it is neither a str nor a list of content blocks."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, (list, tuple)):
        return list(prompt)
    hint = "; options are given as `options=`" if isinstance(prompt, Options) else ""
    raise TypeError(f"`prompt` must be a str or a list of content blocks, not {type(prompt).__name__}{hint}")


def sent_prompt(prompt: object, priority: object, extra: object, uuid: object) -> OnePrompt:
    """Return a prompt or user frame as it is sent; raise TypeError, ValueError or OptionsError for a wrong part of it."""
    given = parts_of(prompt) if isinstance(prompt, Mapping) else OnePrompt(checked_content(prompt))
    turn_id = given.turn_id if uuid is None else uuid
    fields = {**given.fields, **prompt_fields(priority, extra)}
    return OnePrompt(given.content, None if turn_id is None else checked_uuid(turn_id, "uuid"), fields)


def prompt_fields(priority: object, extra: object) -> dict[str, Any]:
    """Return the further fields of a prompt's frame; raise TypeError or ValueError for a wrong one, or one with a parameter of its own."""
    fields: dict[str, Any] = {}
    if extra is not None:
        if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):
            raise TypeError(f"`extra` must be a dict with str keys, not {type(extra).__name__}")
        fields.update(extra)
        taken = sorted(_OWN_FIELDS & fields.keys())
        if taken:
            raise ValueError(f"`extra` must not contain {taken[0]!r}: Hackamore sets this field of the frame")
    if priority is not None:
        if priority not in PRIORITIES:
            raise ValueError(f"`priority` must be 'now', 'next', 'later' or None, got {priority!r}")
        fields["priority"] = priority
    return fields


def sent_servers(servers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return servers as `mcp_set_servers` sends them, and those of this process by name."""
    options = Options(mcp_servers=dict(servers))
    inside = own_servers(options)
    wire = {**external_servers(options), **{name: {"type": "sdk", "name": name} for name in inside}}
    return wire, inside


def own_servers(options: Options) -> dict[str, Any]:
    """Return the servers of this process by name; raise OptionsError or NotSupportedError for one that Hackamore cannot run."""
    servers = dict(in_process_servers(options))
    for name, server in servers.items():
        kind = server_kind(server)
        if kind == "mcp":
            from hackamore._engine.answering.mcp_calls import check_package

            check_package(name, server)
        elif kind not in ("tools", "callable"):
            raise NotSupportedError(
                "mcp_servers",
                f"A {type(server).__name__} (`{name}`) is not supported: use `hackamore.tool_server`, a server object of the `mcp` "
                "package, or a function that takes one JSON-RPC dict and returns one.",
            )
    return servers
