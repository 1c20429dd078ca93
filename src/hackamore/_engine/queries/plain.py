"""A query over the one-way launch: a connection that only reads, the ending table, and the timeouts of its one turn.

It never waits and knows no clock. A shell passes on the bytes of the transport and the time, takes the items, and stops the process once
`core.over` is true.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from hackamore._engine.answering.observers import Observed, observers_of
from hackamore._engine.launch import needs_session
from hackamore._engine.launch.plan import encode_prompt
from hackamore._engine.protocol import events
from hackamore._engine.protocol.connection import Connection, Role
from hackamore._engine.protocol.deadlines import EXIT_SECONDS, TURN_KINDS, Deadlines
from hackamore._engine.protocol.log import SessionLog, issue
from hackamore._engine.protocol.states.query import State
from hackamore._engine.queries.ending import Overtime, QueryCore
from hackamore.checked.functions import callback_failure, guarded
from hackamore.errors import StreamWarning, TurnTimeoutError
from hackamore.messages.base import frame_summary
from hackamore.messages.decode import prepare
from hackamore.options.observing import ONE_TURN
from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hackamore._engine.answering.observers import Observers
    from hackamore.errors import HackamoreError
    from hackamore.messages import Message
    from hackamore.options.options import Options


def is_steered(prompt: object, options: Options) -> bool:
    """Return whether a query needs the bidirectional launch; raise OptionsError if the prompt cannot be sent, or an option excludes it."""
    if isinstance(prompt, str) and not needs_session(options):
        encode_prompt(prompt)
        return False
    from hackamore._engine.queries.prompts import is_many, one_prompt, steering_reasons

    logger.debug("this query uses the bidirectional protocol: %s", ", ".join(steering_reasons(prompt, options)))
    if not is_many(prompt):
        one_prompt(prompt)
    return True


def deliver_warning(
    options: Options, warning: StreamWarning, ids: Mapping[str, Any] | None = None
) -> StreamWarning | None:
    """Call `on_warning`; if it raises, log that, with the attributes `ids`, and return a warning about it."""
    if options.on_warning is not None:
        try:
            options.on_warning(warning)
        except KeyboardInterrupt:  # `on_warning` runs in the thread of the caller, where Ctrl-C arrives
            raise
        except BaseException as error:
            return callback_failure("`on_warning`", options.on_warning, error, kind="on_warning", extra=ids)
    return None


def with_guards(
    options: Options, report: Callable[[StreamWarning], object], ids: Callable[[], Mapping[str, Any]]
) -> Options:
    """Return the options with guards around `stderr` and `trace`, which transports call; `report` and `ids` run in any thread."""
    callbacks: dict[str, Any] = {"stderr": options.stderr, "trace": options.trace}
    found = {name: guarded(name, value, report, ids) for name, value in callbacks.items() if callable(value)}
    return options.replace(**found) if found else options


def warn_before_start(options: Options, found: Iterable[StreamWarning]) -> None:
    """Issue warnings with `warnings.warn`: nothing runs yet, so a filter that makes errors of them prevents the start."""
    for warning in found:
        deliver_warning(options, warning)
        issue(warning)


class PlainQuery:
    """The core of a query over the one-way launch."""

    wake: Callable[[], object] | None = None  # ends the wait for output, from any thread; set by the shell

    def __init__(self, options: Options) -> None:
        self.connection: Connection = Connection(
            Role.HOST, limits=options.limits, one_way=True, fail_on_bad_lines=False
        )
        self.core: QueryCore = QueryCore(self.connection, options)
        self.log: SessionLog = self.connection.log
        subject = Observed("query", options, self.connection.state, self.core.warned, self._end_turn)
        self.observers: Observers | None = observers_of(options, subject, self.core.warned, self.log.ids)
        self.output_ended: bool = False  # True once the output has ended, and the exit is all that is left to come
        self.start_error: HackamoreError | None = None
        self._started_at = 0.0
        self._timeouts = options.timeouts
        # False spares each read two timeouts that cannot run.
        self._limits_silence = not (options.timeouts.first_message is options.timeouts.idle is None)
        self._end_error: HackamoreError | None = None
        self._applies = False
        self._deadlines = Deadlines()
        self._overtime = Overtime(options.timeouts, self._deadlines)

    def begin(self, now: float) -> None:
        """Apply that the CLI was started."""
        self.log.debug("started")
        if self.observers is not None:
            self.observers.launched()
        self._started_at = self._deadlines.now = now
        self.connection.state.begin_start()
        prepare()  # takes as long as all imports of a query: the CLI starts meanwhile
        self._deadlines.arm("first_message", "", self._timeouts.first_message)
        self._deadlines.arm("turn", "", self._timeouts.turn)

    @property
    def turn_open(self) -> bool:
        """True while the model may be at work."""
        return self.connection.conversation.at_work

    def crashed(self, exit_code: int | None) -> bool:
        """Return whether an exit with this code is a crash: then nothing that the process started may stay."""
        by_signal = exit_code is not None and (exit_code < 0 or exit_code > 128)  # 2.1.327 exits 143 after SIGTERM
        return by_signal or self.core.state is State.STREAMING

    def receive_data(self, data: bytes, now: float) -> None:
        """Apply bytes of stdout."""
        if not self.core.over:
            self._deadlines.now = now
            self.connection.receive_data(data)
            self._pump(len(data))

    def receive_eof(self, now: float) -> None:
        """Apply the end of stdout: the rest of a line is decoded, and the exit has to follow."""
        if not self.output_ended:
            self.output_ended = True
            self._deadlines.now = now
            self.connection.receive_eof()
            self._pump()
            self._deadlines.clear()
            self._deadlines.arm("exit", "", EXIT_SECONDS)

    def process_exited(self, exit_code: int | None, stderr_tail: bytes) -> None:
        """Apply the exit; `exit_code` is None if the status cannot be known."""
        self.connection.process_exited(exit_code, stderr_tail)
        self._pump()

    def lost(self, error: HackamoreError) -> None:
        """Apply an error of the transport: the connection is lost."""
        self.connection.fail(error)
        self._pump()

    def wait_seconds(self, now: float) -> float | None:
        """Return how long the shell may wait for the next bytes or for the exit; None without limit."""
        return None if self.core.over else self._deadlines.wait_seconds(now)

    def expire(self, now: float, stderr_tail: bytes = b"") -> None:
        """Apply the timeouts that have passed. Call it only after everything readable was read."""
        for kind, _, seconds in self._deadlines.passed(now):
            if self.core.over:
                return
            match kind:
                case "first_message" | "idle" | "turn":
                    api_error = self.connection.conversation.api_error
                    self.core.given_up(TurnTimeoutError(kind, seconds, api_error=api_error))
                case _:
                    self.core.still_running(seconds, stderr_tail)

    def observed(self, prompt: str, options: Options) -> Options:
        """Tell the observers of a prompt, which may refuse it by an error; return the options for the launch, with their variables."""
        if self.observers is None:
            return options
        self.observers.prompt_sending(ONE_TURN, prompt)
        return self.observers.options_with_variables(options)

    def end(self, error: HackamoreError) -> None:
        """End the query with an error, soon, also while the CLI works on after its result; from any thread."""
        self._end_error = self._end_error or error
        if self._applies:
            return
        if self.wake is None:
            self._apply_end()
        else:
            self.wake()

    def _end_turn(self, turn_id: str | None, error: HackamoreError) -> None:
        if turn_id in (ONE_TURN, None):
            self.end(error)

    def _apply_end(self) -> None:
        error = self._end_error
        if error is not None and not self.core.over:
            self.core.prompt_taken()  # work after the result may reach a budget: this is an error all the same
            self.core.given_up(error)

    def closed(self) -> None:
        """Tell the observers, if they do not know it, that the query is over."""
        observers, core = self.observers, self.core
        if observers is None:
            return
        last, error = core.last_result, core.terminal_error or self.start_error
        # No event ends the turn of a one-way launch.
        if error is None and last is not None and observers.is_open(ONE_TURN):
            observers.turn_changed(ONE_TURN, "failed" if last.is_error else "completed", None)
        observers.ended(error, self.connection.state.exit_code)

    def _pump(self, size: int = 0) -> None:
        """Apply the news of the connection, and the end that an observer asks for."""
        self._applies = True
        try:
            self._apply(size)
        finally:
            self._applies = False
        self._apply_end()

    def _apply(self, size: int) -> None:
        noted = self.log.isEnabledFor(logging.DEBUG)
        if noted and size:
            self.log.debug("read %d bytes, %.3f s after the start", size, self._deadlines.now - self._started_at)
        for event in self.connection.events_received():
            match event:
                case events.MessagesReceived(messages=messages):
                    if noted:
                        for message in messages:
                            self.log.debug("%s", frame_summary(message))
                    self.core.messages(messages, size)
                    if self.observers is not None:
                        self.observers.messages(messages, (ONE_TURN,))
                        self._apply_end()  # the reader gets the messages so far, not those of the whole read
                    self._heard(messages)
                case events.WarningRaised(warning=warning):
                    self.core.warned(warning)
                case events.LoginRefused(error=error):
                    self.end(error)
                case events.BadLine() | events.LongLine() | events.IncompleteLine():
                    self.core.broken_line(event)
                case events.Ended():
                    self.core.ended(event)
                    self.closed()
        if self.core.results:
            self._overtime.look(self.connection.conversation.background_tasks, waits=True)

    def _heard(self, messages: list[Message]) -> None:
        deadlines = self._deadlines
        if self.core.results:
            for kind in TURN_KINDS:
                deadlines.disarm(kind, "")
            self._overtime.heard(messages)
        elif self._limits_silence:
            deadlines.disarm("first_message", "")
            deadlines.arm("idle", "", self._timeouts.idle)
